package destination_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"instep/destination"
	"instep/guard"
	"instep/mirror"
	"instep/resourcesync"
)

// shrinking is a Source that lists its resources anew at each step, an hour after the last.
type shrinking struct {
	*aMirror
	n     int // of the list
	paths []string
}

func newShrinking(t *testing.T, paths int) *shrinking {
	t.Helper()
	s := newSource(t)
	w := &shrinking{aMirror: newMirror(t, s), paths: s.fill(paths)}
	s.offer("/list.xml", "")
	s.list(0, w.paths...)
	w.mustSync(destination.Baseline, 0, int64(paths), 0, 0)
	return w
}

// drop removes the first n resources from the list, and lists what is left.
func (w *shrinking) drop(n int, after time.Duration) *destination.SetReport {
	w.t.Helper()
	w.paths = w.paths[n:]
	return w.publish(after)
}

// publish lists the resources and has the mirror follow, some time after the last run.
func (w *shrinking) publish(after time.Duration) *destination.SetReport {
	w.t.Helper()
	w.n++
	w.now = w.now.Add(after)
	w.src.list(w.n, w.paths...)
	rep, err := w.sync()
	if err != nil || rep.Partial != nil || rep.Failed != 0 {
		w.t.Fatalf("sync: %+v, %v", rep, err)
	}
	return rep
}

