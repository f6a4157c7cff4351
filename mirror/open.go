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

// Options say which mirror to open.
type Options struct {
	// Dir is the directory of the mirror.
	Dir string
	// State is the directory of the catalog; "" is .instep in Dir.
	State string
	// Create makes a mirror if Dir is absent or empty.
	Create bool
	// Adopt makes one of a directory with files, too: those with the bytes of a resource
	// become the resource's, if the Source's digests prove it. Where the catalog can't be
	// used, Adopt sets it aside and makes a new one.
	Adopt bool
	// Layout is the layout of a new mirror; "" is Tree. Open returns ErrLayout for a mirror
	// with another layout.
	Layout Layout
	// Found is called with each file that Adopt moves to the trash; may be nil.
	Found func(Found)
	// Now dates the trash and approvals; nil is time.Now.
	Now func() time.Time

	bucket func(blob.Bucket) blob.Bucket         // tests put faults between the mirror and its files
	space  func(*os.Root) (durable.Space, error) // tests say how much room there is
	probe  func(*os.Root) (*fileNames, error)    // tests say what the file system takes
	where  func(*os.Root) (string, error)        // tests say which one it is
}

// The names of what is ours, below the directory.
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
	flatFormat   = 2 // which programs that know no layouts refuse
	namesFormat  = 3 // which programs that don't know fileNames refuse
	maxMarker    = 4096
)

// marker ties a directory to its catalog.
type marker struct {
	Format  int       `json:"format"`
	UUID    string    `json:"uuid"`             // of the catalog
	Layout  Layout    `json:"layout,omitempty"` // "" is Tree
	Created time.Time `json:"created"`
	// Names are the rules that the names of files follow; nil: see fileNames.
	Names *fileNames `json:"names,omitempty"`
	// Where they were found out, as durable.Where says.
	Where string `json:"where,omitempty"`

	lost bool // there is no marker; this one is derived from the catalog
}

func (o *Options) state() string {
	if o.State != "" {
		return o.State
	}
	return filepath.Join(o.Dir, ours)
}

func (o *Options) catalog() string { return filepath.Join(o.state(), catName) }

// Open opens a mirror and locks it, with its state; it returns a *LockedError if another
// process has it open. It completes or undoes what an interrupted run left. Where there is
// no mirror, Open makes one if o.Create is set and the directory is empty, or o.Adopt is set
// as well (else it returns ErrNotEmpty). Without o.Create, or if the catalog belongs to
// another mirror or to a publication, it returns ErrWrongStore and writes nothing. The
// caller closes the Mirror.
func Open(ctx context.Context, o Options) (_ *Mirror, err error) {
	m := newMirror(&o)
	defer func() {
		if err != nil {
			err = fmt.Errorf("open mirror %q: %w", o.Dir, errors.Join(err, m.Close()))
		}
	}()
	if err := m.findState(&o); err != nil {
		return nil, err
	}
	if err := m.findDir(ctx, &o); err != nil {
		return nil, err
	}
	mark, found, err := m.findMarker(ctx, &o)
	if err != nil {
		return nil, err
	}
	if !found {
		if err := m.prepare(ctx, &o); err != nil {
			return nil, err
		}
	}
	if err := m.acquire(&o); err != nil {
		return nil, err
	}
	if err := m.openCatalog(ctx, &o, mark); err != nil {
		return nil, err
	}
	return m, m.recover(ctx)
}

