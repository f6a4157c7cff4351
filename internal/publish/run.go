package publish

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"instep/internal/catalog"
	"instep/internal/scan"
	"instep/resourcesync"
	"instep/source"
)

// Settings of the catalog: what the state belongs to.
const (
	dirSetting  = "dir"
	baseSetting = "base-url"
)

// maxScans bounds how often a directory is scanned in one run. A second time is
// needed when one scan found more changes than a Change List takes.
const maxScans = 3

// run is one call of Run.
type run struct {
	settled
	*places
	set    catalog.SetID
	pub    *source.Publisher
	last   source.Publication
	report Report
	bound  bool // the state knows what it belongs to

	// Of the last scan.
	result scan.Result
	before int64 // the last change recorded before it
	seq    int64 // the last change recorded
	// Of the first scan: where an open Change List ends if a new one begins.
	firstAt     time.Time
	firstBefore int64
}

func (r *run) do(ctx context.Context) error {
	if err := r.prepare(ctx); err != nil {
		return err
	}
	if err := r.scan(ctx); err != nil {
		return err
	}
	r.firstAt, r.firstBefore = r.result.At, r.before
	s, err := r.situation(ctx)
	if err != nil {
		return err
	}
	next, snapshot := s.decide()
	if next == nothing {
		r.describe(r.last)
		return r.sweep(ctx)
	}
	pub, err := r.publish(ctx, next, snapshot)
	if err != nil {
		return err
	}
	r.describe(pub)
	r.report.Documents, r.report.Notes = pub.Written, append(r.report.Notes, pub.Notes...)
	r.report.Published = !r.DryRun
	if !r.DryRun {
		r.report.Publication = pub.ID
	}
	return nil
}

// prepare checks that state, directory and output belong together and finishes
// what an earlier run has begun.
func (r *run) prepare(ctx context.Context) (err error) {
	if err := r.checkSettings(ctx); err != nil {
		return err
	}
	uuid, err := r.catalog.UUID(ctx)
	if err != nil {
		return err
	}
	if r.set, err = r.catalog.Set(ctx, r.Set); err != nil {
		return err
	}
	sets, err := r.catalog.Sets(ctx)
	if err != nil {
		return err
	}
	j := journal{r.catalog}
	r.pub = &source.Publisher{
		Bucket: r.bucket, Staging: r.staging, Journal: j, BaseURL: r.BaseURL, UUID: uuid,
		Generator: r.Generator, MaxEntries: r.MaxEntries, Now: r.Now,
	}
	for _, s := range sets {
		r.pub.Sets = append(r.pub.Sets, s.Name)
	}
	if err := r.pub.CheckState(ctx); err != nil {
		return err
	}
	if !r.DryRun {
		if err := r.clean(ctx); err != nil {
			return err
		}
		finished, err := r.pub.Recover(ctx, r.Set)
		if err != nil {
			return err
		}
		r.report.Recovered = finished.ID != 0
	}
	var done bool
	r.last, done, err = j.Last(ctx, r.Set)
	if r.last.ID != 0 && !done {
		r.report.Notes = append(r.report.Notes, "an interrupted publication will be finished first")
	}
	return err
}

// checkSettings refuses a state that belongs to something else.
func (r *run) checkSettings(ctx context.Context) error {
	for _, s := range []struct{ name, what, given string }{
		{dirSetting, "directory", r.dir},
		{baseSetting, "base URL", r.BaseURL},
	} {
		recorded, ok, err := r.catalog.Setting(ctx, s.name)
		if err != nil {
			return err
		}
		if ok && recorded != s.given {
			return &StateError{State: r.State, What: s.what, Recorded: recorded, Given: s.given}
		}
		r.bound = ok
	}
	return nil
}

// bind makes the state belong to the directory and the base URL: when the first
// of it is recorded, not before. A directory that could not be read binds nothing.
func (r *run) bind(ctx context.Context) error {
	if r.bound {
		return nil
	}
	r.bound = true
	return r.catalog.SetSettings(ctx, map[string]string{dirSetting: r.dir, baseSetting: r.BaseURL})
}

