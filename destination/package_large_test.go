package destination_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"instep/destination"
	"instep/fetch"
	"instep/resourcesync"
)

// largeMembers are in a large package, each of largeMember bytes.
const (
	largeMembers = 200
	largeMember  = 200 << 10
)

// wantNoParts checks that nothing of a package is kept.
func (m *aMirror) wantNoParts() {
	m.t.Helper()
	if parts, err := filepath.Glob(filepath.Join(m.dir, ".instep/parts/*")); err != nil || len(parts) > 0 {
		m.t.Errorf("kept: %q, %v; want nothing", parts, err)
	}
}

// patient lets the mirror ask again for what breaks off.
func (m *aMirror) patient() {
	c, err := fetch.New(fetch.Options{Backoff: 1})
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(c.Close)
	if err := c.TrustSource(m.t.Context(), m.src.srv.URL); err != nil {
		m.t.Fatal(err)
	}
	m.set = func(d *destination.Destination) { d.Client = c }
}

// exchange exchanges members of the package, of which the dump then tells.
func (s *aSource) exchange(change func([]zipMember) []zipMember) {
	s.repack(zipOf(s.t, change(s.members("/d/1.zip"))))
}

// The members of a large package are taken while it comes. What is not proved by a digest
// of its own is not taken from there, and where that cannot be known in time the package
// is transferred to its end first.
func TestLargePackage(t *testing.T) {
	all := fmt.Sprintf("dump=%d", largeMembers)
	allButOne := fmt.Sprintf("get=1 dump=%d", largeMembers-1)
	for _, tt := range []struct {
		name   string
		source func(*aSource, *packages)
		want   string
		note   string
		whole  bool // it was asked for as such
		bare   bool // nothing proves a resource
	}{
		{name: "that is as it should be", want: all},
		{name: "without an ETag", source: func(_ *aSource, p *packages) { p.tag = "" }, want: all},
		{name: "with a weak ETag", source: func(_ *aSource, p *packages) { p.tag = `W/"1"` }, want: all},
		{name: "in which a member has other bytes", source: func(s *aSource, _ *packages) {
			s.exchange(func(all []zipMember) []zipMember { all[4].body[0] ^= 1; return all })
		}, want: allButOne, note: "differs"},
		{name: "in which a member is missing", source: func(s *aSource, _ *packages) {
			s.exchange(func(all []zipMember) []zipMember { return slices.Delete(all, 4, 5) })
		}, want: allButOne, note: "1 member could not be taken"},
		{name: "of which the manifest gives other names than its copy", source: func(s *aSource, _ *packages) {
			s.exchange(exchanged)
		}, want: all},
		{name: "of which the manifest gives another digest than its copy", source: func(s *aSource, _ *packages) {
			s.exchange(inManifest(`hash="md5:`, `hash="md5:0000000000000000000000000000000f md5:`))
		}, want: allButOne, note: "differs"},
		{name: "of which the manifest gives a member no digest, and another length", source: func(s *aSource, _ *packages) {
			s.exchange(func(all []zipMember) []zipMember {
				e := entryOf(all[0].body, "/r/3")
				short := strings.Replace(string(bare([]byte(e))), "<rs:md ", `<rs:md length="1" `, 1)
				all[4].body = []byte("?")
				return inManifest(e, short)(all)
			})
		}, want: allButOne, note: "no sha-256 proves"},
		{name: "of which a member is wanted twice", source: func(s *aSource, _ *packages) {
			s.put("/r/4", s.served("/r/9"))
			paths := s.paths(largeMembers)
			s.list(0, paths...)
			s.dump(0, aPackage{path: "/d/1", entries: s.entries(paths...)})
			manifest := s.served("/d/1.xml")
			e := entryOf(manifest, "/r/4")
			_, path, _ := strings.Cut(entryOf(manifest, "/r/9"), `path="`)
			path, _, _ = strings.Cut(path, `"`)
			_, other, _ := strings.Cut(e, `path="`)
			other, _, _ = strings.Cut(other, `"`)
			with := strings.Replace(e, `path="`+other, `path="`+path, 1)
			s.put("/d/1.xml", bytes.Replace(manifest, []byte(e), []byte(with), 1))
			s.exchange(inManifest(e, with))
		}, want: all},
		{name: "of which the members are in another order than in the manifest", source: func(s *aSource, _ *packages) {
			s.exchange(strewn)
		}, want: all, whole: true},
		{name: "from a server that gives no parts", source: func(s *aSource, p *packages) {
			s.answer("/d/1.zip", func(w http.ResponseWriter, r *http.Request) {
				p.mu.Lock()
				p.requests = append(p.requests, r.Header.Get("Range"))
				p.mu.Unlock()
				_, _ = w.Write(s.served("/d/1.zip"))
			})
		}, want: all, whole: true},
		{name: "without digests of its members", source: func(s *aSource, _ *packages) {
			s.withoutDigests()
		}, want: all, whole: true, bare: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, paths := heavy(t, largeMembers, largeMember)
			served := s.servePackage(`"1"`)
			if tt.source != nil {
				tt.source(s, served)
			}
			m := newMirror(t, s)
			wantWays(t, m.mustSync(destination.Baseline, 0, largeMembers, 0, 0), tt.want)
			m.wantNote(tt.note)
			m.wantFiles(paths...)
			m.wantNoParts()
			requests, sent := served.take()
			if got := slices.Contains(requests, ""); got != tt.whole {
				t.Errorf("the package was asked for as a whole: %v, want %v: %q", got, tt.whole, requests)
			}
			if most := int64(largeMembers*largeMember + 1<<20); sent > most {
				t.Errorf("sent of the package: got %d by %q, want at most %d", sent, requests, most)
			}
			verdict := destination.VerdictSame
			if tt.bare {
				verdict = destination.VerdictUnverifiable
			}
			if v := m.audit(); v[verdict] != largeMembers || len(v) != 1 {
				t.Errorf("audit: got %v, want %s of all", v, verdict)
			}
		})
	}
}

