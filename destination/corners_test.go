package destination_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"instep/destination"
	"instep/fetch"
	"instep/guard"
	"instep/mirror"
	"instep/resourcesync"
)

// offerSets makes the Source one of two sets, "a" and "b", each with a Resource List
// at /a/list.xml or /b/list.xml.
func (s *aSource) offerSets() {
	var entries []resourcesync.Entry
	for _, set := range []string{"/a", "/b"} {
		entries = append(entries, resourcesync.Entry{
			Loc: s.uri(set + "/caps.xml"), Metadata: resourcesync.Metadata{Capability: resourcesync.CapabilityCapabilityList},
		})
		h := head(resourcesync.CapabilityCapabilityList, nil)
		h.Links = []resourcesync.Link{{Rel: "up", Href: s.uri("/.well-known/resourcesync")}}
		s.doc(set+"/caps.xml", h, resourcesync.Entry{
			Loc: s.uri(set + "/list.xml"), Metadata: resourcesync.Metadata{Capability: resourcesync.CapabilityResourceList},
		})
	}
	s.doc("/.well-known/resourcesync", head(resourcesync.CapabilityDescription, nil), entries...)
}

// listOf writes a Resource List of moment n at path.
func (s *aSource) listOf(path string, n int, entries ...resourcesync.Entry) {
	s.doc(path, head(resourcesync.CapabilityResourceList, func(h *resourcesync.Header) { h.At = at(n) }), entries...)
}

// syncSets runs one synchronisation of all sets.
func (m *aMirror) syncSets() (rep *destination.Report, err error) {
	m.t.Helper()
	err = m.with(func(ctx context.Context, d *destination.Destination, mm *mirror.Mirror) error {
		plan, err := d.Plan(ctx)
		if err != nil {
			return err
		}
		defer plan.Close()
		if err := mm.Bind(ctx, plan.Source, plan.Origin); err != nil {
			return err
		}
		rep, err = d.Apply(ctx, plan)
		return err
	})
	return rep, err
}

func (m *aMirror) mustSyncSets() *destination.Report {
	m.t.Helper()
	rep, err := m.syncSets()
	if err != nil {
		m.t.Fatalf("sync: %v", err)
	}
	return rep
}

func TestResourceThatMovesToAnotherSetStays(t *testing.T) {
	s := newSource(t)
	s.offerSets()
	p := s.fill(20)
	s.listOf("/a/list.xml", 0, s.entries(p[:11]...)...)
	s.listOf("/b/list.xml", 0, s.entries(p[11:]...)...)
	m := newMirror(t, s)
	m.mustSyncSets()
	m.wantFiles(p...)
	// The plan of b finds the bytes that the deletion from a takes away.
	s.listOf("/a/list.xml", 1, s.entries(p[:10]...)...)
	s.listOf("/b/list.xml", 1, s.entries(p[10:]...)...)
	m.mustSyncSets()
	rep := m.mustSyncSets()
	for _, r := range rep.Sets {
		if r.Failed+r.Deleted+r.Withheld != 0 || r.Same+r.Updated+r.Created != 10 {
			t.Errorf("the run after: got %+v, want 10 resources in place", r)
		}
	}
	m.wantFiles(p...)
}

func TestSharedResourceGoesWithItsLastSet(t *testing.T) {
	s := newSource(t)
	s.offerSets()
	p := s.fill(20)
	s.listOf("/a/list.xml", 0, s.entries(p[:15]...)...)
	s.listOf("/b/list.xml", 0, s.entries(p[5:]...)...)
	m := newMirror(t, s)
	m.mustSyncSets()
	s.listOf("/a/list.xml", 1, s.entries(p[:14]...)...)
	m.mustSyncSets()
	m.wantFiles(p...)
	s.listOf("/b/list.xml", 2, s.entries(slices.Concat(p[5:14], p[15:])...)...)
	m.mustSyncSets()
	m.wantFiles(slices.Delete(slices.Clone(p), 14, 15)...)
}

