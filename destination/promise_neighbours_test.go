package destination_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"instep/destination"
	"instep/resourcesync"
)

// An index that names its Change Lists by name (10, 11, 8, 9): all clocks are right. What the
// open list tells is not undone by older lists that stand behind it.
func TestPromiseIndexInAlphabeticalOrder(t *testing.T) {
	for _, what := range []string{"updated twice", "created again", "created again and updated"} {
		t.Run(what, func(t *testing.T) {
			created := what != "updated twice"
			s := newSource(t)
			paths := s.fill(20)
			up := resourcesync.Link{Rel: "up", Href: s.uri("/caps.xml")}
			entries := map[int][]resourcesync.Entry{}
			index := func(last int) {
				names := map[string]int{}
				for n := 8; n <= last; n++ {
					names[fmt.Sprint(n)] = n
				}
				var parts []resourcesync.Entry
				for _, name := range slices.Sorted(maps.Keys(names)) {
					n, path := names[name], "/changes/"+name+".xml"
					h := head(resourcesync.CapabilityChangeList, func(h *resourcesync.Header) { h.From, h.Links = at(10*n), []resourcesync.Link{up} })
					e := resourcesync.Entry{Loc: s.uri(path), Metadata: resourcesync.Metadata{From: at(10 * n)}}
					if n < last {
						h.Until, e.Until = at(10*n+10), at(10*n+10)
					}
					s.doc(path, h, entries[n]...)
					parts = append(parts, e)
				}
				s.doc("/changes/index.xml", head(resourcesync.CapabilityChangeList, func(h *resourcesync.Header) {
					h.Root, h.From, h.Links = resourcesync.SitemapIndex, at(80), []resourcesync.Link{up}
				}), parts...)
				s.offer("/list.xml", "/changes/index.xml")
			}
			s.list(85, paths...)
			index(9)
			m := newMirror(t, s)
			m.mustSucceed()
			want := paths
			kind := resourcesync.Updated
			if s.put("/r/1", []byte("first")); created {
				kind, want = resourcesync.Deleted, without(paths, "/r/1")
				s.remove("/r/1")
			}
			entries[9] = append(entries[9], s.change(95, kind, "/r/1"))
			index(9)
			m.mustSucceed()
			m.wantFiles(want...)
			index(10)
			m.mustSucceed()
			m.wantFiles(want...)
			if s.put("/r/1", []byte("between")); what == "created again and updated" {
				entries[10] = append(entries[10], s.change(105, resourcesync.Created, "/r/1"))
				index(10)
				m.mustSucceed()
				m.wantFiles(paths...)
				kind = resourcesync.Updated
			} else if created {
				kind = resourcesync.Created
			}
			s.put("/r/1", []byte("second"))
			entries[11] = append(entries[11], s.change(115, kind, "/r/1"))
			index(11)
			if what == "created again and updated" {
				m.recovers(paths...)
				return
			}
			m.mustSucceed()
			if got := m.files()["/r/1"]; got != "second" {
				t.Errorf("got %q after a run that ended with success, want what the open list tells", got)
			}
			m.recovers(paths...)
		})
	}
}

// The Change Dump ends before the Change List begins, which is open and empty yet: what
// happened between the two is unknown.
func TestPromiseGapBeforeAnEmptyChangeList(t *testing.T) {
	s, paths, m := besideDump(t)
	s.put("/r/1", []byte("in the dump"))
	s.changeDump(0, aPackage{path: "/c/1", from: 0, until: 12, entries: []resourcesync.Entry{s.change(5, resourcesync.Updated, "/r/1")}})
	s.put("/r/3", []byte("in neither, at 13"))
	s.changes(14)
	for range 3 {
		m.mustTell()
	}
	s.list(15, paths...)
	m.recovers(paths...)
}

