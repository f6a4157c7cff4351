package resourcesync

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
)

// Decoder reads one document as a stream, in constant memory.
//
// It is strict about XML and lenient about values: a date or digest that cannot be read
// counts as absent, and known habits of Sources are understood. [WithNotes] reports each
// case, [WithTolerance] decides which are errors.
type Decoder struct {
	s         scanner
	r         io.Reader
	tolerance Tolerance // nil is Lenient
	note      func(Note)

	as     Dialect
	form   form
	header Header
	state  state
	err    error // the error that ended the document early

	// Facts about the root.
	rootLine, rootColumn int
	hasMD                bool     // its rs:md
	unread               []string // names of unreadable attributes of its rs:md
	ups                  []draftUp
	hasTop               bool   // the root has a link with relation top
	modified             bool   // it has a modified outside of rs:md
	linkBytes            int    // length of its rs:ln elements
	rootForeign          []byte // elements of other vocabularies
	related              bool   // an element of ResourceSync was found, perhaps only in an entry

	// Notes so far.
	told    bool         // the dialect was noted
	aliased bool         // the namespace without its slash was noted
	refused *DecodeError // the first deviation that was not tolerated

	// The entry being read.
	entries   int // entries so far
	current   Entry
	seenEntry Seen
	inside    bool   // the Decoder is inside an entry
	badChange bool   // the entry has a change that is unreadable
	foreign   int    // number of foreign elements in the entry, or in the root
	inLinks   int    // length of the entry's rs:ln elements
	inEntry   []byte // buffer for the foreign elements of an entry

	// Scratch.
	kept      foreignWriter
	digests   Digests // array for the digests of entries
	padded    bool    // the last text read had white space around it
	mediaType string  // the last media type read
	words     map[string]string
}

type state uint8

const (
	fresh   state = iota // nothing read
	inRoot               // in the root element, before or between entries
	atEntry              // the start tag of an entry was read, but not its content
	ended                // the whole document was read
)

// Option is an option of NewDecoder.
type Option func(*Decoder)

// WithLimits bounds the document.
func WithLimits(l Limits) Option { return func(d *Decoder) { d.s.lim = l } }

// WithNotes calls fn for each [Note]: every deviation from the standard, and everything
// unusual that it allows (Note.Legal). fn is called during reading, in the reading
// goroutine.
func WithNotes(fn func(Note)) Option { return func(d *Decoder) { d.note = fn } }

// WithTolerance sets which deviations from the standard are tolerated; the default is
// [Lenient].
func WithTolerance(t Tolerance) Option { return func(d *Decoder) { d.tolerance = t } }

// AsDialect reads the document in a given dialect, and marks notes of its usual
// features as legal. Some dialects cannot be recognised: a document of edition 1.0
// looks like one of 1.1. If a document shows signs of another dialect, that dialect is
// used; see [Header.Dialect].
func AsDialect(dialect Dialect) Option { return func(d *Decoder) { d.as = dialect } }

// NewDecoder returns a Decoder for the document in r. The document may be compressed
// with gzip, and encoded in UTF-8, UTF-16, US-ASCII, ISO-8859-1 or windows-1252.
func NewDecoder(r io.Reader, opts ...Option) *Decoder {
	d := &Decoder{r: r}
	for _, o := range opts {
		o(d)
	}
	if d.as == Dialect10 || d.as == DialectMid2013 {
		d.header.Dialect = d.as
	}
	d.s.lim = d.s.lim.withDefaults()
	d.s.limit = d.s.lim.Bytes
	d.s.line = 1
	return d
}

// Header returns the header of the document. Before Entries has ended it reads up to
// the first entry. Afterwards the header also includes elements that come after the
// entries, so base decisions only on the second result. The error is a [*DecodeError].
func (d *Decoder) Header() (Header, error) {
	if d.state == fresh && d.err == nil {
		if d.err = d.start(); d.err == nil {
			d.err = d.toEntry()
		}
	}
	if d.err != nil {
		return Header{}, d.err
	}
	h := d.header
	h.Foreign = string(d.rootForeign)
	return h, nil
}

