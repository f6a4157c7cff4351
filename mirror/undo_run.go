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

// ErrOvertaken is the reason why Revert skips a step if a later run has changed the
// resource again.
var ErrOvertaken = errors.New("a later run has changed the resource again")

// Reversal is one step of Revert: it restores an earlier state of a resource, or
// removes the resource. The Version can be any state that History, At or Ended has
// yielded. Restoring a present state is useful only with RevertOptions.Keep.
type Reversal struct {
	Version      // the state to restore; with Remove, the present state
	Remove  bool // whether the step moves the file of the resource to the trash, because the run to undo created the resource
	Stays   bool // whether the step changes only KeptSet, so that the resource stays in other sets
}

// Refused returns the reason why Revert will skip this step: ErrFound or ErrOvertaken. It
// returns nil if Revert will try the step.
func (r *Reversal) Refused() error {
	switch {
	case r.SetURI == FoundSet:
		return ErrFound
	case r.overtaken:
		return ErrOvertaken
	}
	return nil
}

// farFuture is a time that is later than every time of change that a Source can state.
var farFuture = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// DeletedSince yields steps for Revert that restore resources. These resources were
// deleted at the time start or later, and no set has them now.
func (m *Mirror) DeletedSince(ctx context.Context, start time.Time) iter.Seq2[Reversal, error] {
	return func(yield func(Reversal, error) bool) {
		deleted := m.labelled(ctx, func(h history) iter.Seq2[catalog.Version, error] { return h.DeletedSince(ctx, start) })
		for v, err := range deleted {
			if v.SetURI == KeptSet { // not a deletion by the Source, since KeptSet belongs to the mirror
				continue
			}
			if !yield(Reversal{Version: v}, err) {
				return
			}
		}
	}
}

// Undoing yields the steps for Revert that undo a run. They restore the states that the
// run replaced or deleted. They remove the resources that the run created, by moving
// their files to the trash.
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
				step := Reversal{Version: v, Remove: remove}
				if err == nil && v.SetURI == KeptSet {
					var members []catalog.Membership
					members, err = m.own.Holders(ctx, []string{v.URI})
					step.Stays = slices.ContainsFunc(members, func(other catalog.Membership) bool { return other.Set != v.set })
				}
				if !yield(step, err) {
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
	// Keep protects the restored states from all changes of the Source until Release is
	// called. Without Keep, the next run fetches the newer states of restored resources
	// again. If the Source does not have a restored resource any more, the next run
	// compares the whole set.
	Keep bool
	// Done is called for each step: with nil when the step is durable, or with the reason
	// why it was skipped. Done may be nil.
	Done func(Reversal, error)
}

// A batch of Revert has at most these numbers of resources and bytes, like a batch of a
// Destination.
const (
	revertResources = 250
	revertBytes     = 32 << 20
)

// Revert restores earlier states of resources, with their bytes and metadata. The states
// that they replace become earlier states. It skips a step if Refused returns an error,
// if the bytes do not exist any more (fs.ErrNotExist) or are damaged
// (*resourcesync.MismatchError), or if the path is occupied (destination.ErrOccupied). It
// calls o.Done with the reason, and continues. If Revert returns an error, the steps for
// which it has called o.Done with nil remain done.
func (m *Mirror) Revert(ctx context.Context, steps iter.Seq2[Reversal, error], o RevertOptions) error {
	if m.readOnly {
		return ErrReadOnly
	}
	r := reverter{m: m, o: o, stale: map[catalog.SetID]destination.Cursor{}}
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
	steps []Reversal // the steps that are in the batch
	bytes int64
	stale map[catalog.SetID]destination.Cursor // the cursors of the sets for which recompare has been called
}

func (r *reverter) add(ctx context.Context, step *Reversal) error {
	if err := step.Refused(); err != nil {
		r.report(step, err)
		return nil
	}
	if err := r.begin(ctx); err != nil {
		return err
	}
	n, err := r.addToBatch(ctx, step)
	var damaged *resourcesync.MismatchError
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrNotExist), errors.As(err, &damaged), errors.Is(err, destination.ErrOccupied):
		r.report(step, err)
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
	r.batch.Consent() // the deletions are approved, because the user has called Revert
	return nil
}

