package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"instep/blob"
	"instep/blob/blobtest"
	"instep/destination"
	"instep/harvest"
	"instep/resourcesync"
)

// pastMirror is a mirror whose clock moves by an hour with each batch.
type pastMirror struct {
	*Mirror
	t   testing.TB
	now time.Time
}

func openPast(t testing.TB) *pastMirror { return openPastAs(t, Tree) }

func openPastAs(t testing.TB, layout Layout) *pastMirror {
	p := &pastMirror{t: t, now: noon}
	o := options(t.TempDir())
	o.Layout = layout
	o.Now = func() time.Time { return p.now }
	p.Mirror = openMirror(t, o)
	return p
}

// do commits a batch in a run of its own and returns when.
func (p *pastMirror) do(fill func(b destination.Batch) error) time.Time {
	p.t.Helper()
	p.now = p.now.Add(time.Hour)
	p.ok(p.BeginRun(context.Background(), "sync", 0))
	commit(p.t, p.Mirror, fill)
	return p.now
}

func (p *pastMirror) ok(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// stated is Put of a body with a lastmod and a type.
func stated(name, body, lastmod string, changed time.Time) func(destination.Batch) error {
	w := wantedOfBody(home+"/"+name, body, changed)
	w.Type = "text/" + lastmod
	w.LastMod, _ = resourcesync.ParseDatetime(lastmod)
	return func(b destination.Batch) error {
		_, err := b.Put(context.Background(), set, w, strings.NewReader(body), true)
		return err
	}
}

func all(fills ...func(destination.Batch) error) func(destination.Batch) error {
	return func(b destination.Batch) error {
		for _, fill := range fills {
			if err := fill(b); err != nil {
				return err
			}
		}
		return nil
	}
}

func gone(name string) func(destination.Batch) error {
	return func(b destination.Batch) error {
		return b.Delete(context.Background(), set, home+"/"+name, time.Time{})
	}
}

// asOf is what a set held at a moment: bodies, types and lastmods by name.
func (p *pastMirror) asOf(set string, at time.Time) map[string]string {
	p.t.Helper()
	return p.told(p.AsOf(context.Background(), set, at))
}

func (p *pastMirror) told(states iter.Seq2[Version, error]) map[string]string {
	p.t.Helper()
	found := map[string]string{}
	for v, err := range states {
		p.ok(err)
		found[strings.TrimPrefix(v.URI, home+"/")] = fmt.Sprint(p.body(&v), " ", v.Type, " ", v.LastMod)
	}
	return found
}

func (p *pastMirror) body(v *Version) string {
	p.t.Helper()
	r, err := p.OpenVersion(context.Background(), v)
	p.ok(err)
	body, err := io.ReadAll(r)
	p.ok(errors.Join(err, r.Close()))
	return string(body)
}

func wantSame(t testing.TB, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

func (p *pastMirror) states(name string) []string {
	p.t.Helper()
	var got []string
	for v, err := range p.History(context.Background(), home+"/"+name) {
		p.ok(err)
		got = append(got, fmt.Sprint(p.body(&v), " ", v.LastMod, " ", v.Since.Sub(noon), " ", v.Until.Sub(noon), " ", v.Why))
	}
	return got
}

func TestEveryStateThatEndedIsKept(t *testing.T) {
	p := openPast(t)
	p.do(all(stated("d/a", "one", "2026-01-01", noon), stated("b", "b", "2026-01-01", noon)))
	p.do(stated("d/a", "two", "2026-01-02", noon))
	p.do(func(b destination.Batch) error { // only what is said of the same bytes
		w := wantedOfBody(home+"/d/a", "two", noon)
		w.LastMod, _ = resourcesync.ParseDatetime("2026-01-03")
		return b.Mark(t.Context(), set, w)
	})
	p.do(gone("d/a"))
	p.do(stated("d/a", "five", "2026-01-05", noon))
	never := time.Time{}.Sub(noon)
	wantSame(t, "states of d/a", []string{
		fmt.Sprint("five 2026-01-05 5h0m0s ", never, " "),
		"two 2026-01-03 3h0m0s 4h0m0s deleted",
		"two 2026-01-02 2h0m0s 3h0m0s updated",
		"one 2026-01-01 1h0m0s 2h0m0s updated",
	}, p.states("d/a"))
	for _, name := range []string{home + "/d/a", "d/a", "./d//a", filepath.Join(p.o.Dir, "d", "a")} {
		if key, err := p.Find(t.Context(), name); key != home+"/d/a" || err != nil {
			t.Errorf("Find(%q): got %x, %v", name, key, err)
		}
	}
	p.do(gone("d/a"))
	if key, err := p.Find(t.Context(), "d/a"); key != home+"/d/a" || err != nil {
		t.Errorf("Find of a path that was: got %x, %v", key, err)
	}
	if _, err := p.Find(t.Context(), "d"); !errors.Is(err, ErrNoVersion) {
		t.Errorf("Find of a directory: got %v, want %v", err, ErrNoVersion)
	}
}

// A URI can be given as messages show it, even if the Source itself does not encode it.
func TestFindAcceptsCharactersThatAreNotEncoded(t *testing.T) {
	p := openPast(t)
	p.do(all(stated("%C3%96l", "oil", "2026-01-01", noon), stated("Käse", "cheese", "2026-01-01", noon)))
	for given, want := range map[string]string{"Öl": "%C3%96l", "%C3%96l": "%C3%96l", "Käse": "Käse"} {
		if uri, err := p.Find(t.Context(), home+"/"+given); uri != home+"/"+want || err != nil {
			t.Errorf("Find of %q: got %q, %v", given, uri, err)
		}
	}
}

// What fails on its way leaves no trace among the states, and keeps that of the bytes
// which are held.
func TestWhatIsDueHasNotChangedYet(t *testing.T) {
	p := openPast(t)
	p.do(stated("a", "one", "2026-01-01", noon))
	next := wantedOfBody(home+"/a", "two", noon.Add(time.Hour))
	next.LastMod, _ = resourcesync.ParseDatetime("2026-01-02")
	p.do(func(b destination.Batch) error { return b.Due(t.Context(), set, next, "no answer") })
	p.do(stated("a", "two", "2026-01-02", noon.Add(time.Hour)))
	wantSame(t, "states", []string{
		fmt.Sprint("two 2026-01-02 3h0m0s ", time.Time{}.Sub(noon), " "), "one 2026-01-01 1h0m0s 3h0m0s updated",
	}, p.states("a"))

	write(t, p.o.Dir, "a", "rot") // and is repaired: no other state
	p.do(func(b destination.Batch) error {
		return b.Due(t.Context(), set, wantedOfBody(home+"/a", "two", noon.Add(time.Hour)), "damaged")
	})
	p.do(stated("a", "two", "2026-01-02", noon.Add(time.Hour)))
	if got := p.states("a"); len(got) != 2 {
		t.Errorf("states after a repair: got %q, want the same 2", got)
	}
}

func TestAsOfIsTheSetAsItWas(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := openPast(t)
		was := []map[string]string{{}}
		times := []time.Time{noon}
		for range rapid.IntRange(1, 8).Draw(r, "batches") {
			at := p.do(func(b destination.Batch) error { return someChanges(r, b) })
			times, was = append(times, at), append(was, p.told(p.AsOf(t.Context(), set, at)))
			now := map[string]string{}
			for h, err := range p.Members(t.Context(), set) {
				p.ok(err)
				body, err := os.ReadFile(filepath.Join(p.o.Dir, h.Path))
				p.ok(err)
				now[strings.TrimPrefix(h.URI, home+"/")] = fmt.Sprint(string(body), " ", h.Type, " ", h.LastMod)
			}
			wantSame(t, "the present", now, was[len(was)-1])
		}
		for i, at := range times {
			wantSame(t, fmt.Sprint("at ", at), was[i], p.asOf(set, at))
			wantSame(t, fmt.Sprint("just before the next of ", at), was[i], p.asOf(set, at.Add(59*time.Minute)))
		}
	})
}