// approve releases what a run withheld.
func (m *aMirror) approve(hash string) {
	m.t.Helper()
	err := m.with(func(ctx context.Context, _ *destination.Destination, mm *mirror.Mirror) error {
		_, _, err := mm.Approve(ctx, hash)
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
}

func (w *shrinking) wantHeld(rep *destination.SetReport, n int64) {
	w.t.Helper()
	if rep.Withheld != n || rep.Deleted != 0 {
		w.t.Fatalf("got %d withheld and %d deleted, want %d and 0", rep.Withheld, rep.Deleted, n)
	}
}

func (w *shrinking) wantDeleted(rep *destination.SetReport, n int64) {
	w.t.Helper()
	if rep.Withheld != 0 || rep.Deleted != n {
		w.t.Fatalf("got %d withheld and %d deleted, want 0 and %d", rep.Withheld, rep.Deleted, n)
	}
}

// 95 of 100 resources went in 19 runs, 5 at a time.
func TestCat_DEL_02_day(t *testing.T) {
	w := newShrinking(t, 100)
	deleted, last := int64(0), (*destination.SetReport)(nil)
	for range 19 {
		last = w.drop(5, time.Hour)
		deleted += last.Deleted
	}
	if deleted != 10 || last.Withheld != 85 {
		t.Fatalf("got %d deleted and %d withheld, want 10 and 85", deleted, last.Withheld)
	}
	w.approve(last.Hash)
	w.wantDeleted(w.publish(time.Minute), 85)
	w.wantFiles(w.paths...)
	w.wantDeleted(w.drop(0, time.Hour), 0)
}

// All of 100 resources went after 1,000 others had come.
func TestCat_DEL_02_junk(t *testing.T) {
	w := newShrinking(t, 100)
	for i := range 1000 {
		p := fmt.Sprintf("/junk/%d", i)
		w.src.put(p, []byte(p))
		w.paths = append(w.paths, p)
	}
	w.publish(time.Hour)
	w.wantHeld(w.drop(100, time.Hour), 100)
	w.wantHeld(w.publish(time.Hour), 100)
}

// Nor does it help to let them come back once, or to count on what came with them.
func TestWhatCameBackIsWhatItWas(t *testing.T) {
	w := newShrinking(t, 100)
	all := slices.Clone(w.paths)
	for i := range 10 {
		some := all[10*i : 10*i+10]
		w.paths = slices.DeleteFunc(slices.Clone(all), func(p string) bool { return slices.Contains(some, p) })
		w.wantDeleted(w.publish(time.Minute), 10)
		for _, p := range some {
			w.src.put(p, []byte("junk"))
		}
		w.paths = all
		w.publish(time.Minute)
	}
	for i := range 1000 {
		p := fmt.Sprintf("/junk/%d", i)
		w.src.put(p, []byte(p))
		w.paths = append(w.paths, p)
	}
	w.publish(time.Minute)
	w.wantHeld(w.drop(100, time.Hour), 100)
}

// 24 of 100 resources went in one run, 6 by each of four plans.
func TestCat_DEL_02_plans(t *testing.T) {
	for _, limit := range []string{"", "10"} {
		t.Run("limit "+limit, func(t *testing.T) {
			s, _, m := inStep(t, 100)
			m.set = func(d *destination.Destination) { d.MaxDelete, _ = guard.ParseLimit(limit) }
			var entries []resourcesync.Entry
			drop := func(n int) {
				for i := range 6 {
					entries = append(entries, s.change(1+n, resourcesync.Deleted, fmt.Sprintf("/r/%d", 10+6*n+i)))
				}
				entries = append(entries, s.change(1+n, resourcesync.Updated, "/r/1"))
				s.changes(0, entries...)
			}
			s.put("/r/1", []byte("version 0"))
			drop(0)
			n := 0
			s.answer("/r/1", func(rw http.ResponseWriter, _ *http.Request) {
				if n++; n <= 3 {
					s.put("/r/1", fmt.Appendf(nil, "version %d", n))
					drop(n)
				}
				_, _ = rw.Write(s.body("/r/1"))
			})
			rep, err := m.sync()
			if err != nil || rep.Deleted != 6 || rep.Withheld == 0 {
				t.Fatalf("got %+v, %v; want 6 deleted, and others withheld", rep, err)
			}
			for range 2 { // until the Source rests
				rep, err = m.sync()
			}
			if err != nil || rep.Deleted != 0 || rep.Withheld != 18 {
				t.Fatalf("got %+v, %v; want all withheld", rep, err)
			}
			m.approve(rep.Hash)
			rep, err = m.sync()
			if err != nil || rep.Withheld != 0 || rep.Failed != 0 || len(m.files()) != 76 {
				t.Fatalf("got %+v, %v; want all done", rep, err)
			}
		})
	}
}

func TestASetMayShrinkDayByDay(t *testing.T) {
	w := newShrinking(t, 200)
	for range 10 {
		n := len(w.paths) * 3 / 100
		w.wantDeleted(w.drop(n, 24*time.Hour-time.Minute), int64(n))
	}
	w.wantFiles(w.paths...)
}

// A day later, in which the mirror was looked after, the window is another.
func TestTheWindowEndsAfterADay(t *testing.T) {
	w := newShrinking(t, 200)
	for range 4 {
		w.wantDeleted(w.drop(12, time.Hour), 12)
		for range 5 {
			w.publish(5 * time.Hour)
		}
		w.wantFiles(w.paths...)
	}
}

// Between runs that nothing happened in, a day passes as well.
func TestIdleRunsLetTheWindowEnd(t *testing.T) {
	s, paths, m := inStep(t, 200)
	m.clock = func() time.Time { return m.now }
	var gone []resourcesync.Entry
	for day := range 4 {
		for range 12 {
			gone = append(gone, s.change(1+day, resourcesync.Deleted, paths[len(gone)]))
		}
		s.changes(0, gone...)
		rep, err := m.sync()
		if err != nil || rep.Deleted != 12 || rep.Withheld != 0 {
			t.Fatalf("after %d days: got %+v, %v; want 12 deleted", day, rep, err)
		}
		for range 10 {
			m.now = m.now.Add(4 * time.Hour)
			if rep, err := m.sync(); err != nil || rep.Mode != destination.Incremental {
				t.Fatalf("got %+v, %v", rep, err)
			}
		}
	}
}

func TestAClockThatJumpsDoesNotEmptyTheWindow(t *testing.T) {
	for name, jump := range map[string]func(time.Time) time.Time{
		"a year ahead":         func(t time.Time) time.Time { return t.AddDate(1, 0, 0) },
		"two days ahead":       func(t time.Time) time.Time { return t.Add(48 * time.Hour) },
		"back to 1970":         func(time.Time) time.Time { return time.Unix(100, 0) },
		"a month back":         func(t time.Time) time.Time { return t.AddDate(0, -1, 0) },
		"back, and an hour on": func(t time.Time) time.Time { return t.Add(-47 * time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newShrinking(t, 100)
			w.wantDeleted(w.drop(5, time.Hour), 5)
			w.wantDeleted(w.drop(4, time.Hour), 4)
			right := w.now
			w.now = jump(right)
			w.wantHeld(w.drop(9, time.Hour), 9)
			w.now = right
			w.wantHeld(w.publish(2*time.Hour), 9)
		})
	}
	t.Run("there and back", func(t *testing.T) {
		w := newShrinking(t, 100)
		for i := range 4 { // by turns right, and in 1970
			right := w.now.Add(time.Hour)
			if i%2 == 1 {
				w.now = time.Unix(int64(i), 0)
			}
			w.wantDeleted(w.drop(2, 0), 2)
			w.now = right
		}
		w.wantHeld(w.drop(9, time.Hour), 9)
	})
}

// A directory that is renamed is no loss, whether the Source says what is in it or the mirror finds out.
func TestRenamedDirectory(t *testing.T) {
	for name, strong := range map[string]bool{"with sha-256": true, "with md5 only": false} {
		t.Run(name, func(t *testing.T) {
			w := newShrinking(t, 100)
			for i := range 60 {
				to := fmt.Sprintf("/renamed/%d", i)
				w.src.put(to, w.src.body(w.paths[i]))
				w.paths[i] = to
			}
			rep := w.publish(time.Hour)
			if !strong {
				w = newShrinking(t, 100)
				var entries []resourcesync.Entry
				for i, p := range w.paths {
					if i < 60 {
						p = fmt.Sprintf("/renamed/%d", i)
						w.src.put(p, w.src.body(w.paths[i]))
						w.paths[i] = p
					}
					entries = append(entries, w.src.weakly(p))
				}
				w.n++
				w.src.listEntries(w.n, entries...)
				var err error
				if rep, err = w.sync(); err != nil || rep.Withheld != 60 || rep.Created != 60 {
					t.Fatalf("got %+v, %v; want 60 created, and as many withheld", rep, err)
				}
				if rep, err = w.sync(); err != nil {
					t.Fatal(err)
				}
			}
			w.wantDeleted(rep, 60)
			w.wantFiles(w.paths...)
			w.wantDeleted(w.drop(9, time.Hour), 9) // nor does it count later
		})
	}
}

// What takes the place of the bytes in the same plan holds them no more.
func TestBytesThatGoFromTheirNewPlaceAsWellAreLost(t *testing.T) {
	w := newShrinking(t, 100)
	for i, p := range w.paths {
		to := fmt.Sprintf("/copy/%d", i)
		w.src.put(to, w.src.body(p))
		w.paths = append(w.paths, to)
	}
	w.publish(time.Hour)
	for i := range 100 {
		w.src.put(fmt.Sprintf("/copy/%d", i), fmt.Appendf(nil, "junk %d", i))
	}
	w.wantHeld(w.drop(100, time.Hour), 100)
}

func TestWhatCameBackIsNoLoss(t *testing.T) {
	w := newShrinking(t, 100)
	all := w.paths
	for range 5 {
		w.wantDeleted(w.drop(9, time.Hour), 9)
		w.paths = all
		w.publish(time.Hour)
	}
	w.wantFiles(all...)
}

// What was undone is no loss, nor is what undoing removed.
func TestWhatWasUndoneIsNoLoss(t *testing.T) {
	w := newShrinking(t, 100)
	for range 3 {
		w.wantDeleted(w.drop(9, time.Hour), 9)
		err := w.with(func(ctx context.Context, _ *destination.Destination, mm *mirror.Mirror) error {
			for run, err := range mm.Runs(ctx) {
				if err != nil {
					return err
				}
				return mm.Revert(ctx, mm.Undoing(ctx, run.ID), mirror.RevertOptions{})
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		w.paths = append(w.src.fill(100)[:9], w.paths...)
		w.publish(time.Hour)
	}
	w.wantDeleted(w.drop(9, time.Hour), 9)
}

// An approval is of one plan: later deletions count without it.
func TestApprovedDeletionsDoNotCount(t *testing.T) {
	w := newShrinking(t, 100)
	rep := w.drop(40, time.Hour)
	w.wantHeld(rep, 40)
	w.approve(rep.Hash)
	w.wantDeleted(w.publish(time.Minute), 40)
	w.wantDeleted(w.drop(3, time.Hour), 3)
	w.wantDeleted(w.drop(3, time.Hour), 3)
	w.wantHeld(w.drop(3, time.Hour), 3)
	w.wantFiles(append(slices.Clone(w.src.fill(100)[46:49]), w.paths...)...)

	// It ends after a day.
	rep = w.drop(30, time.Hour)
	w.approve(rep.Hash)
	w.wantHeld(w.publish(24*time.Hour+time.Minute), 33)
}

// A limit that is given is that of the run, and counts nothing else.
func TestAGivenLimitForgetsTheWindow(t *testing.T) {
	w := newShrinking(t, 100)
	w.wantDeleted(w.drop(9, time.Hour), 9)
	w.set = func(d *destination.Destination) { d.MaxDelete, _ = guard.ParseLimit("20%") }
	w.wantDeleted(w.drop(18, time.Hour), 18)
	w.wantHeld(w.drop(20, time.Hour), 20)
}

func TestAWindowIsOfOneSet(t *testing.T) {
	s := newSource(t)
	p := s.fill(200)
	s.offerSets()
	list := func(n int, a, b []string) {
		s.listOf("/a/list.xml", n, s.entries(a...)...)
		s.listOf("/b/list.xml", n, s.entries(b...)...)
	}
	list(0, p[:100], p[100:])
	m := newMirror(t, s)
	m.mustSyncSets()
	list(1, p[8:100], p[108:])
	if rep := m.mustSyncSets(); rep.Sets[0].Deleted != 8 || rep.Sets[1].Deleted != 8 {
		t.Fatalf("got %+v and %+v, want 8 deleted of each", rep.Sets[0], rep.Sets[1])
	}
	list(2, p[8:100], p[116:])
	if rep := m.mustSyncSets(); rep.Sets[0].Withheld != 0 || rep.Sets[1].Withheld != 8 {
		t.Fatalf("got %+v and %+v, want 8 withheld of the second", rep.Sets[0], rep.Sets[1])
	}
}

// A plan says what a run would do, and counts as nothing.
func TestAPlanDecidesAsTheRunWould(t *testing.T) {
	w := newShrinking(t, 100)
	w.wantDeleted(w.drop(9, time.Hour), 9)
	w.src.list(9, w.paths[9:]...)
	for range 3 {
		err := w.with(func(ctx context.Context, d *destination.Destination, _ *mirror.Mirror) error {
			plan, err := d.Plan(ctx)
			if err != nil {
				return err
			}
			defer plan.Close()
			if p := plan.Sets[0]; !p.Withheld || p.Deleted != 9 {
				t.Errorf("got %d withheld: %t, want 9", p.Deleted, p.Withheld)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
