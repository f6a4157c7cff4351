package past

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"instep/discover"
	"instep/fetch"
	"instep/harvest"
	"instep/internal/packages"
	"instep/resourcesync"
)

// Source reads what a Source contained at a given moment.
type Source struct {
	URI          string        // any URI of the Source
	Client       *fetch.Client // client for requests to the Source
	AllowOrigins []string      // other origins from which documents may be read, too
	Spool        string        // directory for temporary files; "" means the directory of the system for such files

	Tell func(q resourcesync.Quirk, set, text string) // a function that gets a sentence about each tolerated deviation from the standard

	origins map[string]bool
}

// Sets finds the sets of the Source with the given URIs or names, or all sets if none
// are given.
func (s *Source) Sets(ctx context.Context, names []string) ([]discover.Set, error) {
	src, err := discover.Find(ctx, discover.Finder{Client: s.Client, AllowOrigins: s.AllowOrigins}, s.URI)
	if err != nil {
		return nil, err
	}
	s.origins = map[string]bool{}
	for _, o := range slices.Concat(src.Origins, s.AllowOrigins) {
		s.origins[o] = true
	}
	return src.Choose(names)
}

// At yields the resources that a set contained at a given moment, in the order of the
// documents. The zero time stands for the present. The sequence ends with a
// harvest.UncoveredError if the documents do not tell what the set contained at that
// moment.
func (s *Source) At(ctx context.Context, set discover.Set, moment time.Time) iter.Seq2[State, error] {
	return func(yield func(State, error) bool) {
		if err := s.statesAt(ctx, set, moment, yield); err != nil {
			yield(State{}, err)
		}
	}
}

func (s *Source) statesAt(ctx context.Context, set discover.Set, moment time.Time, yield func(State, error) bool) error {
	if set.Err != nil {
		return fmt.Errorf("set %s: %w", set.URI, set.Err)
	}
	r := &harvest.Reader{
		Client: s.Client, Spool: s.Spool, Origins: s.origins, MaxChanges: harvest.DefaultMaxChanges, Tell: s.Tell,
		Packages: &packages.Transport{Client: s.Client, Spool: s.Spool, Tell: s.Tell},
	}
	o := harvest.NewOffer(r, set)
	defer o.Close()
	st, err := s.open(ctx, o, moment)
	if err != nil {
		return err
	}
	defer st.Close()
	for item, err := range st.Resources(ctx) {
		if err != nil {
			return err
		}
		w := &item.Resource
		if !yield(State{URI: w.URI, LastMod: w.LastMod, Length: w.Length, Digests: w.Digests}, nil) {
			return nil
		}
	}
	switch {
	case st.Partial != nil:
		return uncovered(set, moment, st.Partial.Error())
	case st.Gap != "":
		return uncovered(set, moment, st.Gap)
	}
	return nil
}

func uncovered(set discover.Set, moment time.Time, why string) error {
	return &harvest.UncoveredError{Set: set.URI, At: moment, Why: why}
}

func (s *Source) open(ctx context.Context, o *harvest.Offer, moment time.Time) (*harvest.Snapshot, error) {
	if !moment.IsZero() {
		return o.AsOf(ctx, moment, false)
	}
	st, err := o.Present(ctx)
	if errors.Is(err, harvest.ErrNothingOffered) {
		return nil, &harvest.SourceError{Err: err}
	}
	return st, err
}
