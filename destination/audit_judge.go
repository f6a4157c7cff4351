package destination

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"instep/evidence"
	"instep/harvest"
	"instep/internal/spool"
	"instep/resourcesync"
	"instep/transfer"
)

type auditor struct {
	*SetAudit
	d      *Destination
	scope  *scope
	found  []finding // resources whose bytes are read in parallel
	odd    tally
	faults *spool.Log[fault] // resources to be repaired; nil for an audit without repair
	again  bool              // set during the second verdict, after the repair
}

// fault is the part of a finding that a repair needs. Its fields are exported, because a
// spool.Log stores it.
type fault struct {
	Want     harvest.Resource
	Verdict  Verdict
	Ahead    bool // the mirror has a later state than the documents
	Disputed bool // the documents do not show if the resource exists, or which version is the last one
}

type finding struct {
	fault
	held     Held
	extra    bool // the Source does not list the resource
	outdated bool // the documents have a later change than the mirror

	bytes  int64
	unread bool  // the bytes were not read: file size, modification time and recorded digests decided
	due    bool  // the next run must fetch the bytes again
	err    error // the difference, or why the comparison was impossible
}

// These errors explain the verdict VerdictUnverifiable.
var (
	errNothingToCompare = errors.New("the Source gives no digest to compare with")
	errAhead            = errors.New("the mirror has a later state than the documents of the Source")
	errOutdated         = errors.New("the Source has changed it later, and gives no digest that proves the bytes")
	errDisputed         = errors.New("the documents do not show which version is the last one, or whether the resource still exists")
	errMoved            = errors.New("the resource changed in the mirror during the audit")
)

func (au *auditor) add(ctx context.Context, f finding) error {
	if au.found = append(au.found, f); len(au.found) < lookupBatch {
		return nil
	}
	return au.flush(ctx)
}

func (au *auditor) flush(ctx context.Context) error {
	found := au.found
	au.found = nil
	return au.check(ctx, found)
}

