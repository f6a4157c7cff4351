package destination

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"instep/fetch"
	"instep/resourcesync"
)

// maxDuplicates is how many duplicates of a resource are tried.
const maxDuplicates = 3

// duplicates are the URIs at which an entry says that the same bytes are served.
// Without a digest nothing would tell whether they are.
func duplicates(e *resourcesync.Entry) []string {
	if len(e.Digests) == 0 {
		return nil
	}
	var links []resourcesync.Link
	for _, l := range e.Links {
		if l.Rel == resourcesync.RelDuplicate {
			links = append(links, l)
		}
	}
	slices.SortStableFunc(links, func(a, b resourcesync.Link) int { return cmp.Compare(priority(a), priority(b)) })
	var uris []string
	for _, l := range links {
		uris = append(uris, l.Href)
	}
	return uris
}

// priority is where a link comes among others: the smaller the sooner (1.1 §14.2).
func priority(l resourcesync.Link) int {
	if l.Pri == 0 {
		return math.MaxInt
	}
	return l.Pri
}

// choose keeps the duplicates that may be fetched, from these origins.
func (w *Wanted) choose(origins map[string]bool) {
	w.Duplicates = slices.DeleteFunc(w.Duplicates, func(uri string) bool {
		u, err := fetch.ParseReference(uri)
		return err != nil || len(uri) > maxURI || u.Host == "" || !origins[fetch.Origin(u)]
	})
	if len(w.Duplicates) > maxDuplicates {
		w.Duplicates = slices.Clone(w.Duplicates[:maxDuplicates]) // frees the others
	}
}

// fromDuplicates brings the bytes of w from where else they are served; failed is why
// they did not come from its own URI.
func (r *runner) fromDuplicates(ctx context.Context, b Batch, w Wanted, failed error) (int64, error) {
	for _, uri := range w.Duplicates {
		n, err := r.fromWeb(ctx, b, w, uri)
		if err == nil {
			r.d.note(r.sp.Set, fmt.Sprintf("%s: taken from its duplicate %s, as it could not be had itself: %v", w.URI, uri, failed))
		}
		if !isRemote(err) || ctx.Err() != nil {
			return n, err
		}
	}
	return 0, failed
}