// someChanges does something to some of five resources.
func someChanges(r *rapid.T, b destination.Batch) error {
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "d/a", "d/b", "e?q"}), 1, 5, rapid.ID[string]).Draw(r, "names") {
		do := gone(name)
		if rapid.IntRange(0, 2).Draw(r, "kind") > 0 {
			body := rapid.SampledFrom([]string{"", "one", "two", "three"}).Draw(r, "body")
			do = stated(name, body, rapid.SampledFrom([]string{"2026-01-01", "2026-01-02"}).Draw(r, "lastmod"), noon)
		}
		if err := do(b); err != nil {
			return err
		}
	}
	return nil
}

// revert brings states back and returns the names of those that came, and why not.
func (p *pastMirror) revert(steps iter.Seq2[Reversal, error], keep bool) (done []string, failed map[string]error) {
	p.t.Helper()
	p.now = p.now.Add(time.Hour)
	p.ok(p.BeginRun(context.Background(), "restore", 0))
	failed = map[string]error{}
	p.ok(p.Revert(context.Background(), steps, RevertOptions{Keep: keep, Done: func(r Reversal, err error) {
		name := strings.TrimPrefix(r.URI, home+"/")
		if err != nil {
			failed[name] = err
			return
		}
		done = append(done, name)
	}}))
	slices.Sort(done)
	return done, failed
}

