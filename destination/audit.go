package destination

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"instep/discover"
	"instep/evidence"
	"instep/harvest"
	"instep/internal/spool"
	"instep/resourcesync"
)

// Verdict is the result of an audit for one resource (1.1 §5.2).
type Verdict string

// The verdicts.
const (
	VerdictSame         Verdict = "same"         // held, and every byte is what the Source says
	VerdictMissing      Verdict = "missing"      // the Source has it, the mirror has not
	VerdictExtra        Verdict = "extra"        // the mirror has it, the Source has not
	VerdictDifferent    Verdict = "different"    // held with other bytes
	VerdictUnverifiable Verdict = "unverifiable" // the Source gives nothing to compare with, the mirror is ahead of its documents, or it changed meanwhile
	VerdictError        Verdict = "error"        // the bytes held could not be read
)

// Verdicts lists them in the order in which people read them.
var Verdicts = [...]Verdict{VerdictSame, VerdictMissing, VerdictExtra, VerdictDifferent, VerdictUnverifiable, VerdictError}

// Audit is the outcome of comparing a mirror with its Source at one moment.
type Audit struct {
	Source  string
	Sets    []*SetAudit
	Orphans []Orphan // sets that the Source does not offer any more: nothing of them was compared
}

// SetAudit is the part of an Audit that concerns one set.
type SetAudit struct {
	Set, Name string
	At        time.Time         // of the list compared with; later changes were applied
	Followed  time.Time         // the mirror's cursor: changes up to here were applied; zero if none were
	Verdicts  map[Verdict]int64 // of Repair: those after the repair
	Skipped   map[Skip]int64
	Bytes     int64  // read
	Unread    int64  // resources of which no byte was read (Destination.Quick)
	Weak      int64  // resources that are the same by md5, sha-1 or sha-224 only
	Repaired  int64  // resources that were missing, different or unreadable and are not any more
	Partial   error  // part of the Source's documents could not be used: resources may be missing unnoticed
	Gap       string // the unknown changes after the list, also in the mirror; "" if there are none, or Destination.AcceptGap is set
}

// Differs reports whether something is missing, extra, different or unreadable.
func (a *Audit) Differs() bool {
	return slices.ContainsFunc(a.Sets, func(s *SetAudit) bool {
		v := s.Verdicts
		return v[VerdictMissing]+v[VerdictExtra]+v[VerdictDifferent]+v[VerdictError] > 0
	})
}

// InSync reports whether coverage and accuracy are perfect: nothing differs, every
// document could be used, each resource was compared, and no change is unknown.
func (a *Audit) InSync() bool {
	return !a.Differs() && len(a.Orphans) == 0 && !slices.ContainsFunc(a.Sets, func(s *SetAudit) bool { return s.Partial != nil || s.Gap != "" || Missed(s.Skipped) > 0 })
}

// Audit compares what the mirror holds with what the Source says at one moment (1.1
// §5.2): the Resource List with the changes after it. Every byte is read, unless Quick
// is set. What is missing or damaged is marked in the mirror, so that the next
// synchronisation brings it; nothing else changes, and nothing at all if ReadOnly is
// set.
//
// A resource that changes in the mirror while it is judged, by a synchronisation at the
// same time, is unverifiable; so is one of which the mirror knows a later state than
// the documents read.
func (d *Destination) Audit(ctx context.Context) (*Audit, error) {
	a, _, err := d.audit(ctx, nil)
	return a, err
}

// Repair is an Audit that fetches missing, different and unreadable resources, one by one,
// and then judges them again: the Audit has the remaining differences. Extra resources
// stay; only a synchronisation deletes. The Report has the fetched ones; it is valid beside
// an error too.
func (d *Destination) Repair(ctx context.Context) (*Audit, *Report, error) {
	return d.audit(ctx, &Report{})
}

// audit compares all sets; rep is nil if nothing is to be repaired.
func (d *Destination) audit(ctx context.Context, rep *Report) (*Audit, *Report, error) {
	src, sets, sc, err := d.discover(ctx)
	if err != nil {
		return nil, rep, err
	}
	a := &Audit{Source: sourceURI(src)}
	if err := d.Mirror.Bind(ctx, a.Source, src.Origin, urisOf(sets, func(s *discover.Set) string { return s.URI })...); err != nil {
		return nil, rep, err
	}
	err = eachSet(ctx, sets, func(set discover.Set) error {
		sa, err := d.auditSet(ctx, sc, set, rep)
		if err == nil {
			a.Sets = append(a.Sets, sa)
		}
		return err
	})
	if err != nil {
		return nil, rep, err
	}
	if !slices.ContainsFunc(a.Sets, func(s *SetAudit) bool { return s.Partial != nil }) {
		d.tellUnmatched(sc.filter)
	}
	orphans, err := d.orphans(ctx, src)
	a.Orphans = slices.DeleteFunc(orphans, func(o Orphan) bool { return o.Forget })
	return a, rep, err
}