// Entries returns the entries in document order. The document was complete, with
// nothing after its end tag, if and only if the loop ends by itself without an error.
// Errors are a [*DecodeError]. An error of kind [BadEntry] concerns a single entry, of
// which only the Line is given, and the loop may continue; any other error ends the
// sequence. A bad entry is still listed by the Source: a caller that skips it does not
// know the whole list. After leaving the loop early, call Entries again to continue.
func (d *Decoder) Entries() iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		_, err := d.Header()
		for err == nil && d.state != ended {
			if d.state == inRoot {
				if err = d.toEntry(); err != nil || d.state == ended {
					break
				}
			}
			err = d.entry()
			if err != nil && !errors.Is(err, BadEntry) {
				break
			}
			if !yield(d.current, err) {
				return
			}
			err = nil
		}
		if err != nil {
			d.err = err
			yield(Entry{}, err)
		}
	}
}

// start reads up to the content of the root element.
func (d *Decoder) start() error {
	d.state = inRoot
	text, encoding, packed, err := open(d.r, d.s.limit)
	if err != nil {
		return openError(err)
	}
	d.s.src, d.s.encoding = text, encoding
	if tok, err := d.s.next(); err != nil {
		return err
	} else if tok != tokStart {
		return d.s.fail(NotWellFormed, d.s.pos, "expected a root element")
	}
	d.noteBytes(packed)
	if err := d.root(); err != nil {
		return err
	}
	return d.verdict()
}

// noteBytes notes unusual bytes before the root element.
func (d *Decoder) noteBytes(packed bool) {
	if packed {
		d.remark(Note{Quirk: QuirkGzip, Line: 1, Column: 1, Msg: "compressed with gzip"})
	}
	if d.s.leading {
		d.tolerate(Note{Quirk: QuirkSpaceFirst, Rule: ruleXML, Line: 1, Column: 1, Msg: "white space before the XML declaration"})
	}
	if d.s.encoding != "utf-8" {
		d.remark(Note{Quirk: QuirkEncoding, Rule: ruleXML, Line: 1, Column: 1, Msg: "the document is in " + d.s.encoding})
	}
	if got := d.s.declared; got != "" && got != d.s.encoding {
		d.tolerate(Note{Rule: ruleXML, Line: 1, Column: 1, Msg: fmt.Sprintf("declared as %q, but it is %s", clip(got), d.s.encoding)})
	}
	if d.s.styled {
		d.remark(Note{Quirk: QuirkBrowser, Rule: ruleXML, Line: 1, Column: 1, Msg: "a style sheet is ignored"})
	}
}

// verdict returns the error for the first deviation that was not tolerated, if any.
func (d *Decoder) verdict() error {
	if d.refused == nil {
		return nil
	}
	return d.refused
}

// openError returns the error for a document whose first bytes are unusable.
func openError(err error) error {
	e := &DecodeError{Kind: Incomplete, Line: 1, Column: 1, Msg: "the document can't be read", Err: err}
	if known, ok := errors.AsType[*DecodeError](err); ok {
		e.Kind, e.Msg, e.Err = known.Kind, known.Msg, nil
	}
	return e
}

// root handles the start tag of the root element.
func (d *Decoder) root() error {
	el := &d.s.elem
	d.s.locate()
	d.rootLine, d.rootColumn = el.line, el.column
	name := string(el.local)
	switch {
	case name == "feed" && el.uri == nsAtom:
		return d.atomRoot()
	case name == "resync" && el.space == spaceDLib:
		return d.resyncRoot()
	case name == "rss" && el.space == spaceNone:
		return d.reject(ruleRoot, "this is an RSS feed")
	case strings.EqualFold(name, "html"):
		return d.reject(ruleRoot, "this is an HTML page")
	case name != "urlset" && name != "sitemapindex":
		return d.reject(ruleRoot, "the root element is <%s>; expected urlset or sitemapindex", clip(name))
	case el.space != spaceSitemap:
		return d.reject("namespace-sitemap", "%s is in namespace %q; expected %q", name, clip(el.uri), nsSitemap)
	}
	if el.colon > 0 {
		d.remark(Note{Quirk: QuirkPrefix, Rule: "namespace-sitemap", Msg: fmt.Sprintf("elements of the Sitemap protocol have the prefix %q", clip(string(el.name[:el.colon])))})
	}
	if name == "sitemapindex" {
		d.header.Root = SitemapIndex
	}
	d.keepRootAttrs()
	return nil
}

// keepRootAttrs stores the attributes of the root element.
func (d *Decoder) keepRootAttrs() {
	for i := range d.s.attrs {
		a := &d.s.attrs[i]
		d.header.RootAttrs = append(d.header.RootAttrs, keptAttr(a))
		if a.uri == nsXSI {
			d.remark(Note{Quirk: QuirkBrowser, Rule: "schema-validation", Msg: clip(string(a.name)) + " is kept, and not used"})
		}
	}
}