// scan brings the catalog in line with the directory.
func (r *run) scan(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	d := &scan.Dir{
		Tree: scan.RootTree(r.tree), BaseURL: r.BaseURL, Catalog: r.catalog, Set: r.set,
		Include: r.Include, Exclude: r.Exclude, Ours: func(path string) bool { return r.ours(ctx, stop, path) },
		Algorithms: r.Algorithms, Workers: r.Workers, MaxDelete: r.limit, Now: r.Now, Observe: r.Observe,
	}
	plan, err := d.Plan(ctx)
	if err != nil {
		return cause(ctx, err)
	}
	defer plan.Close()
	if r.before, _, err = r.catalog.LastSeq(ctx, r.set); err != nil {
		return err
	}
	if plan.Guard == nil {
		if err := r.bind(ctx); err != nil {
			return err
		}
	}
	r.result, err = d.Apply(ctx, plan)
	r.count()
	if err != nil {
		return cause(ctx, err)
	}
	// The next list of this set is of a later moment than this one, and so are the
	// changes that this one does not hold.
	if err := r.catalog.Reserve(ctx, r.result.At.Add(time.Microsecond)); err != nil {
		return err
	}
	r.seq, _, err = r.catalog.LastSeq(ctx, r.set)
	return err
}

// cause names what made ours stop the scan, if that is what happened.
func cause(ctx context.Context, err error) error {
	if c := context.Cause(ctx); c != nil && !errors.Is(err, c) {
		return c
	}
	return err
}

// ours reports whether a file or directory is no resource but of our making. If
// that can't be found out it stops the scan, for either answer could be wrong.
func (r *run) ours(ctx context.Context, stop context.CancelCauseFunc, path string) bool {
	if r.ownTree(path) {
		return true
	}
	if !r.inside || !source.MayBeDocument(path) {
		return false
	}
	for _, d := range r.last.Documents {
		if d.Key == path {
			return true
		}
	}
	_, ours, err := r.pub.Journal.Document(ctx, path)
	if err != nil {
		stop(err)
	}
	return ours
}

// count adds what the last scan did to the report.
func (r *run) count() {
	res, rep := &r.result, &r.report
	rep.Created += res.Created
	rep.Updated += res.Updated
	rep.Deleted += res.Deleted
	rep.Hashed += res.Hashed
	rep.Unchanged, rep.Failed = res.Unchanged, res.Failures.Count
	rep.Failures = nil
	for _, f := range res.Failures.First {
		rep.Failures = append(rep.Failures, Event{URI: scan.URI(r.BaseURL, f.Path), Path: f.Path, Bytes: -1, Err: f})
	}
	rep.Excluded = map[string]int64{}
	for reason, n := range res.Excluded {
		rep.Excluded[string(reason)] = n
	}
}

func (r *run) situation(ctx context.Context) (situation, error) {
	s := situation{published: r.last.ID != 0, rebase: r.Rebase, max: int64(r.ChangeListMax), hard: r.hard}
	var err error
	if s.resources, r.report.Bytes, err = r.catalog.Count(ctx, r.set); err != nil {
		return s, err
	}
	r.report.Resources = s.resources
	if !s.published {
		return s, nil
	}
	after, err := r.listAfter()
	if err != nil {
		return s, err
	}
	for _, c := range []struct {
		n     *int64
		after int64
	}{
		{&s.sinceList, r.last.ListThrough}, {&s.fresh, r.last.ChangesThrough}, {&s.listed, after}, {&s.divided, r.firstBefore},
	} {
		if *c.n, err = r.catalog.CountChanges(ctx, r.set, c.after, r.seq); err != nil {
			return s, err
		}
	}
	missing, err := r.pub.Missing(ctx, r.last)
	if err == nil && len(missing) > 0 {
		s.rebase = true
		r.report.Notes = append(r.report.Notes, fmt.Sprintf("%d published documents were gone, %q among them: all are written anew", len(missing), missing[0]))
	}
	return s, err
}

// listAfter is the number of the last change before those of the open Change
// List: the list is named by the number that its first change may have.
func (r *run) listAfter() (int64, error) {
	n, err := strconv.ParseInt(r.last.ChangesName, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("publication %d: expected a number as the name of its Change List, found %q", r.last.ID, r.last.ChangesName)
	}
	return n - 1, nil
}