func (d *Destination) auditSet(ctx context.Context, sc *scope, set discover.Set, rep *Report) (_ *SetAudit, err error) {
	au := &auditor{
		SetAudit: &SetAudit{Set: set.URI, Name: set.Name, Verdicts: map[Verdict]int64{}, Skipped: map[Skip]int64{}},
		d:        d, scope: sc,
	}
	au.Partial = set.Err
	if _, _, offered := d.newSetPlanner(sc, set).baselineSource(); set.Err == nil && !offered {
		au.Partial = harvest.ErrNothingOffered
	}
	if au.Partial != nil {
		return au.SetAudit, nil
	}
	if rep != nil {
		au.faults = spool.NewLog[fault](d.Spool)
		defer func() { err = errors.Join(err, au.faults.Close()) }()
	}
	if err := au.compareSet(ctx, set); err != nil {
		return nil, err
	}
	au.odd.note(d, set.URI)
	if rep == nil || au.faults.Len() == 0 {
		return au.SetAudit, nil
	}
	return au.SetAudit, au.repair(ctx, rep)
}

// compareSet judges all resources of a set and of the mirror.
func (au *auditor) compareSet(ctx context.Context, set discover.Set) error {
	k, err := au.d.openSetPlanner(ctx, au.scope, set)
	if err != nil {
		return err
	}
	defer k.offer.Close()
	au.Followed = k.known.At
	seen := spool.NewKeys(au.d.Spool, keyBudget)
	defer seen.Close()
	now, err := k.state(ctx)
	if err != nil {
		return err
	}
	defer now.Close()
	st, doubtful := k.view(now), map[spool.Key]bool{}
	if err := au.compare(ctx, st, seen, nil, au.admit, doubtful); err != nil {
		return err
	}
	partial, err := au.compareAgain(ctx, k, doubtful)
	if err != nil {
		return err
	}
	au.At, au.Partial = st.At, cmp.Or(st.Partial, partial)
	if st.Partial != nil {
		return nil
	}
	if st.Changes != nil {
		au.Partial = cmp.Or(partial, st.Changes.Rest)
	}
	if !au.d.AcceptGap && !st.Changes.Span().Since(k.known.At) { // else the mirror has followed them
		au.Gap = st.Gap
	}
	return au.findExtra(ctx, st, seen)
}

// compareAgain judges apparent differences by all documents: another one may name the same
// resource with other digests. partial is the error about unusable documents.
func (au *auditor) compareAgain(ctx context.Context, k *setPlanner, doubtful map[spool.Key]bool) (partial, err error) {
	if len(doubtful) == 0 {
		return nil, nil
	}
	now, err := k.state(ctx)
	if err != nil {
		return nil, err
	}
	defer now.Close()
	st := k.view(now)
	admit := func(w *harvest.Resource) bool {
		if !doubtful[resourcesync.KeyOf(w.URI)] {
			return false
		}
		skip, _ := au.scope.admit(w, false) // it was counted in the first pass
		return skip == ""
	}
	return st.Partial, au.compare(ctx, st, nil, doubtful, admit, nil)
}

// maxDoubtful bounds the resources that are judged once more.
const maxDoubtful = 1 << 12

func (au *auditor) admit(w *harvest.Resource) bool {
	skip, _ := au.scope.admit(w, false)
	if skip != "" {
		au.Skipped[skip]++
	}
	return skip == ""
}

// compare judges the resources that the documents name. Apparent differences are only added to
// doubtful; nil means the second pass.
func (au *auditor) compare(ctx context.Context, st *view, seen *spool.Keys, twice map[spool.Key]bool, admit func(*harvest.Resource) bool, doubtful map[spool.Key]bool) error {
	err := st.compare(ctx, seen, twice, admit, func(w word, h *Held) error {
		w.Bytes = match(h, w.want)
		switch {
		case w.Bytes == evidence.Same && doubtful == nil: // reported when its document was read
			return nil
		case w.Bytes == evidence.Differs && doubtful != nil && len(doubtful) < maxDoubtful:
			doubtful[resourcesync.KeyOf(w.want.URI)] = true
			return nil
		}
		return au.add(ctx, finding{want: *w.want, held: *h, ahead: !counts(st.decide(w.Statement, h))})
	})
	if err == nil {
		err = au.flush(ctx)
	}
	return err
}

// counts reports whether a decision tells the present state of the resource: confirm, fetch or remove.
func counts(d evidence.Decision) bool {
	return d == evidence.Confirm || d == evidence.Fetch || d == evidence.Remove
}

// findExtra judges the members that the Source does not list. A resource that is newer than
// the documents is no extra, nor is one without a change while the moment of the documents
// is unknown; its bytes are read.
func (au *auditor) findExtra(ctx context.Context, st *view, seen *spool.Keys) error {
	err := st.unnamed(ctx, seen, func(w word, told bool, h *Held) error {
		d := st.decide(w.Statement, h)
		extra := (told || !st.Unsure) && (counts(d) || d == evidence.Withhold)
		return au.add(ctx, finding{want: *w.want, held: *h, extra: extra, ahead: !extra})
	})
	if err == nil {
		err = au.flush(ctx)
	}
	return err
}
