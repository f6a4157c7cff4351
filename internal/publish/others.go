package publish

import (
	"context"
	"slices"

	"instep/source"
)

// Others returns the names of the published sets that the Site does not contain. The Source
// Description links to their documents until somebody removes them from the output.
func (s *Session) Others() []string { return s.others }

// linkedSets returns the names of the sets that the Source Description may list: all sets
// of the state, except sets that are not in the site and whose documents were removed from
// the output.
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
			missing, err := source.Absent(ctx, s.bucket, source.CapabilityListURI("", n.Name))
			if err != nil {
				return nil, err
			}
			if len(missing) > 0 {
				s.withdrawn = append(s.withdrawn, n.Name)
				continue
			}
			s.others = append(s.others, n.Name)
		}
		names = append(names, n.Name)
	}
	return names, nil
}