// The Change List cannot be read, and the Change Dump leads on from the mirror: the mirror is
// as of the end of the dump, and goes on when the list is back.
func TestPromiseChangeDumpWithoutTheChangeList(t *testing.T) {
	s, paths, m := besideDump(t)
	s.put("/r/1", []byte("in the dump"))
	s.changeDump(0, aPackage{path: "/c/1", from: 0, until: 12, entries: []resourcesync.Entry{s.change(5, resourcesync.Updated, "/r/1")}})
	s.answer("/changes.xml", http.NotFound)
	m.mustSucceed()
	m.wantFiles(paths...)
	s.put("/r/3", []byte("in neither, at 13"))
	s.fresh("/changes.xml")
	s.changes(14)
	m.mustTell()
	s.list(15, paths...)
	m.recovers(paths...)
}

// A mirror that stands at the end of a package, after the last change: while nothing happens
// at the Source, nothing is to be done and nothing to be told.
func TestPromiseIdleAtTheEndOfAPackage(t *testing.T) {
	for _, dropped := range []bool{false, true} {
		t.Run(fmt.Sprintf("the older packages are dropped %t", dropped), func(t *testing.T) {
			s, paths, m := besideDump(t)
			first := aPackage{path: "/c/1", from: 0, until: 10}
			s.put("/r/1", []byte("in both"))
			up := s.change(20, resourcesync.Updated, "/r/1")
			second := aPackage{path: "/c/2", from: 10, until: 30, entries: []resourcesync.Entry{up}}
			s.changeDump(0, first, second)
			s.changes(10, up)
			m.mustSucceed()
			m.wantFiles(paths...)
			if dropped {
				s.changeDump(10, second)
			}
			for range 3 {
				rep, err := m.sync()
				if why := lacks(rep, err); why != "" || rep.Mode != destination.Incremental {
					t.Errorf("got %s (%s), %s", rep.Mode, rep.Why, why)
				}
			}
		})
	}
}

// A package that grows at its place, and a cache that has the copy of its manifest from before.
func TestPromiseOlderManifestOfAPackage(t *testing.T) {
	s := newSource(t)
	paths := s.fill(10)
	s.list(0, paths...)
	s.changeDump(0)
	s.offers("resourcelist", "/list.xml", "changedump", "/changedump.xml")
	m := newMirror(t, s)
	m.mustSucceed()
	s.put("/r/1", []byte("first"))
	one := s.change(5, resourcesync.Updated, "/r/1")
	s.changeDump(0, aPackage{path: "/c/1", from: 0, until: 10, entries: []resourcesync.Entry{one}})
	m.mustSucceed()
	m.wantFiles(paths...)
	s.cache("/c/1.xml", true)
	s.put("/r/2", []byte("second"))
	s.changeDump(0, aPackage{path: "/c/1", from: 0, until: 20, entries: []resourcesync.Entry{one, s.change(15, resourcesync.Updated, "/r/2")}})
	if rep, err := m.sync(); lacks(rep, err) == "" && m.files()["/r/2"] != "second" {
		t.Errorf("a run ended with success without the change of the package")
	}
	s.fresh("/c/1.xml")
	m.recovers(paths...)
}

// What the newest list lacks does not come back by an older change, whatever else is left out.
func TestPromiseOlderChangeBesideAFilter(t *testing.T) {
	s := newSource(t)
	paths := s.fill(20)
	s.list(0, paths...)
	s.changes(0)
	m := newMirror(t, s)
	m.set = func(d *destination.Destination) { d.Exclude = []string{"r/9"} }
	s.cache("/changes.xml", false) // empty
	up := s.change(8, resourcesync.Updated, "/r/1")
	s.changes(0, up)
	second := s.served("/changes.xml")
	s.list(20, without(paths, "/r/1")...) // deleted at 15, and caches still have it
	want := without(paths, "/r/1", "/r/9")
	m.mustSucceed()
	m.wantFiles(want...)
	s.answer("/changes.xml", serving(second))
	if rep := m.mustSucceed(); m.files()["/r/1"] != "" {
		t.Errorf("/r/1 is back by a change from before the list that lacks it: %+v", rep)
	}
	s.remove("/r/1")
	s.changes(20)
	s.fresh("/changes.xml")
	m.recovers(want...)
}

