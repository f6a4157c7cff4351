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

// Linter checks inputs. Its fields must be set before the first call of Check. It is
// not safe for concurrent use.
type Linter struct {
	Checker lint.Checker // reports the findings
	Report  Reporter     // the receiver of all results except the findings; required
	Sample  int          // the number of resources to request for each served document: a negative number means all, and 0 means none

	// Connect returns the client for requests to a URL. It is called once for each
	// origin, since credentials are for one origin only. Linter.Close closes the
	// clients.
	Connect      func(ctx context.Context, uri string) (*fetch.Client, error)
	AllowOrigins []string         // further origins that may serve documents of a site's Source
	Now          func() time.Time // the clock, which is required to check URLs

	// Open opens an input that can be read only once. The name "-" is that of standard
	// input, and any other name is that of a special file such as a pipe.
	Open func(ctx context.Context, name string) (io.ReadCloser, error)
	// IsState reports whether a path is a state directory or inside of one. Such paths
	// are skipped. If IsState is nil, no path is skipped.
	IsState func(path string) bool

	// Set by Check.
	Checked    int64 // the number of documents that were checked
	Failed     int64 // the number of documents that could not be checked
	Sourceless bool  // whether a site without a Source was checked
	Blocked    bool  // whether a site could not be checked for a temporary reason, such as a block by its server

	findings int64                    // the number of findings
	errors   int64                    // the number of findings that are errors
	client   *fetch.Client            // the client for the URL that is being checked
	clients  map[string]*fetch.Client // clients by origin
}

// Reporter receives the results of a [Linter]. For each document, Begin is called
// first. Then the Checker reports the findings. After them Document is called.
type Reporter interface {
	Begin(in *Input)
	Document(d lint.Document) error
	// Failed is called for each document that could not be checked. If it returns an
	// error, the run ends.
	Failed(ctx context.Context, uri string, err error) error
	// Unchecked is called for a URI that a document contains and that could not be checked.
	Unchecked(uri string, err error)
	// Note is called with a remark about an input. The remark is not a finding.
	Note(uri, text string)
	// Found is called when the Source of a site has been found. The examined URLs are
	// in tried, in order. The Source was found at the last of them.
	Found(site string, tried []discover.Attempt)
}

// Input is a document that is being checked.
type Input struct {
	URI  string
	Open func() (io.ReadCloser, error) // opens the document at its first byte; nil for a document that is not a text with lines
}

// FatalError is an error of this computer, such as a full disk. It ends the run.
type FatalError struct{ Err error }

func (e *FatalError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *FatalError) Unwrap() error { return e.Err }

// IsURL reports whether a command-line argument is meant as a URL.
func IsURL(arg string) bool { return strings.Contains(arg, "://") }

// Check checks the documents that an argument names: a file, a directory, a URL, or "-" for
// standard input. A document that cannot be checked is reported to the Reporter. An error ends
// the run.
func (l *Linter) Check(ctx context.Context, arg string) error {
	switch {
	case arg == "-":
		return l.checkStream(ctx, arg, "stdin")
	case IsURL(arg):
		return l.checkURL(ctx, arg)
	}
	return l.checkPath(ctx, arg)
}

// Close closes the clients that Connect returned.
func (l *Linter) Close() {
	for _, c := range l.clients {
		c.Close()
	}
}

// Requested reports whether Check has been called with a URL.
func (l *Linter) Requested() bool { return len(l.clients) > 0 }

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

// checksMaps reports whether Resource Maps are checked instead of documents of ResourceSync.
func (l *Linter) checksMaps() bool { return l.Checker.Profile == lint.ProfileORE }

func (l *Linter) liveChecks() *lint.Live {
	return &lint.Live{Checker: l.checker(), Client: l.client, Sample: l.Sample, Now: l.Now, Unchecked: l.Report.Unchecked}
}

// fail reports a document that could not be checked. It returns an error only if the run must
// end.
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

func (l *Linter) checkDocument(ctx context.Context, in *Input, check func(context.Context, string, io.Reader) (lint.Document, error)) error {
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
