package destination_test

import (
	"fmt"
	"net/http"
	"testing"

	"instep/destination"
	"instep/resourcesync"
)

// A resource that changes between list and fetch is had in the same run if the Change List
// tells of it by then; one that changes each time is left after three rounds.
func TestCat_FET_11_within_the_run(t *testing.T) {
	for _, tt := range []struct {
		changes, brought, failed, rounds int // how often it changes just before it is asked for
	}{{1, 1, 0, 2}, {3, 1, 0, 4}, {100, 0, 1, 4}} {
		t.Run(fmt.Sprint(tt.changes), func(t *testing.T) {
			s, paths, m := inStep(t, 10)
			counted := int64(0) // the failures that the events leave
			m.set = func(d *destination.Destination) {
				tell := d.Observe
				d.Observe = func(e destination.Event) {
					switch e.Kind {
					case destination.EventFailed:
						counted++
					case destination.EventRetried:
						counted = 0
					}
					tell(e)
				}
			}
			s.put("/r/1", []byte("version 0"))
			entries := []resourcesync.Entry{s.change(1, resourcesync.Updated, "/r/1"), s.change(1, resourcesync.Updated, "/r/2")}
			s.put("/r/2", []byte("changed too"))
			entries[1] = s.change(1, resourcesync.Updated, "/r/2")
			s.changes(0, entries...)
			n := 0
			s.answer("/r/1", func(w http.ResponseWriter, _ *http.Request) {
				if n++; n <= tt.changes {
					s.put("/r/1", fmt.Appendf(nil, "version %d", n))
					entries = append(entries, s.change(1+n, resourcesync.Updated, "/r/1"))
					s.changes(0, entries...)
				}
				_, _ = w.Write(s.body("/r/1"))
			})
			rep, err := m.sync()
			if err != nil || rep.Updated != int64(1+tt.brought) || rep.Failed != int64(tt.failed) || len(rep.Failures) != tt.failed {
				t.Errorf("got %+v, %v; want %d brought and %d failed", rep, err, 1+tt.brought, tt.failed)
			}
			if counted != rep.Failed {
				t.Errorf("the events leave %d failures, want %d", counted, rep.Failed)
			}
			if n != tt.rounds {
				t.Errorf("asked for %d times, want %d", n, tt.rounds)
			}
			n, tt.changes = 0, 0
			m.mustSync(destination.Incremental, 0, 0, int64(tt.failed), 0)
			m.wantFiles(paths...)
		})
	}
}

// Where the Source tells of nothing new, what is not as listed is asked for once a run,
// and the Change List twice.
func TestResourceThatIsNeverAsListedIsAskedForOnce(t *testing.T) {
	s, _, m := inStep(t, 10)
	s.put("/r/1", []byte("what is listed"))
	s.changes(0, s.change(1, resourcesync.Updated, "/r/1"))
	s.answer("/r/1", serving([]byte("something else")))
	for range 2 {
		s.asked("/")
		if rep, err := m.sync(); err != nil || rep.Failed != 1 {
			t.Fatalf("got %+v, %v; want a failure", rep, err)
		}
		if got := s.asked("/r/1"); got != 1 {
			t.Errorf("asked for %d times, want once", got)
		}
	}
	if got := s.asked("/changes.xml"); got > 2 {
		t.Errorf("the Change List was asked for %d times, want 2 at most", got)
	}
}
