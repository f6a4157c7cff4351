// Package mirror keeps a copy of a Source in a directory (1.1 §5.2): the bytes of each
// resource in a file whose path reads like its URI, what is known of them in a
// catalog. Open returns a Mirror, the destination.Mirror of a destination.Destination,
// which brings it in step with the Source. What a run replaced or deleted is kept for
// as long as PurgeTrash is told to: History, AsOf and Ended list it, OpenVersion reads
// it, and Revert brings it back.
//
// All its own files are in .instep below the directory: the marker that ties directory and
// catalog together, the catalog, the lock, temporary files, and the trash, which keeps
// replaced and deleted bytes for a while.
//
// A batch commits in three steps, each durable before the next: a transaction with
// the intents (which files are about to change), the files, and a transaction with
// the outcome, which removes the intents. Where intents are left, by a crash or an
// error, the files are put back as the catalog says. A batch of nothing but new
// resources has its outcome in the first of the steps already: after a crash those
// count whose files are in their places.
package mirror

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"instep/blob"
	"instep/destination"
	"instep/internal/catalog"
	"instep/internal/durable"
	"instep/internal/flock"
	"instep/resourcesync"
)

// Errors for errors.Is.
var (
	// ErrNotEmpty is returned by Open for a new mirror in a directory that has files.
	ErrNotEmpty = errors.New("the directory is not empty and holds no mirror")
	// ErrWrongStore is returned by Open if directory and catalog do not belong together,
	// or if the directory that should hold a mirror holds none: an unmounted disk looks
	// like that.
	ErrWrongStore = errors.New("not the directory of this mirror")
	// ErrLostCatalog is an ErrWrongStore: there is a mirror, but not its catalog.
	ErrLostCatalog = errors.New("its catalog is not there")
	// ErrOtherCatalog is an ErrWrongStore: the catalog is not the one that the marker of
	// the mirror names.
	ErrOtherCatalog = errors.New("its marker names another catalog")
	// ErrUsedCatalog is an ErrWrongStore: the catalog of the new mirror is that of another
	// mirror, or of what is published.
	ErrUsedCatalog = errors.New("the catalog is used already")
	// ErrDamaged is returned where the catalog can't be read, or is not sound. Options.Adopt
	// makes a new one.
	ErrDamaged = catalog.ErrDamaged
	// ErrNewer is returned by Open if a newer version of this module wrote the catalog.
	ErrNewer = catalog.ErrNewerSchema
	// ErrUnknownPlan is returned by Approve for a hash that was not withheld.
	ErrUnknownPlan = catalog.ErrUnknownPlan
	// ErrUnbound is returned for bytes that come before the first Bind.
	ErrUnbound = errors.New("the mirror belongs to no Source yet")
	// ErrReadOnly is returned for a change of a mirror that was opened for reading.
	ErrReadOnly = errors.New("the mirror is open for reading only")
)

// LockedError is returned by Open while another process has the mirror, its state or its
// directory open: it names the holder, as far as that is known.
type LockedError = flock.LockedError

// WrongSourceError is returned by Bind for a mirror of another Source.
type WrongSourceError struct {
	Dir             string // of the mirror
	What            string // that differs: "Source" or "origin"
	Recorded, Given string // the two URIs
}

func (e *WrongSourceError) Error() string {
	return fmt.Sprintf("%q is a mirror of the %s %q, not of %q", e.Dir, e.What, e.Recorded, e.Given)
}

// Mirror is an open mirror. Its methods are safe for concurrent use.
type Mirror struct {
	now      func() time.Time
	dir      string
	state    string // directory of the catalog, as given in Options.State; "" is the default below dir
	aside    string // path of an unusable catalog that was set aside; "" if there is none
	inside   string // path of the state below dir, "." if it is dir; "" if it is elsewhere
	readOnly bool
	space    func(*os.Root) (durable.Space, error)
	probe    func(*os.Root) (*fileNames, error)
	where    func(*os.Root) (string, error) // see durable.Where
	names    *fileNames                     // that files get
	marker   marker                         // present or former marker; zero if the mirror was opened for reading
	disk     *disk
	stores
	bucket blob.Bucket                 // bytes by paths of resources
	files  blob.Bucket                 // bytes by names of files: the same in a tree
	flat   *flat                       // the bucket, if that is its layout
	docs   *documents                  // cached documents of the Source; nil if cat is
	clean  func(context.Context) error // removes the bucket's temporary files
	close  []func() error              // in reverse

	adopts bool        // files that are there already are taken over, or go to the trash
	found  func(Found) // may be nil
	claims claims
	taken  atomic.Int64 // files that were there and not known, and are resources by now

	commit chan struct{} // a lock for committing, and for the fields below
	undone bool          // intents may be left
	run    catalog.Run   // that commits belong to

	mu   sync.Mutex // guards the rest
	home origin     // zero before Bind
	sets map[string]catalog.SetID
}

var _ destination.Mirror = (*Mirror)(nil)

// originSetting, beside catalog.MirrorSetting, ties a mirror to its Source.
const originSetting = "origin"