func TestConsentToOneSetIsNoConsentToAnother(t *testing.T) {
	s := newSource(t)
	s.offerSets()
	p := s.fill(10)
	s.listOf("/a/list.xml", 0, s.entries(p...)...)
	s.listOf("/b/list.xml", 0, s.entries(p...)...)
	m := newMirror(t, s)
	m.mustSyncSets()
	s.listOf("/a/list.xml", 1)
	s.listOf("/b/list.xml", 1)
	rep := m.mustSyncSets()
	err := m.with(func(ctx context.Context, _ *destination.Destination, mm *mirror.Mirror) error {
		_, _, err := mm.Approve(ctx, rep.Sets[0].Hash)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	rep = m.mustSyncSets()
	if a, b := rep.Sets[0], rep.Sets[1]; a.Deleted != 10 || a.Withheld != 0 || b.Deleted != 0 || b.Withheld != 10 {
		t.Errorf("got %+v and %+v; want only the first set's deletions", a, b)
	}
	m.wantFiles(p...)
}

// A resource in a newer part of an index is not the business of an older change.
func TestChangeOlderThanThePartThatListsItsResource(t *testing.T) {
	s := newSource(t)
	s.offer("/index.xml", "/changes.xml")
	p := s.fill(10)
	h := head(resourcesync.CapabilityResourceList, func(h *resourcesync.Header) { h.Root, h.At = resourcesync.SitemapIndex, at(0) })
	s.doc("/index.xml", h, resourcesync.Entry{Loc: s.uri("/1.xml")}, resourcesync.Entry{Loc: s.uri("/2.xml")})
	old := s.change(5, resourcesync.Updated, "/r/7")
	s.put("/r/7", []byte("as in the newer part"))
	s.listOf("/1.xml", 0, s.entries(p[:5]...)...)
	s.listOf("/2.xml", 10, s.entries(p[5:]...)...)
	s.changes(0, old)
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 10, 0, 0)
	m.wantFiles(p...)
}

// fullMirror is a mirror of which no commit succeeds.
type fullMirror struct{ destination.Mirror }

type fullBatch struct{ destination.Batch }

var errFull = errors.New("no space left")

func (m fullMirror) Begin(ctx context.Context) (destination.Batch, error) {
	b, err := m.Mirror.Begin(ctx)
	return fullBatch{b}, err
}

func (b fullBatch) Commit(context.Context, *destination.CursorMove) error { return errFull }

func TestFailingCommitEndsTheRun(t *testing.T) {
	for _, n := range []int{1, 300, 700} { // one batch, two, and more
		s := newSource(t)
		p := s.fill(n)
		s.list(0, p...)
		s.changes(0)
		m := newMirror(t, s)
		m.set = func(d *destination.Destination) { d.Mirror = fullMirror{d.Mirror} }
		rep, err := m.sync()
		if !errors.Is(err, errFull) || rep.Created != 0 {
			t.Errorf("%d resources: got %+v, %v; want the error of the commit", n, rep, err)
		}
		m.wantFiles()
		m.set = nil
		m.mustSync(destination.Baseline, 0, int64(n), 0, 0)
	}
}

// What one choice of resources left out is brought, or deleted, as soon as it is
// asked for, even if the Change List has nothing new.
func TestAnotherChoiceOfResourcesIsABaseline(t *testing.T) {
	choices := map[string]func(*destination.Destination){
		"include": func(d *destination.Destination) { d.Include = []string{"r/[0-4]"} },
		"exclude": func(d *destination.Destination) { d.Exclude = []string{"r/7"} },
		"types":   func(d *destination.Destination) { d.Types = []string{"image/*"} },
		"strict":  func(d *destination.Destination) { d.Strict = true },
	}
	for name, choose := range choices {
		t.Run(name, func(t *testing.T) {
			s := newSource(t)
			p := s.fill(10)
			entries := s.entries(p...)
			entries[7].Digests, entries[7].Type = entries[7].Digests[:1], "text/plain" // md5 alone
			s.listOf("/list.xml", 0, entries...)
			s.changes(0)
			m := newMirror(t, s)
			m.set = choose
			first, err := m.sync()
			if err != nil || first.Created == 0 || first.Created == 10 {
				t.Fatalf("got %+v, %v; want some resources left out", first, err)
			}
			m.mustSync(destination.Incremental, 0, 0, 0, 0)
			m.set = nil
			m.mustSync(destination.Baseline, first.Created, 10-first.Created, 0, 0)
			m.wantFiles(p...)
			m.mustSync(destination.Incremental, 0, 0, 0, 0)
		})
	}
}

func TestChangesLeftOutAreMadeUpFor(t *testing.T) {
	s, p, m := inStep(t, 10)
	s.put("/r/1", []byte("changed while left out"))
	s.put("/r/2", []byte("changed"))
	s.changes(0, s.change(1, resourcesync.Updated, "/r/1"), s.change(2, resourcesync.Updated, "/r/2"))
	m.set = func(d *destination.Destination) { d.Exclude = []string{"r/1"} }
	m.mustSync(destination.Incremental, 0, 0, 1, 0)
	m.set = nil
	m.mustSync(destination.Baseline, 9, 0, 1, 0)
	m.wantFiles(p...)
}

func TestAllowedOriginIsFetchedInTheNextRun(t *testing.T) {
	s, other := newSource(t), newSource(t)
	other.put("/x", []byte("elsewhere"))
	p := s.fill(3)
	s.listOf("/list.xml", 0, append(s.entries(p...), other.entry("/x"))...)
	s.changes(0)
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 3, 0, 0)
	c, err := fetch.New(fetch.Options{AllowPrivate: []string{strings.TrimPrefix(s.srv.URL, "http://"), strings.TrimPrefix(other.srv.URL, "http://")}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	m.set = func(d *destination.Destination) { d.AllowOrigins, d.Client = []string{other.srv.URL}, c }
	m.mustSync(destination.Baseline, 3, 1, 0, 0)
	m.mustSync(destination.Incremental, 0, 0, 0, 0)
}

func TestDeletionsThatWereKeptComeWithTheNextNormalRun(t *testing.T) {
	s, p, m := inStep(t, 10)
	keep := func(d *destination.Destination) { d.KeepDeleted = true }
	m.set = keep
	s.changes(0, s.change(1, resourcesync.Deleted, "/r/1"))
	m.mustSync(destination.Incremental, 1, 0, 0, 0)
	m.mustSync(destination.Incremental, 0, 0, 0, 0)
	m.set = nil
	m.mustSync(destination.Baseline, 9, 0, 0, 1)
	m.wantFiles(slices.Delete(slices.Clone(p), 1, 2)...)
	m.mustSync(destination.Incremental, 0, 0, 0, 0)
}

func TestSetThatCannotBeReadStopsNoOther(t *testing.T) {
	s := newSource(t)
	s.offerSets()
	p := s.fill(20)
	s.listOf("/a/list.xml", 0, s.entries(p[:10]...)...)
	s.listOf("/b/list.xml", 0, s.entries(p[10:]...)...)
	m := newMirror(t, s)
	m.mustSyncSets()
	damage := map[string]func(list string){
		"missing": func(list string) { s.answer(list, http.NotFound) },
		"cut":     func(list string) { s.answer(list, nil); s.put(list, s.bodies[list][:300]) },
	}
	for name, do := range damage {
		s.put("/r/15", []byte("changed: "+name))
		s.listOf("/b/list.xml", 1, s.entries(p[10:]...)...)
		do("/a/list.xml")
		rep := m.mustSyncSets()
		if a, b := rep.Sets[0], rep.Sets[1]; a.Partial == nil || a.Deleted != 0 || b.Partial != nil || b.Updated != 1 {
			t.Errorf("%s: got %+v and %+v; want the second set brought in step", name, a, b)
		}
		m.wantFiles(p...)
	}
	s.answer("/b/list.xml", http.NotFound)
	if rep, err := m.syncSets(); err == nil {
		t.Errorf("no set can be read: got %+v, want an error", rep)
	}
	m.wantFiles(p...)
}

// change without a datetime.
func (s *aSource) undated(c resourcesync.Change, path string) resourcesync.Entry {
	e := s.change(0, c, path)
	e.Datetime = resourcesync.Datetime{}
	return e
}

// Changes without a datetime, or all with the same, are applied in the order of the
// document, each once.
func TestChangesThatTimeDoesNotTellApart(t *testing.T) {
	for name, change := range map[string]func(*aSource, resourcesync.Change, string) resourcesync.Entry{
		"without datetime": (*aSource).undated,
		"all the same": func(s *aSource, c resourcesync.Change, path string) resourcesync.Entry {
			return s.change(0, c, path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, p, m := inStep(t, 20)
			var entries []resourcesync.Entry
			add := func(c resourcesync.Change, path string) {
				entries = append(entries, change(s, c, path))
				s.changes(0, entries...)
			}
			s.put("/r/1", []byte("two"))
			add(resourcesync.Updated, "/r/1")
			add(resourcesync.Deleted, "/r/2")
			m.mustSync(destination.Incremental, 0, 0, 1, 1)
			m.mustSync(destination.Incremental, 0, 0, 0, 0)
			s.put("/r/1", []byte("three"))
			add(resourcesync.Updated, "/r/1")
			add(resourcesync.Created, "/r/2")
			add(resourcesync.Deleted, "/r/2")
			add(resourcesync.Deleted, "/r/3")
			add(resourcesync.Created, "/r/3") // as it is
			m.mustSync(destination.Incremental, 1, 0, 1, 0)
			add(resourcesync.Created, "/r/2")
			add(resourcesync.Deleted, "/r/1")
			m.mustSync(destination.Incremental, 0, 1, 0, 1)
			m.wantFiles(slices.Delete(slices.Clone(p), 1, 2)...)
			// The list is written again with fewer entries.
			entries = entries[len(entries)-1:]
			add(resourcesync.Deleted, "/r/4")
			m.mustSync(destination.Incremental, 0, 0, 0, 1)
			m.wantFiles(slices.Concat(p[:1], p[2:4], p[5:])...)
		})
	}
}

// Where a change without a datetime stands in its list tells that it came after what was
// applied, also if the Resource List is newer than the beginning of the Change List.
func TestChangesThatCannotBePlacedLoseNothing(t *testing.T) {
	s := newSource(t)
	p := s.fill(20)
	s.list(10, p...)
	s.changes(0, s.undated(resourcesync.Updated, "/r/1"))
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 20, 0, 0)
	s.changes(0, s.undated(resourcesync.Updated, "/r/1"), s.undated(resourcesync.Deleted, "/r/2"))
	m.mustSync(destination.Incremental, 0, 0, 0, 1)
	s.changes(20, s.undated(resourcesync.Updated, "/r/1"))
	s.list(20, append(slices.Clone(p[:2]), p[3:]...)...)
	m.mustSync(destination.Baseline, 19, 0, 0, 0)
	s.changes(20, s.undated(resourcesync.Updated, "/r/1"), s.undated(resourcesync.Deleted, "/r/3"))
	m.mustSync(destination.Incremental, 0, 0, 0, 1)
	m.wantFiles(slices.Concat(p[:2], p[4:])...)
}

// A Change List that was empty is known to its end: what comes is later than the list.
func TestFirstChangeWithoutDatetimeIsPlaced(t *testing.T) {
	s := newSource(t)
	p := s.fill(20)
	s.list(10, p...)
	s.changes(0)
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 20, 0, 0)
	s.put("/r/1", []byte("changed"))
	s.changes(0, s.undated(resourcesync.Updated, "/r/1"), s.undated(resourcesync.Deleted, "/r/2"))
	m.mustSync(destination.Incremental, 0, 0, 1, 1)
	m.wantFiles(slices.Delete(slices.Clone(p), 2, 3)...)
}

