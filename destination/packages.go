package destination

import (
	"context"
	"io"
	"iter"

	"instep/harvest"
	"instep/internal/packages"
	"instep/resourcesync"
	"instep/transfer"
)

// This file applies the actions of a plan whose bytes are in packages.

func (d *Destination) transport() *packages.Transport {
	t := &packages.Transport{Client: d.Client, Spool: d.Spool, Tell: d.quirk}
	t.Parts, _ = optional[transfer.Parts](d.Mirror)
	return t
}

// members yields the actions that take members of packages, in the order of the packages.
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

// packaged reports whether the bytes of an action are in a package.
func (a *Action) packaged() bool { return a.Via == ViaDump || a.Via == ViaRange }

// fromPackage brings the bytes of an action out of its package into a batch, verified. If
// that fails for a reason of the Source, the action becomes a request for the resource, and
// the error says why.
func (r *runner) fromPackage(ctx context.Context, b Batch, a *Action) (int64, error) {
	if timed(&a.Want) {
		a.Want.Came = r.d.Client.Now() // the times are those of the entry, whenever it was packed
	}
	put := func(w *harvest.Resource, body io.Reader, digested *resourcesync.VerifyReader, proved bool) (int64, error) {
		return b.Put(ctx, r.sp.Set, *w, hashedReader{body, digested}, proved)
	}
	m := a.member()
	want, n, whole, err := r.unpacker.Take(ctx, &m, put)
	if whole {
		a.Via = ViaDump // also where parts were planned
	}
	switch {
	case err == nil:
		a.Want = want
	case ctx.Err() == nil && harvest.OfSource(err):
		a.Via, a.Package, a.Member = ViaGet, 0, ""
	}
	return n, err
}