func steps(versions []Version) iter.Seq2[Reversal, error] {
	return func(yield func(Reversal, error) bool) {
		for _, v := range versions {
			if !yield(Reversal{Version: v}, nil) {
				return
			}
		}
	}
}

// Whatever a run did, undoing it gives the state before, and undoing that gives the
// state after it.
func TestUndoingARunGivesTheStateBefore(t *testing.T) {
	for _, layout := range []Layout{Tree, Flat} {
		t.Run(string(layout), func(t *testing.T) { testUndoing(t, layout) })
	}
}

func testUndoing(t *testing.T, layout Layout) {
	rapid.Check(t, func(r *rapid.T) {
		p := openPastAs(t, layout)
		for range rapid.IntRange(1, 3).Draw(r, "runs before") {
			p.do(func(b destination.Batch) error { return someChanges(r, b) })
		}
		before := p.asOf(set, p.now)
		p.now = p.now.Add(time.Hour)
		p.ok(p.BeginRun(t.Context(), "sync", 0))
		for range rapid.IntRange(1, 3).Draw(r, "batches of the run") {
			commit(t, p.Mirror, func(b destination.Batch) error { return someChanges(r, b) })
			p.now = p.now.Add(time.Minute)
		}
		after := p.asOf(set, p.now)
		run, err := p.Run(t.Context())
		p.ok(err)
		if run == 0 {
			return // it came to nothing
		}
		for _, want := range []map[string]string{before, after} {
			if _, failed := p.revert(p.Undoing(t.Context(), run), false); len(failed) > 0 {
				t.Fatalf("not undone: %v", failed)
			}
			wantSame(t, "after undoing", want, p.asOf(set, p.now))
			if run, err = p.Run(t.Context()); run == 0 || err != nil {
				return // there was nothing to undo
			}
		}
	})
}

