package scan

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"instep/discover"
	"instep/fetch"
)

// Source is a listing of the resources in a set of another Source, read from the Resource
// List of the set (1.1 §10). If a list has no "at" attribute, no resources are deleted,
// because the list may be older than the recorded state.
type Source struct {
	Client       *fetch.Client
	URI          string   // a URI by which the Source can be found
	Set          string   // the name of the set, or the URI of its Capability List; "" if the Source has only one set
	AllowOrigins []string // further allowed origins (scheme://host[:port]) of documents and resources
	Spool        string   // the directory for temporary files; "" means the directory of the operating system
}

// List implements Listing.
func (s Source) List(ctx context.Context, since time.Time) iter.Seq2[Listed, error] {
	return func(yield func(Listed, error) bool) {
		found, lists, err := s.find(ctx)
		if err != nil {
			yield(Listed{}, err)
			return
		}
		r := listReader{ctx: ctx, client: s.Client, spool: s.Spool, origins: append(slices.Clone(s.AllowOrigins), found.Origins...),
			dated: true, since: since, yield: yield, read: map[string]bool{}}
		for _, uri := range lists {
			if !r.document(uri, 0) {
				return
			}
		}
	}
}

func (s Source) find(ctx context.Context) (*discover.Source, []string, error) {
	if err := s.Client.TrustSource(ctx, s.URI); err != nil {
		return nil, nil, err
	}
	found, err := discover.Find(ctx, discover.Finder{Client: s.Client, AllowOrigins: s.AllowOrigins}, s.URI)
	if err != nil {
		return nil, nil, err
	}
	set, err := s.choose(found.Sets)
	if err != nil {
		return nil, nil, err
	}
	if set.Err != nil {
		return nil, nil, set.Err
	}
	if len(set.ResourceLists) == 0 {
		return nil, nil, fmt.Errorf("%s: the set has no Resource List", set.URI)
	}
	return found, set.ResourceLists, nil
}

func (s Source) choose(sets []discover.Set) (*discover.Set, error) {
	if s.Set == "" && len(sets) == 1 {
		return &sets[0], nil
	}
	var names []string
	for i := range sets {
		if s.Set != "" && (sets[i].Name == s.Set || sets[i].URI == s.Set) {
			return &sets[i], nil
		}
		names = append(names, fmt.Sprintf("%q", sets[i].URI))
	}
	return nil, fmt.Errorf("%s: the Source has no set %q; its sets are %s", s.URI, s.Set, strings.Join(names, ", "))
}
