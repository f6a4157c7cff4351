package destination_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

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

func zipOf(t testing.TB, members []zipMember) []byte {
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

// changePackage writes a package of a Change Dump.
func (s *aSource) changePackage(p aPackage) resourcesync.Entry {
	h := head(resourcesync.CapabilityChangeDumpManifest, func(h *resourcesync.Header) { h.From, h.Until = at(p.from), at(p.until) })
	e := s.pack(p, h)
	e.From, e.Until = at(p.from), at(p.until)
	return e
}

// changeDumpOf writes the open Change Dump that begins at moment from.
func (s *aSource) changeDumpOf(from int, packages ...resourcesync.Entry) {
	s.doc("/changedump.xml", head(resourcesync.CapabilityChangeDump, func(h *resourcesync.Header) { h.From = at(from) }), packages...)
}

// changeDump writes packages, with the bytes served now, and their Change Dump.
func (s *aSource) changeDump(from int, packages ...aPackage) {
	var entries []resourcesync.Entry
	for _, p := range packages {
		entries = append(entries, s.changePackage(p))
	}
	s.changeDumpOf(from, entries...)
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

// dumped is a Source of n resources in two packages, with changes since: none.
func dumped(t *testing.T, n int) (*aSource, []string) {
	s := newSource(t)
	paths := s.fill(n)
	s.list(0, paths...)
	s.dump(0, aPackage{path: "/d/1", entries: s.entries(paths[:n/2]...)}, aPackage{path: "/d/2", entries: s.entries(paths[n/2:]...)})
	s.changes(0)
	s.offers("resourcelist", "/list.xml", "resourcedump", "/dump.xml", "changelist", "/changes.xml")
	return s, paths
}

func TestWayOfABaseline(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  func(*aSource, []string)
		dest func(*destination.Destination)
		want string // ways, and a note
		note string
	}{
		{name: "the dump, as nothing is here", want: "dump=40"},
		{name: "the list, as was asked for", dest: func(d *destination.Destination) { d.Prefer = destination.PreferList }, want: "get=40"},
		{
			name: "an index of dumps",
			set: func(s *aSource, paths []string) {
				s.dump(0, aPackage{path: "/d/1", entries: s.entries(paths[:20]...)})
				s.put("/dump1.xml", s.served("/dump.xml"))
				s.dump(0, aPackage{path: "/d/2", entries: s.entries(paths[20:]...)})
				s.put("/dump2.xml", s.served("/dump.xml"))
				h := head(resourcesync.CapabilityResourceDump, func(h *resourcesync.Header) { h.Root, h.At = resourcesync.SitemapIndex, at(0) })
				s.doc("/dump.xml", h, resourcesync.Entry{Loc: s.uri("/dump1.xml")}, resourcesync.Entry{Loc: s.uri("/dump2.xml")})
			},
			want: "dump=40",
		},
		{
			name: "the dump, as there is no list",
			set:  func(s *aSource, _ []string) { s.offers("resourcedump", "/dump.xml") },
			want: "dump=40",
		},
		{
			name: "the dump, as the list is gone",
			set:  func(s *aSource, _ []string) { s.remove("/list.xml") },
			dest: func(d *destination.Destination) { d.Prefer = destination.PreferList },
			want: "dump=40", note: "the Resource List cannot be used",
		},
		{
			name: "the list, as the dump is gone",
			set:  func(s *aSource, _ []string) { s.remove("/dump.xml") },
			want: "get=40", note: "the Resource Dump cannot be used",
		},
		{
			name: "the list, as one package cannot be read",
			set: func(s *aSource, _ []string) {
				s.remove("/d/2.xml")
				s.remove("/d/2.zip")
			},
			want: "get=40", note: "the Resource Dump cannot be used",
		},
		{
			name: "the list, as packages are in another format",
			set: func(s *aSource, paths []string) {
				e := s.entry("/d/1.zip")
				e.Type = "application/x-tar"
				e.Links = []resourcesync.Link{{Rel: "contents", Href: s.uri("/d/1.xml")}}
				s.doc("/dump.xml", head(resourcesync.CapabilityResourceDump, func(h *resourcesync.Header) { h.At = at(0) }), e)
			},
			want: "get=40", note: "the Resource Dump cannot be used",
		},
		{
			name: "the list, as no changes lead from the dump to it",
			set: func(s *aSource, paths []string) {
				s.list(5, paths...)
				s.changes(5)
			},
			want: "get=40", note: "no later changes are listed",
		},
		{
			name: "the dump, as changes lead from it to the list",
			set: func(s *aSource, paths []string) {
				s.list(5, paths...)
				s.changes(-1)
			},
			want: "dump=40",
		},
		{
			name: "the archived list, as the others are gone",
			set: func(s *aSource, paths []string) {
				s.doc("/archive.xml", head("resourcelist-archive", nil),
					resourcesync.Entry{Loc: s.uri("/none.xml"), Metadata: resourcesync.Metadata{At: at(-9)}},
					resourcesync.Entry{Loc: s.uri("/old.xml"), Metadata: resourcesync.Metadata{At: at(0)}})
				s.put("/old.xml", s.served("/list.xml"))
				s.remove("/list.xml")
				s.remove("/dump.xml")
				s.offers("resourcelist", "/list.xml", "resourcedump", "/dump.xml", "changelist", "/changes.xml", "resourcelist-archive", "/archive.xml")
			},
			want: "get=40", note: "cannot be used",
		},
		{
			name: "the archived dump, as no list is offered",
			set: func(s *aSource, paths []string) {
				h := head("resourcedump-archive", func(h *resourcesync.Header) { h.Root = resourcesync.SitemapIndex })
				s.doc("/archive.xml", h, resourcesync.Entry{Loc: s.uri("/part.xml")})
				s.doc("/part.xml", head("resourcedump-archive", nil), resourcesync.Entry{Loc: s.uri("/dump.xml"), Metadata: resourcesync.Metadata{At: at(0)}})
				s.offers("changelist", "/changes.xml", "resourcedump-archive", "/archive.xml")
			},
			want: "dump=40",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, paths := dumped(t, 40)
			if tt.set != nil {
				tt.set(s, paths)
			}
			m := newMirror(t, s)
			m.set = tt.dest
			rep := m.mustSync(destination.Baseline, 0, 40, 0, 0)
			wantWays(t, rep, tt.want)
			m.wantNote(tt.note)
			if rep.Partial != nil {
				t.Errorf("partial: %v", rep.Partial)
			}
			m.wantFiles(paths...)
			if v := m.audit(); v[destination.VerdictSame] != 40 || len(v) != 1 {
				t.Errorf("audit: got %v, want 40 the same", v)
			}
		})
	}
}

