package republish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"instep/destination"
	"instep/internal/scan"
	"instep/resourcesync"
)

// compareEvery is the time after which the whole mirror is compared even if its log has all
// changes, because the log does not show that another program removed or modified a file.
const compareEvery = 30 * 24 * time.Hour

// position says up to which change a publication has read the change log of a mirror. It is
// stored as JSON.
type position struct {
	Catalog string    `json:"catalog"` // the identity of the catalog of the mirror
	Seq     int64     `json:"seq"`     // the number of the last change in the log that was read: see Mirror.LogEnd
	At      time.Time `json:"at"`
	// Doubtful is the number of the last change in the log at the end of the last
	// comparison with the whole mirror. It is unknown whether that comparison saw the
	// changes up to this number. Therefore such a change is left out if its resource has
	// another state now.
	Doubtful int64     `json:"doubtful,omitempty"`
	Compared time.Time `json:"compared"` // the time at which the whole mirror was last compared
	As       string    `json:"as"`       // a digest of the options with which the publication was made
}

func (p position) String() string {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // Marshal cannot fail, because all fields are strings, numbers and times
	}
	return string(text)
}

// reader decides whether a publication lists only the changes in the log of the mirror or
// all its resources.
type reader struct {
	*Input
	*lister
	now position
}

// positionSetting returns the name of the setting that stores the position up to which the
// set has read the log.
func (in *Input) positionSetting() string { return fmt.Sprint("mirror log ", in.Set) }

// setListing sets list.Listing. The listing has the changes in the log since the last
// publication if the log has all of them, otherwise all resources of the mirror.
func (r *reader) setListing(ctx context.Context, list *scan.List) error {
	list.Listing = r.list
	if r.Input.Mirror.Register == nil || r.OriginalURIs {
		return nil // the scan compares all resources, because two of them may have the same original URI, and the log does not show which one is published under that URI
	}
	was, err := r.lastPosition(ctx)
	if err != nil {
		return err
	}
	if r.now.Catalog, err = r.m.Catalog(ctx); err != nil {
		return err
	}
	if was.Catalog != r.now.Catalog {
		was = position{}
	}
	read := was.Seq
	if was.Catalog == "" { // all resources of the mirror are listed, so the changes that the log has now are not needed
		if read, _, err = r.m.LogEnd(ctx); err != nil {
			return err
		}
	}
	if !r.register(ctx, read) {
		return nil
	}
	if r.now.Seq, r.now.At, err = r.m.LogEnd(ctx); err != nil {
		return err
	}
	r.now.As, r.now.Compared = r.optionsDigest(list), r.Now().UTC()
	same := !r.Unpublished && !r.Whole && was.As == r.now.As
	if age := r.Now().Sub(was.Compared); !same || age < 0 || age >= compareEvery {
		return nil
	}
	has, err := r.m.LogHas(ctx, was.Seq, was.At)
	if err != nil || !has {
		return err
	}
	r.now.Doubtful, r.now.Compared, r.doubtful = was.Doubtful, was.Compared, was.Doubtful
	list.Changes, list.Listing = true, r.changes(was)
	return nil
}

// lastPosition returns the position at which the last publication stopped reading the log.
// It returns a zero position if that is unknown.
func (in *Input) lastPosition(ctx context.Context) (p position, err error) {
	text, _, err := in.Facts.Setting(ctx, in.positionSetting())
	if err == nil && json.Unmarshal([]byte(text), &p) != nil {
		p = position{}
	}
	return p, err
}

// register makes the mirror keep its log for this publication. If that fails, for example
// because the mirror is read-only, it returns false, and the next publication compares the
// whole mirror again.
func (r *reader) register(ctx context.Context, read int64) bool {
	if r.DryRun {
		return true // a dry run does not register, and finds no log if no real run has registered
	}
	err := r.Input.register(ctx, read)
	if err != nil {
		r.notes = append(r.notes, fmt.Sprintf("the mirror keeps no log of its changes for this publication, so each publication compares the whole mirror: %v", err))
	}
	return err == nil
}

func (in *Input) register(ctx context.Context, read int64) error {
	name, err := in.Identity(ctx)
	if err != nil {
		return err
	}
	return in.Mirror.Register(ctx, name, read)
}

// optionsDigest returns a digest of those options that affect the entries of resources. If
// it differs from that of the last publication, all resources are listed.
func (r *reader) optionsDigest(list *scan.List) string {
	text, err := json.Marshal([]any{list.BaseURL, list.Algorithms, list.Include, list.Exclude, list.Rules, r.lister.sets, r.Kept, r.Also})
	if err != nil {
		panic(err) // Marshal cannot fail, since all values consist of strings
	}
	h := resourcesync.NewHasher(resourcesync.SHA256)
	_, _ = h.Write(text) // writing to a Hasher never fails
	return h.Digests().String()
}

func (r *reader) storePosition(ctx context.Context, p *scan.Plan) error {
	if r.now.As == "" {
		return nil
	}
	if !p.Follows { // all resources were listed, so it is unknown whether the list has the changes that a run made meanwhile
		var err error
		if r.now.Doubtful, _, err = r.m.LogEnd(ctx); err != nil {
			return err
		}
	}
	p.Mark = r.now.String()
	return nil
}

