package discover

import "slices"

// Choose returns the sets with these names or Capability List URIs, or all sets if names
// is empty. If the Source lacks a requested set, Choose returns an UnknownSetError.
func (s *Source) Choose(names []string) ([]Set, error) {
	if len(names) == 0 {
		return s.Sets, nil
	}
	var sets []Set
	for _, name := range names {
		i := slices.IndexFunc(s.Sets, func(set Set) bool { return set.URI == name || set.Name == name })
		if i < 0 {
			return nil, &UnknownSetError{Name: name, Offered: s.Sets}
		}
		sets = append(sets, s.Sets[i])
	}
	return sets, nil
}

// UnknownSetError means that the Source does not have a requested set.
type UnknownSetError struct {
	Name    string
	Offered []Set
}

func (e *UnknownSetError) Error() string {
	msg := "the Source offers no set " + e.Name + "; it offers"
	for _, s := range e.Offered {
		msg += " " + s.URI
	}
	return msg
}
