package publish

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"instep/internal/catalog"
	"instep/internal/scan"
	"instep/resourcesync"
	"instep/source"
)

// Settings of the catalog.
const (
	dirSetting  = "dir" // what the state belongs to
	baseSetting = "base-url"
	outSetting  = "out"   // where its documents are
	hashSetting = "hash " // and the name of a set: the digests that its Resource List gives
)

const doubtNote = "a directory could not be read: no deletions are published until it can"

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
}

func (r *run) do(ctx context.Context) error {
	if err := r.prepare(ctx); err != nil {
		return err
	}
	if err := r.scan(ctx); err != nil {
		return err
	}
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
	if r.report.Rebased && !r.DryRun {
		if err := r.catalog.SetSettings(ctx, map[string]string{hashSetting + r.Set: r.hashes()}); err != nil {
			return err
		}
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
	if err := r.checkOut(ctx); err != nil {
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

// checkOut refuses another output as long as documents of this state are in the
// one before, or those of any state in the directory itself: they would be taken for
// resources, or served in place of the new ones.
func (r *run) checkOut(ctx context.Context) error {
	if r.outPath != r.dir {
		info, err := source.ReadPublicationInfo(r.tree.FS())
		if err == nil && info.State != r.pub.UUID {
			return &source.WrongStateError{Found: info.State, Want: r.pub.UUID, BaseURL: info.BaseURL}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	recorded, ok, err := r.catalog.Setting(ctx, outSetting)
	if err != nil {
		return err
	}
	if recorded == r.outPath {
		return nil
	}
	r.bound = false
	if ok && publishedIn(recorded, r.pub.UUID) {
		return &StateError{State: r.State, What: whatOut, Recorded: recorded, Given: r.outPath}
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
	return r.catalog.SetSettings(ctx, map[string]string{dirSetting: r.dir, baseSetting: r.BaseURL, outSetting: r.outPath})
}

// scan brings the catalog in line with the directory.
func (r *run) scan(ctx context.Context) (err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	d := &scan.Dir{
		Deps: scan.Deps{
			BaseURL: r.BaseURL, Catalog: r.catalog, Set: r.set,
			Algorithms: r.Algorithms, Workers: r.Workers, MaxDelete: r.limit, Now: r.Now, Observe: r.Observe,
		},
		Tree: scan.RootTree(r.tree), Include: r.Include, Exclude: r.Exclude,
		Ours: func(path string) bool { return r.ours(ctx, stop, path) },
	}
	plan, err := d.Plan(ctx)
	if err != nil {
		return cause(ctx, err)
	}
	defer func() { err = errors.Join(err, plan.Close()) }()
	if r.before, _, err = r.catalog.LastSeq(ctx, r.set); err != nil {
		return err
	}
	if plan.Doubt && !slices.Contains(r.report.Notes, doubtNote) {
		r.report.Notes = append(r.report.Notes, doubtNote)
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

// describe puts what is published into the report.
func (r *run) describe(pub source.Publication) {
	r.report.At = pub.ListAt
	r.report.ResourceList = pub.Offer(resourcesync.CapabilityResourceList)
	r.report.ChangeList = pub.Offer(resourcesync.CapabilityChangeList)
	r.report.Description = source.DescriptionURI(r.BaseURL)
	r.report.CapabilityList = source.CapabilityListURI(r.BaseURL, r.Set)
}

func (r *run) sweep(ctx context.Context) error {
	if r.DryRun {
		return nil
	}
	return r.pub.Sweep(ctx, r.Set)
}
