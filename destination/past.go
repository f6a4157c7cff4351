package destination

import (
	"context"
	"errors"
	"fmt"
	"time"

	"instep/harvest"
	"instep/resourcesync"
)

// The functions in this file are for mirrors of the past, which hold each set as it was
// at one moment (Archives §1, §4).

// pastMoment is the name under which a mirror of the past stores its moment.
const pastMoment = "moment of the past"

// MomentError means that the mirror holds the state of another moment than the
// requested one.
type MomentError struct {
	Held, Asked time.Time // the zero time is the present
}

func (e *MomentError) Error() string {
	return fmt.Sprintf("the mirror holds the state of %s, and the state of %s was requested: a mirror holds only one state", momentName(e.Held), momentName(e.Asked))
}

func momentName(t time.Time) string {
	if t.IsZero() {
		return "the present"
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// Moment returns the past moment whose state a mirror holds. It returns zero if the
// mirror is empty or holds the present state.
func Moment(ctx context.Context, m Mirror) (time.Time, error) {
	return recallTime(ctx, m, pastMoment)
}

// moment returns the past moment of the mirror; zero for a mirror of the present.
func (d *Destination) moment(ctx context.Context) (time.Time, error) {
	if d.Mirror == nil {
		return d.At, nil
	}
	held, err := Moment(ctx, d.Mirror)
	switch {
	case err != nil:
		return time.Time{}, err
	case !held.IsZero() && !d.At.IsZero() && !held.Equal(d.At):
		return held, &MomentError{held, d.At}
	case !held.IsZero() || d.At.IsZero():
		return held, nil
	}
	sets, err := d.Mirror.Sets(ctx)
	if err != nil {
		return time.Time{}, err
	}
	for _, set := range sets {
		_, followed, err := d.Mirror.Cursor(ctx, set)
		if err != nil {
			return time.Time{}, err
		}
		n, err := d.Mirror.Count(ctx, set)
		if err == nil && (followed || n > 0) {
			err = &MomentError{time.Time{}, d.At}
		}
		if err != nil {
			return time.Time{}, err
		}
	}
	return d.At, nil
}

func (d *Destination) keepMoment(ctx context.Context, p *Plan) error {
	for _, sp := range p.Sets {
		if !sp.Moment.IsZero() {
			return d.Mirror.Remember(ctx, pastMoment, sp.Moment.UTC().Format(time.RFC3339Nano))
		}
	}
	return nil
}

func (k *setPlanner) state(ctx context.Context) (*harvest.Snapshot, error) {
	if k.scope.moment.IsZero() {
		return k.offer.Present(ctx)
	}
	return k.offer.AsOf(ctx, k.scope.moment, k.prefer != PreferList)
}

func (k *setPlanner) planPast(ctx context.Context) (*planner, error) {
	st, err := k.state(ctx)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	return k.compare(ctx, st, "the set as it was at "+momentName(k.scope.moment), "all changes between this snapshot and the moment are known")
}

// findMemento sets the URI of the memento (a stored earlier version) that has the bytes
// of the past moment. It sets none for an alternate representation, because a memento
// would have other bytes.
func (s *scope) findMemento(w *harvest.Resource) error {
	if s.moment.IsZero() || w.BytesAt != "" {
		return nil
	}
	said, err := w.Remainder.Parse()
	if err != nil {
		return err
	}
	probe := harvest.Resource{URI: w.URI, Digests: w.Digests}
	for _, l := range said.Links {
		if l.Rel == resourcesync.RelMemento {
			probe.Duplicates = append(probe.Duplicates, l.Href)
		}
	}
	if probe.Choose(s.origins); len(probe.Duplicates) > 0 {
		w.Memento = probe.Duplicates[0]
	}
	return nil
}

// fetchPast fetches a memento (stored earlier version), or the present bytes if a
// digest proves that they are the same.
func (r *runner) fetchPast(ctx context.Context, b Batch, a *Action) (int64, error) {
	var failed error
	if a.Want.Memento != "" {
		n, err := r.fetcher.FetchMemento(ctx, b, a.Want)
		if err == nil {
			a.Via = ViaMemento
		}
		if err == nil || !harvest.IsSourceError(err) || ctx.Err() != nil {
			return n, err
		}
		failed = err
	}
	gone := func(err error) error {
		return fmt.Errorf("its bytes of %s cannot be obtained: %w", momentName(r.sp.Moment), errors.Join(failed, err))
	}
	if len(a.Want.Digests) == 0 {
		return 0, &harvest.SourceError{Err: gone(errors.New("the Source gives no digest that could prove that its present bytes are the same"))}
	}
	n, err := r.fetcher.Fetch(ctx, b, a.Want)
	if harvest.IsSourceError(err) {
		err = gone(err)
	}
	return n, err
}