// The members of a package that would be transferred whole, as their order needs too many
// requests, are requested one by one if it cannot be: and the next package is used.
func TestLargePackageThatCannotBeTransferredWhole(t *testing.T) {
	s, paths := heavy(t, largeMembers+20, largeMember)
	first, second := paths[:largeMembers], paths[largeMembers:]
	s.dump(0, aPackage{path: "/d/1", entries: s.entries(first...)}, aPackage{path: "/d/2", entries: s.entries(second...)})
	mixed := zipOf(t, strewn(s.members("/d/1.zip")))
	s.put("/d/1.zip", mixed)
	e1, e2 := s.entry("/d/1.zip"), s.entry("/d/2.zip")
	for i, e := range []*resourcesync.Entry{&e1, &e2} {
		e.Type, e.Links = "application/zip", []resourcesync.Link{{Rel: "contents", Href: s.uri(fmt.Sprintf("/d/%d.xml", i+1))}}
	}
	s.doc("/dump.xml", head(resourcesync.CapabilityResourceDump, func(h *resourcesync.Header) { h.At = at(0) }), e1, e2)
	served := s.servePackage(`"1"`)
	s.answer("/d/1.zip", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Range") == "" {
			http.NotFound(w, r)
			return
		}
		served.ServeHTTP(w, r)
	})
	m := newMirror(t, s)
	wantWays(t, m.mustSync(destination.Baseline, 0, largeMembers+20, 0, 0), fmt.Sprintf("get=%d dump=%d", len(first), len(second)))
	m.wantFiles(paths...)
	if requests, sent := served.take(); sent > 1<<20 {
		t.Errorf("sent of the package: got %d bytes by %q, want its directory alone", sent, requests)
	}
}

// strewn are the members in another order than in the manifest.
func strewn(all []zipMember) []zipMember {
	mixed := all[:1:1]
	for i := range len(all) - 1 {
		mixed = append(mixed, all[1+i*97%(len(all)-1)])
	}
	return mixed
}

// paths are those of the resources of a Source that was filled.
func (s *aSource) paths(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("/r/%d", i))
	}
	return all
}

// One connection and one worker are enough, whatever else has to be asked for.
func TestLargePackageWithOneOfEverything(t *testing.T) {
	s, paths := heavy(t, largeMembers, largeMember)
	s.servePackage(`"1"`)
	s.exchange(func(all []zipMember) []zipMember {
		for i := 3; i < len(all); i += 100 {
			all[i].body[0] ^= 1
		}
		return all
	})
	m := newMirror(t, s)
	c, err := fetch.New(fetch.Options{PerHost: 1, Total: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.TrustSource(t.Context(), s.srv.URL); err != nil {
		t.Fatal(err)
	}
	m.set = func(d *destination.Destination) { d.Client, d.Workers = c, 1 }
	wantWays(t, m.mustSync(destination.Baseline, 0, largeMembers, 0, 0), fmt.Sprintf("get=2 dump=%d", largeMembers-2))
	m.wantFiles(paths...)
	m.wantNoParts()
}

// A package is replaced while its members are taken: those of the new one count if they
// are what is wanted, and never otherwise.
func TestLargePackageIsReplacedWhileItComes(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before string // the ETags
		after  string
		other  bool // bytes
	}{
		{"by the same bytes under another ETag", `"1"`, `"2"`, false},
		{"by the same bytes without an ETag", "", "", false},
		{"by other bytes under another ETag", `"1"`, `"2"`, true},
		{"by other bytes under the same ETag", `"1"`, `"1"`, true},
		{"by other bytes without an ETag", "", "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, paths := heavy(t, largeMembers, largeMember)
			served := s.servePackage(tt.before)
			served.pause, served.stop = 17<<20, func() {
				served.mu.Lock()
				served.tag = tt.after
				served.mu.Unlock()
				if tt.other {
					all := s.members("/d/1.zip")
					for i := range all[1:] {
						all[i+1].body = noise(uint64(1000+i), largeMember)
					}
					s.put("/d/1.zip", zipOf(t, all))
				}
				panic(http.ErrAbortHandler)
			}
			m := newMirror(t, s)
			m.patient()
			rep := m.mustSync(destination.Baseline, 0, largeMembers, 0, 0)
			if gets := rep.Via[destination.ViaGet]; gets > 0 != tt.other || rep.Via[destination.ViaDump]+gets != largeMembers {
				t.Errorf("ways: got %s, want single requests: %v", ways(rep), tt.other)
			}
			m.wantFiles(paths...)
			m.wantNoParts()
		})
	}
}

