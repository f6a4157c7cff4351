// Package convert converts a ResourceSync document of any dialect into a valid document
// of version 1.1, and reports each decision that it had to make. The function Document
// reads a document once and stores its entries in a temporary file, because the header of
// the result depends on all entries. It writes the sorted result to another temporary
// file and reads that file with a strict Decoder. Only a valid result is copied to the
// output, so the output is complete or empty.
package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"

	"instep/resourcesync"
)

// Options are the options of the function Document. The zero value is usable.
type Options struct {
	Name    string                // name of the document in errors, usually its path
	Dialect *resourcesync.Dialect // the dialect that the document must have; nil allows any

	BaseURL *url.URL              // absolute URL with which relative URIs are resolved; if nil, entries with relative URIs are left out
	Up      string                // target of the link with rel="up" that is added if the document has none and 1.1 requires one
	At      resourcesync.Datetime // value of the attribute "at" that is added if 1.1 requires one and the document has none
	From    resourcesync.Datetime // value of the attribute "from" that is added if 1.1 requires one and the document has none

	Gzip bool   // compress the result
	Temp string // directory for temporary files; the default is the system's directory

	// Open opens a part of a manifest that is divided into several documents. The path is
	// relative to the root of the package, has slashes as separators, and never leads out
	// of the package. If Open is nil, such a manifest is refused.
	Open func(path string) (io.ReadCloser, error)

	// Decide is called with every decision, in order.
	Decide func(Decision)
}

// Level is the importance of a decision.
type Level string

// Levels of decisions, with the same names as the levels of findings in package lint.
const (
	Info    Level = "info"    // something unusual that 1.1 allows, so there was nothing to decide
	Warning Level = "warning" // something that 1.1 does not allow, and that was converted or dropped
	Error   Level = "error"   // an entry was left out because 1.1 cannot express it
)

// Decision is a choice that the conversion made because the document was ambiguous or
// differed from 1.1.
type Decision struct {
	Part  string // path of the part of a divided manifest that the decision is about; "" for the document itself
	Line  int    // number of the line, counted from 1; 0 if the decision is about the document as a whole
	Rule  string // id of the rule that the document breaks; may be ""
	Level Level
	URI   string // loc of an entry that was left out; "" if no entry was left out or its loc is unknown
	Text  string // describes the value in the document and what was written instead
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

// Report describes a conversion.
type Report struct {
	Dialect   resourcesync.Dialect // the dialect of the document that was read
	Header    resourcesync.Header  // as written
	Entries   int64                // written
	LeftOut   int64                // number of entries left out, each with a Decision of level Error
	Decisions int64                // number of decisions of other levels than Info
	Bytes     int64                // written
}

// RefusedError is the reason why a document cannot be converted. Nothing was written.
type RefusedError struct {
	Name         string
	Line, Column int // the position of the error; 0 if the error concerns the document as a whole
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

type converter struct {
	o      Options
	report Report
	nature nature
	header resourcesync.Header // of the result

	oldTimes        bool // whether lastmod is the time of a change, as it was before version 1.1
	recast          bool // whether entryCapability replaces the capability of every entry
	entryCapability resourcesync.Capability
	listed          map[resourcesync.Capability]int // line of the first entry in a Capability List that has the capability
}

// Document reads a document, converts it to version 1.1 and writes the result to out.
// Unusable entries are left out and counted. If the conversion fails nothing is written.
// The error is a [*RefusedError] if the document cannot be converted.
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
	if err := c.convertHeader(d); err != nil {
		return err
	}
	return c.write(ctx, d, out)
}

func (c *converter) decide(d Decision) {
	if d.Level != Info {
		c.report.Decisions++
	}
	if c.o.Decide != nil {
		c.o.Decide(d)
	}
}

// noteEntry reports a decision about an entry, or about the whole document if the item is
// empty.
func (c *converter) noteEntry(it item, rule, format string, args ...any) {
	c.decide(Decision{Part: it.Part, Line: it.Entry.Line, Rule: rule, Level: Warning, Text: fmt.Sprintf(format, args...)})
}

func (c *converter) noteDocument(rule, format string, args ...any) {
	c.noteEntry(item{}, rule, format, args...)
}

func (c *converter) refuse(rule, hint, format string, args ...any) error {
	return &RefusedError{Name: c.o.Name, Rule: rule, Hint: hint, Msg: fmt.Sprintf(format, args...)}
}
