package scan

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"instep/guard"
	"instep/internal/catalog"
	"instep/internal/glob"
	"instep/internal/spool"
	"instep/resourcesync"
)

const (
	batchSize  = catalog.MaxChanges // the number of resources in one query or one transaction
	planSize   = 2000               // the number of files that are compared with the catalog at a time
	keysMemory = 8 << 20            // the memory for the keys of the files that a scan found, in bytes; further keys are stored in a file
)

// Plan describes how a directory or a listing differs from the state that the catalog
// records. Close removes the temporary files of the Plan.
type Plan struct {
	At time.Time // the time at which the scan began; each change that Apply records with this plan gets this time or a later one

	Files     int64 // the number of files to publish
	Bytes     int64 // the total size of the files to publish, in bytes
	Unchanged int64 // the number of files whose size, times and inode equal the recorded ones
	New       int64 // number of files that are not in the set yet
	Relabel   int64 // the number of files with unchanged bytes whose type, encoding, changefreq or links may change because of a rule or a listing
	Modified  int64 // the number of files that may have changed; hashing shows whether they have
	ToHash    int64 // total size of the new and modified files, in bytes
	Vanished  int64 // the number of resources in the set whose file no longer exists; 0 if it is unknown whether files were deleted
	Set       int64 // the number of resources in the set before the scan
	Excluded  map[Reason]int64
	Assumed   int64       // the number of resources that the patterns AssumeUnchanged match; their recorded state stays
	Unmatched []Unmatched // the patterns that matched nothing; only known if the whole directory was examined
	Twins     [][2]string // pairs of files whose names differ only in their Unicode form, at most 20

	Mark     string      // the position after the last change that a list of changes contains: see List.Marks
	Follows  bool        // whether the plan was made from a list of changes
	Notes    []string    // remarks about the scanned input, each of them one sentence
	Failures Failures    // the paths that could not be examined; their recorded state stays
	Doubt    bool        // whether a directory could not be read, so that the scan deletes no resources
	Guard    *GuardError // the reason why Apply refuses the plan; nil if Apply accepts the plan

	work     *spool.Log[item]
	vanished *spool.Log[resourcesync.Key]
	pieces   *spool.Log[catalog.Piece] // the pieces (parts of directories) to store when all their files are recorded
	mounts   []string                  // the mount points that were found in the directory tree
	relabel  bool                      // whether the rules differ from those that were last applied to the whole set
	listed   *spool.Log[listWork]      // the listed resources that Apply has to process; nil if a directory was scanned
	latest   *spool.Index              // in a listing of changes, by URI: the index in Plan.listed of the last planned change
	followed *spool.Index              // in a listing of changes: for each URI with a later entry, the number of the last planned change before that entry (in the field Offset)
	moment   time.Time                 // the time in the "at" attribute of the listing; zero if it is unknown
}

// item is a file that Apply has to read: to hash it, or to determine its type again.
type item struct {
	Path  []byte // the path of the file, which need not be valid UTF-8
	New   bool
	Label bool   // whether the bytes have not changed, so that only type, encoding and links of the file are determined again
	Print stamp  // zero if unknown
	Piece int64  // the number, in the plan, of the piece (part of a directory) that contains the file; 0 if no piece contains it
	URI   string // the URI of the file in an adopted publication; "" if the function URI returns the same one
	Also  string // the algorithm of a further digest, which is compared with a recorded digest; "" if none is needed
}

// Close deletes the temporary files of the plan.
func (p *Plan) Close() error {
	err := errors.Join(p.work.Close(), p.vanished.Close())
	if p.listed != nil {
		err = errors.Join(err, p.listed.Close(), p.latest.Close(), p.followed.Close())
	}
	if p.pieces != nil {
		err = errors.Join(err, p.pieces.Close())
	}
	return err
}

// Fail adds a failure to a plan, and passes it to the function Observe.
func (d *Deps) Fail(p *Plan, e *FileError) { d.fail(&p.Failures, e) }

func (d *Deps) fail(all *Failures, e *FileError) {
	all.add(e)
	d.observe(Event{URI: e.URI, Path: e.Path, Bytes: -1, Err: e})
}

// Action is a change that Apply will record, as far as the change is known before files are
// hashed.
type Action struct {
	Change resourcesync.Change // the kind of the change; if it is Updated, hashing may show that nothing changed
	URI    string
	Path   string
}

