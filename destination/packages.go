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

// This file brings what a plan takes out of packages.

func (d *Destination) transport() *packages.Transport {
	t := &packages.Transport{Client: d.Client, Spool: d.Spool, Tell: d.quirk}
	t.Parts, _ = optional[transfer.Parts](d.Mirror)
	return t
}

// members reads the actions of a plan that take members of packages, once, in the order of
// the packages: of yields those of one package.
func (s *SetPlan) members() (of packages.Members, stop func()) {
	next, stop := iter.Pull2(func(yield func(Action, error) bool) {
		for a, err := range s.Actions() {
			if (err != nil || a.packaged()) && !yield(a, err) {
				return
			}
		}
	})
	a, err, more := next()
	return func(number int) iter.Seq2[packages.Member, error] {
		return func(yield func(packages.Member, error) bool) {
			for ; more && (err != nil || a.Package <= number); a, err, more = next() {
				if (err != nil || a.Package == number) && !yield(packages.Member{Want: a.Want, Path: a.Member}, err) {
					return
				}
			}
		}
	}, stop
}

// packaged reports whether the bytes of an action come out of a package.
func (a *Action) packaged() bool { return a.Via == ViaDump || a.Via == ViaRange }

// fromPackage brings the bytes of an action out of its package into a batch, verified. If
// that fails for a reason of the Source, the action becomes a request for the resource, and
// the error says why.
func (r *runner) fromPackage(ctx context.Context, b Batch, a *Action) (int64, error) {
	if timed(&a.Want) {
		a.Want.Came = r.d.Client.Now() // the times are those of the entry, whenever the bytes were packed
	}
	put := func(w *harvest.Resource, body io.Reader, digested *resourcesync.VerifyReader, proved bool) (int64, error) {
		return b.Put(ctx, r.sp.Set, *w, hashedReader{body, digested}, proved)
	}
	want, n, whole, err := r.unpacker.Take(ctx, a.Package, &packages.Member{Want: a.Want, Path: a.Member}, put)
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
