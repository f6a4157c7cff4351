package publish

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"instep/internal/catalog"
	"instep/source"
)

// history publishes n times, an hour after each other, the changes of 120 of 200 resources.
func (w *world) history(s *Session, n int) {
	w.t.Helper()
	for i := range n {
		w.now = w.now.Add(time.Hour)
		changes := make([]catalog.Change, 120)
		for k := range changes {
			changes[k] = change(fmt.Sprintf("%s%d", base, (i*120+k)%200), "", fmt.Sprint(w.now, k))
		}
		w.record(s, changes...)
		w.publish(s, What{NoScan: true})
	}
}

func (w *world) logged(s *Session) int64 {
	w.t.Helper()
	n, err := s.facts.CountChanges(w.t.Context(), s.sets[0].id, 0, math.MaxInt64)
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// TestCatalogDoesNotGrowForEver: what no document can need any more leaves the change log.
func TestCatalogDoesNotGrowForEver(t *testing.T) {
	w := recorded(t)
	w.set.ChangeListMax = 300
	w.set.Policy.KeepChanges = 12 * time.Hour
	round := func() (size int64) {
		s, err := Open(t.Context(), w.site())
		if err != nil {
			t.Fatal(err)
		}
		w.history(s, 40)
		if n := w.logged(s); n > forgetStep+400 {
			t.Errorf("%d changes are in the log, want those of the open list and at most %d more", n, forgetStep)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(w.o.State, catalogName))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	first := round()
	if second := round(); second > first+first/10 {
		t.Errorf("the catalog had %d bytes after half of the time, has %d now", first, second)
	}
	w.replay() // reports gaps
}

// TestWhatIsCountedStaysInTheLog: a large set is rebased after as many changes as ever.
func TestWhatIsCountedStaysInTheLog(t *testing.T) {
	w := recorded(t)
	w.set.ChangeListMax = 300
	w.o.RebaseMin = 365 * 24 * time.Hour
	s := w.open()
	w.history(s, 20)
	if n := w.logged(s); n != 20*120 {
		t.Errorf("%d changes since the Resource List are in the log, want all %d", n, 20*120)
	}
}

// TestPackagesOnDemandRememberAsLongAsChangeListsDo: what is forgotten they refuse, of
// the rest there are only no bytes here.
func TestPackagesOnDemandRememberAsLongAsChangeListsDo(t *testing.T) {
	w := recorded(t)
	w.set.ChangeListMax = 300
	w.set.Policy.OnDemand = base + "demand"
	w.set.Policy.KeepChanges = 15 * time.Hour
	s := w.open()
	w.history(s, 40)
	if n := w.logged(s); n < 15*120 || n > 15*120+forgetStep+400 {
		t.Errorf("%d changes are in the log, want those of 15 hours and at most %d more", n, forgetStep)
	}
	v := w.view()
	for hours, want := range map[time.Duration]error{14: source.ErrGone, 39: source.ErrForgotten} {
		if _, err := w.bytesOf(v.Changes(t.Context(), "", w.now.Add(-hours*time.Hour))); !errors.Is(err, want) {
			t.Errorf("changes of %d hours: got %v, want %v", hours, err, want)
		}
	}
}
