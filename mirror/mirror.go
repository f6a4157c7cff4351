// Package mirror stores a copy of a Source in a directory (1.1 §5.2). The bytes of each
// resource are in a file whose path resembles the URI, and a catalog has the facts about
// all resources. Open returns a Mirror, which a destination.Destination synchronizes with
// the Source. The mirror keeps what a run replaces or deletes until PurgeTrash removes
// it: History, AsOf and Ended list earlier states, OpenVersion reads their bytes, and
// Revert restores them.
//
// The mirror's own files are in the directory .instep: the marker that connects the
// directory with its catalog, the catalog, the lock, temporary files, and the trash with
// replaced and deleted bytes.
//
// A batch commits in three steps, each durable before the next: a transaction records
// intents, that is, which files are about to change; the files change; and a second
// transaction records the outcome and removes the intents. If intents remain after a
// crash or an error, the files are restored to the state in the catalog.
package mirror

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"instep/blob"
	"instep/destination"
	"instep/internal/catalog"
	"instep/internal/flock"
	"instep/resourcesync"
)

// Errors that methods return, for errors.Is.
var (
	// ErrNotEmpty is returned by Open if the directory for a new mirror already has files.
	ErrNotEmpty = errors.New("the directory is not empty and has no mirror")
	// ErrWrongStore is returned by Open if a directory and a catalog do not belong
	// together, or if a directory that should have a mirror has none, for example because
	// a disk is not mounted.
	ErrWrongStore = errors.New("this is not the directory of the mirror")
	// ErrLostCatalog is returned, together with ErrWrongStore, if there is a mirror but
	// its catalog is missing.
	ErrLostCatalog = errors.New("the catalog of the mirror is missing")
	// ErrOtherCatalog is returned, together with ErrWrongStore, if the marker of the
	// mirror names another catalog.
	ErrOtherCatalog = errors.New("the marker of the mirror names another catalog")
	// ErrUsedCatalog is returned, together with ErrWrongStore, if the catalog for a new
	// mirror belongs to another mirror or to a publication.
	ErrUsedCatalog = errors.New("the catalog is already in use")
	// ErrDamaged means that the catalog is damaged or cannot be read. With Options.Adopt,
	// Open creates a new catalog instead.
	ErrDamaged = catalog.ErrDamaged
	// ErrNewer is returned by Open if a newer version of this program wrote the catalog.
	ErrNewer = catalog.ErrNewerSchema
	// ErrUnknownPlan is returned by Approve if no plan with the hash was withheld.
	ErrUnknownPlan = catalog.ErrUnknownPlan
	// ErrUnbound is returned if bytes are to be stored before the first call of Bind.
	ErrUnbound = errors.New("the mirror is not bound to a Source yet")
	// ErrReadOnly is returned by methods that would change a mirror that OpenReadOnly has
	// opened.
	ErrReadOnly = errors.New("the mirror is open for reading only")
)

// LockedError is returned by Open if another process has the mirror or its state open. It
// names that process if it is known.
type LockedError = flock.LockedError

// WrongSourceError is returned by Bind if the mirror belongs to another Source.
type WrongSourceError struct {
	Dir             string // directory of the mirror
	What            string // which URI differs: "Source" or "origin"
	Recorded, Given string // the URI that the mirror has recorded, and the one given to Bind
}

func (e *WrongSourceError) Error() string {
	return fmt.Sprintf("%q is a mirror of the %s %q, not of %q", e.Dir, e.What, e.Recorded, e.Given)
}

// Mirror is an open mirror. Its methods are safe for concurrent use.
type Mirror struct {
	o        Options
	aside    string // the path to which Open has moved an unusable catalog; "" if it has moved none
	inside   string // the path of the state directory relative to the mirror: "." if they are the same, "" if the state is elsewhere
	readOnly bool
	names    *fileNames // rules for the names of files
	marker   marker     // the last marker that was read or written; zero if the mirror was opened read-only
	disk     *disk
	stores
	bucket blob.Bucket                 // the bucket that has the bytes of resources under their paths
	files  blob.Bucket                 // the bucket of all files in the directory; the same as bucket in the layout Tree
	flat   *flat                       // the same as bucket in the layout Flat; nil in the layout Tree
	docs   *documents                  // the cache of the Source's documents; nil if there is no mirror
	clean  func(context.Context) error // a function that removes the temporary files of the bucket
	close  []func() error              // functions that Close calls, the last one first

	claims claims
	taken  atomic.Int64 // the number that Taken returns

	commit chan struct{} // a lock that is held while a batch is committed; it also guards the fields undone and run
	undone bool          // whether a failed commit may have left intents (planned changes of files)
	run    catalog.Run   // the run to which the next commit belongs

	mu   sync.Mutex // guards the rest
	home origin     // the origin of the Source; zero before Bind
	sets map[string]catalog.SetID
}

var _ destination.Mirror = (*Mirror)(nil)

// originSetting names the setting with the origin of the Source. Together with the URI
// of the Source, which catalog.MirrorSetting names, it binds the mirror to the Source.
const originSetting = "origin"

// Bind implements destination.Mirror. The first call records the URI of the Source and
// its origin. Later calls return a *WrongSourceError for another Source. A Source with a
// new URI counts as the same if the mirror already has one of the given sets or, while
// the mirror has no sets, if the origin is the same. In a read-only mirror Bind records
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

