package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/blob"
)

// stepBucket makes each Put and Delete of a batch visible by itself and calls
// step before and after each: the finest grain at which a reader can look, and at
// which a process can die.
type stepBucket struct {
	blob.Bucket
	step func() error
}

func (b *stepBucket) Begin(ctx context.Context) (blob.Batch, error) {
	return &stepBatch{b: b}, nil
}

type stepBatch struct {
	b     *stepBucket
	steps []func(ctx context.Context) error
}

type stepObject struct{ bytes.Buffer }

func (o *stepObject) Close() error   { return nil }
func (o *stepObject) Discard() error { return nil }

func (b *stepBatch) Create(ctx context.Context) (blob.Object, error) { return &stepObject{}, nil }

func (b *stepBatch) Put(o blob.Object, p blob.Put) {
	b.steps = append(b.steps, func(ctx context.Context) error {
		_, err := blob.Write(ctx, b.b.Bucket, bytes.NewReader(o.(*stepObject).Bytes()), p)
		return err
	})
}

func (b *stepBatch) Move(from, to string) { panic("publishing moves nothing") }

func (b *stepBatch) Delete(key string) {
	b.steps = append(b.steps, func(ctx context.Context) error {
		return remove(ctx, b.b.Bucket, []string{key})
	})
}

func (b *stepBatch) Commit(ctx context.Context) error {
	for _, step := range b.steps {
		if err := b.b.step(); err != nil {
			return err
		}
		if err := step(ctx); err != nil {
			return err
		}
		if err := b.b.step(); err != nil {
			return err
		}
	}
	return nil
}

func (b *stepBatch) Discard() error { return nil }

// story is a life of publications that meets every kind: first, more changes, a
// new Resource List, a rotation, parts and no parts, and removal of old ones.
// Before each publication it changes the site.
func story(s *site) []func() Update {
	return []func() Update{
		func() Update { s.fill(5); return s.first() },
		func() Update { s.set("item/0.txt", "second"); return s.more(false) },
		func() Update { s.set("item/1.txt", ""); s.set("item/9.txt", "nine"); return s.more(true) },
		func() Update {
			before, at := len(s.changes), s.now.Add(time.Microsecond)
			s.set("item/2.txt", "third")
			s.set("item/1.txt", "again")
			return s.rotate(before, at, true)
		},
		func() Update { s.now = s.now.Add(30 * time.Hour); s.set("item/3.txt", ""); return s.more(true) },
		func() Update { s.set("item/4.txt", ""); s.set("item/0.txt", ""); return s.more(true) },
		func() Update { s.now = s.now.Add(30 * time.Hour); s.set("item/7.txt", "seven"); return s.more(true) },
	}
}

// TestCat_PUB_01: at every step a reader can walk from the Source Description
// without a dangling link or a gap and gets the state before or after; and a slow
// reader still finds what it was led to within a day.
func TestCat_PUB_01(t *testing.T) {
	s := newSite(t)
	told := map[string]time.Time{} // URIs that readers were led to, and when
	before, walks := map[string]string{}, 0
	s.bucket = &stepBucket{Bucket: s.bucket, step: func() error {
		w := newWalk(s.bucket)
		if err := w.walk(); err != nil {
			if _, started := s.log.docs["resourcesync/description.xml"]; !started && errors.Is(err, blob.ErrNotExist) {
				return nil
			}
			t.Error(err)
		}
		if !maps.Equal(w.state, before) && !maps.Equal(w.state, hashes(s.truth)) {
			t.Errorf("a reader gets neither the state before nor the one after: %s", cmp.Diff(hashes(s.truth), w.state))
		}
		for _, uri := range w.links {
			told[uri] = s.now
		}
		for uri, when := range told {
			if _, err := newWalk(s.bucket).read(uri); err != nil && s.now.Sub(when) < defaultKeep {
				t.Errorf("a slow reader: %v", err)
			}
		}
		walks++
		return nil
	}}
	s.reopen()
	for i, next := range story(s) {
		s.publish(next())
		w := newWalk(s.bucket)
		if err := w.walk(); err != nil {
			t.Fatalf("after publication %d: %v", i, err)
		}
		if diff := cmp.Diff(hashes(s.truth), w.state); diff != "" {
			t.Fatalf("after publication %d (-want +got):\n%s", i, diff)
		}
		before = hashes(s.truth)
	}
	if walks < 50 {
		t.Errorf("only %d walks: the story does not publish what it should", walks)
	}
}

// fuse ends the process, as it were, at one of the steps it counts: nothing works
// any more until it is mended.
type fuse struct {
	left  int // steps until it burns; < 0 never
	burnt bool
}

var errBurnt = errors.New("the process is dead")

func (f *fuse) step() error {
	if f.burnt {
		return errBurnt
	}
	if f.left == 0 {
		f.burnt = true
		return errBurnt
	}
	f.left--
	return nil
}

// fuseJournal burns before or after its writes take effect.
type fuseJournal struct {
	Journal
	f *fuse
}

func (j fuseJournal) write(do func() error) error {
	if err := j.f.step(); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return j.f.step()
}