// OpenReadOnly opens a mirror for reading: it writes, locks and undoes nothing, and all
// changes fail with ErrReadOnly. Another process may change the mirror meanwhile. Where
// there is no mirror but Open could make one, the Mirror is empty (see Exists).
func OpenReadOnly(ctx context.Context, o Options) (_ *Mirror, err error) {
	m := newMirror(&o)
	m.readOnly = true
	defer func() {
		if err != nil {
			err = fmt.Errorf("open mirror %q: %w", o.Dir, errors.Join(err, m.Close()))
		}
	}()
	o.Create = true
	if err := m.findState(&o); err != nil {
		return nil, err
	}
	if err := m.openDir(&o); errors.Is(err, fs.ErrNotExist) {
		return m, unused(ctx, &o)
	} else if err != nil {
		return nil, err
	}
	mark, found, err := m.findMarker(ctx, &o)
	if err != nil {
		return nil, err
	}
	if !found {
		return m, m.mayCreate(ctx, &o)
	}
	c, err := catalog.OpenReadOnly(ctx, o.catalog(), mark.UUID, o.Now)
	if err == nil {
		m.stores = storesOf(c)
		m.close = append(m.close, m.cat.Close)
		err = m.check(ctx, &o)
	}
	if err != nil {
		anew, looked := m.beginsAnew(&o, err)
		if !anew || looked != nil {
			return nil, errors.Join(looked, wrongCatalog(&o, err))
		}
		m.stores = stores{}
		return m, nil
	}
	m.useNames(mark.Names)
	if err := errors.Join(m.arrange(mark.Layout, &o), m.openDocuments(&o)); err != nil {
		return nil, err
	}
	return m, m.load(ctx)
}

// Exists reports whether there is a mirror: false only after OpenReadOnly of a
// directory that holds none.
func (m *Mirror) Exists() bool { return m.cat != nil }

func newMirror(o *Options) *Mirror {
	if o.Now == nil {
		o.Now = time.Now
	}
	m := &Mirror{now: o.Now, dir: o.Dir, state: o.State, space: o.space, adopts: o.Adopt, found: o.Found, commit: make(chan struct{}, 1), sets: map[string]catalog.SetID{}}
	if m.space == nil {
		m.space = durable.SpaceOf
	}
	if m.probe = o.probe; m.probe == nil {
		m.probe = probeNames
	}
	if m.where = o.where; m.where == nil {
		m.where = durable.Where
	}
	return m
}

// Close closes the mirror and gives up its locks. Batches that were not committed are lost.
func (m *Mirror) Close() error {
	var errs []error
	for _, f := range slices.Backward(m.close) {
		errs = append(errs, f())
	}
	m.close = nil
	return errors.Join(errs...)
}

// findDir opens the directory, and creates it if there may be a new mirror.
func (m *Mirror) findDir(ctx context.Context, o *Options) error {
	err := m.openDir(o)
	if errors.Is(err, fs.ErrNotExist) && o.Create {
		if err := unused(ctx, o); err != nil {
			return err
		}
		if err := makeDir(o.Dir, dirMode); err != nil {
			return err
		}
		err = m.openDir(o)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %w", ErrWrongStore, err)
	}
	return err
}

func (m *Mirror) openDir(o *Options) (err error) {
	if o.Layout.kept().format() == 0 {
		return fmt.Errorf("%w: expected %s or %s, found %q", ErrLayout, Tree, Flat, o.Layout)
	}
	if m.disk, err = openDisk(o.Dir); err != nil {
		return err
	}
	m.close = append(m.close, m.disk.close)
	if m.inside != ours {
		m.disk.state = m.inside
	}
	dir, err := blob.OpenDir(o.Dir, blob.DirOptions{Temp: tempKey, FileMode: fileMode, DirMode: dirMode})
	if err != nil {
		return err
	}
	m.close = append(m.close, dir.Close)
	m.files = dir
	m.clean = dir.Clean
	if o.bucket != nil {
		m.files = o.bucket(dir)
	}
	m.bucket = m.files
	return nil
}

func (m *Mirror) readMarker(ctx context.Context) (mark marker, found bool, err error) {
	if kind, at, err := m.disk.look(markerKey); err != nil || kind == absent {
		return mark, false, err
	} else if kind != file {
		return mark, false, fmt.Errorf("%w: expected the marker %q to be a file, found a %s at %q", ErrWrongStore, markerKey, kind, at)
	}
	text, err := blob.ReadAll(ctx, m.bucket, markerKey, maxMarker)
	if err != nil {
		return mark, false, err
	}
	if err := json.Unmarshal(text, &mark); err != nil || mark.UUID == "" || mark.Names != nil && !mark.Names.sound() {
		return mark, false, fmt.Errorf("%w: the marker %q holds %.80q", ErrWrongStore, markerKey, text)
	}
	if mark.Format != mark.format() {
		return mark, false, fmt.Errorf("%w: its marker has format %d, this program knows those up to %d: use a newer version", ErrWrongStore, mark.Format, namesFormat)
	}
	return mark, true, nil
}

