package destination

import (
	"errors"
	"testing"

	"instep/harvest"
	"instep/internal/packages"
)

func TestMode(t *testing.T) {
	since := harvest.Outcome{Reaches: true, Why: "changes since then"}
	gap := harvest.Outcome{Why: "gap: something is missing"}
	none := [harvest.Tracks]harvest.Outcome{}
	all := [harvest.Tracks]bool{true, true, true, true}
	for _, tt := range []struct {
		name   string
		inputs planInputs
		tried  [harvest.Tracks]harvest.Outcome // what came of the tracks that were looked at
		next   harvest.Track                   // to be followed before anything is decided; -1: none
		want   string
	}{
		{"never synchronised", planInputs{known: known{whole: true}, Offered: &harvest.Offered{Tells: all}}, none, -1, "baseline, no earlier synchronisation"},
		{"pages of several moments", planInputs{members: 3, known: known{whole: true}, Offered: &harvest.Offered{Tells: all}}, none, -1, "baseline, earlier runs recorded no position to continue from"},
		{"more is asked for than before", planInputs{known: known{followed: true}, Offered: &harvest.Offered{Tells: all}}, none, -1, "baseline, the filters or limits are different from last time"},
		{"a run was undone", planInputs{known: known{Cursor: Cursor{Scope: ScopeRestored}, followed: true}, Offered: &harvest.Offered{Tells: all}}, none, -1, "baseline, earlier states were restored in the mirror, so everything is compared"},
		{"nobody looked yet", planInputs{known: known{followed: true, whole: true}, Offered: &harvest.Offered{Tells: all}}, none, harvest.ChangeLists, ""},
		{"dumps are preferred", planInputs{known: known{followed: true, whole: true}, Offered: &harvest.Offered{Tells: all}, prefer: PreferDump}, none, harvest.ChangeDumps, ""},
		{"the Change List reaches back", planInputs{known: known{followed: true, whole: true}, Offered: &harvest.Offered{Tells: all}}, [harvest.Tracks]harvest.Outcome{harvest.ChangeLists: since}, -1, "incremental, changes since then"},
		{"it has a gap, and there is an archive", planInputs{known: known{followed: true, whole: true}, Offered: &harvest.Offered{Tells: all}}, [harvest.Tracks]harvest.Outcome{harvest.ChangeLists: gap}, harvest.ChangeListArchive, ""},
		{"it has a gap, and there are dumps alone", planInputs{known: known{followed: true, whole: true}, Offered: &harvest.Offered{Tells: [harvest.Tracks]bool{harvest.ChangeLists: true, harvest.ChangeDumps: true}}}, [harvest.Tracks]harvest.Outcome{harvest.ChangeLists: gap}, harvest.ChangeDumps, ""},
		{"the archive reaches back", planInputs{known: known{followed: true, whole: true}, Offered: &harvest.Offered{Tells: all}}, [harvest.Tracks]harvest.Outcome{harvest.ChangeLists: gap, harvest.ChangeListArchive: since}, -1, "incremental, changes since then"},
		{"only the archive of dumps reaches back", planInputs{known: known{followed: true, whole: true}, Offered: &harvest.Offered{Tells: all}}, [harvest.Tracks]harvest.Outcome{gap, gap, gap, since}, -1, "incremental, changes since then"},
		{"nothing reaches back", planInputs{known: known{followed: true, whole: true}, Offered: &harvest.Offered{Tells: all}}, [harvest.Tracks]harvest.Outcome{gap, gap, gap, gap}, -1, "baseline, gap: something is missing"},
		{"no changes are told", planInputs{Offered: &harvest.Offered{}, known: known{followed: true, whole: true}}, none, -1, "baseline, the Source offers no Change List"},
		{"it is time for a baseline", planInputs{known: known{followed: true, whole: true}, Offered: &harvest.Offered{Tells: all}, overdue: "31 days"}, [harvest.Tracks]harvest.Outcome{harvest.ChangeLists: since}, -1, "baseline, 31 days"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			next := harvest.Track(-1)
			mode, _, why, err := tt.inputs.mode(func(tr harvest.Track) (harvest.Outcome, error) {
				if tt.tried[tr].Why == "" {
					next = tr
					return harvest.Outcome{}, errors.New("not looked at yet")
				}
				return tt.tried[tr], nil
			})
			if next != tt.next || (err != nil) != (next >= 0) {
				t.Errorf("next track: got %d, %v, want %d", next, err, tt.next)
			}
			if tt.want == "" {
				return
			}
			if got := string(mode) + ", " + why; got != tt.want {
				t.Errorf("mode: got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestTruth(t *testing.T) {
	both := [harvest.SnapshotKinds]bool{harvest.ResourceList: true, harvest.ResourceDump: true}
	all := [harvest.SnapshotKinds]bool{true, true, true, true}
	for _, tt := range []struct {
		name   string
		inputs planInputs
		want   string
	}{
		{"nothing is offered", planInputs{Offered: &harvest.Offered{}}, ""},
		{"a list alone", planInputs{Offered: &harvest.Offered{Shows: [harvest.SnapshotKinds]bool{harvest.ResourceList: true}}}, "the Resource List: it shows which resources are missing"},
		{"a dump alone", planInputs{members: 5, Offered: &harvest.Offered{Shows: [harvest.SnapshotKinds]bool{harvest.ResourceDump: true}}}, "the Resource Dump: no Resource List is offered"},
		{"both, and nothing is here", planInputs{Offered: &harvest.Offered{Shows: both}}, "the Resource Dump: the mirror has nothing of the set yet"},
		{"both, and much is here", planInputs{Offered: &harvest.Offered{Shows: both}, members: 5}, "the Resource List: it shows which resources are missing"},
		{"the list is asked for", planInputs{Offered: &harvest.Offered{Shows: both}, prefer: PreferList}, "the Resource List: the user prefers it"},
		{"the dump is asked for", planInputs{Offered: &harvest.Offered{Shows: both}, members: 5, prefer: PreferDump}, "the Resource Dump: the user prefers it"},
		{"the dump is asked for and not offered", planInputs{Offered: &harvest.Offered{Shows: [harvest.SnapshotKinds]bool{harvest.ResourceList: true}}, prefer: PreferDump}, "the Resource List: no Resource Dump is offered"},
		{"the dump is of no use", planInputs{Offered: &harvest.Offered{Shows: both, Lost: [harvest.SnapshotKinds]bool{harvest.ResourceDump: true}}}, "the Resource List: the Resource Dump cannot be used"},
		{"the list is of no use", planInputs{members: 5, Offered: &harvest.Offered{Shows: both, Lost: [harvest.SnapshotKinds]bool{harvest.ResourceList: true}}}, "the Resource Dump: the Resource List cannot be used"},
		{"both are of no use", planInputs{Offered: &harvest.Offered{Shows: both, Lost: both}}, ""},
		{"both are of no use, and there are archives", planInputs{Offered: &harvest.Offered{Shows: all, Lost: both}}, "the newest archived Resource List: the present list and dump cannot be used"},
		{"only an archive of dumps", planInputs{Offered: &harvest.Offered{Shows: [harvest.SnapshotKinds]bool{harvest.ResourceDumpArchive: true}}}, "the newest archived Resource Dump: the present list and dump cannot be used"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, why, ok := tt.inputs.baselineSource()
			got := ""
			if ok {
				got = s.String() + ": " + why
			}
			if got != tt.want {
				t.Errorf("truth: got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestCarriage(t *testing.T) {
	const mib = 1 << 20
	for _, tt := range []struct {
		name     string
		bulk     bulk
		via      Via
		bytes    int64
		requests int64
	}{
		{"all of a package", bulk{length: 10 * mib, wanted: 1000, gets: 12 * mib, runs: 1, span: 10 * mib, names: 1, opening: 2}, ViaDump, 10 * mib, 1},
		{"one small member of a large package", bulk{length: 1000 * mib, wanted: 1, gets: mib, runs: 1, span: mib, names: 65536, opening: 2}, ViaGet, mib, 1},
		{"a run in a large package", bulk{length: 1000 * mib, wanted: 500, gets: 2 * mib, runs: 1, span: 2 * mib, names: 65536, opening: 2}, ViaRange, 2*mib + 65536, 3},
		{"members all over a large package", bulk{length: 1000 * mib, wanted: 500, gets: 2 * mib, runs: 500, span: 2 * mib, names: 65536, opening: 2}, ViaGet, 2 * mib, 500},
		{"lengths that nobody tells", bulk{length: 1000 * mib, wanted: 500, gets: 2 * mib, runs: 1, span: -1}, ViaGet, 2 * mib, 500},
		{"a package that is here", bulk{length: 1000 * mib, here: true, wanted: 1, gets: 1, runs: 1, span: 1}, ViaDump, 0, 0},
		{"one member of a small package", bulk{length: 500, wanted: 1, gets: 500, runs: 1, span: 500, names: 65536, opening: 2}, ViaGet, 500, 1},
		{"the same where packages are asked for", bulk{length: 500, wanted: 1, gets: 500, runs: 1, span: 500, names: 65536, opening: 2, prefer: PreferDump}, ViaDump, 500, 1},
		{"a package that was opened to see what is in it", bulk{length: 1000 * mib, wanted: 3, gets: 3000, runs: 1, span: 3000}, ViaRange, 3000, 1},
		{"nearly all of a package", bulk{length: 10 * mib, wanted: 990, gets: 10 * mib, runs: 1, span: 9 * mib, names: 65536, opening: 2}, ViaDump, 10 * mib, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			via, bytes, requests, why := tt.bulk.cheapestWay()
			if via != tt.via || bytes != tt.bytes || requests != tt.requests {
				t.Errorf("carriage: got %s, %d bytes, %d requests (%s)\nwant %s, %d, %d", via, bytes, requests, why, tt.via, tt.bytes, tt.requests)
			}
		})
	}
}

func TestWhatSavesNothingIsNotLookedFor(t *testing.T) {
	f := planInputs{Offered: &harvest.Offered{Shows: [harvest.SnapshotKinds]bool{harvest.ResourceList: true, harvest.ResourceDump: true}, Tells: [harvest.Tracks]bool{harvest.ChangeLists: true, harvest.ChangeDumps: true}}}
	few, many := packages.Cost(100, worthLooking-1), packages.Cost(100, worthLooking+1)
	for name, got := range map[string]bool{
		"a dump for a few requests":              f.worthComparing(few),
		"Change Dumps for a few requests":        f.worthChangeDumps(harvest.ChangeLists, few),
		"Change Dumps where they tell the truth": f.worthChangeDumps(harvest.ChangeDumps, many),
	} {
		if got {
			t.Errorf("%s: looked for", name)
		}
	}
	if !f.worthComparing(many) || !f.worthChangeDumps(harvest.ChangeLists, many) || !f.worthChangeDumps(harvest.ChangeListArchive, many) {
		t.Error("nothing is looked for where many requests can be saved")
	}
	f.prefer = PreferList
	if f.worthComparing(many) || f.worthChangeDumps(harvest.ChangeLists, many) {
		t.Error("packages are looked for where lists were asked for")
	}
}
