package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
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

func (b *stepBatch) Take(context.Context, string) (blob.Object, error) {
	panic("publishing takes nothing")
}

func (b *stepBatch) Move(from, to string) { panic("publishing moves nothing") }

func (b *stepBatch) Delete(key string) {
	b.steps = append(b.steps, func(ctx context.Context) error {
		return blob.Remove(ctx, b.b.Bucket, []string{key})
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

// fullStory is a life in which everything is offered: Change Lists that are divided and
// leave the index, dumps that begin, go on and end, archives that lose their oldest.
func fullStory(s *site) []func() Update {
	divide := func(rebase bool) func() Update {
		return func() Update {
			s.now = s.now.Add(26 * time.Hour)
			s.set("item/2.txt", "before "+s.now.String())
			before, at := len(s.changes), s.now.Add(time.Microsecond)
			s.set("item/3.txt", "after "+s.now.String())
			s.set("item/1.txt", "")
			s.set("item/1.txt", "again "+s.now.String())
			return s.rotate(before, at, rebase)
		}
	}
	more := func(rebase bool) func() Update {
		return func() Update { s.set("item/5.txt", s.now.String()); return s.more(rebase) }
	}
	with := func(change func(), next func() Update) func() Update {
		return func() Update { change(); return next() }
	}
	return []func() Update{
		with(func() { s.dumps = false; s.policy.Archive = nil; s.fill(5) }, s.first),
		with(s.offerAll, more(true)),
		more(false), divide(true), divide(false), divide(true), more(false), divide(true), divide(true),
		with(func() { s.policy.KeepChanges = 24 * time.Hour }, divide(true)),
		divide(true), more(true),
		with(func() { s.policy.Archive = &Archive{Count: 2} }, divide(true)),
		divide(true), divide(true),
		with(func() { s.dumps = false }, divide(true)),
		with(func() { s.policy.Archive = nil }, divide(true)),
		with(s.offerAll, divide(true)), divide(true),
	}
}

// TestCat_PUB_01: at every step a reader can walk from the Source Description
// without a dangling link or a gap and gets the state before or after, or one between
// them; and a slow reader still finds what it was led to within a day.
func TestCat_PUB_01(t *testing.T) {
	for name, tell := range map[string]func(*site) []func() Update{"plain": story, "everything": fullStory} {
		t.Run(name, func(t *testing.T) { walkWhilePublishing(t, tell) })
	}
}

func walkWhilePublishing(t *testing.T, tell func(*site) []func() Update) {
	s := newSite(t)
	told := map[string]time.Time{} // URIs that readers were led to, and when
	before, walks := 0, 0
	var most walk
	s.bucket = &stepBucket{Bucket: s.bucket, step: func() error {
		w := newWalk(s.bucket)
		if err := w.walk(); err != nil {
			if _, started, _ := s.log.Document(t.Context(), "resourcesync/description.xml"); !started && errors.Is(err, blob.ErrNotExist) {
				return nil
			}
			t.Error(err)
		}
		if !s.had(before, w.state) {
			t.Errorf("a reader gets no state since the one before: %s", cmp.Diff(hashes(s.truth), w.state))
		}
		for _, uri := range w.links {
			told[uri] = s.now
		}
		for uri, when := range told {
			if _, err := newWalk(s.bucket).bytes(uri); err != nil && s.now.Sub(when) < defaultKeep {
				t.Errorf("a slow reader: %v", err)
			}
		}
		most.packed, most.archived = max(most.packed, w.packed), max(most.archived, w.archived)
		walks++
		return nil
	}}
	s.reopen()
	for i, next := range tell(s) {
		s.publish(next())
		w := newWalk(s.bucket)
		if err := w.walk(); err != nil {
			t.Fatalf("after publication %d: %v", i, err)
		}
		if diff := cmp.Diff(hashes(s.truth), w.state); diff != "" {
			t.Fatalf("after publication %d (-want +got):\n%s", i, diff)
		}
		before = len(s.changes)
	}
	if walks < 50 || s.policy.Archive != nil && (most.packed < 10 || most.archived < 10) {
		t.Errorf("only %d walks, with %d packages and %d archived documents: the story does not publish what it should", walks, most.packed, most.archived)
	}
}

// had reports whether the site was in this state at that change or since.
func (s *site) had(since int, state map[string]string) bool {
	return slices.ContainsFunc(s.states[since:], func(had map[string]string) bool { return maps.Equal(had, state) })
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
// finishes or undoes, and what is published in the end is the same. Of the long story
// it is each eleventh step, unless INSTEP_LONG is set.
func TestCat_PUB_02(t *testing.T) {
	stride := 11
	if os.Getenv("INSTEP_LONG") != "" {
		stride = 1
	}
	t.Run("plain", func(t *testing.T) { crashEverywhere(t, story, 1) })
	t.Run("everything", func(t *testing.T) { crashEverywhere(t, fullStory, stride) })
}

func crashEverywhere(t *testing.T, tell func(*site) []func() Update, stride int) {
	s := newSite(t)
	for n, next := range tell(s) {
		points := n % stride
		for ; crashAt(t, s.clone(), tell, n, points); points += stride {
		}
		if points < 10 {
			t.Errorf("publication %d has only %d steps to die at", n, points)
		}
		s.publish(next())
	}
}

// crashAt tells chapter n of the story, and dies at step point; false if it has not
// so many steps.
func crashAt(t *testing.T, s *site, tell func(*site) []func() Update, n, point int) bool {
	f := &fuse{left: -1}
	bucket := s.bucket
	s.bucket = &stepBucket{Bucket: bucket, step: f.step}
	s.staging = &stepBucket{Bucket: s.staging, step: f.step}
	s.journal = fuseJournal{s.log, f}
	s.reopen()
	chapters := tell(s)
	before := len(s.changes)
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
	s.checkWalk(where, bucket, n == 0, before)

	f.left, f.burnt = -1, false
	s.reopen()
	if _, err := s.p.Recover(t.Context(), ""); err != nil {
		t.Fatalf("%s: Recover: %v", where, err)
	}
	s.checkWalk(where+", recovered", bucket, n == 0, before)
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
	s.checkWalk(where+", published again", bucket, false, len(s.changes))
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
	s.checkWalk("recovered", s.bucket, false, len(s.changes))
}

// lossyJournal commits, and fails all the same while the fuse is burnt.
type lossyJournal struct {
	Journal
	f *fuse
}

func (j lossyJournal) Commit(ctx context.Context, p Publication) error {
	return errors.Join(j.Journal.Commit(ctx, p), j.f.step())
}

// checkWalk: a reader gets a state that the site had at that change or since.
func (s *site) checkWalk(where string, b blob.Bucket, mayBeAbsent bool, since int) {
	s.t.Helper()
	w := newWalk(b)
	if err := w.walk(); err != nil {
		_, missing := b.Stat(s.t.Context(), descriptionKey)
		if mayBeAbsent && missing != nil {
			return
		}
		s.t.Errorf("%s: %v", where, err)
		return
	}
	if !s.had(since, w.state) {
		s.t.Errorf("%s: a reader gets %v", where, w.state)
	}
}

// checkKnown: the bucket holds what the journal knows and nothing else.
func checkKnown(t *testing.T, where string, s *site, b blob.Bucket) {
	t.Helper()
	if diff := cmp.Diff(s.known(), keysOf(t, b)); diff != "" {
		t.Errorf("%s: known and there (-want +got):\n%s", where, diff)
	}
}