// Bind implements destination.Mirror. It ties the mirror to a Source and its origin for
// good, and returns a *WrongSourceError if it is the mirror of another one. A Source that
// was found by another URI is recognised by any of its sets, and by its origin alone as
// long as the mirror has no sets. A mirror that is open for reading checks, and records
// nothing.
func (m *Mirror) Bind(ctx context.Context, source, home string, sets ...string) error {
	o, err := parseOrigin(home)
	if err != nil {
		return fmt.Errorf("the origin of the Source: %w", err)
	}
	bound, err := m.checkBinding(ctx, source, home, o, sets)
	if err != nil {
		return err
	}
	if !bound && !m.readOnly {
		if err := m.facts.SetSettings(ctx, map[string]string{catalog.MirrorSetting: source, originSetting: home}); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.home = o
	return nil
}

// Bound reports whether a run has tied the mirror to a Source.
func (m *Mirror) Bound(ctx context.Context) (bool, error) {
	if m.cat == nil {
		return false, nil
	}
	_, bound, err := m.facts.Setting(ctx, catalog.MirrorSetting)
	return bound, err
}

func (m *Mirror) checkBinding(ctx context.Context, source, home string, o origin, sets []string) (bound bool, err error) {
	if m.cat == nil {
		return false, nil
	}
	recorded, bound, err := m.facts.Setting(ctx, catalog.MirrorSetting)
	if err != nil || !bound {
		return bound, err
	}
	if recorded != source {
		held, err := m.facts.Sets(ctx)
		if err != nil {
			return true, err
		}
		known := func(s catalog.NamedSet) bool { return slices.Contains(sets, s.Name) }
		if bound = len(held) > 0; bound && !slices.ContainsFunc(held, known) {
			return true, &WrongSourceError{m.dir, "Source", recorded, source}
		}
	}
	recorded, _, err = m.facts.Setting(ctx, originSetting)
	if err != nil {
		return true, err
	}
	if was, err := parseOrigin(recorded); err != nil || was != o {
		return true, &WrongSourceError{m.dir, "origin", recorded, home}
	}
	return bound, nil
}

// load reads the stored facts about the mirror; the origin only if it was bound.
func (m *Mirror) load(ctx context.Context) (err error) {
	recorded, ok, err := m.facts.Setting(ctx, originSetting)
	if err != nil || !ok {
		return err
	}
	if m.home, err = parseOrigin(recorded); err != nil {
		return fmt.Errorf("setting %q of the catalog: %w", originSetting, err)
	}
	return nil
}

func (m *Mirror) segments(uri string) ([]segment, error) {
	m.mu.Lock()
	home := m.home
	m.mu.Unlock()
	if home == (origin{}) {
		return nil, ErrUnbound
	}
	return m.names.segments(home, uri)
}

// set finds a set; 0 if the mirror does not know it.
func (m *Mirror) set(ctx context.Context, name string) (catalog.SetID, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if id, ok := m.sets[name]; ok || m.cat == nil {
		return id, nil
	}
	all, err := m.facts.Sets(ctx)
	for _, s := range all {
		m.sets[s.Name] = s.ID
	}
	return m.sets[name], err
}

// makeSet finds a set or makes it.
func (m *Mirror) makeSet(ctx context.Context, name string) (catalog.SetID, error) {
	id, err := m.set(ctx, name)
	if err != nil || id != 0 {
		return id, err
	}
	if id, err = m.facts.Set(ctx, name); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sets[name] = id
	return id, nil
}

// Lookup implements destination.Mirror.
func (m *Mirror) Lookup(ctx context.Context, set string, uris []string) ([]destination.Held, error) {
	all := make([]destination.Held, len(uris))
	id, err := m.set(ctx, set)
	if err != nil || m.cat == nil {
		return all, err
	}
	found, err := m.facts.Lookup(ctx, id, uris)
	if err != nil {
		return nil, err
	}
	told, err := m.own.Evidence(ctx, id, uris)
	if err != nil {
		return nil, err
	}
	for i := range found {
		if all[i], err = heldOf(&found[i]); err != nil {
			return nil, err
		}
		switch e, ok := told[uris[i]]; {
		case !ok:
		case e.Gone && !all[i].Member:
			all[i].Gone = e.Moment
		case !e.Gone && all[i].Member && e.Moment.Equal(all[i].Changed):
			all[i].Told, all[i].Until, all[i].Came = e.Told, e.Until, e.Came
		}
	}
	return all, nil
}

// row returns the record of one URI; the zero Resource if there is none.
func (m *Mirror) row(ctx context.Context, set catalog.SetID, uri string) (catalog.Resource, error) {
	if m.cat == nil {
		return catalog.Resource{}, nil
	}
	return m.own.Find(ctx, set, uri)
}

// Open implements destination.Mirror. Only a regular file is opened, and reading it
// ends with ctx.
func (m *Mirror) Open(ctx context.Context, h *destination.Held) (io.ReadCloser, error) {
	return m.open(ctx, h.URI, &catalog.Resource{URI: h.URI, Path: h.Path, Stored: h.Stored})
}

func (m *Mirror) open(ctx context.Context, uri string, row *catalog.Resource) (io.ReadCloser, error) {
	if !row.Stored {
		return nil, fmt.Errorf("the mirror holds no bytes of %q: %w", uri, fs.ErrNotExist)
	}
	r, _, err := m.bucket.Get(ctx, row.Path, 0, -1)
	if err != nil {
		return nil, fmt.Errorf("bytes of %q: %w", uri, err)
	}
	return &opened{contextReader{ctx, r}, r}, nil
}

// opened is bytes of the mirror.
type opened struct {
	contextReader
	io.Closer
}

// FindContent implements destination.Mirror. It finds by sha-256 only.
func (m *Mirror) FindContent(ctx context.Context, d resourcesync.Digest, length int64) (destination.Held, bool, error) {
	if m.cat == nil || d.Algorithm() != resourcesync.SHA256 {
		return destination.Held{}, false, nil
	}
	r, ok, err := m.own.FindContent(ctx, d, length)
	if err != nil || !ok {
		return destination.Held{}, false, err
	}
	h, err := heldOf(&r)
	return h, err == nil, err
}

// Members implements destination.Mirror.
func (m *Mirror) Members(ctx context.Context, set string) iter.Seq2[destination.Held, error] {
	return m.list(ctx, set, func(id catalog.SetID) iter.Seq2[catalog.Resource, error] { return m.facts.MembersByKey(ctx, id) })
}

// Due implements destination.Mirror, in ascending order of keys.
func (m *Mirror) Due(ctx context.Context, set string) iter.Seq2[destination.Held, error] {
	return m.list(ctx, set, func(id catalog.SetID) iter.Seq2[catalog.Resource, error] { return m.own.Due(ctx, id) })
}

func (m *Mirror) list(ctx context.Context, set string, rows func(catalog.SetID) iter.Seq2[catalog.Resource, error]) iter.Seq2[destination.Held, error] {
	return func(yield func(destination.Held, error) bool) {
		id, err := m.set(ctx, set)
		if err != nil {
			yield(destination.Held{}, err)
		}
		if id == 0 {
			return
		}
		for r, err := range rows(id) {
			var h destination.Held
			if err == nil {
				h, err = heldOf(&r)
			}
			if !yield(h, err) || err != nil {
				return
			}
		}
	}
}

// Count implements destination.Mirror.
func (m *Mirror) Count(ctx context.Context, set string) (int64, error) {
	id, err := m.set(ctx, set)
	if err != nil || id == 0 {
		return 0, err
	}
	n, _, err := m.facts.Count(ctx, id)
	return n, err
}

// Cursor implements destination.Mirror.
func (m *Mirror) Cursor(ctx context.Context, set string) (c destination.Cursor, ok bool, err error) {
	id, err := m.set(ctx, set)
	if err != nil || id == 0 {
		return c, false, err
	}
	return m.cursorOf(ctx, id)
}

func (m *Mirror) cursorOf(ctx context.Context, id catalog.SetID) (c destination.Cursor, ok bool, err error) {
	body, ok, err := m.own.Cursor(ctx, id)
	if err != nil || !ok {
		return c, false, err
	}
	if err := json.Unmarshal([]byte(body), &c); err != nil {
		return c, false, fmt.Errorf("cursor of set %d in the catalog: %w", id, err)
	}
	return c, true, nil
}

// Losses implements destination.Mirror.
func (m *Mirror) Losses(ctx context.Context, set string) (destination.Losses, error) {
	id, err := m.set(ctx, set)
	if err != nil || id == 0 {
		return destination.Losses{}, err
	}
	l, ok, err := m.own.Losses(ctx, id)
	if err != nil {
		return destination.Losses{}, err
	}
	if !ok { // never in step: the window begins now
		l.Members, _, err = m.facts.Count(ctx, id)
		return destination.Losses{Members: l.Members}, err
	}
	each := func(yield func(destination.Loss, error) bool) {
		for one, err := range m.own.EachLoss(ctx, l) {
			if !yield(destination.Loss(one), err) {
				return
			}
		}
	}
	return destination.Losses{Members: l.Members, Lost: l.Lost, Each: each, Joined: m.own.Newcomers(ctx, l)}, nil
}

// Withhold implements destination.Mirror.
func (m *Mirror) Withhold(ctx context.Context, set, hash, summary string) error {
	if m.readOnly {
		return ErrReadOnly
	}
	id, err := m.makeSet(ctx, set)
	if err != nil {
		return err
	}
	return m.own.Withhold(ctx, id, hash, summary)
}

// Approved implements destination.Mirror.
func (m *Mirror) Approved(ctx context.Context, hash string) (bool, error) {
	if m.cat == nil {
		return false, nil
	}
	return m.own.Approved(ctx, hash)
}

// Approve lets exactly the withheld plan of that hash pass, until the moment that it
// returns with a summary of the plan, for people. It returns ErrUnknownPlan for a hash
// that was not withheld.
func (m *Mirror) Approve(ctx context.Context, hash string) (summary string, until time.Time, err error) {
	if m.readOnly {
		return "", time.Time{}, ErrReadOnly
	}
	p, err := m.own.Approve(ctx, hash)
	return p.Summary, p.Approved, err
}
