package destination

import (
	"context"
	"fmt"

	"instep/harvest"
)

// fromDuplicates brings the bytes of w from where else they are served; failed is why
// they did not come from its own URI.
func (r *runner) fromDuplicates(ctx context.Context, b Batch, w harvest.Resource, failed error) (int64, error) {
	for _, uri := range w.Duplicates {
		n, err := r.fromWeb(ctx, b, w, uri)
		if err == nil {
			r.d.note(r.sp.Set, fmt.Sprintf("%s: taken from its duplicate %s, as it could not be had itself: %v", w.URI, uri, failed))
		}
		if !harvest.IsSourceError(err) || ctx.Err() != nil {
			return n, err
		}
	}
	return 0, failed
}
