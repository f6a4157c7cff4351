package publish

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"instep/blob"
	"instep/source"
)

// Others returns the names of published sets that are not in this site. They stay
// unchanged and linked until their documents are removed from the output.
func (s *Session) Others() []string { return s.others }

// linkedSets returns the names of the sets that the Source Description may link: all
// sets of the state, except those that are not in this site and were removed from the
// output.
func (s *Session) linkedSets(ctx context.Context) ([]string, error) {
	named, err := s.facts.Sets(ctx)
	if err != nil {
		return nil, err
	}
	published, err := s.pubs.PublishedSets(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, n := range named {
		other := slices.Contains(published, n.Name) && !slices.ContainsFunc(s.sets, func(set *setState) bool { return set.Name == n.Name })
		if other {
			there, err := s.offered(ctx, n.Name)
			if err != nil {
				return nil, err
			}
			if !there {
				s.withdrawn = append(s.withdrawn, n.Name)
				continue
			}
			s.others = append(s.others, n.Name)
		}
		names = append(names, n.Name)
	}
	return names, nil
}

// offered reports whether the Capability List of a set is in the output.
func (s *Session) offered(ctx context.Context, set string) (bool, error) {
	key := source.CapabilityListURI("", set)
	_, err := s.bucket.Stat(ctx, key)
	if errors.Is(err, blob.ErrNotExist) {
		return false, nil
	}
	if err != nil && !errors.Is(err, blob.ErrForeign) {
		return false, fmt.Errorf("looking at %q: %w", key, err)
	}
	return true, nil
}