// What a newer list named is not replaced by an older change because something was kept.
func TestPromiseOlderChangeBesideAKeptDeletion(t *testing.T) {
	s := newSource(t)
	paths := s.fill(20)
	s.list(0, paths...)
	s.changes(0)
	s.setClock(0)
	m := newMirror(t, s)
	m.set = func(d *destination.Destination) { d.KeepDeleted, d.BaselineEvery = true, 1 }
	m.mustSucceed()
	s.setClock(12)
	s.cache("/changes.xml", false) // empty
	right := s.served("/r/2")
	s.put("/r/2", []byte("of between"))
	older := s.served("/r/2")
	s.changes(0, s.change(5, resourcesync.Updated, "/r/2")) // and at 7 it is as it was
	second := s.served("/changes.xml")
	s.put("/r/2", right)
	s.list(10, without(paths, "/r/19")...)
	m.mustSucceed()
	m.wantFiles(paths...)
	m.set = func(d *destination.Destination) { d.KeepDeleted = true }
	s.answer("/changes.xml", serving(second))
	s.answer("/r/2", serving(older))
	rep, err := m.sync()
	if got := m.files()["/r/2"]; got != string(right) {
		t.Errorf("got %q by a change from before the list; %q", got, lacks(rep, err))
	}
}

// A second list of one moment lacks what the first one named: that is withheld, also where
// another deletion was kept on request before.
func TestPromiseFewerOfOneMomentBesideAKeptDeletion(t *testing.T) {
	s := newSource(t)
	s.offer("/list.xml", "")
	paths := s.fill(40)
	s.list(0, paths...)
	m := newMirror(t, s)
	m.mustSucceed()
	s.list(10, without(paths, "/r/39")...)
	m.set = func(d *destination.Destination) { d.KeepDeleted = true }
	m.mustSucceed()
	m.set = nil
	s.list(10, without(paths, "/r/39", "/r/1")...)
	rep, err := m.sync()
	if got := m.files()["/r/1"]; got == "" {
		t.Errorf("deleted by the second list of one moment: %+v, %v", rep, err)
	}
}

// A package of which the Change Dump gives the end of the day, and that grows until then.
func TestPromisePackageThatEndsLater(t *testing.T) {
	s := newSource(t)
	paths := s.fill(10)
	now := 1
	s.setClock(now)
	s.list(0, paths...)
	s.changeDump(0)
	s.offers("resourcelist", "/list.xml", "changedump", "/changedump.xml")
	m := newMirror(t, s)
	m.clock = func() time.Time { return at(now).Time() }
	m.mustSucceed()
	now = 10
	s.setClock(now)
	s.put("/r/1", []byte("in the morning"))
	one := s.change(5, resourcesync.Updated, "/r/1")
	s.changeDump(0, aPackage{path: "/c/today", from: 0, until: day, entries: []resourcesync.Entry{one}})
	m.mustSucceed()
	now = 610
	s.setClock(now)
	s.put("/r/2", []byte("in the evening"))
	s.changeDump(0, aPackage{path: "/c/today", from: 0, until: day, entries: []resourcesync.Entry{one, s.change(600, resourcesync.Updated, "/r/2")}})
	m.recovers(paths...)
}

// The Resource List is older than the Change List, and a Change Dump leads from the one to the
// other: an audit of the mirror that followed both finds nothing wrong.
func TestPromiseAuditOfJoinedTracks(t *testing.T) {
	s, paths, m := besideDump(t)
	s.put("/r/1", []byte("in the dump"))
	s.changeDump(0, aPackage{path: "/c/1", from: 0, until: 12, entries: []resourcesync.Entry{s.change(5, resourcesync.Updated, "/r/1")}})
	s.put("/r/2", []byte("in the list"))
	s.changes(12, s.change(20, resourcesync.Updated, "/r/2"))
	m.recovers(paths...)
	a, _ := m.auditSet(func(ctx context.Context, d *destination.Destination) (*destination.Audit, error) { return d.Audit(ctx) })
	if a.Partial != nil {
		t.Errorf("audit: got %v, %v; want no fault (exit code 0)", a.Verdicts, a.Partial)
	}
}

