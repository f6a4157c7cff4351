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

// These are the verdicts.
const (
	VerdictSame         Verdict = "same"         // the mirror holds exactly the bytes that the Source describes
	VerdictMissing      Verdict = "missing"      // the Source has the resource, but the mirror does not
	VerdictExtra        Verdict = "extra"        // the mirror has the resource, but the Source does not
	VerdictDifferent    Verdict = "different"    // the bytes in the mirror differ from the Source's description, or must be fetched again (Held.Due) and no digest proves them
	VerdictUnverifiable Verdict = "unverifiable" // the comparison is impossible: there is no digest, the mirror has a newer state, the documents contradict each other, or the resource changed during the audit
	VerdictError        Verdict = "error"        // the bytes in the mirror could not be read
)

// Verdicts lists all verdicts in the order in which reports show them.
var Verdicts = [...]Verdict{VerdictSame, VerdictMissing, VerdictExtra, VerdictDifferent, VerdictUnverifiable, VerdictError}

// Audit is the result of comparing a mirror with its Source.
type Audit struct {
	Source  string
	Sets    []*SetAudit
	Orphans []Orphan // sets that the Source no longer offers; their resources were not compared
}

// SetAudit is the result of an audit for one set.
type SetAudit struct {
	Set, Name string
	At        time.Time         // time of the list that was compared; the changes after the list were compared too
	Followed  time.Time         // time up to which the mirror has applied the Source's changes; zero if it has applied none
	Verdicts  map[Verdict]int64 // number of resources for each verdict; for Repair, after the repair
	Skipped   map[Skip]int64
	Bytes     int64  // bytes read from the mirror
	Unread    int64  // resources of which no byte was read (Destination.Quick)
	Weak      int64  // resources for which only md5, sha-1 or sha-224 proves the verdict VerdictSame
	Repaired  int64  // resources that the audit repaired
	Partial   error  // error of an unusable document; the audit may then have missed resources
	Gap       string // description of the unknown changes after the list; "" if there are none
}

// Differs reports whether any resource is missing, extra, different or unreadable.
func (a *Audit) Differs() bool {
	return slices.ContainsFunc(a.Sets, func(s *SetAudit) bool {
		v := s.Verdicts
		return v[VerdictMissing]+v[VerdictExtra]+v[VerdictDifferent]+v[VerdictError] > 0
	})
}

// InSync reports whether the mirror is a complete and exact copy: nothing differs,
// every document was usable, each resource was compared, and all changes are known.
func (a *Audit) InSync() bool {
	return !a.Differs() && len(a.Orphans) == 0 && !slices.ContainsFunc(a.Sets, func(s *SetAudit) bool { return s.Partial != nil || s.Gap != "" || Missed(s.Skipped) > 0 })
}

// Audit compares the held resources with the Source's state at one moment (1.1 §5.2):
// the Resource List and the changes after it. It reads every held byte unless Quick is
// set. It marks missing and damaged resources in the mirror so that the next
// synchronisation fetches them, and changes nothing else. If ReadOnly is set, it
// changes nothing.
//
// The verdict is unverifiable for a resource that a concurrent synchronisation changes
// during the audit, and for a resource of which the mirror has a later state than the
// documents.
func (d *Destination) Audit(ctx context.Context) (*Audit, error) {
	a, _, err := d.audit(ctx, nil)
	return a, err
}

// Repair audits, fetches missing, different and unreadable resources one by one, and
// judges them again. The returned Audit contains the remaining differences. Extra
// resources stay, because only a synchronisation deletes. The Report contains the
// fetched resources; it is valid even with an error.
func (d *Destination) Repair(ctx context.Context) (*Audit, *Report, error) {
	return d.audit(ctx, &Report{})
}

// audit repairs differences unless rep is nil.
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
	// If the documents have all changes after the cursor, missing changes are older than
	// the cursor, so the mirror has applied them.
	if !au.d.AcceptGap && !st.Changes.Span().Since(k.known.At) {
		au.Gap = st.Gap
	}
	return au.findExtra(ctx, st, seen)
}

// compareAgain compares the resources that seemed to differ with all documents, because
// another document may list the same resource with other digests.
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
		skip, _ := au.scope.admit(w, false) // skipped resources are not counted here, because the first pass has counted them
		return skip == ""
	}
	return st.Partial, au.compare(ctx, st, nil, doubtful, admit, nil)
}

const maxDoubtful = 1 << 12

func (au *auditor) admit(w *harvest.Resource) bool {
	skip, _ := au.scope.admit(w, false)
	if skip != "" {
		au.Skipped[skip]++
	}
	return skip == ""
}

// compare is called twice. The first call puts resources that seem to differ into the
// map doubtful, and does not judge them. The second call, with a nil map, judges them.
func (au *auditor) compare(ctx context.Context, st *view, seen *spool.Keys, twice map[spool.Key]bool, admit func(*harvest.Resource) bool, doubtful map[spool.Key]bool) error {
	err := st.compare(ctx, seen, twice, admit, func(w word, h *Held) error {
		w.Bytes = match(h, w.want)
		switch {
		case w.Bytes == evidence.Same && doubtful == nil: // not judged again: the first call has given this verdict for the same document
			return nil
		case w.Bytes == evidence.Differs && doubtful != nil && len(doubtful) < maxDoubtful:
			doubtful[resourcesync.KeyOf(w.want.URI)] = true
			return nil
		}
		w.Torn = w.Torn && w.contradictory()
		d := st.decide(w.Statement, h)
		change := w.Kind == evidence.Created || w.Kind == evidence.Updated
		return au.add(ctx, finding{fault: fault{Want: *w.want, Ahead: !decisive(d), Disputed: d == evidence.Ask}, held: *h, outdated: change && d == evidence.Fetch})
	})
	if err == nil {
		err = au.flush(ctx)
	}
	return err
}

// decisive reports whether it is certain that the Source has the resource as described,
// or does not have it.
func decisive(d evidence.Decision) bool {
	return d == evidence.Confirm || d == evidence.Fetch || d == evidence.Remove
}

// findExtra judges the members that the Source does not list. A member is not extra if
// it is newer than the documents, or if the documents have no known time and no change
// reports its deletion.
func (au *auditor) findExtra(ctx context.Context, st *view, seen *spool.Keys) error {
	err := st.forUnlisted(ctx, seen, func(w word, told bool, h *Held) error {
		d := st.decide(w.Statement, h)
		extra := (told || !st.Unsure) && (decisive(d) || d == evidence.Withhold)
		return au.add(ctx, finding{fault: fault{Want: *w.want, Ahead: !extra, Disputed: !extra && d == evidence.Ask}, held: *h, extra: extra})
	})
	if err == nil {
		err = au.flush(ctx)
	}
	return err
}
