package mirror

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"instep/blob"
	"instep/internal/catalog"
	"instep/internal/durable"
	"instep/internal/flock"
)

// Options are the options of Open and OpenReadOnly.
type Options struct {
	// Dir is the directory of the mirror.
	Dir string
	// State is the directory in which the catalog is; "" means .instep in Dir.
	State string
	// Create creates a mirror if Dir does not exist or is empty.
	Create bool
	// Adopt creates a mirror even in a directory with files. If the Source's digests prove
	// that a file has the bytes of a resource, the file becomes that of the resource. If
	// the catalog cannot be used, Open moves it away and creates a new one.
	Adopt bool
	// Layout is the layout of a new mirror; "" is Tree. For a mirror with another
	// layout, Open returns ErrLayout.
	Layout Layout
	// Found is called for each file that does not belong to the mirror and that is moved
	// to the trash because of Adopt; it may be nil.
	Found func(Found)
	// Now is the clock for the dates of the trash and the end of approvals; nil means
	// time.Now.
	Now func() time.Time

	bucket func(blob.Bucket) blob.Bucket         // a function that wraps the bucket of the mirror's files; tests set it to let the bucket fail
	space  func(*os.Root) (durable.Space, error) // the function that returns the free disk space; tests replace it
	probe  func(*os.Root) (*fileNames, error)    // the function that returns the rules of the file system for names; tests replace it
	where  func(*os.Root) (string, error)        // the function that returns the identity of the file system; tests replace it
}

// Paths of the mirror's own files and directories, relative to the mirror.
const (
	ours      = ".instep"
	markerKey = ours + "/marker"
	tempKey   = ours + "/tmp"
	trashKey  = ours + "/trash"
	lockName  = "lock"
	catName   = catalog.FileName
)

const (
	markerFormat = 1
	flatFormat   = 2 // a mirror with the layout Flat; older versions of this program refuse to open this format
	namesFormat  = 3 // a mirror with rules for file names; older versions of this program refuse to open this format
	maxMarker    = 4096
)

// marker is the content of the marker file, which names the catalog of the mirror.
type marker struct {
	Format  int       `json:"format"`
	UUID    string    `json:"uuid"`             // the UUID of the catalog that belongs to this directory
	Layout  Layout    `json:"layout,omitempty"` // "" is Tree
	Created time.Time `json:"created"`
	// Names has the rules for file names; nil if the mirror has none.
	Names *fileNames `json:"names,omitempty"`
	// Where identifies (see durable.Where) the file system to which the rules in Names
	// belong.
	Where string `json:"where,omitempty"`

	lost bool // whether the marker file is missing, so that this marker was made from the catalog
}

func (o *Options) state() string {
	if o.State != "" {
		return o.State
	}
	return filepath.Join(o.Dir, ours)
}

func (o *Options) catalog() string { return filepath.Join(o.state(), catName) }

// Open opens and locks a mirror and its state. It returns a *LockedError if another
// process has the mirror open. It completes or undoes the work of an interrupted run. If
// there is no mirror, Open creates one if o.Create is set, and otherwise returns
// ErrWrongStore. The directory for a new mirror must be empty, or Open returns
// ErrNotEmpty, unless o.Adopt is set. If the catalog belongs to another mirror or to a
// publication, Open returns ErrWrongStore and writes nothing. The caller closes the
// Mirror.
func Open(ctx context.Context, o Options) (_ *Mirror, err error) {
	m := newMirror(o)
	defer func() {
		if err != nil {
			err = fmt.Errorf("open mirror %q: %w", m.o.Dir, errors.Join(err, m.Close()))
		}
	}()
	if err := m.findState(); err != nil {
		return nil, err
	}
	if err := m.findDir(ctx); err != nil {
		return nil, err
	}
	mark, found, err := m.findMarker(ctx)
	if err != nil {
		return nil, err
	}
	if !found {
		if err := m.makeDirs(ctx); err != nil {
			return nil, err
		}
	}
	if err := m.lock(); err != nil {
		return nil, err
	}
	if err := m.openCatalog(ctx, mark); err != nil {
		return nil, err
	}
	return m, m.recover(ctx)
}