// Actions yields the changes that Apply will record for a plan, in order.
func (d *Dir) Actions(ctx context.Context, p *Plan) iter.Seq2[Action, error] {
	return func(yield func(Action, error) bool) {
		for it, err := range p.work.All() {
			if it.Label {
				continue
			}
			a := Action{Change: resourcesync.Updated, URI: d.uri(string(it.Path), it.URI), Path: string(it.Path)}
			if it.New {
				a.Change = resourcesync.Created
			}
			if !yield(a, err) || err != nil {
				return
			}
		}
		for resources, err := range d.vanishedResources(ctx, p) {
			if err != nil {
				yield(Action{}, err)
				return
			}
			for _, r := range resources {
				if !yield(Action{resourcesync.Deleted, r.URI, r.Path}, nil) {
					return
				}
			}
		}
	}
}

func (d *Dir) vanishedResources(ctx context.Context, p *Plan) iter.Seq2[[]catalog.Resource, error] {
	return func(yield func([]catalog.Resource, error) bool) {
		for keys, err := range spool.Batches(p.vanished.All(), batchSize) {
			var resources []catalog.Resource
			if err == nil {
				uris := make([]string, len(keys))
				for i, key := range keys {
					uris[i] = key.URI()
				}
				resources, err = d.Facts.Lookup(ctx, d.Set, uris)
			}
			if !yield(resources, err) || err != nil {
				return
			}
		}
	}
}

