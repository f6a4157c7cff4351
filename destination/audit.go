package destination

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"instep/discover"
	"instep/internal/spool"
	"instep/resourcesync"
)

// Verdict is what an audit finds of one resource (1.1 §5.2).
type Verdict string

// The verdicts.
const (
	VerdictSame         Verdict = "same"         // held, and every byte is what the Source says
	VerdictMissing      Verdict = "missing"      // the Source has it, the mirror has not
	VerdictExtra        Verdict = "extra"        // the mirror has it, the Source has not
	VerdictDifferent    Verdict = "different"    // held with other bytes
	VerdictUnverifiable Verdict = "unverifiable" // the Source gives nothing to compare with, or the mirror is ahead of its documents
	VerdictError        Verdict = "error"        // the bytes held could not be read
)

// Audit is the outcome of comparing a mirror with its Source at one moment.
type Audit struct {
	Source string
	Sets   []*SetAudit
}

// SetAudit is the part of an Audit that concerns one set.
type SetAudit struct {
	Set, Name string
	At        time.Time // the moment of the Resource List compared with
	Verdicts  map[Verdict]int64
	Skipped   map[Skip]int64
	Bytes     int64 // read
	Partial   error // part of the Source's documents could not be used: resources may be missing unnoticed
}

// InSync reports whether coverage and accuracy are perfect: nothing is missing,
// extra, different or unreadable.
func (a *Audit) InSync() bool {
	for _, s := range a.Sets {
		v := s.Verdicts
		if s.Partial != nil || v[VerdictMissing]+v[VerdictExtra]+v[VerdictDifferent]+v[VerdictError] > 0 {
			return false
		}
	}
	return true
}

