package lint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"instep/resourcesync"
)

type run struct {
	c        *Checker
	uri      string
	expected []string // the kinds of document that the caller expects; see WithKind
	site     string   // the URL below which a Sitemap may list URLs; "" means the directory of the Sitemap
	profile  Profile
	auto     bool

	dec    *resourcesync.Decoder
	doc    Document
	header resourcesync.Header
	seen   resourcesync.Seen // which elements and attributes the Decoder found in the root element

	early    []resourcesync.Note // notes of the Decoder that become findings when the next entry or the kind of the document is known
	noted    map[string]bool     // the ids of the rules in the Decoder's notes about the root element
	readKind string              // the kind of document whose rules are applied to the entries
	perEntry []func(*entry)
	atEnd    []func()
	entry    *entry // the entry that is being read
	parsed   bool   // whether the root element could be read
	stopped  bool   // whether the check ends after the root element
	later    undecided
}

// entry is one entry with facts that resourcesync.Entry does not contain.
type entry struct {
	resourcesync.Entry
	column int      // the column of the entry's start tag
	hasMD  bool     // whether the entry has an rs:md
	noted  []string // the ids of the rules in the Decoder's notes about this entry
}

func (e *entry) hasNote(rules ...string) bool {
	return slices.ContainsFunc(e.noted, func(rule string) bool { return slices.Contains(rules, rule) })
}

func newRun(c *Checker, uri string) *run {
	r := &run{c: c, uri: uri, profile: c.Profile, entry: &entry{}, noted: make(map[string]bool)}
	switch r.profile {
	case "":
		r.profile = Profile11
	case ProfileAuto:
		r.auto, r.profile = true, Profile11
	}
	r.doc = Document{URI: uri}
	return r
}

func (r *run) read(ctx context.Context, src io.Reader) (Document, error) {
	in := newInput(ctx, src)
	r.dec = resourcesync.NewDecoder(in, resourcesync.WithLimits(r.c.Limits), resourcesync.WithNotes(r.note))
	err := r.decode(in)
	if in.err != nil {
		return r.finish(), fmt.Errorf("read %q: %w", r.uri, in.err)
	}
	switch {
	case err != nil && r.doc.Head && r.parsed && in.ended:
		if r.seen.Metadata { // without an rs:md the end is not checked, because the rs:md may follow the unread entries
			r.end()
		}
	case err != nil:
		r.broken(err, in)
	case !r.stopped:
		r.doc.Complete, r.doc.Head = true, false
		r.end()
	}
	return r.finish(), nil
}

// decode reads and checks the document until the end, or until an error that prevents
// further reading.
func (r *run) decode(in *input) error {
	header, err := r.dec.Header()
	if err != nil {
		return err
	}
	r.parsed = true
	if !r.dec.SeenRoot().Metadata {
		if header, err = r.lookAhead(in, header); err != nil {
			return err
		}
	}
	r.useHeader(&header)
	if r.stopped {
		return nil
	}
	for e, err := range r.dec.Entries() {
		seen := r.dec.SeenEntry()
		r.entry.Entry, r.entry.column, r.entry.hasMD = e, seen.Column, seen.Metadata
		switch {
		case err == nil:
			if r.isForeign() {
				r.entry.Metadata, r.entry.Links, r.entry.hasMD = resourcesync.Metadata{}, nil, false
			}
			r.flushNotes(r.entry)
			r.checkEntry()
		case errors.Is(err, resourcesync.BadEntry):
			r.badEntry(err)
		default:
			return err
		}
		r.doc.Entries++
		r.entry.noted = r.entry.noted[:0]
	}
	r.header, err = r.dec.Header()
	r.seen = r.dec.SeenRoot()
	r.dropForeign()
	r.flushNotes(nil)
	return err
}

// lookAhead finds an rs:md that comes after the entries. If the input can seek, it reads
// the document to its end, returns the complete header, and seeks back. Otherwise it
// returns the given header, which has no rs:md, so that the kind of the document is unknown.
func (r *run) lookAhead(in *input, header resourcesync.Header) (resourcesync.Header, error) {
	src, ok := in.r.(io.Seeker)
	if !ok || in.start < 0 {
		return header, nil
	}
	here, err := src.Seek(0, io.SeekCurrent)
	if err == nil {
		_, err = src.Seek(in.start, io.SeekStart)
	}
	if err != nil {
		in.err = err
		return header, err
	}
	dec := resourcesync.NewDecoder(in, resourcesync.WithLimits(r.c.Limits))
	for _, err := range dec.Entries() {
		if err != nil && !errors.Is(err, resourcesync.BadEntry) {
			break // an invalid document is reported later, when the entries are checked
		}
	}
	if last, err := dec.Header(); err == nil {
		header = last
	}
	if _, err = src.Seek(here, io.SeekStart); err != nil {
		in.err = err
	}
	return header, in.err
}

func (r *run) useHeader(h *resourcesync.Header) {
	r.header, r.seen = *h, r.dec.SeenRoot()
	if r.auto {
		r.profile = profileOf(h.Dialect)
	}
	if r.isForeign() && h.Dialect != resourcesync.DialectDLib {
		r.rejectRoot()
		return
	}
	r.dropForeign()
	r.readKind = r.kind()
	r.begin()
	r.flushNotes(nil)
}

