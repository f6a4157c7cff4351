package destination

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"instep/harvest"
	"instep/internal/spool"
	"instep/resourcesync"
	"instep/transfer"
)

// auditor compares one set.
type auditor struct {
	*SetAudit
	d      *Destination
	scope  *scope
	cursor Cursor
	known  known
	weaker downgrades
	faults *spool.Log[fault] // what is to be repaired; nil: nothing
	again  bool              // judging what was repaired
}

// subject is a resource to be judged.
type subject struct {
	want  harvest.Resource
	held  Held
	extra bool // the Source does not list it
	ahead bool // the documents read tell only what was: the mirror knows more
}

// finding is the judgement of a subject.
type finding struct {
	*subject
	verdict Verdict
	bytes   int64
	unread  bool  // by size, time of modification and catalog
	due     bool  // the bytes have to be fetched
	err     error // what is wrong, or why it cannot be told
}

// Why a resource cannot be verified.
var (
	errNothingToCompare = errors.New("the Source gives no digest to compare with")
	errAhead            = errors.New("the mirror knows a later state than the documents of the Source that were read")
	errMoved            = errors.New("it changed in the mirror while it was audited")
)

// check judges resources and marks what has to be fetched.
func (au *auditor) check(ctx context.Context, subjects []subject) error {
	findings := make([]finding, len(subjects))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(au.d.hashers())
	for i := range subjects {
		g.Go(func() (err error) {
			findings[i], err = au.judge(gctx, &subjects[i])
			return err
		})
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

// judge compares one resource with what is held of it.
func (au *auditor) judge(ctx context.Context, s *subject) (finding, error) {
	w, h := &s.want, &s.held
	found := finding{subject: s, verdict: VerdictMissing, due: true}
	switch {
	case s.extra:
		found.verdict, found.due = VerdictExtra, false
		return found, nil
	case s.ahead && !h.Member:
		found.verdict, found.due, found.err = VerdictUnverifiable, false, errAhead
		return found, nil
	case !h.Stored || !h.Member:
		found.err = au.since(w, errors.New("missing when audited"))
		return found, nil
	}
	length, digests := w.Length, w.Digests
	switch {
	case s.ahead && h.Due != "":
		length, digests = h.Wanted.Length, h.Wanted.Digests
	case s.ahead:
		length, digests = h.Length, h.Digests
	}
	if len(digests) == 0 {
		digests = h.Digests // of the bytes as they were when stored: damage shows, being up to date does not
	}
	var err error
	if found.unread, err = au.untouched(ctx, h, digests); err == nil {
		if found.unread {
			err = compareKnown(h, length, digests)
		} else {
			found.bytes, err = au.readBytes(ctx, h, length, digests)
		}
	}
	if ctx.Err() != nil {
		return found, ctx.Err()
	}
	au.conclude(&found, err)
	return found, nil
}

// conclude makes a verdict of what came of comparing bytes.
func (au *auditor) conclude(f *finding, err error) {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.err = fmt.Errorf("missing when audited: %w", err)
	case transfer.IsMismatch(err):
		f.verdict, f.err = VerdictDifferent, au.since(&f.want, fmt.Errorf("different when audited: %w", err))
	case err != nil:
		f.verdict, f.err = VerdictError, fmt.Errorf("could not be read when audited: %w", err)
	default:
		f.due = false
		switch f.verdict = VerdictUnverifiable; {
		case f.ahead && !sameBytes(&f.held, &f.want):
			f.err = errAhead
		case len(f.want.Digests) == 0:
			f.err = errNothingToCompare
		default:
			f.verdict = VerdictSame
		}
	}
}

// since says of a resource that is not as the Source has it, if it can be, that the
// last synchronisation was too early for it.
func (au *auditor) since(w *harvest.Resource, err error) error {
	if au.Followed.IsZero() || !w.Changed.After(au.Followed) {
		return err
	}
	return fmt.Errorf("%w (it changed at %s, the last synchronisation knows the Source as it was at %s)", err,
		w.Changed.UTC().Format(time.RFC3339), au.Followed.UTC().Format(time.RFC3339))
}

func (au *auditor) readBytes(ctx context.Context, h *Held, length resourcesync.Length, ds resourcesync.Digests) (int64, error) {
	f, err := au.d.Mirror.Open(ctx, h.URI)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return io.Copy(io.Discard, resourcesync.NewVerifyReader(f, length.Int64(), ds))
}

// recheck takes back what was found against resources that changed in the mirror in
// the meantime: what was judged is no more.
func (au *auditor) recheck(ctx context.Context, findings []finding) error {
	var against []*finding
	for i := range findings {
		if f := &findings[i]; f.verdict != VerdictSame && f.verdict != VerdictUnverifiable {
			against = append(against, f)
		}
	}
	if len(against) == 0 {
		return nil
	}
	held, err := au.d.Mirror.Lookup(ctx, au.Set, urisOf(against, func(f **finding) string { return (*f).want.URI }))
	if err != nil {
		return err
	}
	for i, f := range against {
		if moved(&f.held, &held[i]) {
			f.verdict, f.due, f.err = VerdictUnverifiable, false, errMoved
		}
	}
	return nil
}

// moved reports whether what a mirror knows of a resource has changed.
func moved(before, now *Held) bool {
	return before.Stored != now.Stored || before.Member != now.Member || !before.Changed.Equal(now.Changed) ||
		before.Length != now.Length || !slices.Equal(before.Digests, now.Digests)
}

// tell counts a finding and reports it.
func (au *auditor) tell(f *finding) error {
	au.Verdicts[f.verdict]++
	au.Bytes += f.bytes
	if f.unread {
		au.Unread++
	}
	if f.verdict == VerdictSame && weak(f.want.Digests) {
		au.Weak++
	}
	if !f.extra {
		au.weaker.look(&f.held, &f.want)
	}
	au.d.observe(Event{
		Kind: EventVerdict, Set: au.Set, Verdict: f.verdict, Action: Action{Want: f.want}, Path: f.held.Path, Bytes: f.bytes,
		Again: au.again, Err: f.err,
	})
	if au.faults == nil || au.again || !f.due {
		return nil
	}
	return au.faults.Append(fault{Want: f.want, Verdict: f.verdict})
}

// mark remembers in the mirror what has to be fetched.
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
			if err := b.Due(ctx, au.Set, f.want, reason(f.err)); err != nil && !errors.Is(err, ErrNoPlace) {
				return err
			}
		}
	}
	return b.Commit(ctx, nil)
}