// Audit compares what the mirror holds, reading every byte, with what the Source
// says (1.1 §5.2). What is missing or damaged is marked in the mirror, so that the
// next synchronisation brings it; nothing else changes.
func (d *Destination) Audit(ctx context.Context) (*Audit, error) {
	src, sets, sc, err := d.discover(ctx)
	if err != nil {
		return nil, err
	}
	a := &Audit{Source: sourceURI(src)}
	unusable := 0
	for _, set := range sets {
		sa, err := d.auditSet(ctx, sc, set)
		if ofSource(err) && ctx.Err() == nil {
			if unusable++; unusable < len(sets) {
				set.Err = err
				sa, err = d.auditSet(ctx, sc, set)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("set %s: %w", set.URI, err)
		}
		a.Sets = append(a.Sets, sa)
	}
	return a, nil
}

// auditor compares one set.
type auditor struct {
	*SetAudit
	d     *Destination
	scope *scope
	mu    sync.Mutex
	due   []failed // of the present batch: what has to be fetched
}

func (d *Destination) auditSet(ctx context.Context, sc *scope, set discover.Set) (*SetAudit, error) {
	au := &auditor{
		SetAudit: &SetAudit{Set: set.URI, Name: set.Name, Verdicts: map[Verdict]int64{}, Skipped: map[Skip]int64{}},
		d:        d, scope: sc,
	}
	if au.Partial = set.Err; set.Err == nil && len(set.ResourceLists) == 0 {
		au.Partial = ErrNothingOffered
	}
	if au.Partial != nil {
		return au.SetAudit, nil
	}
	c, err := d.openChain(ctx, sc, set, time.Time{})
	if err != nil {
		return nil, err
	}
	defer c.close()
	seen := spool.NewKeys(d.Spool, keyBudget)
	defer seen.Close()
	st := &state{d: d, scope: sc, set: set.URI, lists: set.ResourceLists}
	defer st.close()
	if err := st.overlay(ctx, c); err != nil {
		return nil, err
	}
	if err := st.compare(ctx, seen, au.admit, au.compare); err != nil {
		return nil, err
	}
	au.At, au.Partial = st.at, st.partial
	if st.partial == nil && st.changes != nil {
		au.Partial = st.changes.rest
	}
	if st.partial != nil || st.unsure {
		return au.SetAudit, nil
	}
	return au.SetAudit, au.findExtra(ctx, st, seen)
}

func (au *auditor) admit(w *Wanted) bool {
	skip, _ := au.scope.admit(w)
	if skip != "" {
		au.Skipped[skip]++
	}
	return skip == ""
}

// compare judges a batch of resources and marks what has to be fetched.
func (au *auditor) compare(ctx context.Context, wants []Wanted) error {
	uris := make([]string, len(wants))
	for i := range wants {
		uris[i] = wants[i].URI
	}
	held, err := au.d.Mirror.Lookup(ctx, au.Set, uris)
	if err != nil {
		return err
	}
	return au.check(ctx, wants, held)
}

// check judges resources, held as told, and marks what has to be fetched.
func (au *auditor) check(ctx context.Context, wants []Wanted, held []Held) error {
	au.due = au.due[:0]
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(au.d.hashers())
	for i := range wants {
		g.Go(func() error { return au.judge(gctx, &wants[i], &held[i]) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return au.mark(ctx)
}

// judge compares one resource with what is held of it.
func (au *auditor) judge(ctx context.Context, w *Wanted, h *Held) error {
	if !h.Stored || !h.Member {
		au.found(VerdictMissing, w, h, 0, errors.New("missing when audited"))
		return nil
	}
	ahead := h.Changed.After(w.Changed) // of the documents read: they tell only what was
	length, digests := w.Length, w.Digests
	switch {
	case ahead && h.Due != "":
		length, digests = h.Wanted.Length, h.Wanted.Digests
	case ahead:
		length, digests = h.Length, h.Digests
	}
	if len(digests) == 0 {
		digests = h.Digests // of the bytes as they were when stored: damage shows, being up to date does not
	}
	n, err := au.readBytes(ctx, h, length, digests)
	var mismatch *resourcesync.MismatchError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, fs.ErrNotExist):
		au.found(VerdictMissing, w, h, n, fmt.Errorf("missing when audited: %w", err))
	case errors.As(err, &mismatch):
		au.found(VerdictDifferent, w, h, n, fmt.Errorf("different when audited: %w", err))
	case err != nil:
		au.found(VerdictError, w, h, n, fmt.Errorf("could not be read when audited: %w", err))
	case len(w.Digests) == 0 || ahead && !sameBytes(h, w):
		au.found(VerdictUnverifiable, w, h, n, nil)
	default:
		au.found(VerdictSame, w, h, n, nil)
	}
	return nil
}

func (au *auditor) readBytes(ctx context.Context, h *Held, length resourcesync.Length, ds resourcesync.Digests) (int64, error) {
	f, err := au.d.Mirror.Open(ctx, h.URI)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return io.Copy(io.Discard, resourcesync.NewVerifyReader(f, length.Int64(), ds))
}

// found counts a verdict; with a reason, the resource has to be fetched.
func (au *auditor) found(v Verdict, w *Wanted, h *Held, n int64, reason error) {
	au.mu.Lock()
	au.Verdicts[v]++
	au.Bytes += n
	if reason != nil {
		au.due = append(au.due, failed{Action{Want: *w}, reason})
	}
	au.mu.Unlock()
	au.d.observe(Event{Kind: EventVerdict, Set: au.Set, Verdict: v, Action: Action{Want: *w}, Path: h.Path, Err: reason})
}

func (au *auditor) mark(ctx context.Context) error {
	if len(au.due) == 0 {
		return nil
	}
	b, err := au.d.Mirror.Begin(ctx)
	if err != nil {
		return err
	}
	defer b.Discard()
	for _, f := range au.due {
		if err := b.Due(ctx, au.Set, f.Want, reason(f.err)); err != nil {
			return err
		}
	}
	return b.Commit(ctx, nil)
}

// findExtra judges the members that the Source does not list. What came later than
// the documents read is no extra, and its bytes are read.
func (au *auditor) findExtra(ctx context.Context, st *state, seen *spool.Keys) error {
	var wants []Wanted
	var held []Held
	for h, err := range unseen(au.d.Mirror.Members(ctx, au.Set), seen.Sorted()) {
		if err != nil {
			return err
		}
		w := Wanted{URI: h.URI, Changed: st.goneSince(h.URI)}
		if !h.Changed.After(w.Changed) {
			au.found(VerdictExtra, &w, &h, 0, nil)
			continue
		}
		wants, held = append(wants, w), append(held, h)
		if len(wants) == lookupBatch {
			if err := au.check(ctx, wants, held); err != nil {
				return err
			}
			wants, held = wants[:0], held[:0]
		}
	}
	return au.check(ctx, wants, held)
}
