// Package inputs applies package lint to arguments: files, directories, standard input,
// packages, the URL of a document, or the URL of a site, whose Source it finds first.
package inputs

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"instep/discover"
	"instep/fetch"
	"instep/lint"
)

// Linter checks inputs. Its fields are set before the first call of Check. It is not
// safe for concurrent use.
type Linter struct {
	Checker lint.Checker // reports the findings
	Report  Reporter     // receives everything but findings; required
	Sample  int          // number of entries per served document whose resources are requested: a negative number means all, and 0 means none

	// Connect returns the client for a URL. It is called for the first URL of each
	// origin, since credentials belong to one origin. Linter.Close closes the clients.
	Connect      func(ctx context.Context, uri string) (*fetch.Client, error)
	AllowOrigins []string         // other origins that may serve the Source of a site
	Now          func() time.Time // the clock; required for URLs

	// Open opens an input that can be read only once: "-" is standard input, any other
	// name is a special file such as a pipe.
	Open func(ctx context.Context, name string) (io.ReadCloser, error)
	// IsState reports whether a path is, or is inside, a state directory, which is
	// skipped. If nil, none is.
	IsState func(path string) bool

	// Set by Check.
	Checked    int64 // documents that were checked
	Failed     int64 // documents that could not be checked
	Sourceless bool  // a site without a Source was found
	Blocked    bool  // a site could not be checked at present

	findings int64                    // number of findings
	errors   int64                    // number of findings that are errors
	client   *fetch.Client            // client for the URL that is being checked
	clients  map[string]*fetch.Client // clients by origin
}

// Reporter receives the results of a [Linter]. For each document, Begin is called
// first; then the Checker reports the findings; then Document is called.
type Reporter interface {
	Begin(in *Input)
	Document(d lint.Document) error
	// Failed is called for a document that could not be checked. An error that it
	// returns ends the run.
	Failed(ctx context.Context, uri string, err error) error
	// Unchecked is called for something that a document links and that was not checked.
	Unchecked(uri string, err error)
	// Note is called with a remark about an input that is not a finding.
	Note(uri, text string)
	// Found is called with the places where the Source of a site was searched. It was found
	// at the last one.
	Found(site string, tried []discover.Attempt)
}

// Input is a document that is being checked.
type Input struct {
	URI  string
	Open func() (io.ReadCloser, error) // opens the document from its first byte; nil if it is not a text with lines
}

// FatalError is an error of this computer, such as a full disk. It ends the run.
type FatalError struct{ Err error }

func (e *FatalError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *FatalError) Unwrap() error { return e.Err }

// IsURL reports whether an argument is meant as a URL.
func IsURL(arg string) bool { return strings.Contains(arg, "://") }

// Check checks the documents that an argument names: a file, a directory, a URL, or "-" for
// standard input. It returns only errors that end the run; a document that cannot be checked
// is passed to the Reporter.
func (l *Linter) Check(ctx context.Context, arg string) error {
	switch {
	case arg == "-":
		return l.pipe(ctx, arg, "stdin")
	case IsURL(arg):
		return l.url(ctx, arg)
	}
	return l.path(ctx, arg)
}

// Close closes the clients.
func (l *Linter) Close() {
	for _, c := range l.clients {
		c.Close()
	}
}

// Requested reports whether any argument was a URL.
func (l *Linter) Requested() bool { return len(l.clients) > 0 }

// checker returns the Checker, wrapped so that findings are counted.
func (l *Linter) checker() *lint.Checker {
	c := l.Checker
	c.Report = l.finding
	return &c
}

func (l *Linter) finding(f lint.Finding) {
	l.findings++
	if f.Level == lint.Error {
		l.errors++
	}
	if l.Checker.Report != nil {
		l.Checker.Report(f)
	}
}

// maps reports whether Resource Maps are checked instead of documents of ResourceSync.
func (l *Linter) maps() bool { return l.Checker.Profile == lint.ProfileORE }

// live returns the checks that send requests.
func (l *Linter) live() *lint.Live {
	return &lint.Live{Checker: l.checker(), Client: l.client, Sample: l.Sample, Now: l.Now, Unchecked: l.Report.Unchecked}
}

// fail reports a document that could not be checked. It returns only errors that end the
// run.
func (l *Linter) fail(ctx context.Context, uri string, err error) error {
	if ctx.Err() != nil {
		return err
	}
	if fatal, ok := errors.AsType[*FatalError](err); ok {
		return fatal.Err
	}
	if err := l.Report.Failed(ctx, uri, err); err != nil {
		return err
	}
	l.Failed++
	return nil
}

// document checks and reports one document.
func (l *Linter) document(ctx context.Context, in *Input, check func(context.Context, string, io.Reader) (lint.Document, error)) error {
	var r io.Reader
	if in.Open != nil {
		rc, err := in.Open()
		if err != nil {
			return l.fail(ctx, in.URI, err)
		}
		defer rc.Close()
		r = rc
	}
	l.Report.Begin(in)
	before := l.findings
	d, err := check(ctx, in.URI, r)
	if err == nil || l.findings != before {
		if err := l.Report.Document(d); err != nil {
			return err
		}
	}
	if err != nil {
		return l.fail(ctx, in.URI, err)
	}
	l.Checked++
	return nil
}
