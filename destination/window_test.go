package destination_test

import (
	"fmt"
	"slices"
	"testing"

	"instep/destination"
	"instep/resourcesync"
)

// when is a W3C Datetime of 1 March 2026 ("12:30", or "12:30:05"), or is written out.
func when(t testing.TB, s string) resourcesync.Datetime {
	t.Helper()
	switch {
	case s == "":
		return resourcesync.Datetime{}
	case len(s) == 5:
		s = "2026-03-01T" + s + ":00Z"
	case len(s) == 8:
		s = "2026-03-01T" + s + "Z"
	}
	d, err := resourcesync.ParseDatetime(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// aPeriod is a Change List with its period, or a package of a Change Dump. An index has the period
// from..until, or told if that is set.
type aPeriod struct {
	from, until string
	changes     []string   // like "12:30 updated 2"
	told        *[2]string // the period in the index
	path        string
}

func (s *aSource) periods(kind string, first bool, root [2]string, all ...aPeriod) {
	dump := kind == "packages"
	offers := []string{"resourcelist", "/list.xml"}
	s.t.Helper()
	var named []resourcesync.Entry
	for i, p := range all {
		path := fmt.Sprintf("/c/%d", i)
		if p.path != "" {
			path = p.path
		}
		if dump && first && p.until != "" {
			path += "-first"
		}
		offers = append(offers, "changelist", path+".xml")
		var some []resourcesync.Entry
		for _, c := range p.changes {
			var w, change string
			var n int
			if _, err := fmt.Sscanf(c, "%s %s %d", &w, &change, &n); err != nil {
				s.t.Fatal(c, err)
			}
			e := s.change(0, resourcesync.Change(change), fmt.Sprintf("/r/%d", n))
			e.Datetime = when(s.t, w)
			some = append(some, e)
		}
		period := func(h *resourcesync.Header) { h.From, h.Until = when(s.t, p.from), when(s.t, p.until) }
		e := resourcesync.Entry{Loc: s.uri(path + ".xml")}
		if dump {
			e = s.pack(aPackage{path: path, entries: some}, head(resourcesync.CapabilityChangeDumpManifest, period))
		} else {
			s.doc(path+".xml", head(resourcesync.CapabilityChangeList, period), some...)
		}
		e.From, e.Until = when(s.t, p.from), when(s.t, p.until)
		if p.told != nil {
			e.From, e.Until = when(s.t, p.told[0]), when(s.t, p.told[1])
		}
		named = append(named, e)
	}
	switch kind {
	case "offered":
		s.offers(offers...)
	case "packages":
		s.offers(append(offers[:2], "changedump", "/c.xml")...)
	default:
		s.offers(append(offers[:2], "changelist", "/c.xml")...)
	}
	if dump {
		s.doc("/c.xml", head(resourcesync.CapabilityChangeDump, func(h *resourcesync.Header) { h.From, h.Until = when(s.t, root[0]), when(s.t, root[1]) }), named...)
		return
	}
	s.doc("/c.xml", head(resourcesync.CapabilityChangeList, func(h *resourcesync.Header) {
		h.Root, h.From, h.Until = resourcesync.SitemapIndex, when(s.t, root[0]), when(s.t, root[1])
	}), named...)
}

// Changes are applied whatever the periods of the lists are, and are not lost at their ends.
func TestPeriods(t *testing.T) {
	type P = aPeriod
	for name, tt := range map[string]struct {
		list          string // moment of the Resource List
		root          [2]string
		before, after []aPeriod
		gap           bool // the documents contradict each other, so the run may end with a gap
	}{
		"plain":             {before: []P{{from: "11:00"}}, after: []P{{from: "11:00", changes: []string{"13:00 updated 2", "14:00 deleted 3"}}}},
		"closed, then open": {before: []P{{from: "11:00"}}, after: []P{{from: "11:00", until: "13:30", changes: []string{"13:00 updated 2"}}, {from: "13:30", changes: []string{"14:00 deleted 3"}}}},
		"days, inclusive": {before: []P{{from: "2026-03-01"}}, after: []P{{from: "2026-03-01", until: "2026-03-01", changes: []string{"13:00 updated 2"}},
			{from: "2026-03-02", changes: []string{"2026-03-02T08:00:00Z deleted 3"}}}},
		"days, half open": {before: []P{{from: "2026-03-01"}}, after: []P{{from: "2026-03-01", until: "2026-03-02", changes: []string{"13:00 updated 2"}},
			{from: "2026-03-02", changes: []string{"2026-03-02T08:00:00Z deleted 3"}}}},
		"days, own list replaced": {before: []P{{from: "2026-03-01", path: "/c/x", changes: []string{"12:30 updated 9"}}}, after: []P{{from: "2026-03-01", until: "2026-03-01", changes: []string{"13:00 updated 2"}},
			{from: "2026-03-02", changes: []string{"2026-03-02T08:00:00Z deleted 3"}}}},
		"days, first run later": {list: "12:30", before: []P{{from: "2026-02-28"}}, after: []P{{from: "2026-02-28", until: "2026-03-01", changes: []string{"13:00 updated 2"}},
			{from: "2026-03-02", changes: []string{"2026-03-02T08:00:00Z deleted 3"}}}},
		"days, closed at once": {before: []P{{from: "2026-02-28", until: "2026-03-01"}}, after: []P{{from: "2026-02-28", until: "2026-03-01", changes: []string{"13:00 updated 2"}},
			{from: "2026-03-02", changes: []string{"2026-03-02T08:00:00Z deleted 3"}}}},
		"months": {before: []P{{from: "2026-03"}}, after: []P{{from: "2026-03", until: "2026-03", changes: []string{"13:00 updated 2"}},
			{from: "2026-04", changes: []string{"2026-04-02T08:00:00Z deleted 3"}}}},
		"minutes": {list: "12:30:10", before: []P{{from: "2026-03-01T11:00Z"}}, after: []P{{from: "2026-03-01T11:00Z", until: "2026-03-01T12:30Z", changes: []string{"12:30:30 updated 2"}},
			{from: "2026-03-01T12:31Z", changes: []string{"14:00 deleted 3"}}}},
		"days, also of changes": {before: []P{{from: "2026-03-01"}}, after: []P{{from: "2026-03-01", until: "2026-03-01", changes: []string{"2026-03-01 updated 2"}},
			{from: "2026-03-02", changes: []string{"2026-03-02 deleted 3"}}}},
		"zones": {before: []P{{from: "2026-03-01T13:00:00+02:00"}}, after: []P{{from: "2026-03-01T13:00:00+02:00", until: "2026-03-01T10:30:00-03:00", changes: []string{"2026-03-01T14:00:00+01:00 updated 2"}},
			{from: "13:30", changes: []string{"2026-03-01T09:00:00-05:00 deleted 3"}}}},
		"fractions": {before: []P{{from: "2026-03-01T11:00:00.5Z"}}, after: []P{{from: "2026-03-01T11:00:00.500Z", until: "2026-03-01T13:30:00.2Z", changes: []string{"2026-03-01T13:00:00.1Z updated 2"}},
			{from: "2026-03-01T13:30:00.20Z", changes: []string{"2026-03-01T13:30:00.2000001Z deleted 3"}}}},
		"fractions that are rounded": {before: []P{{from: "11:00"}}, after: []P{{from: "11:00", until: "13:30:00", changes: []string{"2026-03-01T13:29:59.9Z updated 2"}},
			{from: "2026-03-01T13:30:00.0Z", changes: []string{"2026-03-01T13:30:00.3Z deleted 3"}}}},
		"overlap": {before: []P{{from: "11:00", changes: []string{"12:30 updated 9"}}}, after: []P{{from: "11:00", until: "14:00", changes: []string{"12:30 updated 9", "13:45 updated 2"}},
			{from: "13:30", changes: []string{"14:30 deleted 3"}}}},
		"overlap, late one first in index": {before: []P{{from: "11:00", changes: []string{"12:30 updated 9"}}}, after: []P{
			{path: "/c/1", from: "13:30", changes: []string{"14:30 deleted 3"}}, {path: "/c/0", from: "11:00", until: "14:00", changes: []string{"12:30 updated 9", "13:45 updated 2"}}}},
		"contains": {before: []P{{from: "11:00", changes: []string{"12:30 updated 9"}}}, after: []P{{from: "11:00", until: "18:00", changes: []string{"12:30 updated 9", "15:00 updated 2"}},
			{from: "13:00", until: "14:00", changes: []string{"13:30 updated 8"}}, {from: "18:00", changes: []string{"19:00 deleted 3"}}}},
		"contains, next begins before its end": {before: []P{{from: "11:00", changes: []string{"12:30 updated 9"}}}, after: []P{{from: "11:00", until: "18:00", changes: []string{"12:30 updated 9", "15:00 updated 2"}},
			{from: "13:00", until: "14:00", changes: []string{"13:30 updated 8"}}, {from: "16:00", changes: []string{"19:00 deleted 3"}}}},
		"contains, of one start": {before: []P{{from: "11:00", changes: []string{"12:30 updated 9"}}}, after: []P{{from: "11:00", until: "18:00", changes: []string{"12:30 updated 9", "15:00 updated 2"}},
			{from: "11:00", until: "14:00", changes: []string{"13:30 updated 8"}}, {from: "18:00", changes: []string{"19:00 deleted 3"}}}},
		"contains, first run later": {list: "14:30", before: []P{{from: "11:00"}}, after: []P{{from: "11:00", until: "18:00", changes: []string{"12:30 updated 9", "15:00 updated 2"}},
			{from: "13:00", until: "14:00", changes: []string{"13:30 updated 8"}}, {from: "18:00", changes: []string{"19:00 deleted 3"}}}},
		"equal": {before: []P{{from: "11:00", changes: []string{"12:30 updated 9"}}}, after: []P{{from: "11:00", until: "14:00", changes: []string{"12:30 updated 9", "13:00 updated 2"}},
			{from: "11:00", until: "14:00", changes: []string{"13:30 deleted 3"}}, {from: "14:00"}}},
		"equal, open": {before: []P{{from: "11:00", changes: []string{"12:30 updated 9"}}, {from: "11:00"}}, after: []P{{from: "11:00", changes: []string{"12:30 updated 9", "13:00 updated 2"}},
			{from: "11:00", changes: []string{"12:50 deleted 3"}}}},
		"equal, open, second grew first": {before: []P{{from: "11:00", changes: []string{"12:30 updated 9"}}, {from: "11:00", changes: []string{"13:50 updated 8"}}}, after: []P{{from: "11:00", changes: []string{"12:30 updated 9", "13:00 updated 2", "13:10 deleted 3"}},
			{from: "11:00", changes: []string{"13:50 updated 8"}}}},
		"two open": {before: []P{{from: "11:00", changes: []string{"12:30 updated 9"}}, {from: "12:00", changes: []string{"13:50 updated 8"}}}, after: []P{{from: "11:00", changes: []string{"12:30 updated 9", "13:00 updated 2", "13:10 deleted 3"}},
			{from: "12:00", changes: []string{"13:50 updated 8"}}}},
		"two open, one closes": {before: []P{{from: "11:00", changes: []string{"12:30 updated 9"}}, {from: "12:00", changes: []string{"13:50 updated 8"}}}, after: []P{{from: "11:00", until: "13:20", changes: []string{"12:30 updated 9", "13:00 updated 2", "13:10 deleted 3"}},
			{from: "12:00", changes: []string{"13:50 updated 8"}}}},
		"two open, one closes early": {before: []P{{from: "11:00", changes: []string{"12:30 updated 9"}}, {from: "12:00", changes: []string{"13:50 updated 8"}}}, after: []P{{from: "11:00", until: "13:20", told: &[2]string{"11:00", "12:00"}, changes: []string{"12:30 updated 9", "13:00 updated 2", "13:10 deleted 3"}},
			{from: "12:00", changes: []string{"13:50 updated 8"}}}},
		"reverse": {before: []P{{from: "11:00", path: "/c/a"}}, after: []P{{from: "14:00", changes: []string{"14:30 deleted 3"}},
			{from: "13:00", until: "14:00", changes: []string{"13:30 updated 2"}}, {path: "/c/a", from: "11:00", until: "13:00"}}},
		"shuffled, open in the middle": {before: []P{{from: "11:00", path: "/c/a"}}, after: []P{{from: "13:00", until: "14:00", changes: []string{"13:30 updated 2"}}, {from: "14:00", changes: []string{"14:30 deleted 3"}},
			{path: "/c/a", from: "11:00", until: "13:00"}}},
		"shuffled, open at the end": {gap: true, before: []P{{from: "11:00", path: "/c/a"}}, after: []P{{from: "13:00", until: "14:00", changes: []string{"13:30 updated 2"}},
			{path: "/c/a", from: "11:00", until: "13:00"}, {from: "14:00", changes: []string{"14:30 deleted 3"}}}},
		"shuffled, all closed": {before: []P{{from: "11:00", path: "/c/a"}}, after: []P{{from: "14:00", until: "15:00", changes: []string{"14:30 deleted 3"}}, {from: "13:00", until: "14:00", changes: []string{"13:30 updated 2"}},
			{path: "/c/a", from: "11:00", until: "13:00"}}},
		"no times in index":                          {before: []P{{from: "11:00", told: &[2]string{}}}, after: []P{{from: "11:00", until: "13:30", changes: []string{"13:00 updated 2"}, told: &[2]string{}}, {from: "13:30", changes: []string{"14:00 deleted 3"}, told: &[2]string{}}}},
		"no until in index":                          {before: []P{{from: "11:00"}}, after: []P{{from: "11:00", until: "13:30", changes: []string{"13:00 updated 2"}, told: &[2]string{"11:00"}}, {from: "13:30", changes: []string{"14:00 deleted 3"}}}},
		"only until in index":                        {before: []P{{from: "11:00"}}, after: []P{{from: "11:00", changes: []string{"13:00 updated 2"}, told: &[2]string{"", "13:30"}}, {from: "13:30", changes: []string{"14:00 deleted 3"}, told: &[2]string{}}}},
		"index begins later than the list":           {before: []P{{from: "11:00", told: &[2]string{"11:30"}}}, after: []P{{from: "11:00", until: "13:30", changes: []string{"13:00 updated 2"}, told: &[2]string{"11:30", "13:30"}}, {from: "13:30", changes: []string{"14:00 deleted 3"}}}},
		"index begins later than the list's changes": {before: []P{{from: "11:00", told: &[2]string{"11:30"}}}, after: []P{{from: "11:00", until: "13:30", changes: []string{"13:00 updated 2"}, told: &[2]string{"13:10", "13:30"}}, {from: "13:30", changes: []string{"14:00 deleted 3"}}}},
		"index begins earlier than the list":         {gap: true, before: []P{{from: "12:10", told: &[2]string{"11:30"}}}, after: []P{{from: "12:10", until: "13:30", changes: []string{"13:00 updated 2"}, told: &[2]string{"11:30", "13:30"}}, {from: "13:30", changes: []string{"14:00 deleted 3"}}}},
		"index ends earlier than the list":           {before: []P{{from: "11:00", changes: []string{"12:30 updated 9"}}}, after: []P{{from: "11:00", until: "13:30", changes: []string{"12:30 updated 9", "13:00 updated 2"}, told: &[2]string{"11:00", "12:20"}}, {from: "12:20", changes: []string{"14:00 deleted 3"}}}},
		"root ends before its lists":                 {root: [2]string{"11:00", "12:00"}, before: []P{{from: "11:00"}}, after: []P{{from: "11:00", until: "13:30", changes: []string{"13:00 updated 2"}}, {from: "13:30", changes: []string{"14:00 deleted 3"}}}},
		"root begins after its lists":                {root: [2]string{"14:00", ""}, before: []P{{from: "11:00"}}, after: []P{{from: "11:00", until: "13:30", changes: []string{"13:00 updated 2"}}, {from: "13:30", changes: []string{"14:00 deleted 3"}}}},
		"at the cursor, in the first":                {list: "12:30", before: []P{{from: "11:00"}}, after: []P{{from: "11:00", until: "12:30", changes: []string{"12:30 updated 2"}}, {from: "12:30", changes: []string{"14:00 deleted 3"}}}},
		"at the cursor, in the second":               {list: "12:30", before: []P{{from: "11:00"}}, after: []P{{from: "11:00", until: "12:30"}, {from: "12:30", changes: []string{"12:30 updated 2", "14:00 deleted 3"}}}},
		"boundary twice":                             {before: []P{{from: "11:00"}}, after: []P{{from: "11:00", until: "13:30", changes: []string{"13:00 updated 2", "13:30 deleted 3"}}, {from: "13:30", changes: []string{"13:30 deleted 3"}}}},
	} {
		for _, k := range []string{"index", "offered", "packages"} {
			for _, late := range []bool{false, true} {
				if late && k == "offered" {
					continue
				}
				kind := k
				if late {
					kind += ", read once"
				}
				t.Run(name+"/"+kind, func(t *testing.T) {
					s := newSource(t)
					paths := s.fill(20)
					h := head(resourcesync.CapabilityResourceList, func(h *resourcesync.Header) {
						h.At = at(0)
						if tt.list != "" {
							h.At = when(t, tt.list)
						}
					})
					s.doc("/list.xml", h, s.entries(paths...)...)
					root := tt.root
					if root[0] == "" {
						root[0] = "2026-02-01"
					}
					s.periods(k, true, root, tt.before...)
					m := newMirror(t, s)
					m.now = when(t, "2026-05-01").Time()
					if !late {
						s.setClock(31)
						if rep, err := m.sync(); err != nil || rep.Created != 20 {
							t.Fatal(rep, err)
						}
					}
					s.setClock(60 * day)
					s.put(paths[2], []byte("changed"))
					s.remove(paths[3])
					s.periods(k, false, root, tt.after...)
					rep, err := m.sync()
					if why := lacks(rep, err); why != "" {
						if !tt.gap {
							t.Error(why)
						}
						return
					}
					m.wantFiles(slices.Delete(slices.Clone(paths), 3, 4)...)
					s.asked("/")
					if rep, n := m.mustSucceed(), s.asked("/"); rep.Mode != destination.Incremental || n > 8 {
						t.Errorf("an idle run: %s, %d requests", rep.Mode, n)
					}
				})
			}
		}
	}
}