func TestUndoingLeavesWhatALaterRunChanged(t *testing.T) {
	p := openPast(t)
	p.do(all(stated("a", "a1", "2026-01-01", noon), stated("b", "b1", "2026-01-01", noon), stated("c", "c1", "2026-01-01", noon)))
	p.do(all(stated("a", "a2", "2026-01-02", noon), stated("b", "b2", "2026-01-02", noon), stated("c", "c2", "2026-01-02", noon)))
	second, err := p.Run(t.Context())
	p.ok(err)
	p.do(all(stated("a", "a3", "2026-01-03", noon), gone("b")))
	done, failed := p.revert(p.Undoing(t.Context(), second), false)
	wantSame(t, "undone", []string{"c"}, done)
	if len(failed) != 2 || !errors.Is(failed["a"], ErrOvertaken) || !errors.Is(failed["b"], ErrOvertaken) {
		t.Errorf("left alone: got %v, want a and b, overtaken", failed)
	}
	wantFiles(t, p.o.Dir, map[string]string{"a": "a3", "c": "c1"})
}

// TestCat_DEL_06_restore: a wrong deletion is taken back, byte for byte and with all that was
// known, and the next run compares everything with the Source.
func TestCat_DEL_06_restore(t *testing.T) {
	const n = 1000
	p := openPast(t)
	name := func(i int) string { return fmt.Sprintf("d%d/%d", i%7, i) }
	p.do(func(b destination.Batch) error {
		for i := range n {
			if err := stated(name(i), strings.Repeat(fmt.Sprint(i, " "), i%50), "2026-01-01", noon.Add(time.Duration(i)*time.Second))(b); err != nil {
				return err
			}
		}
		return nil
	})
	p.ok(tryCommit(p.Mirror, &destination.CursorMove{Set: set, Cursor: destination.Cursor{Position: harvest.Position{At: noon}, Scope: ""}}, func(destination.Batch) error { return nil }))
	want := everything(t, p.Mirror)
	files := filesIn(t, p.o.Dir, isOurs)
	at := p.do(func(b destination.Batch) error {
		for i := range n {
			if err := gone(name(i))(b); err != nil {
				return err
			}
		}
		return nil
	})
	wantFiles(t, p.o.Dir, map[string]string{})
	done, failed := p.revert(p.DeletedSince(t.Context(), at), false)
	if len(done) != n || len(failed) > 0 {
		t.Fatalf("restored %d of %d, failed: %v", len(done), n, failed)
	}
	wantFiles(t, p.o.Dir, files)
	wantSame(t, "what is held", want, everything(t, p.Mirror))
	if cur, ok, err := p.Cursor(t.Context(), set); !ok || err != nil || cur.Scope == "" || !cur.At.Equal(noon) {
		t.Errorf("cursor: got %+v, %v, %v; want one at noon of another scope", cur, ok, err)
	}
	if done, _ := p.revert(p.DeletedSince(t.Context(), at), false); len(done) > 0 {
		t.Errorf("restored again: %q", done)
	}
}

// everything is what a mirror tells of all members.
func everything(t testing.TB, m *Mirror) map[string]string {
	t.Helper()
	found := map[string]string{}
	for h, err := range m.Members(context.Background(), set) {
		if err != nil {
			t.Fatal(err)
		}
		found[h.URI] = fmt.Sprint(h.Path, h.Length.Int64(), h.Digests, h.Type, h.Verified, h.LastMod, h.Changed, h.Due)
	}
	return found
}

