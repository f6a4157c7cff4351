package scan

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"instep/blob"
	"instep/fetch"
	"instep/internal/catalog"
	"instep/resourcesync"
)

// outageAfter is the number of consecutive unreachable resources after which Apply regards
// the whole host as unreachable.
const outageAfter = 20

// Apply reads the new resources and those that may have changed, unless the listing has
// their digests. It records the changes, and then the deletions. It returns the same
// errors as Dir.Apply. After outageAfter consecutive unreachable resources it stops and
// returns the last error.
func (l *List) Apply(ctx context.Context, p *Plan) (Result, error) {
	r := newResult(p)
	if p.Guard != nil {
		return r, p.Guard
	}
	if err := l.Facts.Reserve(ctx, p.At); err != nil {
		return r, err
	}
	if err := l.clearMark(ctx); err != nil {
		return r, err
	}
	a := listApplier{ctx: ctx, l: l, p: p, r: &r}
	if err := a.applyAll(); err != nil {
		return r, err
	}
	for resources, err := range l.dir().vanishedResources(ctx, p) {
		if err == nil {
			err = a.remove(resources)
		}
		if err != nil {
			return r, err
		}
	}
	if !p.moment.IsZero() && !p.Doubt {
		moment := earliest(p.moment, l.Now()) // at most the present time: if the list states a future time, later lists would otherwise count as too old
		if err := l.Facts.SetSettings(ctx, map[string]string{l.sinceSetting(): moment.UTC().Format(time.RFC3339Nano)}); err != nil {
			return r, err
		}
	}
	if mark := l.markSetting(&r, p.Doubt || a.lost, p.Mark); l.Marks != "" && (l.Changes || mark[l.Marks] != "") {
		if err := l.Facts.SetSettings(ctx, mark); err != nil {
			return r, err
		}
	}
	r.Completed = latest(l.Now(), r.At)
	return r, nil
}

// clearMark clears the setting List.Marks before a complete listing is recorded.
func (l *List) clearMark(ctx context.Context) error {
	if l.Marks == "" || l.Changes {
		return nil
	}
	mark, _, err := l.Facts.Setting(ctx, l.Marks)
	if err != nil || mark == "" {
		return err
	}
	return l.Facts.SetSettings(ctx, map[string]string{l.Marks: ""})
}

// markSetting returns the setting List.Marks. Its value is mark, or "" if it is uncertain
// whether all changes were recorded.
func (l *List) markSetting(r *Result, doubt bool, mark string) map[string]string {
	if doubt || r.Failures.Count > 0 {
		mark = ""
	}
	return map[string]string{l.Marks: mark}
}

type listApplier struct {
	ctx         context.Context
	l           *List
	p           *Plan
	r           *Result
	unreachable int  // number of consecutive unreachable resources
	lost        bool // whether a change was not recorded because its bytes are gone; then later entries may have been compared with a state that was not recorded

	mu       sync.Mutex      // guards lastErrs
	lastErrs map[int64]error // results of examineLast, by listWork.Number of the last state; emptied at maxLastErrs entries
}

const maxLastErrs = 10_000

// applyAll examines and records the resources of the plan in rounds, so that little work
// has to be repeated after a crash.
func (a *listApplier) applyAll() error {
	var round []listWork
	var bytes int64
	inRound := map[string]bool{} // the URIs in the round; a round may have only one change of each resource
	for w, err := range a.p.listed.All() {
		if err != nil {
			return err
		}
		if len(round) == batchSize || bytes >= batchBytes || a.l.Changes && inRound[w.URI] {
			if err := a.round(round); err != nil {
				return err
			}
			round, bytes = round[:0], 0
			clear(inRound)
		}
		inRound[w.URI] = true
		round = append(round, w)
		bytes += w.Length.Int64()
	}
	return a.round(round)
}

func (a *listApplier) round(works []listWork) (err error) {
	if len(works) == 0 {
		return nil
	}
	var keep blob.Batch
	if a.l.Keep != nil {
		if keep, err = a.l.Keep.Begin(a.ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, keep.Discard()) }()
	}
	looks, err := a.examineAll(works, keep)
	if err != nil {
		return err
	}
	return a.flush(looks, keep)
}

func (a *listApplier) examineAll(works []listWork, keep blob.Batch) ([]examined, error) {
	looks, lasts := make([]examined, len(works)), make([]listWork, len(works))
	for i := range works {
		var err error
		if lasts[i], err = a.lastState(&works[i]); err != nil {
			return nil, err
		}
	}
	reach := outage{row: a.unreachable}
	g, ctx := errgroup.WithContext(a.ctx)
	g.SetLimit(a.l.workers())
	for i := range works {
		g.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			buffer := buffers.Get().(*[]byte)
			defer buffers.Put(buffer)
			looks[i] = a.l.examine(ctx, &works[i], keep, *buffer)
			if looks[i].err == nil && lasts[i].Number > 0 {
				a.examineLast(ctx, &looks[i], &lasts[i], *buffer)
			}
			return reach.take(looks[i].err)
		})
	}
	err := g.Wait()
	a.unreachable = reach.row
	return looks, errors.Join(err, a.ctx.Err())
}