// rejectRoot ends the check of a document whose root element the Decoder accepts, although
// the standard does not define it.
func (r *run) rejectRoot() {
	const id = "root-element-urlset-or-sitemapindex"
	r.stopped = true
	for _, n := range r.early {
		if n.Rule == id {
			r.noteRoot(n)
		}
	}
	r.early = nil
}

// dropForeign removes rs:md and rs:ln from the header if they are in the namespace that was
// proposed in 2013, unless the document is checked by the rules of that proposal.
func (r *run) dropForeign() {
	if !r.isForeign() {
		return
	}
	r.header.Metadata, r.header.Links, r.seen.Metadata = resourcesync.Metadata{}, nil, false
}

func (r *run) isForeign() bool {
	return r.profile != ProfileDLib && inDLibNamespace(r.header.Dialect)
}

func inDLibNamespace(d resourcesync.Dialect) bool {
	return d == resourcesync.DialectDLib || d == resourcesync.DialectAtom || d == resourcesync.DialectResync
}

func profileOf(d resourcesync.Dialect) Profile {
	switch {
	case d == resourcesync.DialectMid2013:
		return ProfileMid2013
	case inDLibNamespace(d):
		return ProfileDLib
	}
	return Profile11
}

// kind returns the kind of the document, by which rules are selected. It is the kind that
// the document states, unless the caller expects another kind. It is "" if both are
// unknown.
func (r *run) kind() string {
	c := r.header.Capability
	suffix := ""
	if r.header.Root == resourcesync.SitemapIndex {
		suffix = "-index"
	}
	if c == "" && r.isSitemap() && !r.seen.Metadata {
		return KindSitemap
	}
	if len(r.expected) > 0 && !r.isExpected(c) {
		return strings.TrimSuffix(r.expected[0], "-index") + suffix
	}
	return r.header.Kind()
}

func (r *run) isExpected(c resourcesync.Capability) bool {
	is := func(kind string) bool { return strings.TrimSuffix(kind, "-index") == string(c) }
	return slices.ContainsFunc(r.expected, is) || r.isSitemap()
}

func (r *run) isSitemap() bool { return slices.Contains(r.expected, KindSitemap) }

func (r *run) finish() Document {
	h := &r.header
	d := &r.doc
	d.Profile = r.profile
	if !r.parsed {
		return *d
	}
	d.Kind, d.Root, d.Capability = r.kind(), h.Root, h.Capability
	d.At, d.Completed, d.From, d.Until = h.At, h.Completed, h.From, h.Until
	d.Up, d.Index = h.Link(resourcesync.RelUp), h.Link(resourcesync.RelIndex)
	return *d
}

// active returns the rule with the given id, or nil if the rule is not checked for
// documents of the given kind.
func (r *run) active(id string, kind string) *Rule {
	rule := book().byID[id]
	if rule == nil || !r.wants(rule) || !rule.concerns(kind) {
		return nil
	}
	return rule
}

// wants reports whether a rule is checked. Unless Checker.Derived is set, derived rules are
// checked only at level Error: a length of "43 bytes" is wrong, although the standard does
// not say so.
func (r *run) wants(rule *Rule) bool {
	if r.c.Disabled[rule.ID] || rule.Derived && rule.Level < Error && !r.c.Derived {
		return false
	}
	return rule.In(r.profile) || r.undecidedWants(rule)
}

// report completes and reports a finding. If the finding depends on the edition and the
// edition is not known yet, report stores the finding.
func (r *run) report(rule *Rule, f Finding) {
	f.Rule, f.Level, f.URI = rule.ID, rule.Level, r.uri
	if !rule.In(r.profile) {
		r.later.add(f)
		return
	}
	r.emit(f)
}

func (r *run) emit(f Finding) {
	if r.c.Report != nil {
		r.c.Report(f)
	}
}

func (r *run) atRoot(rule *Rule, format string, args ...any) {
	r.report(rule, Finding{Line: r.seen.Line, Column: r.seen.Column, Message: fmt.Sprintf(format, args...)})
}

func (r *run) atEntry(rule *Rule, e *entry, format string, args ...any) {
	r.report(rule, Finding{Line: e.Line, Column: e.column, Entry: e.Loc, Message: fmt.Sprintf(format, args...)})
}

// input is a reader that returns an error when its context is done. It records read
// errors and the first bytes of the document.
type input struct {
	ctx  context.Context
	r    io.Reader
	err  error // error of reading the document, which is not a finding
	head []byte

	ended bool // whether r was read to its end

	start int64 // the offset in r at which the document begins; -1 if r cannot seek
}

const headSize = 512

func newInput(ctx context.Context, src io.Reader) *input {
	in := &input{ctx: ctx, r: src, start: -1}
	if s, ok := src.(io.Seeker); ok {
		if at, err := s.Seek(0, io.SeekCurrent); err == nil {
			in.start = at // for a pipe, which is an *os.File as well, Seek returns an error
		}
	}
	return in
}

func (in *input) Read(p []byte) (int, error) {
	if err := in.ctx.Err(); err != nil {
		in.err = err
		return 0, err
	}
	n, err := in.r.Read(p)
	if room := headSize - len(in.head); room > 0 {
		in.head = append(in.head, p[:min(n, room)]...)
	}
	in.ended = in.ended || err == io.EOF
	if err != nil && err != io.EOF {
		in.err = err
	}
	return n, err
}