func TestARestoredStateIsDueUnlessItIsKept(t *testing.T) {
	for _, keep := range []bool{false, true} {
		p := openPast(t)
		p.do(stated("a", "one", "2026-01-01", noon))
		p.do(stated("a", "two", "2026-01-02", noon.Add(time.Hour)))
		states, err := p.At(t.Context(), home+"/a", time.Time{})
		p.ok(err)
		if done, failed := p.revert(steps(states), keep); len(done) != 1 || len(failed) > 0 {
			t.Fatalf("restored %q, failed: %v", done, failed)
		}
		wantFiles(t, p.o.Dir, map[string]string{"a": "one"})
		h := lookup(t, p.Mirror, set, "a")
		if h.LastMod.String() != "2026-01-01" || h.Type != "text/2026-01-01" || !h.Verified {
			t.Errorf("held: %+v", h)
		}
		if due := h.Due != ""; due == keep || due && (h.Wanted.LastMod.String() != "2026-01-02" || h.Wanted.Length.Int64() != 3) {
			t.Errorf("keep %v: due %q, wanted %+v", keep, h.Due, h.Wanted)
		}
		p.do(stated("a", "two", "2026-01-02", noon.Add(time.Hour)))
		want := map[bool]string{false: "two", true: "one"}[keep]
		wantFiles(t, p.o.Dir, map[string]string{"a": want})
		err = p.Release(t.Context(), home+"/a")
		if released := err == nil; released != keep || !released && !errors.Is(err, ErrNoVersion) {
			t.Errorf("release: got %v", err)
		}
		p.do(stated("a", "two", "2026-01-02", noon.Add(time.Hour)))
		wantFiles(t, p.o.Dir, map[string]string{"a": "two"})
	}
}

// A resource that the Source does not have any more stays while it is kept.
func TestADeletedResourceThatIsKeptBelongsToNoSetOfTheSource(t *testing.T) {
	p := openPast(t)
	p.do(all(stated("a", "one", "2026-01-01", noon), stated("b", "b", "2026-01-01", noon)))
	at := p.do(gone("a"))
	p.revert(p.DeletedSince(t.Context(), at), true)
	wantFiles(t, p.o.Dir, map[string]string{"a": "one", "b": "b"})
	if h := lookup(t, p.Mirror, set, "a"); h.Member {
		t.Errorf("held: %+v, want no member", h)
	}
	p.do(gone("a"))
	wantFiles(t, p.o.Dir, map[string]string{"a": "one", "b": "b"})
	p.ok(p.Release(t.Context(), home+"/a"))
	wantFiles(t, p.o.Dir, map[string]string{"b": "b"})
}

func TestBytesOfAStateThatAreGoneOrDamagedAreToldAndReplaceNothing(t *testing.T) {
	p := openPast(t)
	p.do(all(stated("a", "one", "2026-01-01", noon), stated("b", "one too", "2026-01-01", noon), stated("c", "c", "2026-01-01", noon)))
	p.do(all(stated("a", "two", "2026-01-02", noon), gone("b"), gone("c")))
	run, err := p.Run(t.Context())
	p.ok(err)
	for v, err := range p.Ended(t.Context(), noon) {
		p.ok(err)
		switch {
		case strings.HasSuffix(v.URI, "/a"):
			write(t, p.o.Dir, v.Kept, "eno")
		case strings.HasSuffix(v.URI, "/b"):
			p.ok(os.Remove(filepath.Join(p.o.Dir, v.Kept)))
		}
	}
	done, failed := p.revert(p.Undoing(t.Context(), run), false)
	wantSame(t, "restored", []string{"c"}, done)
	var me *resourcesync.MismatchError
	if len(failed) != 2 || !errors.As(failed["a"], &me) || !errors.Is(failed["b"], fs.ErrNotExist) {
		t.Errorf("failed: got %v, want a damaged and b gone", failed)
	}
	wantFiles(t, p.o.Dir, map[string]string{"a": "two", "c": "c"})
}