// The lists name a resource twice since the baseline, or the baseline was made by a dump.
func TestPromiseAuditOfWhatIsNamedTwiceSince(t *testing.T) {
	for _, dump := range []bool{false, true} {
		t.Run(fmt.Sprintf("by a dump %t", dump), func(t *testing.T) {
			s := newSource(t)
			paths := s.fill(6)
			s.changes(0)
			s.listOf("/1.xml", 0, s.entries(paths[:4]...)...)
			s.listOf("/2.xml", 0, s.entries(paths[4:]...)...)
			offer := []string{"resourcelist", "/1.xml", "resourcelist", "/2.xml", "changelist", "/changes.xml"}
			if dump {
				offer = append(offer, "resourcedump", "/dump.xml")
				s.dump(0, aPackage{path: "/d/1", entries: s.entries(paths...)})
			}
			s.offers(offer...)
			m := newMirror(t, s)
			m.mustSucceed()
			wrong := s.entry("/r/3")
			s.put("/r/3", []byte("as it is now"))
			s.changes(0, s.change(9, resourcesync.Updated, "/r/3"))
			s.listOf("/1.xml", 10, append(s.entries(paths[:3]...), wrong)...)
			s.listOf("/2.xml", 10, s.entries(paths[3:]...)...)
			m.mustSucceed()
			m.wantFiles(paths...)
			if got := m.audit(); got[destination.VerdictSame] != int64(len(paths)) || len(got) != 1 {
				t.Errorf("audit: got %v, want each resource the same, and once", got)
			}
			m.recovers(paths...)
			if got := m.audit(); got[destination.VerdictSame] != int64(len(paths)) || len(got) != 1 {
				t.Errorf("audit: got %v, want each resource the same, and once", got)
			}
		})
	}
}

// A change of unknown time may be later than the list: bytes that match the list may be of the version
// before, and the resource may be gone. An audit does not call it the same.
func TestPromiseAuditOfAChangeOfUnknownTime(t *testing.T) {
	for name, c := range map[string]struct {
		change string // what the Change List says of /r/1
		want   destination.Verdict
	}{
		"an update without a digest": {change: `change="updated"`, want: destination.VerdictUnverifiable},
		"an update to other bytes":   {change: `change="updated" length="3"`, want: destination.VerdictUnverifiable},
		"a deletion":                 {change: `change="deleted"`, want: destination.VerdictUnverifiable},
		"with a time":                {change: fmt.Sprintf("change=%q datetime=%q", "updated", at(5)), want: destination.VerdictSame},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource(t)
			paths := s.fill(4)
			s.setClock(20)
			s.list(10, paths...)
			s.rawChanges(0, fmt.Sprintf("<url><loc>%s</loc><rs:md %s/></url>", s.uri("/r/1"), c.change))
			m := newMirror(t, s)
			m.mustSucceed()
			a, verdicts := m.auditSet(fully)
			if got := verdicts["/r/1"]; got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if disputed := a.Skipped[destination.SkipDisputed] == 1; disputed != (c.want == destination.VerdictUnverifiable) {
				t.Errorf("left alone: %v", a.Skipped)
			}
			if verdicts["/r/2"] != destination.VerdictSame {
				t.Errorf("got %v", verdicts)
			}
		})
	}
}

