// Package convert converts a ResourceSync document of any dialect into a valid document of
// 1.1, and reports each decision that it had to make.
//
// A document is read once, its entries into a temporary file, since the header of the
// result (at, from, whether lastmod is the time of a change) depends on all of them. The
// result is also made in a temporary file, sorted, and read back strictly before its first
// byte is written: all of it or nothing.
package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"

	"instep/resourcesync"
)

// Options are the options of Document. The zero value is usable.
type Options struct {
	Name    string                // name of the document in errors, usually its path
	Dialect *resourcesync.Dialect // the dialect that the document must have; nil allows any

	BaseURL *url.URL              // absolute base of relative URIs; if nil, entries with relative URIs are left out
	Up      string                // the up link, if the document has none and 1.1 requires one
	At      resourcesync.Datetime // at for a snapshot without one
	From    resourcesync.Datetime // from for a change document without one

	Gzip bool   // compress the result
	Temp string // directory for temporary files; default is the system's

	// Open opens a part of a nested manifest by its path below the package root:
	// separated by slashes, without a leading one, and never leading out. If nil,
	// nested manifests are refused.
	Open func(path string) (io.ReadCloser, error)

	// Decide is called with every decision, in order.
	Decide func(Decision)
}

// Level is the importance of a decision.
type Level string

// The levels, as in package lint.
const (
	Info    Level = "info"    // unusual but also legal in 1.1: nothing had to be decided
	Warning Level = "warning" // from another dialect, converted as 1.1 requires
	Error   Level = "error"   // an entry was left out because 1.1 has no place for it
)

// Decision is a choice that the conversion made because the document was ambiguous or
// differed from 1.1.
type Decision struct {
	Part  string // path of the part of a nested manifest; "" for the document itself
	Line  int    // line, from 1; 0 if it concerns the document as a whole
	Rule  string // id of the rule concerned; may be ""
	Level Level
	URI   string // loc of an entry that was left out, if it has one
	Text  string // the value read and the value written
}

// String formats the decision as a line for people.
func (d Decision) String() string {
	s := d.Text
	if d.Line > 0 {
		s = fmt.Sprintf("line %d: %s", d.Line, s)
	}
	if d.Part != "" {
		s = d.Part + ": " + s
	}
	return s
}

// Report describes the result.
type Report struct {
	Dialect   resourcesync.Dialect // dialect of the document
	Header    resourcesync.Header  // as written
	Entries   int64                // written
	LeftOut   int64                // number of entries left out, each with a Decision of level Error
	Decisions int64                // number of decisions, except those of level Info
	Bytes     int64                // written
}

// RefusedError is the reason why a document cannot be converted. Nothing was written.
type RefusedError struct {
	Name         string
	Line, Column int // 0 if it concerns the document as a whole
	Rule         string
	Msg          string
	Hint         string // what the user can do next; may be ""
	Err          error  // a further cause, or nil
}

func (e *RefusedError) Error() string {
	s := e.Name
	if e.Line > 0 {
		s += fmt.Sprintf(":%d:%d", e.Line, max(e.Column, 1))
	}
	s += ": " + e.Msg
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *RefusedError) Unwrap() error { return e.Err }

// converter converts one document.
type converter struct {
	o      Options
	report Report
	nature nature
	header resourcesync.Header // header of the result

	oldTimes        bool                            // lastmod is the time of a change, as before 1.1
	recast          bool                            // entries get another capability:
	entryCapability resourcesync.Capability         // this one
	listed          map[resourcesync.Capability]int // for a Capability List: line of the entry of each capability
}

// Document converts the document in in to version 1.1 and writes it to out. It writes
// nothing unless the conversion succeeds; unusable entries are left out and counted.
// The error is a [*RefusedError] unless reading, writing or a temporary file failed, or
// ctx is done.
func Document(ctx context.Context, in io.Reader, out io.Writer, o Options) (Report, error) {
	c := &converter{o: o, listed: map[resourcesync.Capability]int{}}
	err := c.convert(ctx, in, out)
	return c.report, err
}

func (c *converter) convert(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	d, err := c.readWhole(ctx, in)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if err := c.settle(d); err != nil {
		return err
	}
	return c.write(ctx, d, out)
}

// decide reports a decision.
func (c *converter) decide(d Decision) {
	if d.Level != Info {
		c.report.Decisions++
	}
	if c.o.Decide != nil {
		c.o.Decide(d)
	}
}

// of reports a decision about an entry, or about the document if item is zero.
func (c *converter) of(it item, rule, format string, args ...any) {
	c.decide(Decision{Part: it.Part, Line: it.Entry.Line, Rule: rule, Level: Warning, Text: fmt.Sprintf(format, args...)})
}

// about reports a decision about the document as a whole.
func (c *converter) about(rule, format string, args ...any) { c.of(item{}, rule, format, args...) }

// refuse returns the error for the document as a whole.
func (c *converter) refuse(rule, hint, format string, args ...any) error {
	return &RefusedError{Name: c.o.Name, Rule: rule, Hint: hint, Msg: fmt.Sprintf(format, args...)}
}
