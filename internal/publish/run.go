package publish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"instep/internal/scan"
	"instep/resourcesync"
	"instep/source"
)

const doubtNote = "a folder, or a part of the list of resources, could not be read, so no deletions are published in this run: make it readable, or give --assume-unchanged GLOB (assume_unchanged in a configuration) to leave it as published"

type run struct {
	*Session
	*setState
	what   What
	report SetReport

	full  bool // whether the scan of this run covered the whole set
	whole bool // whether the next scan of this run must compare all resources
	// incomplete is true if published documents are missing from the output.
	incomplete bool
	scan       scan.Result
	before     int64 // number of the last change recorded before the scan

	keepsSince time.Time // time since which bytes are stored for the first Change Dump; zero if there are dumps already, or no bytes are stored

	// now is the time of the publication. The publication has the changes up to number
	// seq, which are all earlier than now.
	now time.Time
	seq int64

	called int64 // a number that changes whenever new types or encodings in the set are recorded: see catalog.Facts.Relabelled

	kept, packaged int64 // number of bytes of resources that were stored, and number of those that were packed

	relations
	patching patching
}

// maxTries is the largest number of scans for one publication. If bytes that a dump must
// contain no longer exist, another scan finds the newer bytes.
const maxTries = 3

func (r *run) publishSet(ctx context.Context) error {
	if err := r.refresh(ctx); err != nil {
		return err
	}
	for try := 1; ; try++ {
		again, err := r.scanAndPublish(ctx, try < maxTries)
		if err != nil || !again {
			return err
		}
	}
}

// scanAndPublish scans the set once and publishes it. The result again is true in two
// cases: bytes that a dump must contain are gone, and another scan will find the newer
// bytes (only if mayRepeat is true); or Change Dumps had to end, and another publication
// has to begin new ones.
func (r *run) scanAndPublish(ctx context.Context, mayRepeat bool) (again bool, err error) {
	if err := r.scanSet(ctx); err != nil {
		return false, err
	}
	s, err := r.situation(ctx)
	if err != nil {
		return false, err
	}
	if !s.published && s.resources == 0 && r.report.Failed > 0 {
		return false, &NothingError{r.report.Failed}
	}
	d := s.decide()
	if !d.publish {
		r.reportURIs(r.last)
		return false, r.tidy(ctx)
	}
	r.noteEndings(s.reword)
	if err := r.setTime(ctx); err != nil {
		return false, err
	}
	if err := r.keepVersions(ctx); err != nil {
		return false, err
	}
	broken := false
	if r.incomplete {
		if broken, err = r.dropLost(ctx); err != nil {
			return false, err
		}
		r.incomplete = false
	}
	if broken {
		d.dump, d.dumps = false, false
	}
	pub, err := r.write(ctx, d)
	if gone, ok := errors.AsType[*source.GoneError](err); ok {
		if mayRepeat {
			r.what.NoScan, r.what.Paths, r.whole = false, nil, true
			if r.keepsSince.IsZero() {
				r.keepsSince = r.now
			}
			return true, nil
		}
		r.note("%v: this publication has no dumps, and the next one begins new dumps", gone)
		d.dump, d.dumps = false, false
		pub, err = r.write(ctx, d)
	}
	if err != nil {
		return false, err
	}
	if broken && !r.site.DryRun {
		r.what.NoScan, again = true, true
	}
	return again, r.recordPublished(ctx, d, pub)
}

func (r *run) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(r.report.Notes, text) {
		r.report.Notes = append(r.report.Notes, text)
	}
}

// noteEndings adds notes about dumps or archives that this publication no longer offers, in
// case the user forgot a flag.
func (r *run) noteEndings(reworded bool) {
	if !r.Dumps && !r.last.DumpsSince.IsZero() {
		r.note("Resource Dump and Change Dumps end with this publication, because no option requests them (--dump, dumps in a configuration)")
	}
	archived := slices.ContainsFunc(r.last.Offers, func(o source.Offer) bool { return strings.HasSuffix(string(o.Capability), "-archive") })
	if reworded && archived && r.Policy.Archive == nil {
		r.note("this publication empties the archives, because no option requests them (--archive, archive in a configuration)")
	}
}

// refresh reads the last publication. It completes that publication if it was interrupted.
func (r *run) refresh(ctx context.Context) error {
	r.report.Recovered, r.recovered = r.recovered, false
	last, done, err := r.pub.Journal.Last(ctx, r.Name)
	if err != nil {
		return err
	}
	if last.ID != 0 && !done {
		if r.site.DryRun {
			r.note("an interrupted publication will be finished first")
		} else if last, err = r.pub.Recover(ctx, r.Name); err != nil {
			return err
		}
	}
	r.last, r.pending = last, nil
	return nil
}

