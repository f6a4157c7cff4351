package mirror

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"time"

	"instep/destination"
	"instep/harvest"
	"instep/internal/catalog"
	"instep/resourcesync"
)

// ErrOvertaken is returned by Refused if a later run has changed the resource again.
var ErrOvertaken = errors.New("a later run has changed the resource again")

// Reversal is a step of Revert. Any Version of History, At or Ended that has ended can be
// used in a step.
type Reversal struct {
	Version      // the state to restore or, with Remove, the present state whose file is moved to the trash
	Remove  bool // whether the resource is removed, because it did not exist before the run that is undone
}

// Refused returns the reason for which Revert skips the step, ErrFound or ErrOvertaken;
// nil if there is none.
func (r *Reversal) Refused() error {
	switch {
	case r.SetURI == FoundSet:
		return ErrFound
	case r.overtaken:
		return ErrOvertaken
	}
	return nil
}

// always is a time that is later than every time that a Source states.
var always = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// DeletedSince yields the steps for Revert that restore the resources which were deleted
// at or after start and do not exist again.
func (m *Mirror) DeletedSince(ctx context.Context, start time.Time) iter.Seq2[Reversal, error] {
	return func(yield func(Reversal, error) bool) {
		deleted := m.labelled(ctx, func(h history) iter.Seq2[catalog.Version, error] { return h.DeletedSince(ctx, start) })
		for v, err := range deleted {
			if v.SetURI == KeptSet { // Release has removed the resource from KeptSet
				continue
			}
			if !yield(Reversal{Version: v}, err) {
				return
			}
		}
	}
}

// Undoing yields the steps for Revert that undo a run: they restore states that the run
// replaced or deleted, and move resources that it created to the trash.
func (m *Mirror) Undoing(ctx context.Context, run int64) iter.Seq2[Reversal, error] {
	return func(yield func(Reversal, error) bool) {
		if m.cat == nil {
			return
		}
		sets, err := m.facts.Sets(ctx)
		if err != nil {
			yield(Reversal{}, err)
			return
		}
		each := func(remove bool, states func(history) iter.Seq2[catalog.Version, error]) bool {
			for v, err := range m.labelled(ctx, states) {
				if !yield(Reversal{v, remove}, err) {
					return false
				}
			}
			return true
		}
		more := each(false, func(h history) iter.Seq2[catalog.Version, error] { return h.RunVersions(ctx, run) })
		for _, s := range sets {
			more = more && each(true, func(h history) iter.Seq2[catalog.Version, error] { return h.RunCreated(ctx, run, s.ID) }) &&
				each(true, func(h history) iter.Seq2[catalog.Version, error] { return h.RunOvertaken(ctx, run, s.ID) })
		}
	}
}

// RevertOptions are the options of Revert.
type RevertOptions struct {
	// Keep keeps the restored states until Release, whatever the Source states. Without
	// Keep, the next run synchronizes the resources with the Source again: it fetches the
	// newer state of a restored resource, and if the Source has no such resource any
	// more, it compares the whole set.
	Keep bool
	// Done is called for each step, with nil when the step is durable, or with the reason
	// for which it is skipped. Done may be nil.
	Done func(Reversal, error)
}

// Limits of a batch: those of a batch that a Destination fills.
const (
	revertResources = 250
	revertBytes     = 32 << 20
)

// Revert restores earlier states, with their bytes and metadata. The states that they
// replace become earlier states. It skips a step that is Refused, whose bytes do not
// exist any more (fs.ErrNotExist) or are damaged (*resourcesync.MismatchError), or whose
// path is occupied (destination.ErrOccupied), and calls o.Done with the reason. If Revert
// returns an error, the steps for which it has called o.Done with nil are durable.
func (m *Mirror) Revert(ctx context.Context, steps iter.Seq2[Reversal, error], o RevertOptions) error {
	if m.readOnly {
		return ErrReadOnly
	}
	r := reverter{m: m, o: o, stale: map[catalog.SetID]bool{}}
	defer func() { r.discard() }()
	for step, err := range steps {
		if err != nil {
			return err
		}
		if err := r.add(ctx, &step); err != nil {
			return err
		}
	}
	return r.commit(ctx)
}

type reverter struct {
	m     *Mirror
	o     RevertOptions
	batch *batch
	steps []Reversal // the steps whose changes are in the batch
	bytes int64
	stale map[catalog.SetID]bool // sets that the next run already has to compare completely
}

