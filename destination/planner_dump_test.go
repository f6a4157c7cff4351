package destination_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"instep/destination"
	"instep/pack"
	"instep/resourcesync"
)

// offers writes a Capability List of these documents: a capability, its path, and so on.
func (s *aSource) offers(documents ...string) {
	var entries []resourcesync.Entry
	for pair := range slices.Chunk(documents, 2) {
		entries = append(entries, resourcesync.Entry{Loc: s.uri(pair[1]), Metadata: resourcesync.Metadata{Capability: resourcesync.Capability(pair[0])}})
	}
	h := head(resourcesync.CapabilityCapabilityList, nil)
	h.Links = []resourcesync.Link{{Rel: "up", Href: s.uri("/.well-known/resourcesync")}}
	s.doc("/caps.xml", h, entries...)
}

// aPackage is a package of a dump: at path.zip, with a copy of its manifest at path.xml
// unless it is bare.
type aPackage struct {
	path        string
	from, until int // of a Change Dump
	entries     []resourcesync.Entry
	bare        bool
}

// pack writes a package and its manifest, and returns the entry of a dump. The bytes
// are those that are served now.
func (s *aSource) pack(p aPackage, manifest resourcesync.Header) resourcesync.Entry {
	s.t.Helper()
	var listed []resourcesync.Entry
	members := []zipMember{{pack.ManifestName, nil}}
	for i, e := range p.entries {
		if e.Change != resourcesync.Deleted {
			e.Path = fmt.Sprintf("/%04d", i)
			members = append(members, zipMember{e.Path[1:], s.served(strings.TrimPrefix(e.Loc, s.srv.URL))})
		}
		listed = append(listed, e)
	}
	s.doc(p.path+".xml", manifest, listed...)
	members[0].body = s.served(p.path + ".xml")
	s.put(p.path+".zip", zipOf(s.t, members))
	e := s.entry(p.path + ".zip")
	e.Type = "application/zip"
	if p.bare {
		s.remove(p.path + ".xml")
	} else {
		e.Links = []resourcesync.Link{{Rel: "contents", Href: s.uri(p.path + ".xml")}}
	}
	return e
}

type zipMember struct {
	name string
	body []byte
}

func zipOf(t *testing.T, members []zipMember) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, m := range members {
		w, err := z.CreateHeader(&zip.FileHeader{Name: m.name, Method: zip.Store})
		if err == nil {
			_, err = w.Write(m.body)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func (s *aSource) served(path string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.bodies[path])
}

// remove makes a path vanish.
func (s *aSource) remove(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.bodies, path)
}

// dump writes the Resource Dump of moment n: packages with the bytes served now.
func (s *aSource) dump(n int, packages ...aPackage) {
	var entries []resourcesync.Entry
	for _, p := range packages {
		h := head(resourcesync.CapabilityResourceDumpManifest, func(h *resourcesync.Header) { h.At = at(n) })
		entries = append(entries, s.pack(p, h))
	}
	s.doc("/dump.xml", head(resourcesync.CapabilityResourceDump, func(h *resourcesync.Header) { h.At = at(n) }), entries...)
}

// changeDump writes the open Change Dump that begins at moment from.
func (s *aSource) changeDump(from int, packages ...aPackage) {
	var entries []resourcesync.Entry
	for _, p := range packages {
		h := head(resourcesync.CapabilityChangeDumpManifest, func(h *resourcesync.Header) { h.From, h.Until = at(p.from), at(p.until) })
		e := s.pack(p, h)
		e.From, e.Until = at(p.from), at(p.until)
		entries = append(entries, e)
	}
	s.doc("/changedump.xml", head(resourcesync.CapabilityChangeDump, func(h *resourcesync.Header) { h.From = at(from) }), entries...)
}

// ways says how many resources came by which way.
func ways(rep *destination.SetReport) string {
	var b strings.Builder
	for _, via := range []destination.Via{destination.ViaGet, destination.ViaDump, destination.ViaRange, destination.ViaLocal} {
		if n := rep.Via[via]; n > 0 {
			fmt.Fprintf(&b, "%s=%d ", via, n)
		}
	}
	return strings.TrimSpace(b.String())
}

func wantWays(t *testing.T, rep *destination.SetReport, want string) {
	t.Helper()
	if got := ways(rep); got != want {
		t.Errorf("ways by which resources came: got %q, want %q", got, want)
	}
}

func TestEmptyMirrorIsFilledFromAResourceDump(t *testing.T) {
	for name, bare := range map[string]bool{"with copies of the manifests": false, "without": true} {
		t.Run(name, func(t *testing.T) {
			s := newSource(t)
			paths := s.fill(40)
			s.list(0, paths...)
			s.dump(0,
				aPackage{path: "/d/1", entries: s.entries(paths[:25]...), bare: bare},
				aPackage{path: "/d/2", entries: s.entries(paths[25:]...), bare: bare})
			s.put(paths[3], []byte("changed since"))
			s.changes(0, s.change(2, resourcesync.Updated, paths[3]), s.change(3, resourcesync.Deleted, paths[4]))
			s.offers("resourcelist", "/list.xml", "resourcedump", "/dump.xml", "changelist", "/changes.xml")
			m := newMirror(t, s)
			rep := m.mustSync(destination.Baseline, 0, 39, 0, 0)
			wantWays(t, rep, "get=1 dump=38")
			if n := s.asked("/r/"); n != 1 {
				t.Errorf("requests for single resources: got %d, want 1", n)
			}
			m.wantFiles(slices.Delete(slices.Clone(paths), 4, 5)...)

			s.put(paths[7], []byte("changed later"))
			s.changes(0, s.change(2, resourcesync.Updated, paths[3]), s.change(3, resourcesync.Deleted, paths[4]), s.change(5, resourcesync.Updated, paths[7]))
			m.mustSync(destination.Incremental, 0, 0, 1, 0)
		})
	}
}