// scanSet compares the recorded state of the set with its resources, and records the
// changes. It does nothing if this run does not scan.
func (r *run) scanSet(ctx context.Context) error {
	if !r.scans() {
		return nil
	}
	r.recording.Lock()
	defer r.recording.Unlock()
	if r.tree != nil {
		if err := r.reopenDir(); err != nil {
			return err
		}
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	in, err := r.input(ctx, stop)
	if err != nil {
		return err
	}
	return r.apply(ctx, in)
}

func (r *run) scans() bool {
	if r.Input != nil {
		return !r.what.NoScan && r.what.Paths == nil
	}
	return !r.what.NoScan && r.tree != nil
}

func (r *run) observe(e Event) {
	if r.site.Observe != nil {
		e.Set = r.Name
		r.site.Observe(e)
	}
}

func (r *run) apply(ctx context.Context, in scan.Input) (err error) {
	plan, err := in.Plan(ctx)
	if err != nil {
		return scanError(ctx, err)
	}
	defer func() { err = errors.Join(err, plan.Close()) }()
	if r.before, _, err = r.facts.LastSeq(ctx, r.id); err != nil {
		return err
	}
	for _, n := range plan.Notes {
		r.note("%s", n)
	}
	if plan.Doubt {
		r.note(doubtNote)
	}
	r.addPlanNotes(plan)
	if plan.Guard == nil {
		if err := r.bind(ctx); err != nil {
			return err
		}
	}
	r.scan, err = in.Apply(ctx, plan)
	r.count()
	if n := r.scan.Clashes; n > 0 {
		r.note("another set gives %s a different type or encoding, such as %q: use the same rules in all sets", english.Plural(int(n), "resource", ""), r.scan.FirstClash)
	}
	r.full = err == nil && r.what.Paths == nil
	return scanError(ctx, err)
}

func (r *run) addPlanNotes(p *scan.Plan) {
	for _, u := range p.Unmatched {
		r.note("%s %q matched no file", u.Option, u.Pattern)
	}
	for _, twins := range p.Twins {
		r.note("two files have names that look the same but use different characters (%+q and %+q): some systems keep only one of them; rename one", twins[0], twins[1])
	}
}

// scanError returns the error with which the method ours stopped the scan, or err if that
// method did not stop the scan.
func scanError(ctx context.Context, err error) error {
	if c := context.Cause(ctx); err != nil && c != nil && !errors.Is(err, c) {
		return c
	}
	return err
}

func (r *run) input(ctx context.Context, stop context.CancelCauseFunc) (scan.Input, error) {
	deps := r.deps(r.setState)
	deps.Unpublished, deps.Whole, deps.Shared, deps.Keep = r.last.ID == 0, r.whole || r.what.Rebase, len(r.sets) > 1, r.copyStore()
	deps.Workers, deps.MaxDelete, deps.Observe, deps.LeftOut = r.site.Workers, r.limit, r.observe, r.site.LeftOut
	deps.State, deps.DryRun = r.site.State, r.site.DryRun
	if r.Input != nil {
		return r.Input(deps)
	}
	return &scan.Dir{
		Deps: deps, Tree: scan.RootTree(r.root()), Choice: r.Choice, Rules: r.Rules,
		Above: parentInfo(r.root()),
		Ours:  func(path string) bool { return r.ours(ctx, stop, path) }, Paths: r.what.Paths,
	}, nil
}

// ours reports whether a publication wrote the file or directory at a path, so that it is
// not a resource. If this cannot be found out, ours stops the scan, since a wrong answer
// would publish or delete the file.
func (r *run) ours(ctx context.Context, stop context.CancelCauseFunc, path string) bool {
	if path == wellKnownDir {
		path = wellKnownKey
	}
	same := func(d source.Document) bool { return d.Key == path }
	if r.isOut && source.MayBeDocument(path) && (slices.ContainsFunc(r.last.Documents, same) ||
		slices.ContainsFunc(r.sets, func(s *setState) bool { return slices.ContainsFunc(s.pending, same) })) {
		return true
	}
	ours, err := r.isOurs(ctx, r.setState, path)
	if err != nil {
		stop(err)
	}
	return ours
}

func (r *run) count() {
	res, rep := &r.scan, &r.report
	rep.Created += res.Created
	rep.Updated += res.Updated
	rep.Deleted += res.Deleted
	rep.Hashed += res.Hashed
	rep.Unchanged, rep.Failed = res.Unchanged, res.Failures.Count
	rep.Failures = nil
	for _, f := range res.Failures.First {
		rep.Failures = append(rep.Failures, Event{URI: f.URI, Path: f.Path, Bytes: -1, Err: f})
	}
	clear(rep.Excluded)
	for reason, n := range res.Excluded {
		rep.Excluded[string(reason)] = n
	}
}

func (r *run) situation(ctx context.Context) (s situation, err error) {
	last := &r.last
	s = situation{
		published: last.ID != 0, asked: r.what.Rebase, listAt: last.ListAt,
		dumps: r.Dumps, dumpAt: last.DumpAt,
		dumping:  !last.DumpAt.IsZero() && !last.DumpsSince.IsZero() && !last.DumpsSince.After(last.DumpAt),
		openFrom: last.ChangesFrom, listed: last.Changes,
		rest: r.site.RebaseMin, rebaseEvery: r.RebaseEvery, dumpEvery: r.DumpEvery, rotateEvery: r.RotateEvery,
		keepChanges: r.Policy.KeepChanges,
	}
	if s.resources, r.report.Bytes, err = r.facts.Count(ctx, r.id); err != nil {
		return s, err
	}
	r.report.Resources = s.resources
	if r.called, err = r.facts.Relabelled(ctx, r.id); err != nil {
		return s, err
	}
	if s.now, err = r.facts.Moment(ctx); err != nil {
		return s, err
	}
	if !s.published {
		return s, nil
	}
	seq, _, err := r.facts.LastSeq(ctx, r.id)
	if err != nil {
		return s, err
	}
	s.fresh = seq > last.ChangesThrough
	if s.sinceList, err = r.countSince(ctx, &r.sinceList, last.ListThrough, seq); err != nil {
		return s, err
	}
	if s.sinceDump, err = r.countSince(ctx, &r.sinceDump, last.DumpThrough, seq); err != nil {
		return s, err
	}
	return s, r.findOutdated(ctx, &s)
}

// countSince counts the changes with after < Seq <= through. It continues the count that
// an earlier call stored in t, and stores the new count there.
func (r *run) countSince(ctx context.Context, t *tally, after, through int64) (int64, error) {
	if t.after != after || t.through > through {
		*t = tally{after: after, through: after}
	}
	n, err := r.facts.CountChanges(ctx, r.id, t.through, through)
	if err != nil {
		return 0, err
	}
	t.n, t.through = t.n+n, through
	return t.n, nil
}

// findOutdated finds out which documents must be written again although no resource has
// changed. It sets the fields rewrite, reword and relabel of s.
func (r *run) findOutdated(ctx context.Context, s *situation) error {
	for name, value := range r.labels() {
		recorded, _, err := r.facts.Setting(ctx, name)
		if err != nil {
			return err
		}
		if recorded == value {
			continue
		}
		switch name {
		case calledSetting + r.Name:
			s.relabel = true
		case hashSetting + r.Name:
			s.rewrite = true
		default:
			s.reword = true
		}
	}
	if r.looked && r.what.NoScan {
		return nil
	}
	missing, err := r.missing(ctx)
	if err != nil {
		return err
	}
	first := !r.looked
	r.looked = true
	if len(missing) > 0 {
		s.rewrite, r.incomplete = true, true
	}
	if len(missing) > 0 && !(first && r.takenOver) {
		r.note("%d published documents were missing, such as %q: all documents are written again", len(missing), missing[0])
	}
	return nil
}

// labels returns, by name, the settings on which the documents depend: if one of them
// changes, new documents are needed even if no resource has changed.
func (r *run) labels() map[string]string {
	hashes := fmt.Sprint(r.site.Algorithms)
	rules, err := json.Marshal(r.Rules)
	if len(r.Rules) > 0 {
		hashes += " " + string(rules)
	}
	if r.KeepVersions > 0 {
		hashes += fmt.Sprintf(" versions %t", r.TimeGates)
	}
	if len(r.Aggregations) > 0 {
		hashes += fmt.Sprintf(" %q %q %q", r.Aggregations, r.mapCreator(), r.mapsTitle())
	}
	policy, failed := json.Marshal(policyRecord{r.Policy, r.site.About, r.Dumps, r.Patches, r.withdrawn})
	if err := errors.Join(err, failed); err != nil {
		panic(err) // Marshal cannot fail, because the values consist of strings and numbers
	}
	called := ""
	if r.called > 0 {
		called = strconv.FormatInt(r.called, 10)
	}
	return map[string]string{hashSetting + r.Name: hashes, calledSetting + r.Name: called, policySetting + r.Name: string(policy)}
}

// setTime sets r.now, the time of the publication. All changes recorded so far are earlier
// than r.now, and all changes recorded afterwards are not.
func (r *run) setTime(ctx context.Context) (err error) {
	r.recording.Lock()
	defer r.recording.Unlock()
	if r.now, err = r.facts.Moment(ctx); err != nil {
		return err
	}
	if err = r.facts.Reserve(ctx, r.now.Add(time.Microsecond)); err != nil {
		return err
	}
	r.seq, _, err = r.facts.LastSeq(ctx, r.id)
	return err
}

func (r *run) write(ctx context.Context, d decision) (pub source.Publication, err error) {
	g, err := r.aggregate(ctx, d.snapshot)
	if err != nil {
		return source.Publication{}, err
	}
	u, err := r.update(ctx, d)
	defer func() { err = errors.Join(err, r.patching.close()) }()
	if g != nil {
		defer func() { err = errors.Join(err, g.Close()) }()
		u.Maps = g.Maps(ctx)
	}
	if err != nil {
		return source.Publication{}, err
	}
	if r.site.DryRun {
		return r.pub.Preview(ctx, u)
	}
	if err := r.bind(ctx); err != nil {
		return source.Publication{}, err
	}
	pub, err = r.pub.Publish(ctx, u)
	if err != nil {
		r.pending = pub.Documents
	}
	return pub, err
}

func (r *run) recordPublished(ctx context.Context, d decision, pub source.Publication) error {
	r.reportURIs(pub)
	r.report.Rebased, r.report.Dumped = r.report.Rebased || d.snapshot, r.report.Dumped || d.dump
	r.report.Documents = append(r.report.Documents, written(pub)...)
	r.report.Retired = append(r.report.Retired, pub.Retired...)
	r.report.Kept, r.report.Packaged = r.kept, r.packaged
	r.report.Patches += r.patching.made
	r.report.PatchBytes += r.patching.bytes
	r.report.Patched += r.patching.targetBytes
	r.report.Notes = append(r.report.Notes, pub.Notes...)
	if r.site.DryRun {
		return nil
	}
	r.report.Published, r.report.Publication = true, pub.ID
	fresh := pub.ChangesThrough - r.last.ChangesThrough
	r.last = pub
	r.full = false // so that no later snapshot in this run has the time of this scan
	labels := r.labels()
	if !d.snapshot {
		delete(labels, hashSetting+r.Name)
		delete(labels, calledSetting+r.Name)
	}
	if err := r.facts.SetSettings(ctx, labels); err != nil {
		return err
	}
	if err := r.finishBases(ctx); err != nil {
		return err
	}
	if err := r.shortenLog(ctx, fresh); err != nil {
		return err
	}
	return errors.Join(r.removePackedBytes(ctx), r.expireVersions(ctx))
}

func written(pub source.Publication) (keys []string) {
	for _, d := range pub.Documents {
		if d.Placed || slices.Contains(pub.Written, d.Key) {
			keys = append(keys, d.Key)
		}
	}
	return keys
}

func (r *run) reportURIs(pub source.Publication) {
	rep := &r.report
	rep.At = pub.ListAt
	rep.CapabilityList = source.CapabilityListURI(r.site.BaseURL, r.Name)
	rep.ResourceList = pub.Offer(resourcesync.CapabilityResourceList)
	rep.ChangeList = pub.Offer(resourcesync.CapabilityChangeList)
	if rep.FixedChangeList = ""; pub.FixedChanges != 0 {
		rep.FixedChangeList = source.FixedChangeListURI(r.site.BaseURL, r.Name)
	}
	rep.ResourceDump = pub.Offer(resourcesync.CapabilityResourceDump)
	rep.ChangeDump = pub.Offer(resourcesync.CapabilityChangeDump)
}

// tidy removes bytes and documents that are no longer needed. It runs after a run that
// published nothing.
func (r *run) tidy(ctx context.Context) error {
	if r.site.DryRun {
		return nil
	}
	if err := r.removePackedBytes(ctx); err != nil {
		return err
	}
	return r.pub.Sweep(ctx, r.Name)
}