// wantNote checks that something was told; "" that nothing was.
func (m *aMirror) wantNote(text string) {
	m.t.Helper()
	if text == "" && len(m.notes) > 0 || text != "" && !strings.Contains(strings.Join(m.notes, "\n"), text) {
		m.t.Errorf("notes: got %q, want one of %q", m.notes, text)
	}
}

// A mirror that has little of the set is filled from the dump although the list tells
// what is missing; one that lacks little is not.
func TestDumpIsTakenWhereRequestsForEachCostMore(t *testing.T) {
	for _, tt := range []struct {
		name    string
		missing int
		want    string
	}{{"much is missing", 30, "dump=30"}, {"little is missing", 2, "get=2"}} {
		t.Run(tt.name, func(t *testing.T) {
			s, paths := dumped(t, 40)
			s.offers("resourcelist", "/list.xml")
			s.list(0, paths[tt.missing:]...)
			m := newMirror(t, s)
			m.mustSync(destination.Baseline, 0, int64(40-tt.missing), 0, 0)
			s.list(1, paths...)
			s.dump(1, aPackage{path: "/d/1", entries: s.entries(paths[:20]...)}, aPackage{path: "/d/2", entries: s.entries(paths[20:]...)})
			s.offers("resourcelist", "/list.xml", "resourcedump", "/dump.xml")
			rep := m.mustSync(destination.Baseline, int64(40-tt.missing), int64(tt.missing), 0, 0)
			wantWays(t, rep, tt.want)
			m.wantFiles(paths...)
		})
	}
}

