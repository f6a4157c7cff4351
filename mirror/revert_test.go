package mirror

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"instep/destination"
	"instep/harvest"
	"instep/resourcesync"
)

// Sets share the bytes of a URI: one that did not ask for an earlier state gets its own again.
func TestOtherSetsAreDueWhenTheirBytesAreReplacedByAnEarlierState(t *testing.T) {
	p := openPast(t)
	p.do(func(b destination.Batch) error {
		return errors.Join(put(b, set, "a", "one", noon), put(b, set2, "a", "one", noon))
	})
	p.do(gone("a"))
	deleted, err := p.Run(t.Context())
	p.ok(err)
	p.do(func(b destination.Batch) error { return put(b, set2, "a", "second", noon.Add(time.Hour)) })
	if done, failed := p.revert(p.Undoing(t.Context(), deleted), false); len(done) > 0 || !errors.Is(failed["a"], ErrOvertaken) {
		t.Fatalf("undone %q, failed %v; want the file of a later run left alone", done, failed)
	}
	wantFiles(t, p.o.Dir, map[string]string{"a": "second"})
	if done, failed := p.revert(p.endedIn(set, "a"), false); len(done) != 1 || len(failed) > 0 {
		t.Fatalf("restored %q, failed %v", done, failed)
	}
	if h := lookup(t, p.Mirror, set2, "a"); h.Due == "" || h.Wanted.Length.Int64() != int64(len("second")) {
		t.Errorf("the other set holds %v bytes with due %q, wanted %+v; want it due", h.Length, h.Due, h.Wanted)
	}
}

// Undo of a release after a later run brought the Source's bytes leaves these alone.
func TestUndoingAReleaseLeavesWhatALaterRunBrought(t *testing.T) {
	p := openPast(t)
	one := p.do(stated("a", "one", "2026-01-01", noon))
	p.do(stated("a", "two", "2026-01-02", noon.Add(time.Hour)))
	states, err := p.At(t.Context(), home+"/a", one)
	p.ok(err)
	p.revert(steps(states), true)
	p.now = p.now.Add(time.Hour)
	p.ok(p.BeginRun(t.Context(), "restore", 0))
	p.ok(p.Release(t.Context(), home+"/a"))
	released, err := p.Run(t.Context())
	p.ok(err)
	p.do(stated("a", "two", "2026-01-02", noon.Add(time.Hour)))
	if done, failed := p.revert(p.Undoing(t.Context(), released), false); len(done) > 0 || !errors.Is(failed["a"], ErrOvertaken) {
		t.Errorf("undone %q, failed %v", done, failed)
	}
	wantFiles(t, p.o.Dir, map[string]string{"a": "two"})
}

// endedIn yields the step that restores the last ended state of a resource in a set.
func (p *pastMirror) endedIn(set, name string) iter.Seq2[Reversal, error] {
	return func(yield func(Reversal, error) bool) {
		for v, err := range p.History(context.Background(), home+"/"+name) {
			if err != nil || v.SetURI == set && !v.Present() {
				yield(Reversal{Version: v}, err)
				return
			}
		}
	}
}

// To hold a resource no longer is no deletion to take back.
func TestReleasedResourcesWereNotDeleted(t *testing.T) {
	p := openPast(t)
	p.do(stated("a", "one", "2026-01-01", noon))
	p.do(stated("a", "two", "2026-01-02", noon.Add(time.Hour)))
	key := home + "/a"
	states, err := p.At(t.Context(), key, time.Time{})
	p.ok(err)
	p.revert(steps(states), true)
	p.now = p.now.Add(time.Hour)
	p.ok(p.Release(t.Context(), key))
	p.do(stated("a", "two", "2026-01-02", noon.Add(time.Hour)))
	if done, _ := p.revert(p.DeletedSince(t.Context(), noon), false); len(done) > 0 {
		t.Errorf("restored %q as deleted", done)
	}
	wantFiles(t, p.o.Dir, map[string]string{"a": "two"})
}

// What a run created and a later one changed is left alone, and told.
func TestUndoingTellsWhatALaterRunChangedOfWhatTheRunCreated(t *testing.T) {
	p := openPast(t)
	p.do(all(stated("a", "a1", "2026-01-01", noon), stated("b", "b1", "2026-01-01", noon)))
	first, err := p.Run(t.Context())
	p.ok(err)
	p.do(all(stated("a", "a2", "2026-01-02", noon.Add(time.Hour))))
	done, failed := p.revert(p.Undoing(t.Context(), first), false)
	wantSame(t, "undone", []string{"b"}, done)
	if !errors.Is(failed["a"], ErrOvertaken) || len(failed) != 1 {
		t.Errorf("left alone: %v, want a, overtaken", failed)
	}
}

// A Source that gives no digest may serve other bytes each time: what was restored in
// their place is not asked for by digests of our own.
func TestWhatIsDueAfterARestorationIsWhatTheSourceSaid(t *testing.T) {
	p := openPast(t)
	bare := func(body string, changed time.Time) func(destination.Batch) error {
		w := harvest.Resource{URI: home + "/a", Changed: changed}
		return func(b destination.Batch) error {
			_, err := b.Put(context.Background(), set, w, strings.NewReader(body), false)
			return err
		}
	}
	p.do(bare("one", noon))
	p.do(bare("two!", noon.Add(time.Hour)))
	states, err := p.At(t.Context(), home+"/a", time.Time{})
	p.ok(err)
	p.revert(steps(states), false)
	h := lookup(t, p.Mirror, set, "a")
	if h.Due == "" || len(h.Wanted.Digests) > 0 || h.Wanted.Length.Known() {
		t.Errorf("due %q, wanted %+v; want no digest and no length, of which the Source gave none", h.Due, h.Wanted)
	}
}