// mayCreate reports why no mirror can be made in a directory without a marker.
func (m *Mirror) mayCreate(ctx context.Context, o *Options) error {
	if !o.Create {
		return fmt.Errorf("%w: no marker at %q", ErrWrongStore, markerKey)
	}
	if err := unused(ctx, o); err != nil {
		return err
	}
	name, err := m.disk.stranger()
	if err == nil && name != "" && !o.Adopt {
		err = fmt.Errorf("%w: found %q", ErrNotEmpty, name)
	}
	return err
}

// unused fails if the catalog for a new mirror already belongs to another mirror, whose
// directory should not be empty, or to a publication.
func unused(ctx context.Context, o *Options) (err error) {
	path := o.catalog()
	c, err := catalog.OpenReadOnly(ctx, path, "", o.Now)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, catalog.ErrOlderSchema): // its owner is unknown, so it cannot be for a new mirror
		return fmt.Errorf("%w: it has no marker, but %w: %q, by an earlier version of this program", ErrWrongStore, ErrUsedCatalog, path)
	case err != nil:
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	source, bound, err := c.Facts.Setting(ctx, catalog.MirrorSetting)
	if err != nil {
		return err
	}
	if bound {
		return fmt.Errorf("%w: it has no marker, but %w: %q, of %q", ErrWrongStore, ErrUsedCatalog, path, source)
	}
	base, published, err := c.Facts.Setting(ctx, catalog.PublisherSetting)
	if err == nil && published {
		err = fmt.Errorf("%w: %w: %q, of what is published at %q", ErrWrongStore, ErrUsedCatalog, path, base)
	}
	return err
}

// prepare makes the directories of a new mirror, if there may be one.
func (m *Mirror) prepare(ctx context.Context, o *Options) error {
	if err := m.mayCreate(ctx, o); err != nil {
		if _, made, _ := m.readMarker(ctx); !made { // otherwise another run was faster: it holds the lock, or has ended
			return err
		}
	}
	if err := makeDir(filepath.Join(o.Dir, ours), oursMode); err != nil {
		return err
	}
	return makeDir(o.state(), oursMode)
}

// acquire locks the mirror and its state: no other process may use either, for another
// directory or to publish. The directory itself is locked too, since somebody may remove
// all our files in it while we run.
func (m *Mirror) acquire(o *Options) error {
	if err := m.disk.ownDirectory(); err != nil {
		return err
	}
	if err := m.hold(flock.Acquire(filepath.Join(o.Dir, ours, lockName))); err != nil {
		return err
	}
	if err := m.hold(flock.Dir(o.Dir)); err != nil {
		return err
	}
	if err := m.findState(o); err != nil { // a new directory has an identity by now
		return err
	}
	switch m.inside {
	case ours, ".": // locked already
		return nil
	case "":
		if o.Create && o.Adopt { // it may be the path of a new catalog
			if err := makeDir(o.state(), oursMode); err != nil {
				return err
			}
		}
		return wrongCatalog(o, m.hold(flock.Acquire(filepath.Join(o.state(), lockName))))
	}
	return wrongCatalog(o, m.hold(flock.Dir(o.state()))) // without a file, which could have the path of a resource
}

func (m *Mirror) hold(l *flock.Lock, err error) error {
	if err == nil {
		m.close = append(m.close, l.Release)
	}
	return err
}

// openCatalog opens the catalog that mark names, or a new one if it names none or that
// one can't be used any more.
func (m *Mirror) openCatalog(ctx context.Context, o *Options, mark marker) (err error) {
	if mark.UUID == "" { // another run may have made the mirror before we had the lock
		if mark, _, err = m.findMarker(ctx, o); err != nil {
			return err
		}
	}
	if mark.UUID != "" {
		err = m.openOld(ctx, o, mark)
		anew, looked := m.beginsAnew(o, err)
		if err == nil || !anew || looked != nil {
			return errors.Join(looked, wrongCatalog(o, err))
		}
		if m.aside, err = setAside(o.catalog(), m.now()); err != nil {
			return err
		}
	} else {
		if err := unused(ctx, o); err != nil { // the same check for the catalog of the state
			return err
		}
		mark.Layout = o.Layout.kept()
	}
	return m.openNew(ctx, o, mark.Layout)
}

