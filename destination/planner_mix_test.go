package destination_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"instep/destination"
	"instep/resourcesync"
)

// An index and parts of different moments, or parts that are missing, bring resources
// and take none away: the index of LIBRIS is newer than its parts, and tells nothing of them. Once all is of one moment the mirror is in step.
func TestCat_NAV_07(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newSource(t)
		s.offer("/index.xml", "")
		paths := s.fill(12)
		index := func(n int) {
			h := head(resourcesync.CapabilityResourceList, func(h *resourcesync.Header) { h.Root, h.At = resourcesync.SitemapIndex, at(n) })
			s.doc("/index.xml", h, resourcesync.Entry{Loc: s.uri("/1.xml")}, resourcesync.Entry{Loc: s.uri("/2.xml")})
		}
		whole := func(n int, paths []string) {
			index(n)
			s.listOf("/1.xml", n, s.entries(paths[:len(paths)/2]...)...)
			s.listOf("/2.xml", n, s.entries(paths[len(paths)/2:]...)...)
		}
		whole(0, paths)
		m := newMirror(t, s)
		anyNumberOfDeletions(t, m)
		m.mustSync(destination.Baseline, 0, 12, 0, 0)
		now := 0
		for range rapid.IntRange(1, 4).Draw(rt, "publications") {
			// A resource moves from one part to the other while the parts are replaced.
			now += 10
			moved := append(slices.Clone(paths[1:]), paths[0])
			mixed := true
			switch rapid.IntRange(0, 3).Draw(rt, "mixture") {
			case 0: // the first part is new, the index and the second are old
				s.listOf("/1.xml", now, s.entries(moved[:6]...)...)
			case 1: // the index is new, the parts are old
				index(now)
			case 2: // a part is missing
				index(now)
				s.listOf("/1.xml", now, s.entries(moved[:6]...)...)
				s.remove("/2.xml")
			case 3:
				mixed = false
				whole(now, moved)
			}
			rep, err := m.sync()
			if err != nil || rep.Deleted > 0 {
				rt.Fatalf("sync of a mixture: got %+v, %v, want nothing deleted", rep, err)
			}
			if mixed && rep.Partial == nil && rep.Same != 12 {
				rt.Errorf("sync of a mixture: got %+v, want it to be partial", rep)
			}
			whole(now, moved)
			paths = moved
		}
		if rep, err := m.sync(); err != nil || rep.Partial != nil || rep.Same != 12 {
			rt.Fatalf("sync of the whole: got %+v, %v", rep, err)
		}
		whole(now+1, paths[:7])
		if rep, err := m.sync(); err != nil || rep.Deleted != 5 {
			rt.Fatalf("sync of the whole, smaller: got %+v, %v, want 5 deleted", rep, err)
		}
	})
}

// An index that tells the moment of each of its parts is as of the oldest of them (1.1
// §10.2): POD makes its index anew for each answer and the parts when something changes.
// Absence counts from then on, and changes are read from then on.
func TestCat_NAV_07_own_moments(t *testing.T) {
	s := newSource(t)
	s.offer("/index.xml", "")
	p := s.fill(12)
	index := func(n, first, second int) {
		h := head(resourcesync.CapabilityResourceList, func(h *resourcesync.Header) { h.Root, h.At = resourcesync.SitemapIndex, at(n) })
		parts := []resourcesync.Entry{{Loc: s.uri("/1.xml")}, {Loc: s.uri("/2.xml")}}
		parts[0].At, parts[1].At = at(first), at(second)
		s.doc("/index.xml", h, parts...)
	}
	index(10, 2, 5)
	s.listOf("/1.xml", 2, s.entries(p[:6]...)...)
	s.listOf("/2.xml", 5, s.entries(p[6:]...)...)
	m := newMirror(t, s)
	anyNumberOfDeletions(t, m)
	m.mustSync(destination.Baseline, 0, 12, 0, 0)

	index(20, 2, 15)
	s.listOf("/2.xml", 15, s.entries(p[7:]...)...)
	m.mustSync(destination.Baseline, 12, 0, 0, 0) // it may have gone to the first part, which is older
	index(30, 25, 26)
	s.listOf("/1.xml", 25, s.entries(p[:6]...)...)
	s.listOf("/2.xml", 26, s.entries(p[7:]...)...)
	m.mustSync(destination.Baseline, 11, 0, 0, 1)
	m.wantFiles(append(slices.Clone(p[:6]), p[7:]...)...)

	// A part of another moment than is told of it may be a copy from before: what it names
	// comes, nothing is taken away, and the set is not in step.
	index(40, 35, 36)
	s.listOf("/1.xml", 35, s.entries(p[1:6]...)...)
	rep, err := m.sync()
	if err != nil || rep.Partial == nil || rep.Deleted > 0 || rep.Same != 10 {
		t.Errorf("a part that is older than told: got %+v, %v; want it partial and nothing deleted", rep, err)
	}
	m.wantFiles(append(slices.Clone(p[:6]), p[7:]...)...)
}