// Of a large package only the part is transferred in which the wanted members stand.
func TestNeighboursInALargePackageComeByRange(t *testing.T) {
	s := newSource(t)
	paths := s.fill(60)
	for i := range 40 { // the first are large
		s.put(paths[i], bytes.Repeat([]byte{byte(i)}, 100_000))
	}
	s.list(0, paths[:40]...)
	s.changes(0)
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 40, 0, 0)

	s.list(1, paths...)
	s.dump(1, aPackage{path: "/d/1", entries: s.entries(paths...)})
	s.offers("resourcelist", "/list.xml", "resourcedump", "/dump.xml")
	body := s.served("/d/1.zip")
	var transferred atomic.Int64
	s.answer("/d/1.zip", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"one"`)
		c := &countingWriter{ResponseWriter: w, n: &transferred}
		http.ServeContent(c, r, "", time.Time{}, bytes.NewReader(body))
	})
	rep := m.mustSync(destination.Baseline, 40, 20, 0, 0)
	wantWays(t, rep, "range=20")
	if got := transferred.Load(); got > 200_000 {
		t.Errorf("bytes of the package that were transferred: got %d of %d, want less than 200,000", got, len(body))
	}
	m.wantFiles(paths...)
}

type countingWriter struct {
	http.ResponseWriter
	n *atomic.Int64
}

func (c *countingWriter) Write(b []byte) (int, error) {
	n, err := c.ResponseWriter.Write(b)
	c.n.Add(int64(n))
	return n, err
}

// Without a Change List the manifests of Change Dumps tell what changed.
func TestIncrementByChangeDump(t *testing.T) {
	s, paths := dumped(t, 40)
	s.offers("resourcelist", "/list.xml", "changedump", "/changedump.xml")
	s.changeDump(0)
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 40, 0, 0)

	var first []resourcesync.Entry
	for i := range 10 {
		s.put(paths[i], fmt.Appendf(nil, "changed %d", i))
		first = append(first, s.change(1+i, resourcesync.Updated, paths[i]))
	}
	first = append(first, s.change(12, resourcesync.Deleted, paths[20]))
	p1 := aPackage{path: "/c/1", from: 0, until: 12, entries: first}
	s.changeDump(0, p1)
	rep := m.mustSync(destination.Incremental, 0, 0, 10, 1)
	wantWays(t, rep, "dump=10")
	kept := slices.Delete(slices.Clone(paths), 20, 21)
	m.wantFiles(kept...)

	// The next package; the first one is not asked for again, nor its manifest.
	s.put(paths[3], []byte("changed again"))
	p2 := aPackage{path: "/c/2", from: 13, until: 14, entries: []resourcesync.Entry{s.change(14, resourcesync.Updated, paths[3])}}
	s.changeDump(0, p1, p2)
	s.asked("/")
	rep = m.mustSync(destination.Incremental, 0, 0, 1, 0)
	wantWays(t, rep, "get=1")
	if n := s.asked("/c/1"); n != 0 {
		t.Errorf("requests for the package before the cursor: got %d, want 0", n)
	}
	m.wantFiles(kept...)
	s.asked("/")
	m.mustSync(destination.Incremental, 0, 0, 0, 0)
	if n := s.asked("/"); n != 3 {
		t.Errorf("requests of an idle sync: got %d, want 3 (description, Capability List, Change Dump)", n)
	}
}

// What a Change List names comes out of the packages of a Change Dump if that saves
// requests; what is in none of them, or in another state, is requested.
func TestChangeDumpCarriesWhatTheChangeListNames(t *testing.T) {
	s, paths := dumped(t, 40)
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 40, 0, 0)
	var packed, listed []resourcesync.Entry
	for i := range 20 {
		s.put(paths[i], fmt.Appendf(nil, "changed %d", i))
		packed = append(packed, s.change(1+i, resourcesync.Updated, paths[i]))
	}
	s.changeDump(0, aPackage{path: "/c/1", from: 0, until: 21, entries: packed})
	listed = append(listed, packed...)
	for _, i := range []int{3, 30} { // since the package was made
		s.put(paths[i], fmt.Appendf(nil, "changed again %d", i))
		listed = append(listed, s.change(22+i, resourcesync.Updated, paths[i]))
	}
	s.changes(0, listed...)
	s.offers("resourcelist", "/list.xml", "changelist", "/changes.xml", "changedump", "/changedump.xml")
	rep := m.mustSync(destination.Incremental, 0, 0, 21, 0)
	wantWays(t, rep, "get=2 dump=19")
	m.wantFiles(paths...)
	m.set = func(d *destination.Destination) { d.Prefer = destination.PreferList }
	m.mustSync(destination.Incremental, 0, 0, 0, 0)
}

// Where the present Change Lists no longer reach back, those of the archive do.
func TestArchivedChangesCloseAGap(t *testing.T) {
	for _, kind := range []string{"changelist-archive", "changedump-archive"} {
		t.Run(kind, func(t *testing.T) {
			s, paths := dumped(t, 40)
			s.offers("resourcelist", "/list.xml", "changelist", "/changes.xml")
			m := newMirror(t, s)
			m.mustSync(destination.Baseline, 0, 40, 0, 0)

			s.put(paths[1], []byte("changed"))
			old := []resourcesync.Entry{s.change(3, resourcesync.Updated, paths[1]), s.change(4, resourcesync.Deleted, paths[2])}
			span := func(h *resourcesync.Metadata) { h.From, h.Until = at(0), at(10) }
			var archived resourcesync.Entry
			if kind == "changelist-archive" {
				s.doc("/old.xml", head(resourcesync.CapabilityChangeList, func(h *resourcesync.Header) { span(&h.Metadata) }), old...)
				archived.Loc = s.uri("/old.xml")
			} else {
				s.changeDump(0, aPackage{path: "/c/1", from: 0, until: 10, entries: old})
				s.put("/old.xml", s.served("/changedump.xml"))
				archived.Loc = s.uri("/old.xml")
				s.changeDump(10)
			}
			span(&archived.Metadata)
			before := resourcesync.Entry{Loc: s.uri("/gone.xml"), Metadata: resourcesync.Metadata{From: at(-10), Until: at(-1)}}
			s.doc("/archive.xml", head(resourcesync.Capability(kind), nil), before, archived)
			s.put(paths[5], []byte("changed later"))
			s.changes(10, s.change(11, resourcesync.Updated, paths[5]))
			if kind == "changedump-archive" {
				s.changeDump(10, aPackage{path: "/c/2", from: 10, until: 12, entries: []resourcesync.Entry{s.change(11, resourcesync.Updated, paths[5])}})
			}
			s.offers("resourcelist", "/list.xml", "changelist", "/changes.xml", "changedump", "/changedump.xml", kind, "/archive.xml")
			m.mustSync(destination.Incremental, 0, 0, 2, 1)
			m.wantFiles(slices.Delete(slices.Clone(paths), 2, 3)...)
			if rep, err := m.sync(); err != nil || rep.Mode != destination.Incremental || rep.Bytes > 0 {
				t.Errorf("second sync: got %v, %v, want nothing to do", rep, err)
			}
			s.offers("resourcelist", "/list.xml", "changelist", "/changes.xml")
			m.mustSync(destination.Incremental, 0, 0, 0, 0)
		})
	}
}

// An index of Change Dumps names one that lists changes, as a Change List does.
func TestIndexOfAChangeDumpThatListsChanges(t *testing.T) {
	s, paths := dumped(t, 40)
	s.offers("resourcelist", "/list.xml", "changedump", "/changedump.xml")
	s.doc("/changedump.xml", head(resourcesync.CapabilityChangeDump, func(h *resourcesync.Header) { h.Root, h.From = resourcesync.SitemapIndex, at(0) }),
		resourcesync.Entry{Loc: s.uri("/d/1.xml"), Metadata: resourcesync.Metadata{From: at(0)}})
	listed := func(changes ...resourcesync.Entry) {
		s.doc("/d/1.xml", head(resourcesync.CapabilityChangeDump, func(h *resourcesync.Header) { h.From = at(0) }), changes...)
	}
	listed()
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 40, 0, 0)
	s.put(paths[2], []byte("changed"))
	listed(s.change(5, resourcesync.Updated, paths[2]), s.change(6, resourcesync.Deleted, paths[3]))
	m.mustSync(destination.Incremental, 0, 0, 1, 1)
	m.wantFiles(slices.Delete(slices.Clone(paths), 3, 4)...)
}
