package destination_test

import (
	"maps"
	"net/http"
	"testing"
	"time"

	"instep/destination"
	"instep/resourcesync"
)

// picture keeps what a Source serves. What it returns serves that again as a cache does
// which was asked at that moment: each document with the Date that it had.
func (s *aSource) picture(when time.Time) (again func()) {
	old := maps.Clone(s.bodies)
	return func() {
		for path, body := range old {
			s.put(path, body)
			s.answer(path, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Date", when.UTC().Format(http.TimeFormat))
				_, _ = w.Write(body)
			})
		}
	}
}

// A cache that answers with what it has kept for weeks, each document with its old Date,
// takes nothing back: what was told since is not still to come.
func TestCat_NAV_06_stale_cache(t *testing.T) {
	const later = 50 * 24 * 60
	for name, publish := range map[string]func(*aSource, []string){
		"changes": func(s *aSource, paths []string) {
			s.changes(0, s.change(later, resourcesync.Updated, paths[0]), s.change(later, resourcesync.Created, "/r/new"))
		},
		"lists": func(s *aSource, paths []string) { s.list(later, append(paths, "/r/new")...) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource(t)
			paths := s.fill(10)
			s.list(0, paths...)
			s.changes(0)
			if name == "lists" {
				s.offer("/list.xml", "")
			}
			again := s.picture(t0.Add(10 * time.Minute))
			m := newMirror(t, s)
			m.mustSync(destination.Baseline, 0, 10, 0, 0)
			s.put(paths[0], []byte("what came later"))
			s.put("/r/new", []byte("new"))
			publish(s, paths)
			if rep, err := m.sync(); err != nil || rep.Created != 1 || rep.Updated != 1 {
				t.Fatalf("got %+v, %v", rep, err)
			}
			held := m.files()
			again()
			if rep, err := m.sync(); err != nil || rep.Updated+rep.Deleted+rep.Failed != 0 {
				t.Errorf("got %+v, %v; want nothing done", rep, err)
			}
			if got := m.files(); !maps.Equal(got, held) {
				t.Errorf("the mirror went back:\n got %v\nwant %v", got, held)
			}
		})
	}
}

// A Resource List that was once dated in years to come stops nothing when the clock of the
// Source is right again.
func TestCat_NAV_06_wrong_clock(t *testing.T) {
	s, paths, m := inStep(t, 10)
	const years = 20 * 365 * 24 * 60
	s.list(years, paths...)
	s.changes(years)
	m.mustSync(destination.Baseline, 10, 0, 0, 0)
	for i := 1; i < 4; i++ {
		s.put(paths[i], []byte("after that"))
		s.list(i, paths...)
		s.changes(i)
		if rep := m.mustSync(destination.Baseline, 9, 0, 1, 0); rep.RolledBack != "" {
			t.Errorf("rolled back: got %q", rep.RolledBack)
		}
	}
	m.wantFiles(paths...)
}

// A server whose clock was wrong once does not put the next baseline off for years.
func TestBaselineDatedInYearsToComeIsMadeAgain(t *testing.T) {
	s := newSource(t)
	paths := s.fill(3)
	s.list(0, paths...)
	s.changes(0)
	s.picture(t0.AddDate(50, 0, 0))()
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 3, 0, 0)
	clear(s.answers)
	m.mustSync(destination.Baseline, 3, 0, 0, 0)
	m.mustSync(destination.Incremental, 0, 0, 0, 0)
}