func (r *reverter) discard() {
	if r.batch != nil {
		_ = r.batch.Discard() // the error is ignored: Open removes the files that remain
	}
}

func (r *reverter) report(step *Reversal, err error) {
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
		r.report(&r.steps[i], nil)
	}
	r.steps, r.bytes = r.steps[:0], 0
	return nil
}

// addToBatch adds a step to the batch. It returns the number of bytes that the step
// restores.
func (r *reverter) addToBatch(ctx context.Context, step *Reversal) (int64, error) {
	if step.Remove && step.SetURI == KeptSet {
		return 0, r.release(ctx, step.URI)
	}
	if step.Remove {
		if _, err := r.recompare(ctx, step.set); err != nil {
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
	claims, err := r.membershipChanges(ctx, step, &row, c != nil)
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
		c = nil // the content is in the batch after the first call of add
	}
	if replaces && !r.o.Keep {
		err = r.makeOthersDue(ctx, step, &row)
	}
	return step.Length.Int64(), err
}

// makeOthersDue marks the resource of a step as due in its other sets, because the step
// replaces the bytes for these sets, too. It omits sets for which the batch already has
// a step for the resource.
func (r *reverter) makeOthersDue(ctx context.Context, step *Reversal, row *catalog.Resource) error {
	kept, err := r.m.setID(ctx, KeptSet)
	if err != nil {
		return err
	}
	members, err := r.m.makeDue(ctx, []catalog.Resource{*row}, restoredReason)
	if err != nil {
		return err
	}
	for _, other := range members {
		if other.Set == kept || r.batch.hasClaim(step.URI, other.Set) {
			continue
		}
		if err := r.batch.add(step.URI, nil, &claim{state: other}); err != nil {
			return err
		}
	}
	return nil
}

func (b *batch) hasClaim(uri string, set catalog.SetID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[uri]
	return e != nil && e.claims[set] != nil
}

// bytesOf verifies the bytes of an earlier state and adds a copy of them to the batch.
func (r *reverter) bytesOf(ctx context.Context, step *Reversal, row *catalog.Resource) (*content, error) {
	w := harvest.Resource{URI: step.URI, LastMod: step.LastMod, Length: step.Length, Digests: step.Digests, Type: step.Type, Changed: farFuture}
	if info, err := r.m.bucket.Stat(ctx, step.Kept); step.Kept != "" && err == nil {
		w.Modified = info.ModTime // a file in the trash still has the modification time that the Source stated
	}
	if err := r.batch.checkVacant(ctx, &w, row); err != nil {
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
		c.proof = "" // no digest that the Source gave has verified these bytes
	}
	return c, nil
}

// restoredReason is the reason why a restored resource is due, so that the next run
// fetches the newer state from the Source.
const restoredReason = "an earlier state of the resource was restored"

// membershipChanges returns the changes of memberships that restore a state. The
// parameter replaces says whether the step replaces the bytes of the resource.
func (r *reverter) membershipChanges(ctx context.Context, step *Reversal, row *catalog.Resource, replaces bool) ([]*claim, error) {
	state := catalog.Membership{Set: step.set, URI: step.URI, Changed: step.Changed, LastMod: step.LastMod, Remainder: step.remainder}
	if row.Member {
		state.Changed = row.Changed // kept, since the time of change in the catalog must not become earlier
	}
	if r.o.Keep {
		kept, err := r.m.makeSet(ctx, KeptSet)
		if err != nil {
			return nil, err
		}
		claims := []*claim{{state: catalog.Membership{Set: kept, URI: step.URI, Changed: farFuture, LastMod: step.LastMod, Remainder: step.remainder}}}
		if row.Member {
			claims = append(claims, &claim{state: state})
		}
		return claims, nil
	}
	switch {
	case step.SetURI == KeptSet: // nothing to compare, since no Source states anything about KeptSet
	case !row.Member:
		cur, err := r.recompare(ctx, state.Set)
		if err != nil {
			return nil, err
		}
		told, err := r.m.own.Evidence(ctx, step.set, []string{step.URI})
		if err != nil {
			return nil, err
		}
		// Only a change after the newest list proves a deletion. Without one, the resource
		// counts as Unnamed: if two lists of the same moment contradict each other, the
		// list without the resource is believed.
		last, listed := told[step.URI], cur.Listed
		if !cur.Sure.IsZero() { // Sure is only set if Listed is in the future, and then replaces Listed
			listed = cur.Sure
		}
		state.Unnamed = !last.Gone || !last.Told || !last.Moment.After(listed)
	case replaces || row.LastMod != step.LastMod || row.Type != step.Type || row.Remainder != step.remainder:
		state.Due, state.Wanted = restoredReason, row.Wanted
		if row.Due != "" {
			break
		}
		var err error
		if state.Wanted, err = r.m.statedOf(ctx, row); err != nil {
			return nil, err
		}
	}
	return []*claim{{state: state}}, nil
}

// recompare makes the next run compare the whole set with the lists of the Source, and
// returns the cursor of the set. It is called before the change that makes this
// comparison necessary, so that a crash in between does no harm.
func (r *reverter) recompare(ctx context.Context, set catalog.SetID) (destination.Cursor, error) {
	if cur, ok := r.stale[set]; ok {
		return cur, nil
	}
	names, err := r.m.setNames(ctx)
	if err != nil {
		return destination.Cursor{}, err
	}
	cur, err := r.m.recompare(ctx, names[set])
	if err == nil {
		r.stale[set] = cur
	}
	return cur, err
}

func (m *Mirror) recompare(ctx context.Context, set string) (destination.Cursor, error) {
	cur, ok, err := m.Cursor(ctx, set)
	if err != nil || !ok || cur.Scope == destination.ScopeRestored {
		return cur, err
	}
	cur.Scope = destination.ScopeRestored
	b, err := m.Begin(ctx)
	if err != nil {
		return cur, err
	}
	return cur, b.Commit(ctx, &destination.CursorMove{Set: set, Cursor: cur})
}

// Release removes a resource from KeptSet, so that the next run synchronizes the resource
// with the Source. It returns ErrNoVersion for a resource that is not in KeptSet.
func (m *Mirror) Release(ctx context.Context, uri string) error {
	if m.readOnly {
		return ErrReadOnly
	}
	kept, err := m.isKept(ctx, uri)
	if err != nil {
		return err
	}
	if !kept {
		return fmt.Errorf("%w: the resource is not held in an earlier state", ErrNoVersion)
	}
	r := reverter{m: m, stale: map[catalog.SetID]destination.Cursor{}}
	defer func() { r.discard() }()
	if err := r.begin(ctx); err != nil {
		return err
	}
	if err := r.release(ctx, uri); err != nil {
		return err
	}
	return r.commit(ctx)
}

func (m *Mirror) isKept(ctx context.Context, uri string) (bool, error) {
	kept, err := m.setID(ctx, KeptSet)
	if err != nil || kept == 0 {
		return false, err
	}
	row, err := m.row(ctx, kept, uri)
	return row.Member, err
}

// release ends the membership of a resource in KeptSet. It marks the resource as due in
// the sets of the Source, since the stored bytes may not be the last ones that the
// Source stated. It omits sets for which the batch already has a step for the resource.
func (r *reverter) release(ctx context.Context, uri string) error {
	names, err := r.m.setNames(ctx)
	if err != nil {
		return err
	}
	members, err := r.m.own.Holders(ctx, []string{uri})
	if err != nil {
		return err
	}
	for _, v := range members {
		set := names[v.Set]
		if set == KeptSet {
			err = r.batch.Delete(ctx, set, uri, time.Time{})
		} else if _, err = r.recompare(ctx, v.Set); err == nil && v.Due == "" && !r.batch.hasClaim(uri, v.Set) {
			w := harvest.Resource{URI: uri, LastMod: v.LastMod, Changed: v.Changed, Remainder: harvest.NewRemainder(v.Remainder)}
			err = r.batch.Due(ctx, set, w, "the resource was held in an earlier state")
		}
		if err != nil {
			return err
		}
	}
	return nil
}
