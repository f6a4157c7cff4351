package destination

import (
	"context"
	"fmt"
)

// findStray turns a fetch into the adoption of a file that may hold the bytes already.
func (pl *planner) findStray(ctx context.Context, a *Action, h *Held) error {
	m, ok := optional[Adopter](pl.d.Mirror)
	if !ok {
		return nil
	}
	path, ok, err := m.Stray(ctx, &a.Want, h)
	if err == nil && ok {
		a.Kind, a.Via, a.From = Adopt, ViaLocal, path
	}
	return err
}

// fromHere takes the bytes of a Copy or an Adopt from what is here. If that is not
// what it was taken for, the action becomes a fetch.
func (r *runner) fromHere(ctx context.Context, b Batch, a *Action) (n int64, done bool, err error) {
	if a.Kind == Copy {
		n, err = b.Copy(ctx, r.sp.Set, a.Want, a.From)
	} else {
		n, err = b.Adopt(ctx, r.sp.Set, a.Want, a.From)
	}
	if err == nil || ctx.Err() != nil {
		return n, true, err
	}
	text := "the same bytes could not be copied from %s, so they are fetched: %v"
	if a.Kind == Adopt {
		text = "the file %q could not be adopted, so the bytes are fetched: %v"
	}
	r.d.note(r.sp.Set, a.Want.URI+": "+fmt.Sprintf(text, a.From, err))
	a.Kind, a.Via, a.From = Fetch, ViaGet, ""
	return 0, false, nil
}