// The mirror has applied a change, and another list has a change without a time: the next run asks for
// the resource, so an audit before it is not in sync, with repair or without.
func TestPromiseAuditBeforeAQuestion(t *testing.T) {
	for _, change := range []string{"updated", "deleted"} {
		t.Run(change, func(t *testing.T) {
			s, paths, m := inStep(t, 4)
			s.setClock(20)
			s.list(10, paths...)
			s.put("/r/1", []byte("of the change with a time"))
			s.changes(10, s.change(15, resourcesync.Updated, "/r/1"))
			m.mustSucceed()
			entry := fmt.Sprintf("<url><loc>%s</loc><rs:md change=%q/></url>", s.uri("/r/1"), change)
			if change == "deleted" {
				s.remove("/r/1")
			} else {
				s.put("/r/1", []byte("of the change without a time"))
				entry = s.rawEntry("/r/1", fmt.Sprintf("change=%q", change), "")
			}
			s.raw("/changes2.xml", fmt.Sprintf(`capability="changelist" from=%q`, at(10)), "", entry)
			s.offer("/list.xml", "/changes2.xml")
			for _, audit := range []func(context.Context, *destination.Destination) (*destination.Audit, error){fully, repairing} {
				if a, verdicts := m.auditSet(audit); verdicts["/r/1"] != destination.VerdictUnverifiable || a.Skipped[destination.SkipDisputed] != 1 {
					t.Errorf("got %q, left alone %v", verdicts["/r/1"], a.Skipped)
				}
			}
			if rep := m.mustSucceed(); rep.Updated+rep.Deleted != 1 {
				t.Errorf("the next run: %+v", rep)
			}
		})
	}
}