func TestUndatedAmongUnorderedChangesAreApplied(t *testing.T) {
	s, p, m := inStep(t, 20)
	s.changes(0, s.change(5, resourcesync.Deleted, "/r/1"), s.undated(resourcesync.Deleted, "/r/2"), s.change(3, resourcesync.Deleted, "/r/3"))
	m.set = func(d *destination.Destination) { d.MaxDelete, _ = guard.ParseLimit("100%") }
	m.mustSync(destination.Incremental, 0, 0, 0, 3)
	m.wantFiles(slices.Concat(p[:1], p[4:])...)
}

// What is newer than every document can be damaged all the same.
func TestAuditReadsWhatIsAheadOfTheDocuments(t *testing.T) {
	s := newSource(t)
	p := s.fill(10)
	s.list(0, p...)
	stale := s.bodies["/list.xml"]
	s.changes(0)
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 10, 0, 0)
	s.put("/r/1", []byte("newer"))
	s.put("/r/2", []byte("newer as well"))
	s.put("/new/3", []byte("new"))
	s.put("/new/4", []byte("new as well"))
	s.changes(0, s.change(5, resourcesync.Updated, "/r/1"), s.change(5, resourcesync.Updated, "/r/2"),
		s.change(6, resourcesync.Created, "/new/3"), s.change(6, resourcesync.Created, "/new/4"))
	m.mustSync(destination.Incremental, 0, 2, 2, 0)
	s.put("/list.xml", stale)
	s.changes(60)
	want := map[destination.Verdict]int64{destination.VerdictSame: 8, destination.VerdictUnverifiable: 4}
	if v := m.audit(); !maps.Equal(v, want) {
		t.Fatalf("undamaged: got %v, want %v", v, want)
	}
	flip(t, filepath.Join(m.dir, "r", "1"))
	flip(t, filepath.Join(m.dir, "new", "3"))
	want = map[destination.Verdict]int64{destination.VerdictSame: 8, destination.VerdictUnverifiable: 2, destination.VerdictDifferent: 2}
	if v := m.audit(); !maps.Equal(v, want) {
		t.Fatalf("damaged: got %v, want %v", v, want)
	}
	s.changes(0)
	rep, err := m.sync()
	if err != nil || rep.Failed != 0 || rep.Updated != 2 {
		t.Errorf("got %+v, %v; want both fetched again", rep, err)
	}
	m.wantFiles(append(p, "/new/3", "/new/4")...)
}