// What a part names counts as of its own moment: a change that came between it and that of
// the index is applied, and one that is not told of is a gap.
func TestCat_NAV_07_own_moments_changes(t *testing.T) {
	for from, gap := range map[int]bool{2: false, 4: true} {
		s := newSource(t)
		s.offer("/index.xml", "/changes.xml")
		p := s.fill(6)
		parts := []resourcesync.Entry{{Loc: s.uri("/1.xml")}, {Loc: s.uri("/2.xml")}}
		parts[0].At, parts[1].At = at(2), at(9)
		s.doc("/index.xml", head(resourcesync.CapabilityResourceList, func(h *resourcesync.Header) { h.Root, h.At = resourcesync.SitemapIndex, at(10) }), parts...)
		s.listOf("/1.xml", 2, s.entries(p[:3]...)...)
		s.listOf("/2.xml", 9, s.entries(p[3:]...)...)
		s.changes(from, s.change(6, resourcesync.Deleted, p[0]))
		m := newMirror(t, s)
		rep, err := m.sync()
		if err != nil || (rep.Gap != "") != gap {
			t.Errorf("changes from %d on: got gap %q, %v; want one: %v", from, rep.Gap, err, gap)
		}
		m.wantFiles(p[1:]...)
	}
}

// Three sets share resources: what one deletes, or deletes though it never had it,
// stays here as long as another has it.
func TestCat_DEL_05(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newSource(t)
		sets := []string{"/a", "/b", "/c"}
		var caps []resourcesync.Entry
		for _, set := range sets {
			caps = append(caps, resourcesync.Entry{Loc: s.uri(set + "/caps.xml"), Metadata: resourcesync.Metadata{Capability: resourcesync.CapabilityCapabilityList}})
			h := head(resourcesync.CapabilityCapabilityList, nil)
			h.Links = []resourcesync.Link{{Rel: "up", Href: s.uri("/.well-known/resourcesync")}}
			s.doc(set+"/caps.xml", h,
				resourcesync.Entry{Loc: s.uri(set + "/list.xml"), Metadata: resourcesync.Metadata{Capability: resourcesync.CapabilityResourceList}},
				resourcesync.Entry{Loc: s.uri(set + "/changes.xml"), Metadata: resourcesync.Metadata{Capability: resourcesync.CapabilityChangeList}})
		}
		s.doc("/.well-known/resourcesync", head(resourcesync.CapabilityDescription, nil), caps...)
		paths := s.fill(5)
		has := map[string]map[string]bool{}
		changes := map[string][]resourcesync.Entry{}
		publish := func(set string) {
			s.doc(set+"/changes.xml", head(resourcesync.CapabilityChangeList, func(h *resourcesync.Header) { h.From = at(0) }), changes[set]...)
		}
		for _, set := range sets {
			has[set] = map[string]bool{}
			var listed []resourcesync.Entry
			for _, p := range paths {
				if rapid.Bool().Draw(rt, "listed") {
					has[set][p] = true
					listed = append(listed, s.entry(p))
				}
			}
			s.listOf(set+"/list.xml", 0, listed...)
			publish(set)
		}
		m := newMirror(t, s)
		anyNumberOfDeletions(t, m)
		sync := func() {
			for range 2 { // what one set gives up while another takes it may have to be fetched
				if _, err := m.syncSets(); err != nil {
					rt.Fatalf("sync: %v", err)
				}
			}
			var want []string
			for _, p := range paths {
				if slices.ContainsFunc(sets, func(set string) bool { return has[set][p] }) {
					want = append(want, p)
				}
			}
			got := m.files()
			if len(got) != len(want) || slices.ContainsFunc(want, func(p string) bool { return got[p] != string(s.served(p)) }) {
				rt.Fatalf("files: got %v, want %v", got, want)
			}
		}
		sync()
		for i := range rapid.IntRange(1, 8).Draw(rt, "changes") {
			set, p := rapid.SampledFrom(sets).Draw(rt, "set"), rapid.SampledFrom(paths).Draw(rt, "resource")
			change := resourcesync.Deleted // also of what the set does not have
			if rapid.Bool().Draw(rt, "created") {
				change = resourcesync.Created
			}
			has[set][p] = change != resourcesync.Deleted
			changes[set] = append(changes[set], s.change(1+i, change, p))
			publish(set)
			if rapid.Bool().Draw(rt, "sync") {
				sync()
			}
		}
		sync()
	})
}