// A newer list and a change without a time describe the same bytes, or a change tells of other bytes
// without a digest: the next run fetches the resource, so an audit before it is not in sync.
func TestPromiseAuditBeforeAFetch(t *testing.T) {
	for name, tell := range map[string]func(s *aSource, paths []string){
		"the list and a change agree": func(s *aSource, paths []string) {
			s.list(15, paths...)
			s.rawChanges(0, s.rawEntry("/r/1", `change="updated"`, ""))
		},
		"a change without a digest": func(s *aSource, _ []string) {
			s.rawChanges(0, fmt.Sprintf("<url><loc>%s</loc><rs:md change=\"updated\" datetime=%q/></url>", s.uri("/r/1"), at(15)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, paths, m := inStep(t, 4)
			s.setClock(20)
			s.put("/r/1", []byte("as it is now"))
			tell(s, paths)
			a, verdicts := m.auditSet(fully)
			if whole := (&destination.Audit{Sets: []*destination.SetAudit{a}}); whole.InSync() {
				t.Errorf("in sync: %v", verdicts)
			}
			if rep := m.mustSucceed(); rep.Updated != 1 {
				t.Errorf("the next run: %+v", rep)
			}
		})
	}
}

// A repair of damaged bytes does not show which version is the last one.
func TestPromiseRepairOfADisputedResource(t *testing.T) {
	s := newSource(t)
	paths := s.fill(4)
	s.setClock(20)
	s.list(10, paths...)
	s.rawChanges(0, s.loose("/r/1", ""))
	m := newMirror(t, s)
	m.mustSucceed()
	flip(t, filepath.Join(m.dir, "r", "1"))
	a, verdicts := m.auditSet(repairing)
	if verdicts["/r/1"] != destination.VerdictUnverifiable || a.Repaired != 1 || a.Skipped[destination.SkipDisputed] != 1 {
		t.Errorf("got %q, repaired %d, left alone %v", verdicts["/r/1"], a.Repaired, a.Skipped)
	}
}

// A set whose list is older than that of another set does not bring back older bytes.
func TestPromiseOlderListOfAnotherSet(t *testing.T) {
	s := newSource(t)
	s.offerSets()
	p := s.fill(6)
	s.listOf("/a/list.xml", 0, s.entries(p...)...)
	s.listOf("/b/list.xml", 0, s.entries(p[3:]...)...)
	m := newMirror(t, s)
	m.mustSyncSets()
	right := s.served("/r/4")
	s.listOf("/a/list.xml", 10, s.entries(p...)...)
	s.put("/r/4", []byte("of between"))
	s.listOf("/b/list.xml", 5, s.entries(p[3:]...)...) // at 7 it is as it was
	rep := m.mustSyncSets()                            // the cache of the list has that of /r/4 as well
	for _, r := range rep.Sets {
		if why := lacks(r, nil); why != "" {
			t.Logf("%s: %s", r.Name, why)
		}
	}
	for n := range 3 {
		if got := m.files()["/r/4"]; got != string(right) {
			t.Errorf("%d: got %q by the list of 5, and a list of 10 told of other bytes", n, got)
		}
		m.mustSyncSets()
	}
}

// What is left alone unasked is told of in each run, until it is here.
func TestPromiseLeftAloneIsToldInEachRun(t *testing.T) {
	for _, skip := range []destination.Skip{destination.SkipOrigin, destination.SkipWeak} {
		t.Run(string(skip), func(t *testing.T) {
			s := newSource(t)
			paths := s.fill(6)
			s.list(0, paths...)
			s.changes(0)
			m := newMirror(t, s)
			m.set = func(d *destination.Destination) { d.Strict = skip == destination.SkipWeak }
			m.mustSucceed()
			s.put("/r/1", []byte("changed"))
			e := s.change(5, resourcesync.Updated, "/r/1")
			if e.Digests = e.Digests[:1]; skip == destination.SkipOrigin {
				e.Loc = "http://elsewhere.example/r/1"
			}
			s.changes(0, e)
			for n := range 3 {
				rep, err := m.sync()
				if err != nil || rep.Skipped[skip] != 1 {
					t.Errorf("run %d: got %+v, %v; want one left alone (exit code 4)", n, rep, err)
				}
			}
			if skip == destination.SkipOrigin { // what the user leaves out is no fault
				m.set = func(d *destination.Destination) { d.Exclude = []string{"r/1"} }
				for range 2 {
					if rep, err := m.sync(); err != nil || rep.Skipped[skip] > 0 {
						t.Errorf("excluded: got %+v, %v; want none left alone", rep, err)
					}
				}
			}
		})
	}
}

// A deletion that is dated before the list of a mirror, and stands in a later Change List or
// package than what was applied, is not passed over: the resource itself tells.
func TestPromiseDeletionDatedEarlierInTheNextPackage(t *testing.T) {
	for _, packages := range []bool{false, true} {
		t.Run(fmt.Sprintf("packages %t", packages), func(t *testing.T) {
			s := newSource(t)
			paths := s.fill(20)
			s.list(29, paths...)
			first := aPackage{path: "/c/1", from: 0, until: 30, entries: []resourcesync.Entry{s.change(25, resourcesync.Updated, "/r/2")}}
			second := aPackage{path: "/c/2", from: 20, until: 40}
			write := func() {
				if packages {
					s.changeDump(0, first, second)
					s.offers("resourcelist", "/list.xml", "changedump", "/changedump.xml")
					return
				}
				s.doc("/1.xml", head(resourcesync.CapabilityChangeList, func(h *resourcesync.Header) { h.From, h.Until = at(0), at(30) }), first.entries...)
				s.doc("/2.xml", head(resourcesync.CapabilityChangeList, func(h *resourcesync.Header) { h.From, h.Until = at(20), at(40) }), second.entries...)
				s.doc("/3.xml", head(resourcesync.CapabilityChangeList, func(h *resourcesync.Header) { h.From = at(40) }))
				s.offers("resourcelist", "/list.xml", "changelist", "/1.xml", "changelist", "/2.xml", "changelist", "/3.xml")
			}
			all := second
			second = aPackage{path: "/c/0", from: 30, until: 31}
			write()
			m := newMirror(t, s)
			if packages {
				s.changeDump(0, first)
			} else {
				s.doc("/1.xml", head(resourcesync.CapabilityChangeList, func(h *resourcesync.Header) { h.From = at(0) }), first.entries...)
				s.offers("resourcelist", "/list.xml", "changelist", "/1.xml")
			}
			m.mustSucceed()
			s.remove("/r/1")
			s.put("/r/3", []byte("changed"))
			second = all
			second.entries = []resourcesync.Entry{s.change(24, resourcesync.Deleted, "/r/1"), s.change(35, resourcesync.Updated, "/r/3")}
			write()
			m.recovers(without(paths, "/r/1")...)
		})
	}
}

// More changes than a run takes up stand in the packages that lead to the Change List: the next
// run goes on, and nothing is unknown.
func TestPromiseManyChangesBeforeTheChangeList(t *testing.T) {
	s := newSource(t)
	paths := s.fill(10)
	s.list(0, paths...)
	s.changes(0)
	s.changeDump(0)
	s.offers("resourcelist", "/list.xml", "changelist", "/changes.xml", "changedump", "/changedump.xml")
	m := newMirror(t, s)
	m.set = func(d *destination.Destination) { d.MaxChanges = 1 }
	m.mustSucceed()
	var all []aPackage
	for n := range 3 {
		p := fmt.Sprintf("/r/%d", n)
		s.put(p, []byte("in a package"))
		all = append(all, aPackage{path: fmt.Sprintf("/c/%d", n), from: 10 * n, until: 10*n + 10, entries: []resourcesync.Entry{s.change(10*n+5, resourcesync.Updated, p)}})
	}
	s.changeDump(0, all...)
	s.put("/r/5", []byte("in the list"))
	s.changes(30, s.change(35, resourcesync.Updated, "/r/5"))
	for n := range 3 {
		if rep, err := m.sync(); err != nil || rep.Gap != "" {
			t.Errorf("run %d: got %+v, %v; want no gap", n, rep, err)
		}
	}
	m.recovers(paths...)
}

// The choice of resources changes, and there are more changes since the Resource List than a run
// takes up: the next runs go on.
func TestPromiseManyChangesAndAnotherChoice(t *testing.T) {
	s := newRotating(t, 10)
	m := newMirror(t, s.aSource)
	set := func(more func(*destination.Destination)) {
		m.set = func(d *destination.Destination) {
			if d.MaxChanges = 1; more != nil {
				more(d)
			}
		}
	}
	set(func(d *destination.Destination) { d.Exclude = []string{"r/9"} })
	m.mustSucceed()
	for n := range 5 {
		s.change(resourcesync.Updated, n+1)
		s.rotate()
	}
	s.put("/r/9", []byte("changed"))
	s.now++
	s.open().entries = append(s.open().entries, s.aSource.change(s.now, resourcesync.Updated, "/r/9"))
	s.publish()
	for range 3 {
		_, _ = m.sync()
	}
	m.mustSucceed()
	m.wantFiles(without(s.paths, "/r/9")...)
	set(nil)
	for range 6 {
		_, _ = m.sync()
	}
	m.recovers(s.paths...)
}

// A Resource Dump of which a cache has the copy from before costs less than requests for each
// resource, and tells less than the Resource List: it is not taken.
func TestPromiseOlderDumpThatCostsLess(t *testing.T) {
	s, paths := dumped(t, 40)
	s.offers("resourcelist", "/list.xml", "resourcedump", "/dump.xml")
	s.setClock(1)
	m := newMirror(t, s)
	m.mustSucceed()
	for _, p := range paths[:30] {
		s.put(p, []byte("changed "+p))
	}
	s.dump(10, aPackage{path: "/d/3", entries: s.entries(paths...)})
	s.remove("/r/39")
	s.list(20, without(paths, "/r/39")...)
	s.changes(0, s.change(10, resourcesync.Updated, "/r/1"))
	s.offers("resourcelist", "/list.xml", "resourcedump", "/dump.xml", "changelist", "/changes.xml")
	s.answer("/changes.xml", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", t0.Add(11*time.Minute).UTC().Format(http.TimeFormat))
		_, _ = w.Write(s.served("/changes.xml"))
	})
	s.setClock(21)
	m.set = func(d *destination.Destination) { d.BaselineEvery = 1 }
	if rep := m.mustSucceed(); rep.Mode != destination.Baseline || rep.Via[destination.ViaDump] > 0 {
		t.Errorf("got %s, %s, want a baseline without the dump", rep.Mode, ways(rep))
	}
	m.wantFiles(without(paths, "/r/39")...)
}