func (a *listApplier) flush(looks []examined, keep blob.Batch) error {
	uris := make([]string, len(looks))
	for i := range looks {
		uris[i] = looks[i].URI
	}
	known, err := a.l.Facts.Lookup(a.ctx, a.l.Set, uris)
	if err != nil {
		return err
	}
	var o outcome
	taken := map[string]bool{}
	for i := range looks {
		x := &looks[i]
		a.r.Hashed += x.read
		if x.err != nil {
			later, err := a.hasLaterState(x, &known[i])
			if err != nil {
				return err
			}
			if !later {
				a.l.fail(&a.r.Failures, &FileError{x.URI, x.catalogPath(), x.err})
			}
			continue
		}
		if taken[uris[i]] {
			continue
		}
		taken[uris[i]] = true
		if x.Gone {
			o.addDeletion(&known[i])
			continue
		}
		kind, err := o.addExamined(&known[i], x)
		if err != nil {
			a.l.fail(&a.r.Failures, &FileError{x.URI, x.catalogPath(), err})
		}
		if kind != "" && x.kept != nil {
			keep.Put(x.kept, blob.Put{Key: KeepKey(x.all.Get(resourcesync.SHA256))})
		}
	}
	if keep != nil && len(o.changes) > 0 {
		if err := keep.Commit(a.ctx); err != nil {
			return err
		}
	}
	var mark map[string]string
	if a.l.Changes && a.l.Marks != "" {
		mark = a.l.markSetting(a.r, a.lost, looks[len(looks)-1].Mark)
	}
	if err := a.l.record(a.ctx, a.r, o.changes, mark); err != nil {
		return err
	}
	return a.l.recordUnchanged(a.ctx, a.r, o)
}

// lastState returns the last state of the resource in the listing, or the zero value if that is w
// or has no file.
func (a *listApplier) lastState(w *listWork) (last listWork, err error) {
	if !a.l.Changes {
		return last, nil
	}
	at, ok, err := a.p.latest.Get(w.URI)
	if err == nil && ok {
		last, err = a.p.listed.At(at)
	}
	if err != nil || last.Number <= w.Number || last.Path == "" {
		return listWork{}, err
	}
	return last, nil
}

// examineLast sets x.err if the file of the last state of the resource does not have the bytes.
func (a *listApplier) examineLast(ctx context.Context, x *examined, last *listWork, buffer []byte) {
	a.mu.Lock()
	failure, known := a.lastErrs[last.Number]
	a.mu.Unlock()
	if !known {
		found := a.l.examine(ctx, last, nil, buffer)
		x.read += found.read
		failure = found.err
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.lastErrs == nil || len(a.lastErrs) == maxLastErrs {
			a.lastErrs = map[int64]error{}
		}
		a.lastErrs[last.Number] = failure
	}
	x.err = failure
}

// hasLaterState reports whether a later state of the resource follows in the listing.
// Then it is no failure that the file no longer has the bytes of this state. This state
// is not recorded: if the later one cannot be recorded either, the published state has to
// stay.
func (a *listApplier) hasLaterState(x *examined, known *catalog.Resource) (bool, error) {
	if x.Path == "" {
		return false, nil
	}
	last, ok, err := a.p.followed.Get(x.URI)
	if err != nil || !ok || x.Number > last.Offset {
		return false, err
	}
	kind, err := x.change(known)
	a.lost = a.lost || kind != ""
	return true, err
}

// addDeletion adds the deletion of a resource to the outcome, unless the resource is no
// longer a member of the set.
func (o *outcome) addDeletion(known *catalog.Resource) {
	if known.Member {
		o.changes = append(o.changes, catalog.Change{Change: resourcesync.Deleted, Resource: catalog.Resource{URI: known.URI, Path: known.Path}})
	}
}

// addExamined adds the result of examining a resource to the outcome. It returns the kind
// of the change, or "" if the resource did not change.
func (o *outcome) addExamined(known *catalog.Resource, x *examined) (kind resourcesync.Change, err error) {
	var now catalog.Resource
	if x.Label {
		now = x.withLabels(known)
	} else {
		if kind, err = x.change(known); err != nil {
			return "", err
		}
		now = x.resource(known)
	}
	switch {
	case kind != "":
		o.addClash(known, &now, x.all)
		o.changes = append(o.changes, catalog.Change{Change: kind, Resource: now})
		return kind, nil
	case !x.Label:
		o.same = append(o.same, now)
	}
	if known.Member && !sameLabels(&now, known) {
		o.relabelled = append(o.relabelled, now)
	}
	return "", nil
}

func (a *listApplier) remove(resources []catalog.Resource) error {
	var o outcome
	for i := range resources {
		o.addDeletion(&resources[i])
	}
	return a.l.record(a.ctx, a.r, o.changes, nil)
}

// outage counts how many consecutive resources could not be reached.
type outage struct {
	mu  sync.Mutex
	row int
}

func (r *outage) take(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !errors.Is(err, fetch.Temporary) {
		r.row = 0
		return nil
	}
	if r.row++; r.row < outageAfter {
		return nil
	}
	return err
}