// Apply records the changes of a plan, and registers the position up to which the log was
// read.
func (in Input) Apply(ctx context.Context, p *scan.Plan) (scan.Result, error) {
	list := *in.List
	list.Changes, list.Marks = p.Follows, in.positionSetting()
	r, err := list.Apply(ctx, p)
	if err != nil || p.Mark == "" || in.DryRun {
		return r, err
	}
	was, err := in.lastPosition(ctx)
	if err == nil && was.Catalog != "" {
		// The error is ignored, because the position that was registered before stays
		// valid, and the mirror only keeps more of its log than necessary.
		_ = in.register(ctx, was.Seq)
	}
	return r, err
}

// errStopped is returned to EachLogged to stop it when the consumer of the listing has
// stopped.
var errStopped = errors.New("the consumer wants no more changes")

// step is one change in the log of the mirror, with the state of the resource after the
// change.
type step struct {
	member
	mark string
	seq  int64
}

// changes returns a listing of the changes in the log after the position start. If the
// publication must keep the bytes of changes, the listing leaves out each earlier state
// whose bytes the mirror no longer has.
func (r *reader) changes(start position) scan.Listing {
	return func(ctx context.Context, _ time.Time) iter.Seq2[scan.Listed, error] {
		return func(yield func(scan.Listed, error) bool) {
			sets, p := r.lister.sets, r.now
			if r.Kept != "" {
				sets = append(sets[:len(sets):len(sets)], r.Kept)
			}
			var batch []step
			flush := func() error {
				err := r.flushChanges(ctx, batch, yield)
				batch = batch[:0]
				return err
			}
			err := r.m.EachLogged(ctx, start.Seq, r.now.Seq, sets, func(seq int64, at time.Time, states []destination.Held) error {
				one, err := mergeStates(states, r.Kept != "")
				if err != nil {
					return err
				}
				if !one.Member {
					one.URI, one.Path = states[0].URI, states[0].Path
				}
				p.Seq, p.At = seq, at
				if batch = append(batch, step{member: one, mark: p.String(), seq: seq}); len(batch) < lookupSize {
					return nil
				}
				return flush()
			})
			if err == nil {
				err = flush()
			}
			if err != nil && !errors.Is(err, errStopped) {
				yield(scan.Listed{}, err)
			}
		}
	}
}

func (r *reader) flushChanges(ctx context.Context, batch []step, yield func(scan.Listed, error) bool) error {
	if len(batch) == 0 {
		return nil
	}
	if err := r.setOutdated(ctx, batch); err != nil {
		return err
	}
	members := make([]member, len(batch))
	for i := range batch {
		members[i] = batch[i].member
	}
	copies, err := r.copyURIs(ctx, members, linksToResource)
	if err != nil {
		return err
	}
	for i := range batch {
		one := &batch[i]
		e, err := r.change(ctx, one, func(uri string) string { return copies[uri] })
		if one.outdated && one.seq <= r.doubtful {
			continue
		}
		if one.outdated && one.Member && r.Keep != nil {
			kept, failed := r.m.Kept(ctx, &one.Held)
			if kept == "" && failed == nil {
				continue
			}
			e.Kept, err = kept, errors.Join(err, failed)
		}
		if !yield(e, err) {
			return errStopped
		}
	}
	return nil
}

func (r *reader) change(ctx context.Context, one *step, copyOf func(string) string) (e scan.Listed, err error) {
	if !one.Member {
		return scan.Listed{URI: r.uri(&one.Held), Path: one.Path, Gone: true, Mark: one.mark}, nil
	}
	e, err = r.entry(ctx, &one.member, copyOf)
	if err == nil && e.Out == "" && !one.outdated && !e.Intact { // a run on the mirror may have replaced the file after setOutdated was called, so this is checked again
		now := []step{*one}
		if again := r.setOutdated(ctx, now); again != nil {
			return e, again
		}
		if one.outdated = now[0].outdated; one.outdated {
			e, err = r.entry(ctx, &one.member, copyOf)
		}
	}
	e.Mark = one.mark
	return e, err
}

// setOutdated sets the field outdated of each change whose resulting state is not the
// present one: the mirror has other bytes at the path, or none. A doubtful deletion (see
// isDoubtfulDeletion) is outdated if the mirror has the resource again.
func (r *reader) setOutdated(ctx context.Context, batch []step) error {
	uris := make([]string, len(batch))
	for i := range batch {
		uris[i] = batch[i].URI
	}
	for n, set := range r.lister.sets {
		if n > 0 && !slices.ContainsFunc(batch, r.isDoubtfulDeletion) {
			return nil
		}
		now, err := r.m.Lookup(ctx, set, uris)
		if err != nil {
			return err
		}
		for i := range batch {
			b, h := &batch[i], &now[i]
			switch {
			case r.isDoubtfulDeletion(*b):
				b.outdated = h.Member
			case b.Member:
				b.outdated = !h.Stored || h.Path != b.Path || h.Stamp != b.Stamp || h.Length != b.Length
			}
		}
	}
	return nil
}

// isDoubtfulDeletion reports whether a deletion is doubtful, because the resource may have
// been created again before the last comparison with the whole mirror ended.
func (r *reader) isDoubtfulDeletion(b step) bool {
	return !b.Member && b.seq <= r.doubtful && !b.outdated
}