// ruleRoot is the id of the rule about the root element.
const ruleRoot = "root-element-urlset-or-sitemapindex"

// reject returns the error for a document that is not ResourceSync.
func (d *Decoder) reject(rule, format string, args ...any) *DecodeError {
	err := d.fail(NotResourceSync, format, args...)
	err.Rule = rule
	return err
}

// fail returns the error for the element whose start tag was last read.
func (d *Decoder) fail(kind Kind, format string, args ...any) *DecodeError {
	d.s.locate()
	el := &d.s.elem
	return &DecodeError{
		Kind: kind, Line: el.line, Column: el.column, Offset: el.at,
		Msg: fmt.Sprintf(format, args...),
	}
}

// tolerate notes a deviation from the standard.
func (d *Decoder) tolerate(n Note) {
	if n.Line == 0 {
		d.s.locate()
		n.Line, n.Column = d.s.elem.line, d.s.elem.column
	}
	if d.refused == nil && d.tolerance != nil && !d.tolerance(n) {
		msg := n.Msg
		if n.Rule != "" {
			msg += " (" + n.Rule + ")"
		}
		d.refused = d.fail(Refused, "%s", msg)
		d.refused.Line, d.refused.Column, d.refused.Rule, d.refused.Quirk = n.Line, n.Column, n.Rule, n.Quirk
	}
	if d.note != nil {
		d.note(n)
	}
}

// remark notes something unusual that the standard allows.
func (d *Decoder) remark(n Note) {
	n.Legal = true
	d.tolerate(n)
}

// toEntry reads children of the root until the start tag of an entry or the end of the
// document.
func (d *Decoder) toEntry() error {
	d.state = inRoot
	for {
		tok, err := d.nextChild()
		switch {
		case err != nil:
			return err
		case tok == tokEOF:
			return d.finish()
		case tok == tokEnd:
			continue // the end tag of the root; the next token shows whether anything follows
		}
		isEntry, err := d.rootChild()
		if err == nil {
			err = d.verdict()
		}
		if err != nil {
			return err
		}
		if isEntry {
			d.state = atEntry
			return nil
		}
	}
}

// nextChild returns the next tag inside one of our elements, and notes text between
// tags, which readers ignore.
func (d *Decoder) nextChild() (token, error) {
	d.s.loose = loose{}
	tok, err := d.s.next()
	if l := d.s.loose; l.line > 0 && d.form == formSitemap {
		d.tolerate(Note{Rule: "text-between-elements", Line: l.line, Column: l.column, Msg: fmt.Sprintf("text %q between elements; ignored", l.text)})
	}
	return tok, err
}

// rootChild handles the start tag of a child of the root, and the whole child unless
// that is an entry.
func (d *Decoder) rootChild() (isEntry bool, err error) {
	switch d.form {
	case formAtom:
		return d.atomRootChild()
	case formResync:
		return d.resyncRootChild()
	}
	el := &d.s.elem
	switch d.spaceOfElem() {
	case spaceSitemap:
		switch string(el.local) {
		case "url":
			return true, d.countEntry(URLSet)
		case "sitemap":
			return true, d.countEntry(SitemapIndex)
		}
	case spaceRS:
		d.related = true
		if d.entries > 0 {
			d.remark(Note{Quirk: QuirkElementOrder, Msg: "an element of ResourceSync after the entries"})
		}
		switch string(el.local) {
		case "md":
			return false, d.rootMD()
		case "ln":
			return false, d.rootLink()
		}
	case spaceForeign:
		if name := string(el.local); (name == "md" || name == "ln") && strings.HasPrefix(el.uri, nsRSBase) {
			return false, d.reject("namespace-rs-terms", "%s is in namespace %q, that of a draft; expected %q", name, clip(el.uri), nsRS)
		}
	}
	return false, d.foreignRootChild()
}

// foreignRootChild stores a child of the root from another vocabulary.
func (d *Decoder) foreignRootChild() error {
	d.kept.b = d.rootForeign
	err := d.foreignChild()
	d.rootForeign, d.kept.b = d.kept.b, nil
	return err
}

// countEntry counts an entry of the kind that belongs in root.
func (d *Decoder) countEntry(root Root) error {
	if root != d.header.Root {
		d.tolerate(Note{Rule: "entry-element-matches-root", Msg: "an entry of the other kind of root element"})
	}
	if d.entries++; d.entries > d.s.lim.Entries {
		err := d.fail(LimitReached, "the document has more than %d entries", d.s.lim.Entries)
		err.Size = true
		return err
	}
	if d.entries == MaxEntries+1 {
		d.tolerate(Note{Rule: d.ruleHere("limit-50000-items", "dlib-limit-50000"), Msg: fmt.Sprintf("more than %d entries", MaxEntries)})
	}
	return nil
}