// OpenReadOnly opens a mirror for reading only. It writes, locks and undoes nothing,
// and all methods that change the mirror return ErrReadOnly. Another process may change
// the mirror at the same time. If there is no mirror, but Open could create one,
// OpenReadOnly returns an empty Mirror (see Exists).
func OpenReadOnly(ctx context.Context, o Options) (_ *Mirror, err error) {
	m := newMirror(o)
	m.readOnly = true
	defer func() {
		if err != nil {
			err = fmt.Errorf("open mirror %q: %w", m.o.Dir, errors.Join(err, m.Close()))
		}
	}()
	m.o.Create = true
	if err := m.findState(); err != nil {
		return nil, err
	}
	if err := m.openDir(); errors.Is(err, fs.ErrNotExist) {
		return m, m.checkUnused(ctx)
	} else if err != nil {
		return nil, err
	}
	mark, found, err := m.findMarker(ctx)
	if err != nil {
		return nil, err
	}
	if !found {
		return m, m.checkCreate(ctx)
	}
	c, err := catalog.OpenReadOnly(ctx, m.o.catalog(), mark.UUID, m.o.Now)
	if err == nil {
		m.stores = storesOf(c)
		m.close = append(m.close, m.cat.Close)
		err = m.check(ctx)
	}
	if err != nil {
		anew, looked := m.mayReplaceCatalog(err)
		if !anew || looked != nil {
			return nil, errors.Join(looked, m.wrongCatalog(err))
		}
		m.stores = stores{}
		return m, nil
	}
	m.useNames(mark.Names)
	return m, m.begin(ctx, mark.Layout)
}

// Exists reports whether there is a mirror. It returns false only if OpenReadOnly found
// none in the directory.
func (m *Mirror) Exists() bool { return m.cat != nil }

func newMirror(o Options) *Mirror {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.space == nil {
		o.space = durable.SpaceOf
	}
	if o.probe == nil {
		o.probe = probeNames
	}
	if o.where == nil {
		o.where = durable.Where
	}
	return &Mirror{o: o, commit: make(chan struct{}, 1), sets: map[string]catalog.SetID{}}
}

// Close closes the mirror and releases its locks. Batches that are not committed are
// lost.
func (m *Mirror) Close() error {
	var errs []error
	for _, f := range slices.Backward(m.close) {
		errs = append(errs, f())
	}
	m.close = nil
	return errors.Join(errs...)
}

func (m *Mirror) findDir(ctx context.Context) error {
	err := m.openDir()
	if errors.Is(err, fs.ErrNotExist) && m.o.Create {
		if err := m.checkUnused(ctx); err != nil {
			return err
		}
		if err := makeDir(m.o.Dir, dirMode); err != nil {
			return err
		}
		err = m.openDir()
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %w", ErrWrongStore, err)
	}
	return err
}

func (m *Mirror) openDir() (err error) {
	if m.o.Layout.markerText().format() == 0 {
		return fmt.Errorf("%w: expected %s or %s, found %q", ErrLayout, Tree, Flat, m.o.Layout)
	}
	if m.disk, err = openDisk(m.o.Dir); err != nil {
		return err
	}
	m.close = append(m.close, m.disk.close)
	if m.inside != ours {
		m.disk.state = m.inside
	}
	dir, err := blob.OpenDir(m.o.Dir, blob.DirOptions{Temp: tempKey, FileMode: fileMode, DirMode: dirMode})
	if err != nil {
		return err
	}
	m.close = append(m.close, dir.Close)
	m.files = dir
	m.clean = dir.Clean
	if m.o.bucket != nil {
		m.files = m.o.bucket(dir)
	}
	m.bucket = m.files
	return nil
}

func (m *Mirror) readMarker(ctx context.Context) (mark marker, found bool, err error) {
	if kind, at, err := m.disk.look(markerKey); err != nil || kind == absent {
		return mark, false, err
	} else if kind != file {
		return mark, false, fmt.Errorf("%w: the marker %q should be a file, but there is a %s at %q", ErrWrongStore, markerKey, kind, at)
	}
	text, err := blob.ReadAll(ctx, m.bucket, markerKey, maxMarker)
	if err != nil {
		return mark, false, err
	}
	if err := json.Unmarshal(text, &mark); err != nil || mark.UUID == "" || mark.Names != nil && !mark.Names.valid() {
		return mark, false, fmt.Errorf("%w: the marker %q is damaged: %.80q", ErrWrongStore, markerKey, text)
	}
	if mark.Format != mark.format() {
		return mark, false, fmt.Errorf("%w: the marker has format %d, but this program knows only formats up to %d: use a newer version", ErrWrongStore, mark.Format, namesFormat)
	}
	return mark, true, nil
}

