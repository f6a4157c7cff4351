package lint

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"instep/fetch"
	"instep/resourcesync"
)

// mostEarly is the largest number of notes that are stored while their entry or the kind of
// document is unknown. If there are more, all of them count as notes about the root.
const mostEarly = 10_000

// note stores a note of the Decoder until the entry is known to which the note belongs.
func (r *run) note(n resourcesync.Note) {
	if len(r.early) >= mostEarly {
		r.flushNotes(nil)
	}
	r.early = append(r.early, n)
}

// flushNotes turns the notes since the last entry into findings. Notes about the text
// before the entry e are about the root; if e is nil, all notes are.
func (r *run) flushNotes(e *entry) {
	for _, n := range r.early {
		if e == nil || n.Line < e.Line || n.Line == e.Line && n.Column < e.column {
			r.noteRoot(n)
			continue
		}
		e.noted = append(e.noted, n.Rule)
		r.translate(n, e.Loc)
	}
	r.early = r.early[:0]
}

func (r *run) noteRoot(n resourcesync.Note) {
	r.noted[n.Rule] = true
	r.translate(n, "")
}

// equivalentRules maps a rule that the Decoder checks to the same rules of other editions
// and other kinds of document.
var equivalentRules = map[string][]string{
	"entry-loc-required": {"dlib-loc-required"},
	"limit-50000-items":  {"dlib-limit-50000"},
	"lastmod-w3cdtf":     {"archive-lastmod-w3cdtf"},
}

func (r *run) translate(n resourcesync.Note, loc string) {
	if r.isForeign() && !aboutSitemap[n.Rule] && n.Quirk != resourcesync.QuirkDialect {
		return
	}
	f := Finding{Line: n.Line, Column: n.Column, Entry: loc, Message: n.Msg}
	if n.Rule != "" {
		r.noteRule(n.Rule, &n, f)
		for _, id := range equivalentRules[n.Rule] {
			r.noteRule(id, &n, f)
		}
	}
	if n.Quirk != 0 {
		r.noteQuirk(n.Quirk, f)
	}
}

// noteQuirk makes a finding about a known deviation from the standard, unless the
// deviation is normal in the profile, or only the server's response can show it.
func (r *run) noteQuirk(q resourcesync.Quirk, f Finding) {
	if r.profile == ProfileDLib && isDialect(q) || r.isDraft(q) {
		return
	}
	rule := quirkRule(q)
	if rule != nil && rule.Checkable == "static" && rule.concerns(r.readKind) && r.wants(rule) {
		r.report(rule, f)
	}
}

// isDraft reports whether a quirk is normal in a document of mid-2013 and the document is
// checked by the rules of that time.
func (r *run) isDraft(q resourcesync.Quirk) bool {
	return r.profile == ProfileMid2013 && q == resourcesync.QuirkMid2013
}

func isDialect(q resourcesync.Quirk) bool {
	return q == resourcesync.QuirkDialect || q == resourcesync.QuirkMid2013
}

// noteRule makes a finding about the rule that a note names. It skips the note if a check
// finds the violations of that rule, unless the note is about the dialect of the document.
// If the standard allows what the note is about, there is no finding of level Error.
func (r *run) noteRule(id string, n *resourcesync.Note, f Finding) {
	draft, legal := isDialect(n.Quirk), n.Legal && !isDialect(n.Quirk)
	rule := r.active(id, r.readKind)
	if rule == nil || r.isDraft(n.Quirk) || !noted[rule.Family] && !draft || legal && rule.Level == Error {
		return
	}
	r.report(rule, f)
}

// aboutSitemap has the rules about elements of the Sitemap protocol. They apply to
// documents of the proposal of 2013 too.
var aboutSitemap = map[string]bool{
	"xml-well-formed": true, "namespace-sitemap": true, "namespace-rs-terms": true,
	"entry-element-matches-root": true, "limit-50000-items": true, "limit-50mb": true,
	"entry-loc-required": true, "entry-loc-single": true, "loc-absolute-uri": true, "entry-no-attributes": true, "text-between-elements": true,
	"lastmod-w3cdtf": true, "lastmod-utc-recommended": true, "changefreq-values": true,
}

func (r *run) badEntry(err error) {
	r.flushNotes(r.entry)
	e, ok := errors.AsType[*resourcesync.DecodeError](err)
	if !ok {
		return
	}
	id := e.Rule
	if id == "" {
		id = "entry-loc-required"
	}
	f := Finding{Line: e.Line, Column: e.Column, Message: e.Msg}
	for _, id := range append([]string{id}, equivalentRules[id]...) {
		if rule := r.active(id, r.readKind); rule != nil {
			r.report(rule, f)
		}
	}
}

func (r *run) broken(err error, in *input) {
	e, ok := errors.AsType[*resourcesync.DecodeError](err)
	if !ok {
		return
	}
	if !r.parsed {
		// The first bytes show the format of a file that is not XML.
		r.header, r.seen = resourcesync.Header{}, resourcesync.Seen{}
	}
	r.flushNotes(nil)
	f := Finding{Line: e.Line, Column: e.Column, Message: e.Msg}
	if cause := errors.Unwrap(e); cause != nil {
		f.Message += ": " + cause.Error()
	}
	if what := describeNonXML(in.head); what != "" && !r.parsed {
		f.Message = what
	}
	id := fatalRule(e)
	if r.profile == ProfileDLib && id != "reader-limits" {
		id = "xml-well-formed" // the only rule of the proposal of 2013 about unreadable documents
	}
	if rule := r.active(id, r.readKind); rule != nil {
		r.report(rule, f)
	}
	if e.Quirk != 0 {
		r.noteQuirk(e.Quirk, f)
	}
}

func fatalRule(e *resourcesync.DecodeError) string {
	switch {
	case e.Rule != "":
		return e.Rule
	case e.Kind == resourcesync.LimitReached:
		return "reader-limits"
	case e.Kind == resourcesync.NotResourceSync:
		return "root-element-urlset-or-sitemapindex"
	}
	return "xml-well-formed"
}

// describeNonXML returns a message about a file that is not XML; "" if the format of the
// file is unknown.
func describeNonXML(head []byte) string {
	head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n")
	lower := bytes.ToLower(head)
	has := func(prefixes ...string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return bytes.HasPrefix(lower, []byte(p)) })
	}
	const expected = "; expected an XML document with the root element urlset or sitemapindex"
	switch {
	case len(head) == 0:
		return "the document is empty" + expected
	case has("<!doctype html", "<html"):
		return htmlPage(lower) + expected
	case has("{", "["):
		return "this is JSON" + expected
	case has("pk\x03\x04"):
		return "this is a ZIP file" + expected
	case has("%pdf-"):
		return "this is a PDF file" + expected
	case head[0] != '<' && isPlain(head):
		return fmt.Sprintf("this is text, beginning with %q%s", firstLine(head), expected)
	}
	return ""
}

func htmlPage(lower []byte) string {
	if fetch.IsWall(lower) {
		return "this is an HTML page that keeps programs out, not the document"
	}
	return "this is an HTML page"
}

func isPlain(b []byte) bool {
	return !slices.ContainsFunc(b, func(c byte) bool { return c < ' ' && c != '\t' && c != '\r' && c != '\n' })
}

func firstLine(b []byte) []byte {
	const most = 40
	if i := bytes.IndexAny(b, "\r\n"); i >= 0 {
		b = b[:i]
	}
	return b[:min(len(b), most)]
}
