// Package site publishes a directory as a Source (1.1 §5.1). The files of the directory are the
// resources, and the ResourceSync documents about them are written beside them. Open opens a
// [Site], [Site.Publish] brings the documents up to date once, and [Site.Watch] does so whenever
// something has changed. A Site is also an http.Handler that serves the files and the documents.
//
// A Source whose resources are elsewhere, in a database for example, is a
// [source.Publisher].
package site

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"slices"
	"time"

	"instep/internal/flock"
	"instep/internal/publish"
	"instep/internal/scan"
	"instep/internal/watch"
	"instep/source"
)

// ErrRoot is returned if the directory cannot be read. In that case nothing was recorded.
var ErrRoot = scan.ErrRoot

type (
	// GuardError is returned by Publish if more resources have vanished than
	// Options.MaxDelete allows. In that case nothing was recorded.
	GuardError = scan.GuardError
	// LockedError is returned by Open if another process has the same State directory
	// open.
	LockedError = flock.LockedError
	// OptionError is returned by Open if an option is invalid.
	OptionError = publish.OptionError
	// StateError is returned by Open if the State directory belongs to another Dir, Out
	// or BaseURL.
	StateError = publish.StateError
)

// Options configure a Site. Dir, State and BaseURL are required.
type Options struct {
	// Dir is the directory whose files are the resources. Files whose name begins with a dot,
	// devices, and symbolic links that lead out of Dir are excluded.
	Dir string
	// Out is the directory for the documents. If it is "", they are written into Dir.
	Out string
	// State is the directory in which the program records what it knows about the files.
	// Each State directory belongs to one Dir, Out and BaseURL. If it is below Dir or
	// Out, its name must begin with a dot.
	State string
	// BaseURL is the http or https URL at which Dir is served. If its final "/" is missing, it
	// is added.
	BaseURL string
	// About describes the Source for people.
	About source.About
	// Include and Exclude are globs for paths below Dir, as in a .gitignore file. A file
	// is a resource if its path matches no Exclude and, unless Include is empty, at
	// least one Include.
	Include, Exclude []string
	// Patches switches on the publication of patches of changed files (1.1 §14.4). State then
	// has a copy of each file of up to 16 MiB.
	Patches bool
	// Dumps switches on Resource Dumps and Change Dumps (1.1 §11, §13).
	Dumps bool
	// MaxDelete is the largest number of resources, such as "50" or "5%", that may vanish between
	// two publications. With the default "", Publish fails if all resources have vanished, more
	// than half of them, or more than 5 that are also more than 10 %.
	MaxDelete string

	// Every is the minimum time between two publications by Watch. The default is 5 s.
	Every time.Duration
	// Rescan is the time between two full scans by Watch. The default is 1 h.
	Rescan time.Duration
	// Observe may be nil. Watch calls it with the result of each publication, and with each
	// error after which Watch continues. The calls are not concurrent.
	Observe func(Report, error)
	// Report may be nil. It is called with errors of the handler. The calls may be concurrent.
	Report func(error)
	// Now is the clock. If it is nil, the clock is time.Now.
	Now func() time.Time
}

// Report is the result of a call of Publish.
type Report struct {
	Published                            bool  // whether documents were written; false if nothing had changed
	Resources, Bytes                     int64 // the number of resources, and their total size
	Created, Updated, Deleted, Unchanged int64
	// Failed is the number of files and directories that could not be read. Resources
	// that were published from them before stay published. Failures contains the first
	// errors.
	Failed   int64
	Failures []error
	// Documents are the paths of the written documents below Out, in the order of writing.
	Documents []string
}

// Site is an open Source. Publish and Watch must not run concurrently with each other.
// ServeHTTP may be called concurrently with all methods.
type Site struct {
	o       Options
	session *publish.Session
	handler http.Handler
	close   []func() error // functions that Close calls, the last one first
}

// Open opens a Source, locks its State directory, and completes a publication that was
// interrupted. The error is an *OptionError, a *StateError, a *LockedError, ErrRoot, or
// an error of the file system. The caller must close the Site.
func Open(ctx context.Context, o Options) (_ *Site, err error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Site{o: o}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	set := publish.Set{Choice: scan.Choice{Include: o.Include, Exclude: o.Exclude}, Patches: o.Patches, Dumps: o.Dumps, MaxDelete: o.MaxDelete}
	s.session, err = publish.Open(ctx, publish.Site{
		Dir: o.Dir, Out: o.Out, State: o.State, BaseURL: o.BaseURL, About: o.About, Sets: []publish.Set{set},
		Now: o.Now, Generator: "instep", RebaseMin: watch.SnapshotEvery,
	})
	if err != nil {
		return nil, err
	}
	s.close = append(s.close, s.session.Close)
	return s, s.createHandler()
}

func (s *Site) createHandler() error {
	base, err := source.ParseBaseURL(s.o.BaseURL)
	if err != nil {
		return err
	}
	h := source.HandlerOptions{Prefix: source.PublicationInfo{BaseURL: base}.Prefix(), Now: s.o.Now, Report: s.o.Report}
	for _, dir := range []string{s.o.Dir, cmp.Or(s.o.Out, s.o.Dir)} {
		files, err := publish.OpenFiles(dir)
		if err != nil {
			return err
		}
		s.close = append(s.close, files.Root.Close)
		h.Dirs = append(h.Dirs, fs.FS(files))
	}
	s.handler = source.NewHandler(h)
	return nil
}

// ServeHTTP serves the resources and the documents below the path of BaseURL, like a handler of
// [source.NewHandler].
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Publish brings the documents up to date: it finds created, updated and deleted files,
// records these changes, and writes documents if there are changes. It reads only those
// files whose size, times or inode have changed. The error is a *GuardError, ErrRoot, or
// an error of the file system. Documents are published completely or not at all. If
// Publish fails after it has recorded changes, the next call publishes them.
func (s *Site) Publish(ctx context.Context) (Report, error) {
	rep, err := s.session.Publish(ctx, publish.What{})
	return reportOf(&rep), err
}

// Watch publishes the directory, and publishes it again soon after something has
// changed, until ctx is done. It returns an error only if the first publication fails.
// If a later publication fails, Watch passes the error to Options.Observe and tries
// again.
func (s *Site) Watch(ctx context.Context) error {
	observe := s.o.Observe
	if observe == nil {
		observe = func(Report, error) {}
	}
	return watch.Run(ctx, s.session, watch.Options{
		Dir: s.o.Dir, Out: s.o.Out, Now: s.o.Now,
		Every: cmp.Or(s.o.Every, 5*time.Second), Rescan: cmp.Or(s.o.Rescan, time.Hour),
		Report: func(rep *publish.Report) { observe(reportOf(rep), nil) },
		Warn:   func(err error) { observe(Report{}, err) },
	})
}

// Close closes the Source and releases its lock.
func (s *Site) Close() error {
	var err error
	for _, closeOne := range slices.Backward(s.close) {
		err = errors.Join(err, closeOne())
	}
	s.close = nil
	return err
}

func reportOf(rep *publish.Report) Report {
	r := Report{
		Published: rep.Published, Resources: rep.Resources, Bytes: rep.Bytes, Created: rep.Created, Updated: rep.Updated,
		Deleted: rep.Deleted, Unchanged: rep.Unchanged, Failed: rep.Failed, Documents: rep.Documents,
	}
	for _, e := range rep.Failures {
		r.Failures = append(r.Failures, e.Err)
	}
	return r
}