// checkCreate returns an error if no mirror may be created in a directory without a
// marker.
func (m *Mirror) checkCreate(ctx context.Context) error {
	if !m.o.Create {
		return fmt.Errorf("%w: no marker at %q", ErrWrongStore, markerKey)
	}
	if err := m.checkUnused(ctx); err != nil {
		return err
	}
	name, err := m.disk.foreignFile()
	if err == nil && name != "" && !m.o.Adopt {
		err = fmt.Errorf("%w: found %q", ErrNotEmpty, name)
	}
	return err
}

// checkUnused returns an error if the path for a new catalog already has the catalog of
// another mirror or of a publication.
func (m *Mirror) checkUnused(ctx context.Context) (err error) {
	path := m.o.catalog()
	c, err := catalog.OpenReadOnly(ctx, path, "", m.o.Now)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, catalog.ErrOlderSchema): // the catalog may belong to another mirror, so a new mirror must not use it
		return fmt.Errorf("%w: the directory has no marker file, and %w: an earlier version of this program has written %q", ErrWrongStore, ErrUsedCatalog, path)
	case err != nil:
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	source, bound, err := c.Facts.Setting(ctx, catalog.MirrorSetting)
	if err != nil {
		return err
	}
	if bound {
		return fmt.Errorf("%w: the directory has no marker file, and %w: %q has the catalog for a mirror of %q", ErrWrongStore, ErrUsedCatalog, path, source)
	}
	base, published, err := c.Facts.Setting(ctx, catalog.PublisherSetting)
	if err == nil && published {
		err = fmt.Errorf("%w: %w: %q has the catalog for a publication at %q", ErrWrongStore, ErrUsedCatalog, path, base)
	}
	return err
}

// makeDirs creates the directories of a new mirror. It returns an error if no mirror
// may be created here.
func (m *Mirror) makeDirs(ctx context.Context) error {
	if err := m.checkCreate(ctx); err != nil {
		if _, made, _ := m.readMarker(ctx); !made { // if there is a marker now, another run has just created the mirror
			return err
		}
	}
	if err := makeDir(filepath.Join(m.o.Dir, ours), oursMode); err != nil {
		return err
	}
	return makeDir(m.o.state(), oursMode)
}

// lock locks the mirror and its state, so that no other process uses the state for
// another directory or a publication. It also locks the directory itself, since the lock
// file may be removed while the mirror is open.
func (m *Mirror) lock() error {
	if err := m.disk.checkOwnDirectory(); err != nil {
		return err
	}
	if err := m.addLock(flock.Acquire(filepath.Join(m.o.Dir, ours, lockName))); err != nil {
		return err
	}
	if err := m.addLock(flock.Dir(m.o.Dir)); err != nil {
		return err
	}
	if err := m.findState(); err != nil { // called again, since somebody may have created the state directory after the first call
		return err
	}
	switch m.inside {
	case ours, ".": // locked already
		return nil
	case "":
		if m.o.Create && m.o.Adopt { // the directory has to exist for the lock file, and perhaps for a new catalog
			if err := makeDir(m.o.state(), oursMode); err != nil {
				return err
			}
		}
		return m.wrongCatalog(m.addLock(flock.Acquire(filepath.Join(m.o.state(), lockName))))
	}
	return m.wrongCatalog(m.addLock(flock.Dir(m.o.state()))) // the directory itself is locked, since a lock file in it could have the path of a resource
}

func (m *Mirror) addLock(l *flock.Lock, err error) error {
	if err == nil {
		m.close = append(m.close, l.Release)
	}
	return err
}

// openCatalog opens the catalog that the marker names. It creates a new catalog if
// there is no marker, or if mayReplaceCatalog allows it.
func (m *Mirror) openCatalog(ctx context.Context, mark marker) (err error) {
	if mark.UUID == "" { // the marker is read again, since another run may have created the mirror before this run had the lock
		if mark, _, err = m.findMarker(ctx); err != nil {
			return err
		}
	}
	if mark.UUID != "" {
		err = m.openOld(ctx, mark)
		anew, looked := m.mayReplaceCatalog(err)
		if err == nil || !anew || looked != nil {
			return errors.Join(looked, m.wrongCatalog(err))
		}
		if m.aside, err = setAside(m.o.catalog(), m.o.Now()); err != nil {
			return err
		}
	} else {
		if err := m.checkUnused(ctx); err != nil { // called again, since other processes could use the state until it was locked
			return err
		}
		mark.Layout = m.o.Layout.markerText()
	}
	return m.openNew(ctx, mark.Layout)
}