// A Resource Dump is older than the newest Resource List, and the Change Lists lead on from it to the
// present: to take it is no roll-back.
func TestPromiseOlderDumpWithTheChangesSince(t *testing.T) {
	for name, include := range map[string]string{"it costs less": "/r/1", "nothing is here yet": "/nothing"} {
		for _, dated := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, a Date %t", name, dated), func(t *testing.T) {
				s, paths := dumped(t, 40)
				s.put("/r/1", []byte("changed"))
				s.changes(0, s.change(5, resourcesync.Updated, "/r/1"))
				s.list(10, paths...)
				s.offer("/list.xml", "/changes.xml")
				s.setClock(11)
				if !dated {
					for _, path := range []string{"/list.xml", "/changes.xml", "/dump.xml"} {
						s.answer(path, func(w http.ResponseWriter, _ *http.Request) {
							w.Header()["Date"] = nil
							_, _ = w.Write(s.served(path))
						})
					}
				}
				m := newMirror(t, s)
				m.set = func(d *destination.Destination) { d.Include = []string{"*" + include} }
				m.mustSucceed()
				m.set = nil
				s.offers("resourcelist", "/list.xml", "resourcedump", "/dump.xml", "changelist", "/changes.xml")
				m.mustSucceed()
				m.recovers(paths...)
			})
		}
	}
}