// A state is purged with its bytes, and what is held of it longer stays restorable.
func TestPurgingForgetsStatesAndBytesTogether(t *testing.T) {
	p := openPast(t)
	p.do(all(stated("a", "one", "2026-01-01", noon), stated("b", "b", "2026-01-01", noon)))
	p.do(stated("a", "two", "2026-01-02", noon))
	p.now = noon.AddDate(0, 0, 3)
	third := p.do(gone("b"))
	known, ok, err := p.Known(t.Context())
	if p.ok(err); !ok || !known.Equal(noon.Add(time.Hour)) {
		t.Errorf("known since %s, %v; want the first run", known, ok)
	}
	purge(t, p.Mirror, p.now, 2)
	wantSame(t, "states", 1, len(p.states("a")))
	if known, _, err = p.Known(t.Context()); err != nil || !known.Equal(time.Date(2026, 5, 2, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("known since %s, %v; want the day that stays", known, err)
	}
	purge(t, p.Mirror, p.now, 3)
	if known, _, err = p.Known(t.Context()); err != nil || known.Day() != 2 {
		t.Errorf("known since %s, %v after a longer retention: want what it was", known, err)
	}
	left := filesIn(t, p.o.Dir, func(path string) bool { return !strings.HasPrefix(path, trashKey+"/") })
	if len(left) != 1 {
		t.Errorf("trash: got %q, want b only", left)
	}
	if done, failed := p.revert(p.DeletedSince(t.Context(), third), false); len(done) != 1 || len(failed) > 0 {
		t.Errorf("restored %q, failed %v; want b", done, failed)
	}
}

// Sets that share a resource have each their states of it.
func TestSetsHaveStatesOfTheirOwn(t *testing.T) {
	p := openPast(t)
	inBoth := func(b destination.Batch) error {
		return errors.Join(put(b, set, "a", "one", noon), put(b, set2, "a", "one", noon))
	}
	p.do(inBoth)
	first := p.do(gone("a")) // the other set keeps the bytes
	p.do(func(b destination.Batch) error { return put(b, set2, "a", "two", noon.Add(time.Hour)) })
	if got := p.asOf(set, first); len(got) > 0 {
		t.Errorf("%s after the deletion: %v", set, got)
	}
	if got := p.asOf(set2, first); !strings.HasPrefix(got["a"], "one ") {
		t.Errorf("%s after the deletion: %v", set2, got)
	}
	if done, failed := p.revert(p.DeletedSince(t.Context(), first), false); len(done)+len(failed) > 0 {
		t.Fatalf("restored %q, failed %v; want nothing, since a set has it", done, failed)
	}
	wantFiles(t, p.o.Dir, map[string]string{"a": "two"})
	done, failed := p.revert(p.endedIn(set, "a"), false)
	if len(done) != 1 || len(failed) > 0 {
		t.Fatalf("restored %q, failed %v", done, failed)
	}
	wantFiles(t, p.o.Dir, map[string]string{"a": "one"})
	if got := p.asOf(set, p.now); !strings.HasPrefix(got["a"], "one ") {
		t.Errorf("%s after the restoration: %v", set, got)
	}
}

// A batch that is interrupted ends no state; done again, each state it ends has its bytes.
func TestInterruptedBatchesEndNoState(t *testing.T) {
	for i, f := range faults() {
		dir := t.TempDir()
		m := openMirror(t, options(dir))
		commit(t, m, fillBefore)
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		o, armed := options(dir), false
		o.bucket = func(b blob.Bucket) blob.Bucket {
			return blobtest.Faulty(b, func(c blobtest.Call) *blobtest.Fault {
				if !armed || f.plan == nil {
					return nil
				}
				return f.plan(c)
			})
		}
		m = openMirror(t, o)
		trigger(t, dir, f.sql)
		armed = true
		if err := tryCommit(m, storyMove, fillAfter); err == nil {
			t.Fatalf("fault %d: the batch was committed in spite of it", i)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		if f.sql != "" {
			trigger(t, dir, "DROP TRIGGER fault")
		}
		m = openMirror(t, options(dir))
		p := &pastMirror{Mirror: m, t: t}
		wantSame(t, f.name+": ended", map[string]string{}, p.told(m.Ended(t.Context(), time.Time{})))
		if err := tryCommit(m, storyMove, fillAfter); err != nil {
			t.Fatal(err)
		}
		wantSame(t, f.name+": ended when it was done again",
			map[string]string{"replaced": "old  ", "d/deleted": "deleted  ", "due": "damaged  "}, p.told(m.Ended(t.Context(), time.Time{})))
	}
}