// What lies far from the rest of what is wanted is not paid for with what is between.
func TestLargePackageOfWhichMostIsWanted(t *testing.T) {
	s, paths := heavy(t, largeMembers, largeMember)
	dumped := slices.Clone(paths)
	s.list(0, slices.Concat(paths[:3], paths[20:23])...)
	s.offers("resourcelist", "/list.xml")
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 6, 0, 0)
	s.list(1, paths...)
	s.dump(1, aPackage{path: "/d/1", entries: s.entries(dumped...)})
	s.offers("resourcelist", "/list.xml", "resourcedump", "/dump.xml")
	served := s.servePackage(`"1"`)
	rep := m.mustSync(destination.Baseline, 6, largeMembers-6, 0, 0)
	if rep.Via[destination.ViaGet] > 0 {
		t.Errorf("ways: got %s, want none by a request of its own", ways(rep))
	}
	if requests, sent := served.take(); sent > (largeMembers-6)*largeMember+2<<20 {
		t.Errorf("sent of the package: got %d by %q, want little more than what was wanted", sent, requests)
	}
	m.wantFiles(paths...)
}

// A Change Dump carries members of a large package too.
func TestLargePackageOfAChangeDump(t *testing.T) {
	s := newSource(t)
	paths := s.fill(largeMembers)
	s.list(0, paths...)
	s.changeDump(0)
	s.offers("resourcelist", "/list.xml", "changedump", "/changedump.xml")
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, largeMembers, 0, 0)
	var changed []resourcesync.Entry
	for i, p := range paths {
		s.put(p, noise(uint64(i), largeMember))
		e := s.change(1, resourcesync.Updated, p)
		changed = append(changed, e)
	}
	s.changeDump(0, aPackage{path: "/d/1", from: 0, until: 2, entries: changed})
	served := s.servePackage(`"1"`)
	m.now = m.now.Add(time.Hour)
	wantWays(t, m.mustSync(destination.Incremental, 0, 0, largeMembers, 0), fmt.Sprintf("dump=%d", largeMembers))
	m.wantFiles(paths...)
	m.wantNoParts()
	if requests, _ := served.take(); slices.Contains(requests, "") {
		t.Errorf("requests: got %q, want parts alone", requests)
	}
}

// narrow dials connections of which the system here keeps little that nobody has read:
// it would keep up to 32 MiB for a reader that is slow.
func narrow(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err == nil {
		err = conn.(*net.TCPConn).SetReadBuffer(256 << 10)
	}
	return conn, err
}

// What lacks of a large package after a run that was interrupted comes as the package
// does: what the next interruption leaves is not asked for again either.
func TestRestOfALargePackageIsTakenWhileItComes(t *testing.T) {
	const n, size, underway = 120, 1 << 20, 24 << 20 // 8 MiB that came before they were wanted, what workers read, buffers of the network
	s, paths := heavy(t, n, size)
	served := s.servePackage(`"1"`)
	m := newMirror(t, s)
	m.dial = narrow
	var total int64
	for _, after := range []int64{50 << 20, 25 << 20, 25 << 20} {
		err := m.interrupted(func(stop func()) {
			served.mu.Lock()
			defer served.mu.Unlock()
			served.pause, served.stop = after, stop
		}, 0)
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v, want that the run was interrupted", err)
		}
		_, sent := served.take()
		total += sent
	}
	rep, err := m.sync()
	if err != nil || rep.Failed > 0 || rep.Via[destination.ViaGet] > 0 {
		t.Fatalf("the last run: got %+v, %v", rep, err)
	}
	_, sent := served.take()
	if total += sent; total > n*size+3*underway {
		t.Errorf("sent of the package by four runs: got %d MiB, want little more than its %d", total>>20, n*size>>20)
	}
	m.wantFiles(paths...)
	m.wantNoParts()
}
