// Package site is a Source in a directory (1.1 §5.1): its files are the resources, and the
// ResourceSync documents that describe them are written beside them. Open opens one,
// [Site.Publish] brings its documents up to date once, [Site.Watch] does so whenever
// something changed, and a Site is the http.Handler that serves both.
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
	"time"

	"instep/internal/flock"
	"instep/internal/publish"
	"instep/internal/scan"
	"instep/internal/watch"
	"instep/source"
)

// ErrRoot is returned if the directory cannot be read. Nothing was recorded.
var ErrRoot = scan.ErrRoot

type (
	// GuardError is returned by Publish if more resources vanished than
	// Options.MaxDelete allows. Nothing was recorded.
	GuardError = scan.GuardError
	// LockedError is returned by Open while another process has the state open.
	LockedError = flock.LockedError
	// OptionError is returned by Open for an invalid option.
	OptionError = publish.OptionError
	// StateError is returned by Open if State belongs to another directory or base URL.
	StateError = publish.StateError
)

// Options configure a Site. Dir, State and BaseURL are required.
type Options struct {
	// Dir is the directory whose files are the resources. Names that begin with a dot,
	// devices, and links that lead out of it are excluded.
	Dir string
	// Out is the directory of the documents; "" is Dir.
	Out string
	// State is the directory for recorded facts about the files. It is used for one
	// Dir, Out and BaseURL only. If it is below Dir or Out its name must begin with a
	// dot.
	State string
	// BaseURL is the URL at which Dir is served: http or https. A missing final "/" is
	// added.
	BaseURL string
	// About describes the Source for people.
	About source.About
	// Include and Exclude are globs for paths below Dir, as in a .gitignore file. A
	// file is a resource if an Include matches, or there is none, and no Exclude
	// matches.
	Include, Exclude []string
	// Patches publishes patches of changed files as well (1.1 §14.4). State then has a copy of
	// each file of up to 16 MiB.
	Patches bool
	// Dumps also offers Resource Dumps and Change Dumps (1.1 §11, §13).
	Dumps bool
	// MaxDelete is the largest number of resources, as "50" or "5%", that may vanish
	// between two publications. The default "" refuses more than 5 that are also more
	// than 10 %, more than half, and all.
	MaxDelete string

	// Every is the minimum time between two publications of Watch; 0 is 5 s.
	Every time.Duration
	// Rescan is the time between two full scans by Watch; 0 is 1 h.
	Rescan time.Duration
	// Observe is called by Watch with the result of each publication, or with an error
	// after which it continues. It is never called concurrently; may be nil.
	Observe func(Report, error)
	// Report is called concurrently with errors of the handler; may be nil.
	Report func(error)
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Report is the result of a publication.
type Report struct {
	Published                            bool  // false: nothing had changed
	Resources, Bytes                     int64 // number and total size of the resources in the set
	Created, Updated, Deleted, Unchanged int64
	// Failed is the number of files and directories that could not be read: their
	// published state stays. Failures contains the first of them.
	Failed   int64
	Failures []error
	// Documents are the paths, below Out, of the documents written, in order.
	Documents []string
}

// Site is an open Source. Publish and Watch must not run concurrently with each other;
// ServeHTTP is safe for concurrent use with all other methods.
type Site struct {
	o       Options
	session *publish.Session
	handler http.Handler
	close   []func() error // in reverse
}

// Open opens a Source and locks its State. It completes a publication that was
// interrupted. It returns an *OptionError, a *StateError, a *LockedError, ErrRoot, or
// an error of the disk. The caller must close the Site.
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
	return s, s.serve()
}

// serve creates the handler.
func (s *Site) serve() error {
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

// ServeHTTP serves the resources and the documents below the path of BaseURL, as
// [source.NewHandler] does.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Publish brings the documents up to date: it finds created, updated and deleted files,
// records them, and writes documents if anything changed. It reads only files whose
// size, times or inode have changed. It returns a *GuardError, ErrRoot, or an error of
// the disk. Documents are published completely or not at all, and changes recorded
// before an error are published by the next call.
func (s *Site) Publish(ctx context.Context) (Report, error) {
	rep, err := s.session.Publish(ctx, publish.What{})
	return reportOf(&rep), err
}

// Watch publishes, and publishes again soon after something changed, until ctx is done,
// which is not an error. It returns an error only if the first publication fails.
// Options.Observe gets the errors of later ones, which are repeated.
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
	var errs []error
	for i := len(s.close) - 1; i >= 0; i-- {
		errs = append(errs, s.close[i]())
	}
	s.close = nil
	return errors.Join(errs...)
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