func (au *auditor) check(ctx context.Context, findings []finding) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0)) // hashing is CPU-bound
	for i := range findings {
		g.Go(func() error { return au.judge(gctx, &findings[i]) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if err := au.recheck(ctx, findings); err != nil {
		return err
	}
	for i := range findings {
		if err := au.tell(&findings[i]); err != nil {
			return err
		}
	}
	return au.mark(ctx, findings)
}

func (au *auditor) judge(ctx context.Context, f *finding) (err error) {
	w, h := &f.Want, &f.held
	switch {
	case f.extra:
		f.Verdict = VerdictExtra
		return nil
	// unless the mirror has recorded the disputed deletion itself
	case f.Disputed && !h.Member && (h.Gone.IsZero() || !h.Gone.Equal(w.Changed)):
		f.Verdict, f.err = VerdictUnverifiable, errDisputed
		return nil
	case f.Ahead && !h.Member:
		f.Verdict, f.err = VerdictUnverifiable, errAhead
		return nil
	case !h.Stored || !h.Member:
		f.Verdict, f.due, f.err = VerdictMissing, true, au.noteLaterChange(w, errors.New("an audit found no bytes"))
		return nil
	}
	length, digests := w.Length, w.Digests
	switch {
	case f.Ahead && h.Due != "":
		length, digests = h.Wanted.Length, h.Wanted.Digests
	case f.Ahead:
		length, digests = h.Length, h.Digests
	}
	if len(digests) == 0 {
		digests = h.Digests // recorded digests reveal damage, but do not show whether the bytes are current
	}
	if f.unread, err = au.untouched(ctx, h, digests); err == nil {
		if f.unread {
			err = compareKnown(h, length, digests)
		} else {
			f.bytes, err = au.readBytes(ctx, h, length, digests)
		}
	}
	au.conclude(f, err)
	return ctx.Err()
}

func (au *auditor) conclude(f *finding, err error) {
	f.due = err != nil
	proof := f.Want.Digests
	if f.Ahead {
		proof = f.held.Wanted.Digests
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.Verdict, f.err = VerdictMissing, fmt.Errorf("an audit found no bytes: %w", err)
	case transfer.IsMismatch(err):
		f.Verdict, f.err = VerdictDifferent, au.noteLaterChange(&f.Want, fmt.Errorf("an audit found other bytes: %w", err))
	case err != nil:
		f.Verdict, f.err = VerdictError, fmt.Errorf("an audit could not read the bytes: %w", err)
	case f.held.Due != "" && len(proof) == 0: // no digest proves the bytes, so they must still be fetched again, for the reason in Due
		f.Verdict, f.due, f.err = VerdictDifferent, true, errors.New(f.held.Due)
	case f.Disputed:
		f.Verdict, f.err = VerdictUnverifiable, errDisputed
	case f.Ahead && match(&f.held, &f.Want) != evidence.Same:
		f.Verdict, f.err = VerdictUnverifiable, errAhead
	case f.outdated && len(proof) == 0:
		f.Verdict, f.due, f.err = VerdictDifferent, true, au.noteLaterChange(&f.Want, errOutdated)
	case len(f.Want.Digests) == 0:
		f.Verdict, f.err = VerdictUnverifiable, errNothingToCompare
	default:
		f.Verdict = VerdictSame
	}
}

func (au *auditor) noteLaterChange(w *harvest.Resource, err error) error {
	if au.Followed.IsZero() || !w.Changed.After(au.Followed) {
		return err
	}
	return fmt.Errorf("%w (the resource changed at %s, after the moment up to which the mirror was last synchronised, %s)", err,
		w.Changed.UTC().Format(time.RFC3339), au.Followed.UTC().Format(time.RFC3339))
}

func (au *auditor) readBytes(ctx context.Context, h *Held, length resourcesync.Length, ds resourcesync.Digests) (int64, error) {
	f, err := au.d.Mirror.Open(ctx, h)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return io.Copy(io.Discard, resourcesync.NewVerifyReader(f, length.Int64(), ds))
}

func (au *auditor) recheck(ctx context.Context, findings []finding) error {
	var against []*finding
	for i := range findings {
		if f := &findings[i]; f.Verdict != VerdictSame && f.Verdict != VerdictUnverifiable {
			against = append(against, f)
		}
	}
	if len(against) == 0 {
		return nil
	}
	held, err := au.d.Mirror.Lookup(ctx, au.Set, urisOf(against, func(f **finding) string { return (*f).Want.URI }))
	if err != nil {
		return err
	}
	for i, f := range against {
		if moved(&f.held, &held[i]) {
			f.Verdict, f.due, f.err = VerdictUnverifiable, false, errMoved
		}
	}
	return nil
}

func moved(before, now *Held) bool {
	return before.Stored != now.Stored || before.Member != now.Member || (before.Due != "") != (now.Due != "") || !before.Changed.Equal(now.Changed) ||
		before.Length != now.Length || !slices.Equal(before.Digests, now.Digests)
}

func (au *auditor) tell(f *finding) error {
	au.Verdicts[f.Verdict]++
	au.Bytes += f.bytes
	if f.unread {
		au.Unread++
	}
	if errors.Is(f.err, errDisputed) {
		au.Skipped[SkipDisputed]++
	}
	if f.Verdict == VerdictSame && weak(f.Want.Digests) {
		au.Weak++
	}
	if !f.extra {
		au.odd.compareProofs(&f.held, &f.Want)
	}
	au.d.observe(Event{
		Kind: EventVerdict, Set: au.Set, Verdict: f.Verdict, Action: Action{Want: f.Want}, Path: f.held.Path, Bytes: f.bytes,
		Again: au.again, Err: f.err,
	})
	if au.faults == nil || au.again || !f.due {
		return nil
	}
	return au.faults.Append(f.fault)
}

func (au *auditor) mark(ctx context.Context, findings []finding) error {
	if au.d.ReadOnly || !slices.ContainsFunc(findings, func(f finding) bool { return f.due }) {
		return nil
	}
	b, err := au.d.Mirror.Begin(ctx)
	if err != nil {
		return err
	}
	defer b.Discard()
	for i := range findings {
		if f := &findings[i]; f.due {
			if err := b.Due(ctx, au.Set, f.Want, reason(f.err)); err != nil && !errors.Is(err, ErrNoPlace) {
				return err
			}
		}
	}
	return b.Commit(ctx, nil)
}

func (au *auditor) untouched(ctx context.Context, h *Held, digests resourcesync.Digests) (bool, error) {
	comparable := slices.ContainsFunc(digests, func(d resourcesync.Digest) bool { return !h.Digests.Get(d.Algorithm()).IsZero() })
	if !au.d.Quick || !comparable || h.Due != "" {
		return false, nil
	}
	return au.d.Mirror.Untouched(ctx, h)
}

func compareKnown(h *Held, length resourcesync.Length, digests resourcesync.Digests) error {
	if length.Known() && h.Length.Known() && length != h.Length {
		return &resourcesync.MismatchError{
			What: "length", Want: strconv.FormatInt(length.Int64(), 10), Got: strconv.FormatInt(h.Length.Int64(), 10),
		}
	}
	for _, want := range digests {
		if got := h.Digests.Get(want.Algorithm()); !got.IsZero() && got != want {
			return &resourcesync.MismatchError{What: string(want.Algorithm()), Want: want.String(), Got: got.String()}
		}
	}
	return nil
}