func (j fuseJournal) Begin(ctx context.Context, set string) (id int64, err error) {
	return id, j.write(func() error { id, err = j.Journal.Begin(ctx, set); return err })
}

func (j fuseJournal) Commit(ctx context.Context, p Publication) error {
	return j.write(func() error { return j.Journal.Commit(ctx, p) })
}

func (j fuseJournal) Done(ctx context.Context, p Publication) error {
	return j.write(func() error { return j.Journal.Done(ctx, p) })
}

func (j fuseJournal) Forget(ctx context.Context, key string) error {
	return j.write(func() error { return j.Journal.Forget(ctx, key) })
}

// TestCat_PUB_02: the process dies at each step of each publication, before and
// after that step took effect. A reader sees old or new, complete; the next run
// finishes or undoes, and what is published in the end is the same.
func TestCat_PUB_02(t *testing.T) {
	total := len(story(newSite(t)))
	for n := range total {
		points := 0
		for ; crashAt(t, n, points); points++ {
		}
		if points < 10 {
			t.Errorf("publication %d has only %d steps to die at", n, points)
		}
	}
}

// crashAt tells the story up to publication n, which dies at step point; false if
// it has not so many steps.
func crashAt(t *testing.T, n, point int) bool {
	s := newSite(t)
	f := &fuse{left: -1}
	bucket := s.bucket
	s.bucket = &stepBucket{Bucket: bucket, step: f.step}
	s.staging = &stepBucket{Bucket: s.staging, step: f.step}
	s.journal = fuseJournal{s.log, f}
	s.reopen()
	chapters := story(s)
	for _, next := range chapters[:n] {
		s.publish(next())
	}
	before := hashes(s.truth)
	u := chapters[n]()
	f.left = point
	_, err := s.p.Publish(t.Context(), u)
	if err == nil {
		return false
	}
	where := fmt.Sprintf("publication %d, dead at step %d", n, point)
	if !errors.Is(err, errBurnt) {
		t.Fatalf("%s: got %v", where, err)
	}
	checkWalk(t, where, bucket, n == 0, before, hashes(s.truth))

	f.left, f.burnt = -1, false
	s.reopen()
	if _, err := s.p.Recover(t.Context(), ""); err != nil {
		t.Fatalf("%s: Recover: %v", where, err)
	}
	checkWalk(t, where+", recovered", bucket, n == 0, before, hashes(s.truth))
	if got := keysOf(t, s.staging); len(got) != 0 {
		t.Errorf("%s: staging holds %q after Recover", where, got)
	}
	last, _, err := s.log.Last(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if last.ChangesThrough < int64(len(s.changes)) || last.ID == 0 {
		s.publish(u) // it was undone: the run does it again
	}
	if err := s.p.Sweep(t.Context(), ""); err != nil {
		t.Fatalf("%s: Sweep: %v", where, err)
	}
	checkWalk(t, where+", published again", bucket, false, hashes(s.truth), hashes(s.truth))
	checkKnown(t, where, s, bucket)
	return true
}

// TestCommitWhoseAnswerIsLostIsFinished: the row is there though Commit failed.
func TestCommitWhoseAnswerIsLostIsFinished(t *testing.T) {
	s := newSite(t)
	s.fill(4)
	f := &fuse{left: -1}
	s.journal = lossyJournal{s.log, f}
	s.reopen()
	f.burnt = true
	if _, err := s.p.Publish(t.Context(), s.first()); !errors.Is(err, errBurnt) {
		t.Fatalf("Publish: got %v, want the lost answer", err)
	}
	pub, err := s.p.Recover(t.Context(), "")
	if err != nil || pub.ID != 1 {
		t.Fatalf("Recover: got publication %d, %v, want 1", pub.ID, err)
	}
	checkWalk(t, "recovered", s.bucket, false, hashes(s.truth))
}

// lossyJournal commits, and fails all the same while the fuse is burnt.
type lossyJournal struct {
	Journal
	f *fuse
}

func (j lossyJournal) Commit(ctx context.Context, p Publication) error {
	return errors.Join(j.Journal.Commit(ctx, p), j.f.step())
}

func checkWalk(t *testing.T, where string, b blob.Bucket, mayBeAbsent bool, states ...map[string]string) {
	t.Helper()
	w := newWalk(b)
	if err := w.walk(); err != nil {
		_, missing := b.Stat(t.Context(), descriptionKey)
		if mayBeAbsent && missing != nil {
			return
		}
		t.Errorf("%s: %v", where, err)
		return
	}
	if !slices.ContainsFunc(states, func(s map[string]string) bool { return maps.Equal(s, w.state) }) {
		t.Errorf("%s: a reader gets %v", where, w.state)
	}
}

// checkKnown: the bucket holds what the journal knows and nothing else.
func checkKnown(t *testing.T, where string, s *site, b blob.Bucket) {
	t.Helper()
	if diff := cmp.Diff(slices.Sorted(maps.Keys(s.log.docs)), keysOf(t, b)); diff != "" {
		t.Errorf("%s: known and there (-want +got):\n%s", where, diff)
	}
}