// spoil takes the URI out of the entry of a path in a document.
func (s *aSource) spoil(doc, path string) {
	s.t.Helper()
	text := string(s.bodies[doc])
	loc := "<loc>" + s.uri(path) + "</loc>"
	if strings.Count(text, loc) != 1 {
		s.t.Fatalf("%s once in %s: got %s", loc, doc, text)
	}
	s.put(doc, []byte(strings.Replace(text, loc, "", 1)))
}

func TestEntryWithoutURIInAListStopsDeletionsOnly(t *testing.T) {
	s := newSource(t)
	p := s.fill(20)
	s.offer("/list.xml", "")
	s.list(0, p...)
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 20, 0, 0)
	s.put("/r/3", []byte("changed"))
	s.list(1, p[1:]...)
	s.spoil("/list.xml", "/r/2")
	if rep := m.mustSync(destination.Baseline, 17, 0, 1, 0); rep.Partial == nil {
		t.Errorf("got %+v, want a partial run", rep)
	}
	m.wantFiles(p...)
	s.list(2, p[1:]...)
	m.mustSync(destination.Baseline, 19, 0, 0, 1)
	m.wantFiles(p[1:]...)
}

func TestEntryWithoutURIInAChangeListStopsDeletionsAndTheCursor(t *testing.T) {
	s, p, m := inStep(t, 20)
	s.put("/r/3", []byte("changed"))
	s.put("/r/4", []byte("changed where nobody sees it"))
	entries := []resourcesync.Entry{
		s.change(1, resourcesync.Deleted, "/r/1"), s.change(2, resourcesync.Updated, "/r/3"), s.change(3, resourcesync.Updated, "/r/4"),
	}
	s.changes(0, entries...)
	whole := s.bodies["/changes.xml"]
	s.spoil("/changes.xml", "/r/4")
	if rep := m.mustSync(destination.Incremental, 1, 0, 1, 0); rep.Partial == nil {
		t.Errorf("got %+v, want a partial run", rep)
	}
	other := newMirror(t, s)
	if rep, err := other.sync(); err != nil || rep.Partial == nil || rep.Deleted != 0 {
		t.Errorf("baseline: got %+v, %v; want a partial run", rep, err)
	}
	s.put("/changes.xml", whole)
	m.mustSync(destination.Incremental, 1, 0, 1, 1)
	m.wantFiles(slices.Delete(slices.Clone(p), 1, 2)...)
}