func (m *Mirror) openOld(ctx context.Context, mark marker) (err error) {
	c, err := catalog.Open(ctx, catalog.Options{Path: m.o.catalog(), UUID: mark.UUID, Now: m.o.Now})
	if err != nil {
		return err
	}
	m.stores = storesOf(c)
	if err := m.check(ctx); err != nil {
		return errors.Join(err, m.cat.Close())
	}
	m.close = append(m.close, m.cat.Close)
	m.marker = mark
	names, err := m.recordedNames(ctx)
	if err != nil {
		return err
	}
	m.useNames(names)
	if mark.lost && mark.Layout == Flat { // in the layout Tree, adaptNames writes the marker later, together with the rules for file names
		if err := m.writeMarker(ctx, mark); err != nil {
			return err
		}
	}
	return m.begin(ctx, mark.Layout)
}

func (m *Mirror) openNew(ctx context.Context, layout Layout) (err error) {
	c, err := catalog.Open(ctx, catalog.Options{Path: m.o.catalog(), Create: true, Now: m.o.Now})
	if err != nil {
		return err
	}
	m.stores = storesOf(c)
	m.close = append(m.close, m.cat.Close)
	if layout != Flat {
		found, err := m.o.probe(m.disk.root)
		if err == nil {
			m.marker.Where, err = m.o.where(m.disk.root)
		}
		if err != nil {
			return fmt.Errorf("determine which names the file system accepts: %w", err)
		}
		m.useNames(found)
	}
	if err := m.createMarker(ctx, layout); err != nil {
		return err
	}
	return m.begin(ctx, layout)
}

func (m *Mirror) begin(ctx context.Context, layout Layout) error {
	if err := m.useLayout(layout); err != nil {
		return err
	}
	if err := m.openDocuments(); err != nil {
		return err
	}
	return m.loadOrigin(ctx)
}

// wrongCatalog adds ErrWrongStore to an error which says that the catalog is missing or
// belongs to another mirror. It returns other errors unchanged.
func (m *Mirror) wrongCatalog(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %w: no catalog in %q: %w", ErrWrongStore, ErrLostCatalog, m.o.state(), err)
	case errors.Is(err, catalog.ErrOther):
		return fmt.Errorf("%w: %w: %w", ErrWrongStore, ErrOtherCatalog, err)
	}
	return err
}

// createMarker writes the marker file, which is the last step of creating a mirror.
// Before that it gives the catalog a new UUID: an empty catalog may come from an
// interrupted creation, and the marker of another directory may still have the old UUID.
func (m *Mirror) createMarker(ctx context.Context, layout Layout) error {
	id, err := m.cat.NewUUID(ctx)
	if err != nil {
		return err
	}
	mark := marker{UUID: id, Layout: layout, Created: m.o.Now().UTC(), Names: m.names, Where: m.marker.Where}
	mark.Format = mark.format()
	m.marker = mark
	return m.writeMarker(ctx, mark)
}

// format returns the number for marker.Format; 0 if the layout is unknown.
func (k *marker) format() int {
	if k.Names != nil && k.Layout == "" {
		return namesFormat
	}
	return k.Layout.format()
}

func (m *Mirror) writeMarker(ctx context.Context, mark marker) error {
	text, err := json.Marshal(mark)
	if err != nil {
		return err
	}
	_, err = blob.Write(ctx, m.files, strings.NewReader(string(text)+"\n"), blob.Put{Key: markerKey})
	return err
}

// recover completes or undoes an interrupted run, and removes its temporary files.
func (m *Mirror) recover(ctx context.Context) error {
	m.own.LogIf(m.published)
	if err := m.clean(ctx); err != nil {
		return err
	}
	if err := m.undo(ctx); err != nil {
		return err
	}
	if err := m.adaptNames(ctx); err != nil {
		return fmt.Errorf("adapt the file names to the file system: %w", err)
	}
	if m.flat != nil {
		if err := m.flat.tidy(ctx); err != nil {
			return err
		}
	}
	if err := m.leaveStateDir(ctx); err != nil {
		return fmt.Errorf("move resources out of the state directory: %w", err)
	}
	return m.sweepParts(ctx)
}