// spaceOfElem returns the namespace of the element; variants of the ResourceSync
// namespace count as that one.
func (d *Decoder) spaceOfElem() space {
	switch d.s.elem.space {
	case spaceRSAlias:
		if !d.aliased {
			d.aliased = true
			d.tolerate(Note{Quirk: QuirkNamespace, Rule: "namespace-rs-terms", Msg: "the ResourceSync namespace without the slash at its end"})
		}
	case spaceDLib:
		d.tell(DialectDLib, Note{Rule: "namespace-rs-terms", Msg: "the ResourceSync namespace of D-Lib Magazine 2013"})
	default:
		return d.s.elem.space
	}
	return spaceRS
}

func (d *Decoder) rootMD() error {
	if d.hasMD {
		d.tolerate(Note{Rule: "root-md-single", Msg: "a second rs:md in the root is ignored"})
		return d.skip()
	}
	d.hasMD = true
	d.metadata(&d.header.Metadata)
	d.modifiedAsAt()
	d.settleUps()
	return d.skip()
}

// entry reads the content of the entry whose start tag was read into d.current.
func (d *Decoder) entry() error {
	d.state = inRoot
	d.foreign, d.inLinks, d.badChange = 0, 0, false
	d.s.locate()
	start := d.s.elem
	d.current = Entry{Line: start.line}
	in := entryReader{d: d, e: &d.current}
	d.kept.b = d.inEntry[:0]
	d.inside = true
	if err := in.read(); err != nil {
		return err
	}
	d.inside = false
	d.seenEntry = Seen{start.line, start.column, in.hasMD || d.form != formSitemap}
	if d.header.Dialect != Dialect11 {
		d.settleEntry(&start)
	}
	in.checkEntry(&start)
	if d.refused != nil {
		return d.refused
	}
	d.inEntry = d.kept.b
	d.current.Foreign = string(d.inEntry)
	if rule, why := in.verdict(); why != "" {
		d.current = Entry{Line: start.line} // the content cannot be trusted
		return &DecodeError{Kind: BadEntry, Line: start.line, Column: start.column, Offset: start.at, Rule: rule, Msg: why}
	}
	return nil
}

// skip skips the content of the element whose start tag was last read.
func (d *Decoder) skip() error { return d.skipTo(len(d.s.opens)) }

// skipTo skips everything up to the end tag of the open element at the given depth.
func (d *Decoder) skipTo(depth int) error {
	for len(d.s.opens) >= depth {
		tok, err := d.s.next()
		if err == nil && tok == tokStart {
			err = d.countForeign()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// foreignChild stores an element of another vocabulary in d.kept. It skips one that is
// not allowed there.
func (d *Decoder) foreignChild() error {
	if err := d.countForeign(); err != nil {
		return err
	}
	if d.s.elem.space == spaceForeign {
		return d.keepForeign()
	}
	d.tolerate(Note{Msg: fmt.Sprintf("element %s is not defined here; ignored", clip(string(d.s.elem.name)))})
	return d.skip()
}

func (d *Decoder) countForeign() error {
	if d.foreign++; d.foreign > d.s.lim.Foreign {
		return d.fail(LimitReached, "more than %d elements that are not of ResourceSync", d.s.lim.Foreign)
	}
	return nil
}

// text returns the trimmed text of the element whose start tag was last read; ok is
// false if it contains elements. The text is valid until the next call.
func (d *Decoder) text() (text []byte, ok bool, err error) {
	if text, ok := d.s.plainText(); ok {
		return d.trimmed(text), true, nil
	}
	depth := len(d.s.opens)
	d.s.collect, d.s.text = true, d.s.text[:0]
	tok, err := d.s.next()
	d.s.collect = false
	if err != nil {
		return nil, false, err
	}
	if tok == tokStart {
		if err = d.countForeign(); err == nil {
			err = d.skipTo(depth)
		}
		return nil, false, err
	}
	return d.trimmed(d.s.text), true, nil
}

// trimmed returns text without surrounding white space, and sets d.padded if there was
// any.
func (d *Decoder) trimmed(text []byte) []byte {
	t := trimSpace(text)
	d.padded = len(t) < len(text)
	return t
}