// The bytes of a move come from a resource that the same run takes away or replaces.
func TestCopyOfWhatTheSameRunReplacesOrDeletes(t *testing.T) {
	s := newSource(t)
	p := s.fill(600) // several batches
	s.list(0, p...)
	s.changes(0)
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 600, 0, 0)
	one, two := s.bodies["/r/1"], s.bodies["/r/2"]
	var entries []resourcesync.Entry
	s.put("/r/1", []byte("replaced first"))
	entries = append(entries, s.change(1, resourcesync.Updated, "/r/1"))
	for i := range 300 { // so that the update commits before the copies
		s.put(p[i+100], fmt.Appendf(nil, "changed %d", i))
		entries = append(entries, s.change(2, resourcesync.Updated, p[i+100]))
	}
	s.put("/moved/1", one)
	s.put("/moved/2", two)
	entries = append(entries, s.change(3, resourcesync.Created, "/moved/1"), s.change(3, resourcesync.Created, "/moved/2"),
		s.change(4, resourcesync.Deleted, "/r/2"))
	s.changes(0, entries...)
	rep := m.mustSync(destination.Incremental, 0, 2, 301, 1)
	if rep.Copied < int64(len(two)) {
		t.Errorf("copied %d bytes, want at least those of the deleted resource", rep.Copied)
	}
	m.wantFiles(append(slices.Delete(slices.Clone(p), 2, 3), "/moved/1", "/moved/2")...)
}

