package destination_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"testing"

	"instep/destination"
	"instep/internal/mirror"
	"instep/resourcesync"
)

// anAhead is a Mirror whose plans are applied.
func anAhead(t *testing.T, s *aSource) *aMirror {
	m := newMirror(t, s)
	m.set = func(d *destination.Destination) { d.Ahead = true }
	return m
}

// planned is the plan of the only set, while do looks at it.
func (m *aMirror) planned(do func(*destination.SetPlan)) {
	m.t.Helper()
	err := m.with(func(ctx context.Context, d *destination.Destination, _ *mirror.Mirror) error {
		plan, err := d.Plan(ctx)
		if err != nil {
			return err
		}
		defer plan.Close()
		do(plan.Sets[0])
		return nil
	})
	if err != nil {
		m.t.Fatal(err)
	}
}

// The first package is asked for once as a whole, and once for its end, whether the server
// gives that or not.
func TestPackageComesWhileThePlanIsMade(t *testing.T) {
	for _, tt := range []struct {
		name  string
		parts bool
	}{{"by parts", true}, {"whole", false}} {
		t.Run(tt.name, func(t *testing.T) {
			s, paths := dumped(t, 40)
			if tt.parts {
				s.ranges("/d/1.zip", `"1"`)
			}
			m := anAhead(t, s)
			rep := m.mustSync(destination.Baseline, 0, 40, 0, 0)
			wantWays(t, rep, "dump=40")
			m.wantFiles(paths...)
			for path, want := range map[string]int{"/d/1.zip": 2, "/d/1.xml": 1, "/d/2.zip": 1, "/d/2.xml": 1} {
				if got := s.asked(path); got != want {
					t.Errorf("requests for %s: got %d, want %d", path, got, want)
				}
			}
			s.put(paths[1], []byte("changed"))
			s.changes(0, s.change(2, resourcesync.Updated, paths[1]))
			m.mustSync(destination.Incremental, 0, 0, 1, 0)
		})
	}
}

// Packages of one set wait for their turn on the disk, not those of all sets.
func TestPackageOfTheFirstSetAloneComesAhead(t *testing.T) {
	s := newSource(t)
	s.offerSets()
	paths := s.fill(40)
	for i, set := range []string{"/a", "/b"} {
		s.dump(0, aPackage{path: set + "/1", entries: s.entries(paths[i*20 : i*20+20]...)})
		s.put(set+"/dump.xml", s.served("/dump.xml"))
		h := head(resourcesync.CapabilityCapabilityList, nil)
		h.Links = []resourcesync.Link{{Rel: "up", Href: s.uri("/.well-known/resourcesync")}}
		s.doc(set+"/caps.xml", h, resourcesync.Entry{
			Loc: s.uri(set + "/dump.xml"), Metadata: resourcesync.Metadata{Capability: resourcesync.CapabilityResourceDump},
		})
	}
	m := anAhead(t, s)
	m.planned(func(*destination.SetPlan) {
		if a, b := s.asked("/a/1.zip"), s.asked("/b/1.zip"); a != 2 || b != 0 {
			t.Errorf("requests for the first packages of two sets: got %d and %d, want 2 and 0", a, b)
		}
	})
	m.mustSyncSets()
	m.wantFiles(paths...)
}

// What a plan says does not depend on whether it will be applied.
func TestPlanIsTheSameWithoutPackageAhead(t *testing.T) {
	s, _ := dumped(t, 40)
	type sum struct {
		bytes, requests, created int64
		packages                 int
		reasons                  string
	}
	of := func(m *aMirror) (got sum) {
		m.planned(func(p *destination.SetPlan) {
			got = sum{p.Bytes, p.Requests, p.Created, len(p.Packages), p.Reasons[len(p.Reasons)-1]}
		})
		return got
	}
	if got, want := of(anAhead(t, s)), of(newMirror(t, s)); got != want {
		t.Errorf("plan: got %+v with a package ahead, %+v without", got, want)
	}
	if n := s.asked("/d/1.zip"); n != 2 {
		t.Errorf("requests for the first package by one plan of two: got %d, want 2", n)
	}
}

func TestPackageAheadThatCannotBeUsed(t *testing.T) {
	for _, tt := range []struct {
		name         string
		spoil        func(s *aSource)
		whole, parts string // the ways, from a server that gives no parts and from one that does
		note         string
	}{
		{"missing", func(s *aSource) { s.answer("/d/1.zip", http.NotFound) }, "get=20 dump=20", "get=20 dump=20", "404"},
		{"another", func(s *aSource) { s.put("/d/1.zip", s.served("/d/2.zip")) }, "get=20 dump=20", "get=20 dump=20", "as the package cannot be had"},
		{
			"a member is damaged", func(s *aSource) {
				b := s.served("/d/1.zip")
				b[bytes.Index(b, s.served("/r/3"))] ^= 1
				s.put("/d/1.zip", b)
			},
			"get=20 dump=20", "get=1 dump=39", "requested one by one",
		},
		{
			"out of reach", func(s *aSource) {
				s.answer("/d/1.zip", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
			},
			"get=20 dump=20", "get=20 dump=20", "403",
		},
		{"its copied manifest is gone", func(s *aSource) { s.remove("/d/1.xml") }, "dump=40", "dump=40", "the copy of its manifest is not used"},
		{
			"its copied manifest is another", func(s *aSource) { s.put("/d/1.xml", append(s.served("/d/1.xml"), ' ')) },
			"dump=40", "dump=40", "the copy of its manifest is not used",
		},
	} {
		for _, byParts := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, by parts %v", tt.name, byParts), func(t *testing.T) {
				s, paths := dumped(t, 40)
				if byParts {
					s.ranges("/d/1.zip", `"1"`)
				}
				tt.spoil(s)
				m := anAhead(t, s)
				rep := m.mustSync(destination.Baseline, 0, 40, 0, 0)
				want := tt.whole
				if byParts {
					want = tt.parts
				}
				wantWays(t, rep, want)
				m.wantNote(tt.note)
				m.wantFiles(paths...)
			})
		}
	}
}

func TestNothingIsTransferredAhead(t *testing.T) {
	for name, c := range map[string]struct {
		held bool
		set  func(*destination.Destination)
	}{
		"for a dry run":                    {false, func(d *destination.Destination) { d.Ahead = false }},
		"where some of it may be left out": {false, func(d *destination.Destination) { d.Include = []string{"**/*1"} }},
		"where something is held":          {true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := dumped(t, 40)
			m := anAhead(t, s)
			want := 0
			if c.held {
				m.mustSync(destination.Baseline, 0, 40, 0, 0)
				s.changes(5)
				want = 2
			}
			m.set = func(d *destination.Destination) {
				d.Ahead = true
				if c.set != nil {
					c.set(d)
				}
			}
			m.planned(func(*destination.SetPlan) {})
			if n := s.asked("/d/1.zip"); n != want {
				t.Errorf("requests for the first package: got %d, want %d", n, want)
			}
		})
	}
}
