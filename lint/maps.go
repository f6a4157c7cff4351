package lint

import (
	"context"
	"encoding/xml"
	"errors"
	"io"

	"instep/ore"
)

// ResourceMaps searches for Resource Maps with f, starting at a URI, and checks the
// rules for their discovery: see [ProfileORE]. A document that is not well-formed XML
// is a finding. Any other unreadable document is passed to f.Failed. The error is that
// of f.Find.
func (c *Checker) ResourceMaps(ctx context.Context, f ore.Finder, uri string) (ore.Report, error) {
	r := newRun(c, uri)
	r.profile = ProfileORE
	failed := f.Failed
	f.Problem = r.problem
	f.Failed = func(uri string, err error) {
		if !r.malformed(uri, err) && failed != nil {
			failed(uri, err)
		}
	}
	rep, err := f.Find(ctx, uri)
	if r.malformed(uri, err) {
		return rep, nil
	}
	return rep, err
}

// ResourceMapDocument checks a single document with the rules of [ProfileORE]. The document
// is a page, a feed, a Sitemap or a Resource Map. An error means that the document could
// not be read.
func (c *Checker) ResourceMapDocument(ctx context.Context, uri string, src io.Reader) error {
	r := newRun(c, uri)
	r.profile = ProfileORE
	in := newInput(ctx, src)
	problems, err := ore.Inspect(uri, "", in)
	for _, p := range problems {
		r.problem(p)
	}
	if in.err != nil {
		return in.err
	}
	if r.malformed(uri, err) {
		return nil
	}
	return err
}

func (r *run) problem(p ore.Problem) {
	if rule := book().byID[p.Rule]; rule != nil && r.wants(rule) {
		r.emit(Finding{Rule: rule.ID, Level: rule.Level, URI: p.URI, Line: p.Line, Entry: p.Entry, Message: p.Message})
	}
}

// malformed makes a finding if the error is a syntax error of XML. It reports whether it
// made a finding.
func (r *run) malformed(uri string, err error) bool {
	var syntax *xml.SyntaxError
	rule := book().byID["xml-well-formed"]
	if !errors.As(err, &syntax) || !r.wants(rule) {
		return false
	}
	r.emit(Finding{Rule: rule.ID, Level: rule.Level, URI: uri, Line: syntax.Line, Message: err.Error()})
	return true
}