// openOld opens the catalog of a mirror that was made before.
func (m *Mirror) openOld(ctx context.Context, o *Options, mark marker) (err error) {
	c, err := catalog.Open(ctx, catalog.Options{Path: o.catalog(), UUID: mark.UUID, Now: o.Now})
	if err != nil {
		return err
	}
	m.stores = storesOf(c)
	if err := m.check(ctx, o); err != nil {
		return errors.Join(err, m.cat.Close())
	}
	m.close = append(m.close, m.cat.Close)
	m.marker = mark
	names, err := m.recordedNames(ctx)
	if err != nil {
		return err
	}
	m.useNames(names)
	if mark.lost && mark.Layout == Flat { // a tree gets its marker later, once the rules for its file names are known
		if err := m.writeMarker(ctx, mark); err != nil {
			return err
		}
	}
	return m.begin(ctx, o, mark.Layout)
}

// openNew makes a catalog and the marker that names it.
func (m *Mirror) openNew(ctx context.Context, o *Options, layout Layout) (err error) {
	c, err := catalog.Open(ctx, catalog.Options{Path: o.catalog(), Create: true, Now: o.Now})
	if err != nil {
		return err
	}
	m.stores = storesOf(c)
	m.close = append(m.close, m.cat.Close)
	if layout != Flat {
		found, err := m.probe(m.disk.root)
		if err == nil {
			m.marker.Where, err = m.where(m.disk.root)
		}
		if err != nil {
			return fmt.Errorf("find out which names the file system takes: %w", err)
		}
		m.useNames(found)
	}
	if err := m.mark(ctx, layout); err != nil {
		return err
	}
	return m.begin(ctx, o, layout)
}

func (m *Mirror) begin(ctx context.Context, o *Options, layout Layout) error {
	if err := m.arrange(layout, o); err != nil {
		return err
	}
	if err := m.openDocuments(o); err != nil {
		return err
	}
	return m.load(ctx)
}

// wrongCatalog explains why the catalog of a mirror could not be opened.
func wrongCatalog(o *Options, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %w, in %q: %w", ErrWrongStore, ErrLostCatalog, o.state(), err)
	case errors.Is(err, catalog.ErrOther):
		return fmt.Errorf("%w: %w: %w", ErrWrongStore, ErrOtherCatalog, err)
	}
	return err
}

// mark is the last step of making a mirror. A catalog that was there, though nothing is in
// it yet, may be named by the marker of another directory, whose run was killed: it is
// another one from now on.
func (m *Mirror) mark(ctx context.Context, layout Layout) error {
	id, err := m.cat.NewUUID(ctx)
	if err != nil {
		return err
	}
	mark := marker{UUID: id, Layout: layout, Created: m.now().UTC(), Names: m.names, Where: m.marker.Where}
	mark.Format = mark.format()
	m.marker = mark
	return m.writeMarker(ctx, mark)
}

// format returns the format of a marker with these contents; 0 if there is no such layout.
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

// recover removes the remains of an interrupted run.
func (m *Mirror) recover(ctx context.Context) error {
	m.own.LogIf(m.published)
	if err := m.clean(ctx); err != nil {
		return err
	}
	if err := m.undo(ctx); err != nil {
		return err
	}
	if err := m.placeAnew(ctx); err != nil {
		return fmt.Errorf("fit the names to the file system: %w", err)
	}
	if m.flat != nil {
		if err := m.flat.tidy(ctx); err != nil {
			return err
		}
	}
	if err := m.leaveState(ctx); err != nil {
		return fmt.Errorf("take resources out of the state: %w", err)
	}
	return m.sweepParts(ctx)
}