func (r *reverter) add(ctx context.Context, step *Reversal) error {
	if err := step.Refused(); err != nil {
		r.done(step, err)
		return nil
	}
	if err := r.begin(ctx); err != nil {
		return err
	}
	n, err := r.take(ctx, step)
	var damaged *resourcesync.MismatchError
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrNotExist), errors.As(err, &damaged), errors.Is(err, destination.ErrOccupied):
		r.done(step, err)
		return nil
	default:
		return err
	}
	r.steps = append(r.steps, *step)
	if r.bytes += n; len(r.steps) < revertResources && r.bytes < revertBytes {
		return nil
	}
	return r.commit(ctx)
}

func (r *reverter) begin(ctx context.Context) error {
	if r.batch != nil {
		return nil
	}
	b, err := r.m.Begin(ctx)
	if err != nil {
		return err
	}
	r.batch = b.(*batch)
	r.batch.Consent() // the caller of Revert has asked for the deletions
	return nil
}

func (r *reverter) discard() {
	if r.batch != nil {
		_ = r.batch.Discard() // files that remain are removed when the mirror is opened again
	}
}

func (r *reverter) done(step *Reversal, err error) {
	if r.o.Done != nil {
		r.o.Done(*step, err)
	}
}

func (r *reverter) commit(ctx context.Context) error {
	if r.batch == nil {
		return nil
	}
	err := r.batch.Commit(ctx, nil)
	r.batch = nil
	if err != nil {
		return err
	}
	for i := range r.steps {
		r.done(&r.steps[i], nil)
	}
	r.steps, r.bytes = r.steps[:0], 0
	return nil
}

// take adds the changes of a step to the batch, and returns the number of bytes that it
// restores.
func (r *reverter) take(ctx context.Context, step *Reversal) (int64, error) {
	if step.Remove {
		if err := r.recompare(ctx, step.set); err != nil {
			return 0, err
		}
		return 0, r.batch.add(step.URI, nil, &claim{gone: true, state: catalog.Membership{Set: step.set, URI: step.URI}})
	}
	row, err := r.m.row(ctx, step.set, step.URI)
	if err != nil {
		return 0, err
	}
	var c *content
	if !row.Stored || row.Digests.Get(resourcesync.SHA256) != sum(&step.Version) {
		if c, err = r.bytesOf(ctx, step, &row); err != nil {
			return 0, err
		}
	}
	claims, err := r.claims(ctx, step, &row, c != nil)
	if err != nil {
		return 0, err
	}
	replaces := c != nil && row.Stored
	for _, cl := range claims {
		cl.typ, cl.verified = step.Type, step.Verified
		cl.noted = c == nil && (row.Type != step.Type || row.Verified != step.Verified)
		if err := r.batch.add(step.URI, c, cl); err != nil {
			return 0, err
		}
		c = nil // one claim is enough to add the content
	}
	if replaces && !r.o.Keep {
		err = r.othersDue(ctx, step, &row)
	}
	return step.Length.Int64(), err
}

// othersDue makes the resource of a step due in its other sets, since the step replaces
// their bytes, too. It leaves out sets for which the batch has a step.
func (r *reverter) othersDue(ctx context.Context, step *Reversal, row *catalog.Resource) error {
	kept, err := r.m.set(ctx, KeptSet)
	if err != nil {
		return err
	}
	members, err := r.m.makeDue(ctx, []catalog.Resource{*row}, restoredReason)
	if err != nil {
		return err
	}
	for _, other := range members {
		if other.Set == kept || r.batch.claims(step.URI, other.Set) {
			continue
		}
		if err := r.batch.add(step.URI, nil, &claim{state: other}); err != nil {
			return err
		}
	}
	return nil
}

func (b *batch) claims(uri string, set catalog.SetID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[uri]
	return e != nil && e.claims[set] != nil
}

// bytesOf verifies the bytes of a state and adds them to the batch.
func (r *reverter) bytesOf(ctx context.Context, step *Reversal, row *catalog.Resource) (*content, error) {
	w := harvest.Resource{URI: step.URI, LastMod: step.LastMod, Length: step.Length, Digests: step.Digests, Type: step.Type, Changed: always}
	if info, err := r.m.bucket.Stat(ctx, step.Kept); step.Kept != "" && err == nil {
		w.Modified = info.ModTime // the modification time that the Source stated
	}
	if err := r.batch.unoccupied(ctx, &w, row); err != nil {
		return nil, err
	}
	body, err := r.m.OpenVersion(ctx, &step.Version)
	if err != nil {
		return nil, err
	}
	c, _, err := r.batch.receive(ctx, &w, body)
	if err := errors.Join(err, body.Close()); err != nil {
		return nil, err
	}
	if c.verified = step.Verified; !c.verified {
		c.proof = "" // the Source gave no digests
	}
	return c, nil
}