// Plan walks the directory and compares it with the catalog. It records nothing. It
// returns ErrRoot if the directory itself cannot be read. Other errors of reading are
// in Plan.Failures.
func (d *Dir) Plan(ctx context.Context) (*Plan, error) {
	if err := d.validate(); err != nil {
		return nil, err
	}
	at, err := d.Facts.Moment(ctx)
	if err != nil {
		return nil, err
	}
	relabel, err := d.rulesChanged(ctx)
	if err != nil {
		return nil, err
	}
	p := &Plan{At: at, Excluded: map[Reason]int64{}, work: spool.NewLog[item](d.Spool),
		vanished: spool.NewLog[resourcesync.Key](d.Spool), pieces: spool.NewLog[catalog.Piece](d.Spool), relabel: relabel}
	b := planner{ctx: ctx, d: d, p: p, seen: spool.NewKeys(d.Spool, keysMemory)}
	err = b.run()
	if err = errors.Join(err, b.seen.Close()); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (d *Dir) validate() error {
	for _, patterns := range [][]string{d.Include, d.Exclude, d.AssumeUnchanged} {
		for _, p := range patterns {
			if !glob.Valid(p) {
				return fmt.Errorf("glob %q: %w", p, errGlob)
			}
		}
	}
	for i := range d.Rules {
		if err := d.Rules[i].validate(); err != nil {
			return err
		}
	}
	if err := checkLinks(d.Rules); err != nil {
		return err
	}
	for _, a := range d.Algorithms {
		if !a.Known() {
			return fmt.Errorf("%w %q", resourcesync.ErrUnknownAlgorithm, a)
		}
	}
	if !strings.HasSuffix(d.BaseURL, "/") {
		return fmt.Errorf("base URL %q: expected a slash at its end", d.BaseURL)
	}
	return nil
}

type planner struct {
	ctx     context.Context
	d       *Dir
	p       *Plan
	seen    *spool.Keys // the keys of the files that were found, and of those that could not be examined
	uris    []string    // the URIs of files, in the order of the files
	files   []observation
	changed bool // whether a file differs from the recorded state, so that deleted resources must be looked for

	spelled map[string]string // the URIs that an adopted publication uses for files, by path: see Deps.Spelled
}

func (b *planner) run() error {
	n, _, err := b.d.Facts.Count(b.ctx, b.d.Set)
	if err != nil {
		return err
	}
	b.p.Set = n
	b.d.globs = b.d.newGlobs()
	defer func() { b.d.globs = nil }()
	if err := b.d.walk(b.ctx, b.handle); err != nil {
		return err
	}
	if b.d.Paths == nil {
		b.p.Unmatched = b.d.globs.unmatched()
	}
	if err := b.flush(); err != nil {
		return err
	}
	if err := b.keepAssumed(); err != nil {
		return err
	}
	if !b.changed && b.d.Paths == nil && b.p.Files == n && !b.p.Doubt {
		return nil // nothing vanished: the members of the set are exactly the files that were found
	}
	return b.findVanished()
}

func (b *planner) handle(s observation) error {
	if s.twin != "" && len(b.p.Twins) < maxTwins {
		b.p.Twins = append(b.p.Twins, [2]string{s.twin, s.name})
	}
	switch {
	case s.mount:
		if len(b.p.mounts) < maxMounts {
			b.p.mounts = append(b.p.mounts, s.name)
		}
		return nil
	case s.dir:
		return b.failedDir(s.name, s.err)
	case errors.Is(s.err, fs.ErrNotExist):
		return nil // ignored: the file was deleted after the entries of its directory were read
	case s.err != nil:
		b.changed = true
		b.d.Fail(b.p, b.d.fileError(s.name, s.err))
		return b.assignURIs([]observation{s})
	case s.reason != "":
		b.p.Excluded[s.reason]++
		if b.d.LeftOut != nil && s.reason != Ours {
			b.d.LeftOut(s.name, s.reason)
		}
		return nil
	}
	b.p.Files++
	b.p.Bytes += s.info.Size()
	b.d.globs.rules.Match(s.name, false)
	b.files = append(b.files, s)
	if len(b.files) == planSize {
		return b.flush()
	}
	return nil
}

func (b *planner) assignURIs(files []observation) error {
	paths := make([]string, len(files))
	for i := range files {
		paths[i] = files[i].name
	}
	var err error
	if b.spelled, err = b.d.Spelled(b.ctx, paths); err != nil {
		return err
	}
	b.uris = b.uris[:0]
	for i := range files {
		uri := b.d.uri(files[i].name, b.spelled[files[i].name])
		if err := b.seen.Add(resourcesync.KeyOf(uri)); err != nil {
			return err
		}
		b.uris = append(b.uris, uri)
	}
	return nil
}

func (b *planner) failedDir(name string, err error) error {
	if name == "." {
		return fmt.Errorf("%w: %w", ErrRoot, err)
	}
	b.p.Doubt = true
	b.d.Fail(b.p, b.d.fileError(name, err))
	return nil
}

// flush compares the collected files with the catalog: first each piece (part of a
// directory) as a whole, then the single files of the pieces that differ.
func (b *planner) flush() error {
	if err := b.assignURIs(b.files); err != nil {
		return err
	}
	if err := b.checkPieces(); err != nil {
		return err
	}
	uris, files := b.uris[:0], b.files[:0]
	for i, f := range b.files {
		if f.piece != nil && f.piece.same {
			b.p.Unchanged++
			continue
		}
		uris, files = append(uris, b.uris[i]), append(files, f)
	}
	b.files = b.files[:0]
	if len(files) == 0 {
		return nil
	}
	b.changed = true
	known := make([]catalog.Resource, len(uris))
	if b.p.Set > 0 {
		var err error
		if known, err = b.d.Facts.Lookup(b.ctx, b.d.Set, uris); err != nil {
			return err
		}
	}
	for i := range files {
		if err := b.planFile(known[i], &files[i]); err != nil {
			return err
		}
	}
	return nil
}

// checkPieces finds the pieces (parts of directories) that have not changed since the
// catalog recorded them. If rules make links between files, no piece counts as unchanged,
// since the target of a link may have been added or deleted.
func (b *planner) checkPieces() error {
	links := b.d.hasFileLinks()
	var asked []*piece
	var pieces []catalog.Piece
	for i := range b.files {
		p := b.files[i].piece
		if p == nil || p.asked {
			continue
		}
		if p.asked = true; p.whole && !links {
			asked, pieces = append(asked, p), append(pieces, p.Piece)
		}
	}
	same := make([]bool, len(pieces))
	if b.p.Set > 0 {
		var err error
		if same, err = b.d.Seen.KnownPieces(b.ctx, b.d.Set, pieces); err != nil {
			return err
		}
	}
	for i, p := range asked {
		if p.same = same[i]; p.same {
			continue
		}
		if err := b.p.pieces.Append(p.Piece); err != nil {
			return err
		}
		p.number = b.p.pieces.Len()
	}
	return nil
}

func (b *planner) planFile(known catalog.Resource, f *observation) error {
	it := item{Path: []byte(f.name), URI: b.spelled[f.name], New: !known.Member, Print: stampOf(f.info)}
	if f.piece != nil {
		it.Piece = f.piece.number
	}
	links := b.d.hasFileLinks()
	switch unchanged := b.d.unchanged(known, f.name, it.Print); {
	case unchanged && (b.p.relabel || links && b.d.linksChanged(b.ctx, &known, f.name)):
		b.p.Unchanged++
		b.p.Relabel++
		it.Label = true
	case unchanged:
		b.p.Unchanged++
		return nil
	default:
		if known.Member {
			b.p.Modified++
		} else {
			b.p.New++
		}
		b.p.ToHash += f.info.Size()
		it.Also = string(b.d.extraAlgorithm(known))
	}
	return b.p.work.Append(it)
}

func (d *Dir) unchanged(known catalog.Resource, name string, p stamp) bool {
	if !known.Member || known.Due != "" || !known.Stored || known.Path != name || known.Stat != p.String() {
		return false
	}
	return d.complete(known.Digests)
}

func (d *Deps) complete(ds resourcesync.Digests) bool {
	return !slices.ContainsFunc(d.algorithms(), func(a resourcesync.Algorithm) bool { return ds.Get(a).IsZero() })
}

// extraAlgorithm returns "" if a recorded digest uses a configured algorithm. Otherwise it
// returns the algorithm of the strongest recorded digest, so that this digest is computed
// as well and can be compared.
func (d *Dir) extraAlgorithm(known catalog.Resource) resourcesync.Algorithm {
	for _, a := range d.algorithms() {
		if !known.Digests.Get(a).IsZero() {
			return ""
		}
	}
	return known.Digests.Strongest().Algorithm()
}

// findVanished adds to the plan the resources whose files no longer exist, unless a
// directory could not be read.
func (b *planner) findVanished() error {
	n, _, err := b.d.Facts.Count(b.ctx, b.d.Set)
	if err != nil {
		return err
	}
	b.p.Set = n
	if b.p.Doubt || n == 0 {
		return nil
	}
	for key, err := range spool.Minus(b.d.members(b.ctx), b.seen.Sorted()) {
		if err != nil {
			return err
		}
		if err := b.p.vanished.Append(key); err != nil {
			return err
		}
	}
	b.p.Vanished = b.p.vanished.Len()
	b.p.guard(b.d.MaxDelete)
	if b.p.Vanished == 0 || !b.d.MaxDelete.Exceeded(n, n) { // a lost mount point matters only if files vanished and --max-delete does not permit the deletion of all of them
		return nil
	}
	mount, lost, err := b.d.lostMount(b.ctx)
	if mount != "" {
		b.p.Guard = &GuardError{Deletes: lost, Set: n, Mount: mount}
	}
	return err
}

// guard sets Plan.Guard if the plan deletes more resources than limit permits.
func (p *Plan) guard(limit guard.Limit) {
	if limit.Exceeded(p.Vanished, p.Set) {
		p.Guard = &GuardError{Deletes: p.Vanished, Set: p.Set, New: p.New, Limit: limit}
	}
}

// Result has the numbers of files and resources that Apply processed.
type Result struct {
	At        time.Time // a copy of Plan.At
	Completed time.Time // the time at which the last change was recorded

	Created, Updated, Deleted int64
	Unchanged                 int64  // the number of unchanged resources, including those that only hashing showed to be unchanged
	Relabelled                int64  // the number of resources with unchanged bytes, but a new type, encoding, changefreq or link, which the next Resource List has to contain
	Clashes                   int64  // the number of resources that another set gives another type or encoding; the values that this scan found are recorded
	FirstClash                string // the URI of the first resource that the field Clashes counts
	Gone                      int64  // the number of files that were deleted or excluded while the scan ran; they stay recorded until the next scan
	Hashed                    int64  // number of bytes that were read for hashing
	Failures                  Failures
	Excluded                  map[Reason]int64
}

func newResult(p *Plan) Result {
	r := Result{At: p.At, Unchanged: p.Unchanged + p.Assumed, Failures: p.Failures, Excluded: maps.Clone(p.Excluded)}
	r.Failures.First = r.Failures.First[:len(r.Failures.First):len(r.Failures.First)]
	return r
}
