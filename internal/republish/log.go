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

// compareEvery is how often all that a mirror holds is compared though its log has all changes:
// nobody logs that a file of the mirror was removed or written to by others.
const compareEvery = 30 * 24 * time.Hour

// position is how far a publication has read the log of a mirror. It is kept as JSON.
type position struct {
	Catalog string    `json:"catalog"` // of the mirror
	Seq     int64     `json:"seq"`     // see Mirror.LogEnd
	At      time.Time `json:"at"`
	// Doubtful is the number of the last change that may have been there already when all was
	// compared. Up to it only what is held now counts: an earlier state was published, or
	// never will be.
	Doubtful int64     `json:"doubtful,omitempty"`
	Compared time.Time `json:"compared"` // when all was compared last
	As       string    `json:"as"`       // digest of how the mirror was published
}

func (p position) String() string {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // it holds texts, numbers and moments
	}
	return string(text)
}

// reader finds out what a publication has to list.
type reader struct {
	*Input
	*lister
	now position
}

// mark is the setting that keeps the position of a set.
func (in *Input) mark() string { return fmt.Sprint("mirror log ", in.Set) }

// begin makes list one of the changes since the last publication, or of all.
func (r *reader) begin(ctx context.Context, list *scan.List) error {
	list.Listing = r.list
	if r.Input.Mirror.Register == nil || r.OriginalURIs {
		return nil // under the URIs of the origin one resource may take that of another
	}
	was, err := r.last(ctx)
	if err != nil {
		return err
	}
	if r.now.Catalog, err = r.m.Catalog(ctx); err != nil {
		return err
	}
	if was.Catalog != r.now.Catalog {
		was = position{}
	}
	if !r.register(ctx, was.Seq) {
		return nil
	}
	if r.now.Seq, r.now.At, err = r.m.LogEnd(ctx); err != nil {
		return err
	}
	r.now.As, r.now.Compared = r.as(list), r.Now().UTC()
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

// last is the position of the last publication; the zero position if it is unknown.
func (in *Input) last(ctx context.Context) (p position, err error) {
	text, _, err := in.Facts.Setting(ctx, in.mark())
	if err == nil && json.Unmarshal([]byte(text), &p) != nil {
		p = position{}
	}
	return p, err
}

// register makes the mirror keep its log for this publication. If that fails, since the mirror
// can only be read for one, the next publication compares all, too.
func (r *reader) register(ctx context.Context, read int64) bool {
	if r.DryRun {
		return true // it has registered, or else there is no log
	}
	err := r.Input.register(ctx, read)
	if err != nil {
		r.notes = append(r.notes, fmt.Sprintf("the mirror keeps no log of its changes for this publication, so each one compares all: %v", err))
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

// as is a digest of all but the mirror that entries depend on.
func (r *reader) as(list *scan.List) string {
	text, err := json.Marshal([]any{list.BaseURL, list.Algorithms, list.Include, list.Exclude, list.Rules, r.lister.sets, r.Kept, r.Also})
	if err != nil {
		panic(err) // it holds texts
	}
	h := resourcesync.NewHasher(resourcesync.SHA256)
	_, _ = h.Write(text) // it never fails
	return h.Digests().String()
}

// end makes a plan remember how far the log was read.
func (r *reader) end(ctx context.Context, p *scan.Plan) error {
	if r.now.As == "" {
		return nil
	}
	if !p.Follows { // all was compared, while a run may have changed it
		var err error
		if r.now.Doubtful, _, err = r.m.LogEnd(ctx); err != nil {
			return err
		}
	}
	p.Mark = r.now.String()
	return nil
}

// Apply records what Plan has found, and registers how far the log was read.
func (in Input) Apply(ctx context.Context, p *scan.Plan) (scan.Result, error) {
	list := *in.List
	list.Changes, list.Marks = p.Follows, in.mark()
	r, err := list.Apply(ctx, p)
	if err != nil || p.Mark == "" || in.DryRun {
		return r, err
	}
	was, err := in.last(ctx)
	if err == nil && was.Catalog != "" {
		// What is registered already serves as well, and no other publication needs it.
		_ = in.register(ctx, was.Seq)
	}
	return r, err
}

// errEnough ends the reading of a log whose changes are no longer wanted.
var errEnough = errors.New("no more changes are wanted")

// step is a change of the log.
type step struct {
	member
	mark string
	seq  int64
}

// changes lists the changes of the log after a position. If bytes are to be kept, earlier states
// are left out whose bytes the mirror has not kept.
func (r *reader) changes(was position) scan.Listing {
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
			err := r.m.EachLogged(ctx, was.Seq, r.now.Seq, sets, func(seq int64, at time.Time, held []destination.Held) error {
				one, err := together(held, r.Kept != "")
				if err != nil {
					return err
				}
				if !one.Member {
					one.URI, one.Path = held[0].URI, held[0].Path
				}
				p.Seq, p.At = seq, at
				if batch = append(batch, step{one, p.String(), seq}); len(batch) < lookupSize {
					return nil
				}
				return flush()
			})
			if err == nil {
				err = flush()
			}
			if err != nil && !errors.Is(err, errEnough) {
				yield(scan.Listed{}, err)
			}
		}
	}
}

// flushChanges lists some changes. It is errEnough when no more are wanted.
func (r *reader) flushChanges(ctx context.Context, batch []step, yield func(scan.Listed, error) bool) error {
	if len(batch) == 0 {
		return nil
	}
	if err := r.date(ctx, batch); err != nil {
		return err
	}
	members := make([]member, len(batch))
	for i := range batch {
		members[i] = batch[i].member
	}
	copies, err := r.copies(ctx, members, describes)
	if err != nil {
		return err
	}
	for i := range batch {
		one := &batch[i]
		e, err := r.change(ctx, one, func(uri string) string { return copies[uri] })
		if one.past && one.seq <= r.doubtful {
			continue
		}
		if one.past && one.Member && r.Keep != nil {
			kept, failed := r.m.Kept(ctx, &one.Held)
			if kept == "" && failed == nil {
				continue
			}
			e.Kept, err = kept, errors.Join(err, failed)
		}
		if !yield(e, err) {
			return errEnough
		}
	}
	return nil
}

// change is what is listed of a change.
func (r *reader) change(ctx context.Context, one *step, copyOf func(string) string) (e scan.Listed, err error) {
	if !one.Member {
		return scan.Listed{URI: r.uri(&one.Held), Path: one.Path, Gone: true, Mark: one.mark}, nil
	}
	e, err = r.entry(ctx, &one.member, copyOf)
	if !one.past && (err != nil || !e.Intact) { // a run may have replaced the file since date has looked
		now := []step{*one}
		if again := r.date(ctx, now); again != nil {
			return e, again
		}
		if one.past = now[0].past; one.past {
			e, err = r.entry(ctx, &one.member, copyOf)
		}
	}
	e.Mark = one.mark
	return e, err
}

// date finds out which states are past. The mirror holds other bytes at the path than they
// have, or none; or it holds the resource again, which is asked of the doubtful alone.
func (r *reader) date(ctx context.Context, batch []step) error {
	uris := make([]string, len(batch))
	for i := range batch {
		uris[i] = batch[i].URI
	}
	for n, set := range r.lister.sets {
		if n > 0 && !slices.ContainsFunc(batch, r.returned) {
			return nil
		}
		now, err := r.m.Lookup(ctx, set, uris)
		if err != nil {
			return err
		}
		for i := range batch {
			b, h := &batch[i], &now[i]
			switch {
			case r.returned(*b):
				b.past = h.Member
			case b.Member:
				b.past = !h.Stored || h.Path != b.Path || h.Stamp != b.Stamp || h.Length != b.Length
			}
		}
	}
	return nil
}

// returned reports whether a deletion may be one of a resource that was there again when all
// was compared.
func (r *reader) returned(b step) bool { return !b.Member && b.seq <= r.doubtful && !b.past }