func TestIndexNamesPartsOfItsOwnOriginOnly(t *testing.T) {
	s, other := newSource(t), newSource(t)
	s.offer("/index.xml", "")
	paths := s.fill(4)
	resources := func(h *resourcesync.Header) { h.At = at(0) }
	s.doc("/1.xml", head(resourcesync.CapabilityResourceList, resources), s.entries(paths...)...)
	other.doc("/2.xml", head(resourcesync.CapabilityResourceList, resources), s.entries(paths[0])...)
	s.doc("/index.xml", head(resourcesync.CapabilityResourceList, func(h *resourcesync.Header) { h.At, h.Root = at(0), resourcesync.SitemapIndex }),
		resourcesync.Entry{Loc: s.uri("/1.xml")}, resourcesync.Entry{Loc: s.uri("/1.xml")}, resourcesync.Entry{Loc: other.uri("/2.xml")})
	m := newMirror(t, s)
	rep, err := m.sync()
	if err != nil || rep.Created != 4 || rep.Partial == nil || !strings.Contains(rep.Partial.Error(), "--allow-origin "+other.srv.URL) {
		t.Fatalf("got %+v, %v; want 4 resources and the foreign part refused by name", rep, err)
	}
	if n := other.asked("/"); n != 0 {
		t.Errorf("the other origin was asked %d times", n)
	}
	if n := s.asked("/1.xml"); n != 1 {
		t.Errorf("a part that is named twice was fetched %d times, want once", n)
	}
}

func TestInterruptionOfTheLastTransfersKeepsTheCursor(t *testing.T) {
	s := newSource(t)
	paths := s.fill(10)
	s.list(0, paths...)
	s.changes(0)
	m := newMirror(t, s)
	m.set = func(d *destination.Destination) { d.Workers = 16 }
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var asked atomic.Int32
	for _, p := range paths {
		s.answer(p, func(_ http.ResponseWriter, r *http.Request) {
			if asked.Add(1) == 4 { // as many as the client asks of a host at a time
				cancel()
			}
			<-r.Context().Done()
		})
	}
	err := m.with(func(_ context.Context, d *destination.Destination, mm *mirror.Mirror) error {
		plan, err := d.Plan(ctx)
		if err != nil {
			return err
		}
		defer plan.Close()
		if err := mm.Bind(ctx, plan.Source, plan.Origin); err != nil {
			return err
		}
		_, err = d.Apply(ctx, plan)
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted run: got %v, want context.Canceled", err)
	}
	for _, p := range paths {
		s.answer(p, nil)
	}
	m.mustSync(destination.Baseline, 0, 10, 0, 0)
	m.wantFiles(paths...)
}
