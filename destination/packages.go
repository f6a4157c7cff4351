package destination

import (
	"context"
	"fmt"
	"io"
	"iter"

	"instep/harvest"
	"instep/internal/packages"
	"instep/resourcesync"
	"instep/transfer"
)

func (d *Destination) transport() *packages.Transport {
	return &packages.Transport{Client: d.Client, Spool: d.Spool, Parts: d.Mirror, Tell: d.quirk}
}

// members yields the members of packages in the order of the packages.
func (s *SetPlan) members() iter.Seq2[packages.Member, error] {
	return func(yield func(packages.Member, error) bool) {
		for a, err := range s.Actions() {
			if (err != nil || a.packaged()) && !yield(a.member(), err) {
				return
			}
		}
	}
}

func (a *Action) member() packages.Member {
	return packages.Member{Package: a.Package, Path: a.Member, Want: a.Want}
}

func (a *Action) packaged() bool { return a.Via == ViaDump || a.Via == ViaRange }

// transfer gets the bytes of an action. It fetches them if local bytes cannot be used.
func (r *runner) transfer(ctx context.Context, b Batch, a *Action) (int64, error) {
	if a.Kind == Copy || a.Kind == Adopt {
		if n, done, err := r.useLocalBytes(ctx, b, a); done {
			return n, err
		}
	}
	if a.packaged() {
		n, err := r.usePackage(ctx, b, a)
		if err == nil || a.packaged() {
			return n, err
		}
	}
	if err := r.skipRetry(a); err != nil {
		return 0, err
	}
	if !r.sp.Moment.IsZero() {
		return r.fetchPast(ctx, b, a)
	}
	if n, done, err := r.usePatches(ctx, b, a); done {
		return n, err
	}
	return r.fetcher.Fetch(ctx, b, a.Want)
}

// useLocalBytes copies or adopts local bytes. If they are not the expected ones, it
// turns the action into a fetch.
func (r *runner) useLocalBytes(ctx context.Context, b Batch, a *Action) (n int64, done bool, err error) {
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

// usePackage takes the bytes from a package. If the package is unusable, it turns the
// action into a request for the resource.
func (r *runner) usePackage(ctx context.Context, b Batch, a *Action) (int64, error) {
	// for an inexact time Came stays zero, because nothing shows that the package was made
	// after the change
	if transfer.Timed(&a.Want) && a.Want.Until.IsZero() {
		a.Want.Came = r.d.Client.Now()
	}
	put := func(w *harvest.Resource, body io.Reader, digested *resourcesync.VerifyReader, proved bool) (int64, error) {
		return b.Put(ctx, r.sp.Set, *w, transfer.Verified{Reader: body, Hashed: digested}, proved)
	}
	m := a.member()
	want, n, whole, err := r.unpacker.Take(ctx, &m, put)
	if whole {
		a.Via = ViaDump // set here, because the plan may say that only parts of the package are transferred
	}
	switch {
	case err == nil:
		a.Want = want
	case ctx.Err() == nil && harvest.OfSource(err):
		a.Via, a.Package, a.Member = ViaGet, 0, ""
	}
	return n, err
}