// A Change List of 1.0 is a copy from before the Resource List, and the next copy has one
// deletion more: that is from before the list too, and the resource was made again.
func TestPromiseDeletionInALaterCopyFromBeforeTheList(t *testing.T) {
	s := newSource(t)
	paths := s.fill(20)
	s.list(30, paths...)
	first := s.oldChange(1, resourcesync.Updated, "/r/2")
	s.rawChanges(0, first)
	m := newMirror(t, s)
	m.mustSucceed()
	s.rawChanges(0, first, s.oldChange(5, resourcesync.Deleted, "/r/1"))
	m.mustSucceed()
	m.wantFiles(paths...)
	m.recovers(paths...)
}

// The lastmod of a deletion may be that of the version that is gone: it tells nothing of when
// the entries before it happened.
func TestPromiseLastmodOfADeletionBoundsNoOther(t *testing.T) {
	s := newSource(t)
	paths := s.fill(20)
	s.list(23, without(paths, "/r/2")...)
	s.remove("/r/1")
	s.remove("/r/2")
	s.rawChanges(20, s.oldChange(1, resourcesync.Deleted, "/r/1"), s.oldChange(22, resourcesync.Deleted, "/r/2"))
	m := newMirror(t, s)
	m.recovers(without(paths, "/r/1", "/r/2")...)
}

// What is left alone counts once, however many plans a run makes.
func TestPromiseLeftAloneCountsOnceInARun(t *testing.T) {
	s := newRotating(t, 10)
	m := newMirror(t, s.aSource)
	m.set = func(d *destination.Destination) { d.MaxChanges = 1 }
	m.mustSucceed()
	foreign := s.aSource.change(s.now+1, resourcesync.Updated, "/r/1")
	foreign.Loc = "http://elsewhere.example/r/1"
	s.open().entries = append(s.open().entries, foreign)
	for n := range 3 {
		s.change(resourcesync.Updated, 3*n+1)
		s.rotate()
	}
	s.publish()
	for range 2 {
		if rep := m.mustSucceed(); rep.Skipped[destination.SkipOrigin] != 1 {
			t.Errorf("got %+v, want one left alone", rep)
		}
	}
	m.wantFiles(s.paths...)
}