// A dump older than what is here replaces nothing and takes nothing away, whatever it
// is that asks for it; of several bitstreams of a resource the last counts.
func TestCat_DMP_05_preferred(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newHistory(t)
		s.setClock(0)
		s.offers("resourcedump", "/dump.xml", "changelist", "/changes.xml", "changedump", "/changedump.xml")
		twice := s.entry("/r/0") // an older state of it, of which the package still has the bytes
		s.dump(0, aPackage{path: "/d/1", entries: append([]resourcesync.Entry{twice}, s.aSource.entries(s.paths()...)...)})
		s.publish()
		s.changeDump(0)
		m := newMirror(t, s.aSource)
		anyNumberOfDeletions(t, m)
		unbounded := m.set
		m.set = func(d *destination.Destination) {
			unbounded(d)
			d.Prefer = rapid.SampledFrom([]destination.Prefer{"", destination.PreferDump, destination.PreferList}).Draw(rt, "prefer")
			d.BaselineEvery = 24 * time.Hour
		}
		now := 0
		var packages []resourcesync.Entry
		for i := range rapid.IntRange(1, 5).Draw(rt, "runs") {
			begin, packed := now, len(s.entries)
			for range rapid.IntRange(0, 4).Draw(rt, "changes") {
				now++
				s.change(now, rapid.IntRange(0, 7).Draw(rt, "which"), rapid.Bool().Draw(rt, "delete"))
			}
			now++
			s.publish()
			packages = append(packages, s.changePackage(aPackage{path: fmt.Sprintf("/c/%d", i), from: begin, until: now, entries: s.last(packed)}))
			s.changeDumpOf(0, packages...)
			s.setClock(i * rapid.SampledFrom([]int{0, 2 * day}).Draw(rt, "clock"))
			if rapid.Bool().Draw(rt, "sync") {
				s.converges(rt, m, 1)
			}
		}
		s.converges(rt, m, 1)
	})
}

// last are the changes from the nth on, without those of which the bytes are gone.
func (s *aHistory) last(n int) []resourcesync.Entry {
	return slices.DeleteFunc(slices.Clone(s.entries[n:]), func(e resourcesync.Entry) bool {
		now := s.entry(strings.TrimPrefix(e.Loc, s.srv.URL))
		return e.Change != resourcesync.Deleted && !slices.Equal(e.Digests, now.Digests)
	})
}

// However long a mirror was away, archives that keep every Change List spare it the
// next baseline.
func TestArchivesSpareABaselineAfterAnyAbsence(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newRotating(t, 6)
		m := newMirror(t, s.aSource)
		anyNumberOfDeletions(t, m)
		m.mustSync(destination.Baseline, 0, 6, 0, 0)
		var archived []resourcesync.Entry
		for range rapid.IntRange(2, 12).Draw(rt, "steps") {
			switch rapid.IntRange(0, 5).Draw(rt, "step") {
			case 0, 1, 2:
				c := rapid.SampledFrom([]resourcesync.Change{resourcesync.Created, resourcesync.Updated, resourcesync.Deleted}).Draw(rt, "change")
				s.change(c, rapid.IntRange(0, 100).Draw(rt, "which"))
			case 3:
				s.rotate()
			case 4: // all closed lists leave the index for the archive, but for some that are in both
				s.publish()
				keep := rapid.IntRange(0, 1).Draw(rt, "in both")
				n := len(archived)
				for _, l := range s.lists[:len(s.lists)-1] {
					if n == 0 || archived[n-1].From.Time().Before(at(l.from).Time()) {
						archived = append(archived, resourcesync.Entry{Loc: s.uri(l.path()), Metadata: resourcesync.Metadata{From: at(l.from), Until: at(l.until)}})
					}
				}
				s.lists = s.lists[max(0, len(s.lists)-1-keep):]
			case 5:
				s.publishWithArchive(archived)
				rep, err := m.sync()
				if err != nil || rep.Mode != destination.Incremental || rep.Failed > 0 {
					rt.Fatalf("sync: got %+v, %v, want an increment", rep, err)
				}
			}
		}
		s.publishWithArchive(archived)
		rep, err := m.sync()
		if err != nil || rep.Mode != destination.Incremental {
			rt.Fatalf("sync: got %+v, %v, want an increment", rep, err)
		}
		got := m.files()
		if len(got) != len(s.paths) || slices.ContainsFunc(s.paths, func(p string) bool { return got[p] != string(s.served(p)) }) {
			rt.Errorf("files: got %v, want those of %v", got, s.paths)
		}
	})
}

func (s *rotating) publishWithArchive(archived []resourcesync.Entry) {
	s.publish()
	s.doc("/archive.xml", head("changelist-archive", nil), archived...)
	current := "/changes/index.xml"
	if len(s.lists) == 1 {
		current = s.lists[0].path()
	}
	s.offers("resourcelist", "/list.xml", "changelist", current, "changelist-archive", "/archive.xml")
}