// restoredReason is the reason for which a restored resource is due when the Source has a
// newer state.
const restoredReason = "an earlier state of the resource was restored"

// claims returns the claims for a restored state. replaces reports whether the step
// changes the bytes of the resource.
func (r *reverter) claims(ctx context.Context, step *Reversal, row *catalog.Resource, replaces bool) ([]*claim, error) {
	state := catalog.Membership{Set: step.set, URI: step.URI, Changed: step.Changed, LastMod: step.LastMod, Remainder: step.remainder}
	if row.Member {
		state.Changed = row.Changed // the recorded time of a state must not decrease
	}
	if r.o.Keep {
		kept, err := r.m.makeSet(ctx, KeptSet)
		if err != nil {
			return nil, err
		}
		claims := []*claim{{state: catalog.Membership{Set: kept, URI: step.URI, Changed: always, LastMod: step.LastMod, Remainder: step.remainder}}}
		if row.Member {
			claims = append(claims, &claim{state: state})
		}
		return claims, nil
	}
	switch {
	case !row.Member:
		if err := r.recompare(ctx, state.Set); err != nil {
			return nil, err
		}
	case replaces || row.LastMod != step.LastMod || row.Type != step.Type || row.Remainder != step.remainder:
		state.Due, state.Wanted = restoredReason, row.Wanted
		if row.Due == "" {
			var err error
			if state.Wanted, err = wantedOf(row); err != nil {
				return nil, err
			}
		}
	}
	return []*claim{{state: state}}, nil
}

// recompare makes the next run compare a set with everything that the Source lists. It
// must be called before the change that requires this.
func (r *reverter) recompare(ctx context.Context, set catalog.SetID) error {
	if r.stale[set] {
		return nil
	}
	names, err := r.m.setNames(ctx)
	if err != nil {
		return err
	}
	if err := r.m.recompare(ctx, names[set]); err != nil {
		return err
	}
	r.stale[set] = true
	return nil
}

func (m *Mirror) recompare(ctx context.Context, set string) error {
	cur, ok, err := m.Cursor(ctx, set)
	if err != nil || !ok || cur.Scope == destination.ScopeRestored {
		return err
	}
	cur.Scope = destination.ScopeRestored
	b, err := m.Begin(ctx)
	if err != nil {
		return err
	}
	return b.Commit(ctx, &destination.CursorMove{Set: set, Cursor: cur})
}

// Release removes a resource from KeptSet, so that the next run synchronizes the resource
// with the Source. It returns ErrNoVersion for a resource that is not in KeptSet.
func (m *Mirror) Release(ctx context.Context, uri string) error {
	if m.readOnly {
		return ErrReadOnly
	}
	kept, err := m.set(ctx, KeptSet)
	if err != nil {
		return err
	}
	present, err := m.own.Present(ctx, uri)
	if err != nil {
		return err
	}
	names, err := m.setNames(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(present, func(v catalog.Version) bool { return v.Set == kept }) {
		return fmt.Errorf("%w: the resource is not held in an earlier state", ErrNoVersion)
	}
	for _, v := range present {
		if err := m.recompare(ctx, names[v.Set]); err != nil {
			return err
		}
	}
	b, err := m.Begin(ctx)
	if err != nil {
		return err
	}
	for _, v := range present {
		if err := m.release(ctx, b, names[v.Set], &v); err != nil {
			return errors.Join(err, b.Discard())
		}
	}
	return b.Commit(ctx, nil)
}

// release makes a resource due in a set of the Source, since the stored bytes may not be
// those that the Source last stated. It removes the resource from KeptSet.
func (m *Mirror) release(ctx context.Context, b destination.Batch, set string, v *catalog.Version) error {
	if set == KeptSet {
		return b.Delete(ctx, set, v.URI, time.Time{})
	}
	if row, err := m.row(ctx, v.Set, v.URI); err != nil || row.Due != "" {
		return err
	}
	w := harvest.Resource{URI: v.URI, LastMod: v.LastMod, Changed: v.Changed, Remainder: harvest.NewRemainder(v.Remainder)}
	return b.Due(ctx, set, w, "the resource was held in an earlier state")
}