// publish takes the step, or a later one if what it would say does not fit.
func (r *run) publish(ctx context.Context, next step, snapshot bool) (source.Publication, error) {
	for scans := 1; ; {
		if next == scanAgain {
			if scans++; scans > maxScans {
				return source.Publication{}, fmt.Errorf("%q changes faster than it can be listed: more than %d changes in each of %d scans",
					r.Dir, r.hard, maxScans)
			}
			if err := r.scan(ctx); err != nil {
				return source.Publication{}, err
			}
			n, err := r.catalog.CountChanges(ctx, r.set, r.before, r.seq)
			if err != nil {
				return source.Publication{}, err
			}
			if n > r.hard {
				continue
			}
		}
		u, err := r.update(ctx, next, snapshot)
		if err != nil {
			return source.Publication{}, err
		}
		pub, err := r.write(ctx, u)
		if !errors.Is(err, source.ErrChangesFull) {
			r.report.Rebased = err == nil && u.Snapshot != nil
			return pub, err
		}
		// Too many bytes, which only writing tells.
		next, snapshot = min(next+1, scanAgain), true
	}
}

func (r *run) write(ctx context.Context, u source.Update) (source.Publication, error) {
	if r.DryRun {
		return r.pub.Preview(ctx, u)
	}
	return r.pub.Publish(ctx, u)
}

// update says what is published by a step.
//
// A list is divided at the moment at which a scan began. Moments of the catalog
// never go back, so every change recorded before the scan is before that moment,
// and every change that the scan recorded is not: until of the old list, from of
// the new one and at of the new Resource List are this one moment, each change is
// in one list, and who begins with the Resource List misses none. When a scan is
// repeated, the changes of the first are in no list, because they fit into none:
// the old list ends before them, the new one begins after, and a Destination that
// finds this gap begins anew with the Resource List, which has them all.
func (r *run) update(ctx context.Context, next step, snapshot bool) (source.Update, error) {
	u := source.Update{Set: r.Set}
	if snapshot {
		u.Snapshot = r.snapshot(ctx)
	}
	if r.last.ID == 0 {
		u.Changes = r.window(ctx, r.seq, r.seq, r.result.At)
		return u, nil
	}
	after, err := r.listAfter()
	if err != nil {
		return u, err
	}
	if next == extend {
		u.Changes = r.window(ctx, after, r.seq, r.last.ChangesFrom)
		return u, nil
	}
	u.Closing = r.window(ctx, after, r.firstBefore, r.last.ChangesFrom)
	u.Closing.Until = r.firstAt
	u.Changes = r.window(ctx, r.before, r.seq, r.result.At)
	return u, nil
}

func (r *run) snapshot(ctx context.Context) *source.Snapshot {
	return &source.Snapshot{
		At: r.result.At, Completed: r.result.Completed, Through: r.seq,
		Resources: func(yield func(resourcesync.Entry, error) bool) {
			for m, err := range r.catalog.Members(ctx, r.set) {
				if !yield(resourceEntry(m), err) {
					return
				}
			}
		},
	}
}

func resourceEntry(m catalog.Resource) resourcesync.Entry {
	en := resourcesync.Entry{Loc: m.URI, LastMod: m.LastMod}
	en.Digests, en.Length, en.Type = m.Digests, m.Length, m.Type
	return en
}

// window is the Change List of the changes after one number up to another.
func (r *run) window(ctx context.Context, after, through int64, from time.Time) *source.Window {
	return &source.Window{
		Name: strconv.FormatInt(after+1, 10), From: from, Through: through,
		Changes: r.changes(ctx, after, through),
	}
}

func (r *run) changes(ctx context.Context, after, through int64) iter.Seq2[resourcesync.Entry, error] {
	return func(yield func(resourcesync.Entry, error) bool) {
		for ch, err := range r.catalog.Changes(ctx, r.set, after, through) {
			if !yield(changeEntry(ch), err) {
				return
			}
		}
	}
}

func changeEntry(ch catalog.Change) resourcesync.Entry {
	en := resourceEntry(ch.Resource)
	en.Change, en.Datetime = ch.Change, resourcesync.DatetimeOf(ch.Datetime)
	return en
}

// describe puts what is published into the report.
func (r *run) describe(pub source.Publication) {
	r.report.At = pub.ListAt
	r.report.ResourceList, r.report.ChangeList = pub.ResourceList, pub.ChangeList
	r.report.Description = source.DescriptionURI(r.BaseURL)
	r.report.CapabilityList = source.CapabilityListURI(r.BaseURL, r.Set)
}

func (r *run) sweep(ctx context.Context) error {
	if r.DryRun {
		return nil
	}
	return r.pub.Sweep(ctx, r.Set)
}