// What is said of the same bytes comes back with the next run, too.
func TestARestoredLabelIsDue(t *testing.T) {
	p := openPast(t)
	p.do(stated("a", "one", "2026-01-01", noon))
	at := p.do(stated("a", "one", "2026-01-02", noon.Add(time.Hour)))
	run, err := p.Run(t.Context())
	p.ok(err)
	p.revert(p.Undoing(t.Context(), run), false)
	h := lookup(t, p.Mirror, set, "a")
	if h.LastMod.String() != "2026-01-01" || h.Due == "" || h.Wanted.LastMod.String() != "2026-01-02" {
		t.Errorf("held with lastmod %s, due %q, wanted %+v", h.LastMod, h.Due, h.Wanted)
	}
	if got := p.states("a"); len(got) != 3 {
		t.Errorf("states: got %q, want 3", got)
	}
	_ = at
}

// While a resource is held in an earlier state, its set goes on: what is said of it by
// then tells nothing of the bytes.
func TestAReleasedResourceIsDue(t *testing.T) {
	p := openPast(t)
	bare := func(body, lastmod string, changed time.Time) func(destination.Batch) error {
		w := harvest.Resource{URI: home + "/a", Changed: changed}
		w.LastMod, _ = resourcesync.ParseDatetime(lastmod)
		return func(b destination.Batch) error {
			_, err := b.Put(context.Background(), set, w, strings.NewReader(body), false)
			return err
		}
	}
	p.do(bare("one", "2026-01-01", noon))
	p.do(bare("two!", "2026-01-02", noon.Add(time.Hour)))
	key := home + "/a"
	states, err := p.At(t.Context(), key, time.Time{})
	p.ok(err)
	p.revert(steps(states), true)
	p.do(bare("three", "2026-01-03", noon.Add(2*time.Hour)))
	p.ok(p.Release(t.Context(), key))
	wantFiles(t, p.o.Dir, map[string]string{"a": "one"})
	h := lookup(t, p.Mirror, set, "a")
	if h.Due == "" || h.Wanted.LastMod.String() != "2026-01-03" || len(h.Wanted.Digests) > 0 || h.Wanted.Length.Known() {
		t.Errorf("due %q, wanted %+v; want what the Source said last", h.Due, h.Wanted)
	}
}

// An undoing that was interrupted goes on when the same run is undone again: what has come
// back already is passed over.
func TestUndoingARunAgainPassesOverWhatIsBack(t *testing.T) {
	p := openPast(t)
	p.do(all(stated("a", "a1", "2026-01-01", noon), stated("b", "b1", "2026-01-01", noon)))
	p.do(all(stated("a", "a2", "2026-01-02", noon.Add(time.Hour)), gone("b"), stated("c", "c", "2026-01-02", noon.Add(time.Hour))))
	run, err := p.Run(t.Context())
	p.ok(err)
	for _, want := range [][]string{{"a", "b", "c"}, nil} {
		done, failed := p.revert(p.Undoing(t.Context(), run), false)
		wantSame(t, "undone", want, done)
		if len(failed) > 0 {
			t.Errorf("left alone: %v", failed)
		}
	}
}

// The kept bytes are no statement of the Source, whatever restored them and took that back.
func TestUndoingAKeptStateAsksForNoKeptBytes(t *testing.T) {
	p := openPast(t)
	one := p.do(stated("a", "one", "2026-01-01", noon))
	two := p.do(stated("a", "second", "2026-01-02", noon.Add(time.Hour)))
	cursor := destination.Cursor{Position: harvest.Position{At: noon}}
	p.ok(tryCommit(p.Mirror, &destination.CursorMove{Set: set, Cursor: cursor}, func(destination.Batch) error { return nil }))
	keep := func(at time.Time) (run int64) {
		states, err := p.At(t.Context(), home+"/a", at)
		p.ok(err)
		p.revert(steps(states), true)
		run, err = p.Run(t.Context())
		p.ok(err)
		return run
	}
	undo := func(run int64) {
		if _, failed := p.revert(p.Undoing(t.Context(), run), false); len(failed) > 0 {
			t.Fatalf("not undone: %v", failed)
		}
	}
	undo(keep(one))
	h := lookup(t, p.Mirror, set, "a")
	if h.Due == "" || len(h.Wanted.Digests) > 0 || h.Wanted.Length.Known() {
		t.Errorf("due %q, wanted %+v; want neither digest nor length", h.Due, h.Wanted)
	}
	if cur, _, err := p.Cursor(t.Context(), set); cur.Scope != destination.ScopeRestored || err != nil {
		t.Errorf("cursor: got %+v, %v; want one that leads to a baseline", cur, err)
	}
	p.do(stated("a", "second", "2026-01-02", noon.Add(time.Hour)))
	wantFiles(t, p.o.Dir, map[string]string{"a": "second"})

	held := keep(p.now) // the present state
	p.do(stated("a", "third", "2026-01-03", noon.Add(2*time.Hour)))
	wantFiles(t, p.o.Dir, map[string]string{"a": "second"})
	undo(held)
	if h := lookup(t, p.Mirror, set, "a"); h.Due == "" || h.Wanted.LastMod.String() != "2026-01-03" || len(h.Wanted.Digests) > 0 {
		t.Errorf("due %q, wanted %+v; want what the Source said last, without digests", h.Due, h.Wanted)
	}

	keep(one)
	undo(keep(two))
	wantFiles(t, p.o.Dir, map[string]string{"a": "one"})
	p.do(stated("a", "third", "2026-01-03", noon.Add(3*time.Hour)))
	wantFiles(t, p.o.Dir, map[string]string{"a": "one"}) // it is kept again
}