// Bound reports whether Bind has recorded a Source.
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
			return true, &WrongSourceError{m.o.Dir, "Source", recorded, source}
		}
	}
	recorded, _, err = m.facts.Setting(ctx, originSetting)
	if err != nil {
		return true, err
	}
	if was, err := parseOrigin(recorded); err != nil || was != o {
		return true, &WrongSourceError{m.o.Dir, "origin", recorded, home}
	}
	return bound, nil
}

func (m *Mirror) loadOrigin(ctx context.Context) (err error) {
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

// setID returns 0 if the mirror has no such set.
func (m *Mirror) setID(ctx context.Context, name string) (catalog.SetID, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if id, ok := m.sets[name]; ok || m.cat == nil {
		return id, nil
	}
	all, err := m.facts.Sets(ctx)
	for _, s := range all {
		m.sets[s.Name] = s.ID
	}
	id := m.sets[name]
	if err == nil && !m.readOnly {
		m.sets[name] = id // even the ID 0 of a missing set is cached, since only makeSet can create the set
	}
	return id, err
}

func (m *Mirror) makeSet(ctx context.Context, name string) (catalog.SetID, error) {
	id, err := m.setID(ctx, name)
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
	id, err := m.setID(ctx, set)
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
		case e.Gone && e.Told:
			if !all[i].Member {
				all[i].Gone = e.Moment
			}
		case all[i].Member && e.Moment.Equal(all[i].Changed):
			all[i].Told, all[i].Until, all[i].Came, all[i].Unnamed = e.Told, e.Until, e.Came, e.Gone
		}
	}
	return all, nil
}

// row returns the record of a resource with its membership in the given set; the zero
// Resource if there is no record.
func (m *Mirror) row(ctx context.Context, set catalog.SetID, uri string) (catalog.Resource, error) {
	if m.cat == nil {
		return catalog.Resource{}, nil
	}
	return m.own.Find(ctx, set, uri)
}

// Open implements destination.Mirror. It opens only regular files. Reading fails after
// ctx has ended.
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

type opened struct {
	contextReader
	io.Closer
}

// FindContent implements destination.Mirror. It finds bytes only by their SHA-256.
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

// Keys implements destination.Mirror.
func (m *Mirror) Keys(ctx context.Context, set string) iter.Seq2[resourcesync.Key, error] {
	return func(yield func(resourcesync.Key, error) bool) {
		id, err := m.setID(ctx, set)
		switch {
		case err != nil:
			yield("", err)
		case id != 0:
			m.facts.MemberKeys(ctx, id)(yield)
		}
	}
}

// Members yields the members of a set in ascending order of the keys of their URIs. It
// does not set the fields Told, Until, Came and Unnamed.
func (m *Mirror) Members(ctx context.Context, set string) iter.Seq2[destination.Held, error] {
	return m.list(ctx, set, func(id catalog.SetID) iter.Seq2[catalog.Resource, error] { return m.facts.MembersByKey(ctx, id) })
}

// Due implements destination.Mirror. It yields the resources in ascending order of the
// keys of their URIs.
func (m *Mirror) Due(ctx context.Context, set string) iter.Seq2[destination.Held, error] {
	return m.list(ctx, set, func(id catalog.SetID) iter.Seq2[catalog.Resource, error] { return m.own.Due(ctx, id) })
}

func (m *Mirror) list(ctx context.Context, set string, rows func(catalog.SetID) iter.Seq2[catalog.Resource, error]) iter.Seq2[destination.Held, error] {
	return func(yield func(destination.Held, error) bool) {
		id, err := m.setID(ctx, set)
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
	id, err := m.setID(ctx, set)
	if err != nil || id == 0 {
		return 0, err
	}
	n, _, err := m.facts.Count(ctx, id)
	return n, err
}

// Cursor implements destination.Mirror.
func (m *Mirror) Cursor(ctx context.Context, set string) (c destination.Cursor, ok bool, err error) {
	id, err := m.setID(ctx, set)
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
	id, err := m.setID(ctx, set)
	if err != nil || id == 0 {
		return destination.Losses{}, err
	}
	l, ok, err := m.own.Losses(ctx, id)
	if err != nil {
		return destination.Losses{}, err
	}
	if !ok { // no run is complete yet, and losses are counted only after the first complete run
		l.Members, _, err = m.facts.Count(ctx, id)
		return destination.Losses{Members: l.Members}, err
	}
	each := func(yield func(destination.Loss, error) bool) {
		for one, err := range l.Each {
			if !yield(destination.Loss(one), err) {
				return
			}
		}
	}
	return destination.Losses{Members: l.Members, Lost: l.Lost, Each: each, Joined: l.Joined}, nil
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

// Approve approves the withheld plan of deletions with the given hash. It returns a
// summary of the plan for people, and the time at which the approval ends. It returns
// ErrUnknownPlan if there is no such plan.
func (m *Mirror) Approve(ctx context.Context, hash string) (summary string, until time.Time, err error) {
	if m.readOnly {
		return "", time.Time{}, ErrReadOnly
	}
	return m.own.Approve(ctx, hash)
}
