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
// A Decoder is strict about XML and lenient about values: it reads a malformed date or
// digest as absent, and corrects known mistakes of Sources. [WithNotes] reports each such
// case, and [WithTolerance] decides which of them are errors.
type Decoder struct {
	s         scanner
	r         io.Reader
	tolerance Tolerance // nil is Lenient
	note      func(Note)

	as     Dialect
	form   form
	header Header
	state  state
	err    error // the error that ended the reading

	// Facts about the root element.
	rootLine, rootColumn int
	hasMD                bool     // whether the root has an rs:md
	unread               []string // names of attributes of the root's rs:md that could not be read
	ups                  []draftUp
	hasTop               bool   // whether the root has a link with the relation "top"
	modified             bool   // whether setModified has stored a time
	linkBytes            int    // total length in bytes of the start tags of the root's rs:ln elements
	rootForeign          []byte // child elements of the root from other vocabularies, as XML
	related              bool   // whether the document has an element of ResourceSync, in the root or in an entry

	// Notes sent so far.
	dialectKnown bool         // whether setDialect was called
	aliasNoted   bool         // whether a note about a ResourceSync namespace without its last slash was sent
	refused      *DecodeError // error about the first deviation from the standard that is not tolerated

	// The entry being read.
	entries   int // number of entries read so far, including the current one
	current   Entry
	seenEntry Seen
	inside    bool   // whether the Decoder is reading the content of an entry
	badChange bool   // whether the "change" attribute of the entry could not be read
	foreign   int    // number of elements from other vocabularies since the start of the current entry
	inLinks   int    // total length in bytes of the start tags of the entry's rs:ln elements
	inEntry   []byte // buffer for the elements of the entry from other vocabularies

	// Scratch.
	kept      foreignWriter
	digests   Digests // array that several entries share for their digests
	padded    bool    // whether the latest text had white space around it
	mediaType string  // latest media type; entries with the same media type share this string
	words     map[string]string
}

type state uint8

const (
	fresh   state = iota // before the start of the document
	inRoot               // inside the root element, but not inside an entry
	atEntry              // after the start tag of an entry
	ended                // after the end of the document
)

// Option is an option of [NewDecoder].
type Option func(*Decoder)

// WithLimits sets the limits of the document.
func WithLimits(l Limits) Option { return func(d *Decoder) { d.s.lim = l } }

// WithNotes makes the Decoder call fn with each [Note]: for every deviation from the
// standard, and also for everything unusual that the standard allows (Note.Legal). The
// calls happen during reading, in the same goroutine.
func WithNotes(fn func(Note)) Option { return func(d *Decoder) { d.note = fn } }

// WithTolerance sets which deviations from the standard are tolerated; the default is
// [Lenient].
func WithTolerance(t Tolerance) Option { return func(d *Decoder) { d.tolerance = t } }

// AsDialect makes the Decoder read the document in the given dialect, and mark notes about
// features of this dialect as legal. It is needed because documents of the editions 1.0
// and 1.1 look the same. If a document is clearly in another dialect, the Decoder uses
// the dialect of the document; see [Header.Dialect].
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

// Header returns the header of the document. It reads the document up to the first entry.
// The header is complete only after a loop over Entries has ended, since elements may come
// after the entries. The error is a [*DecodeError].
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

// Entries returns the entries in document order. The document is complete if the loop ends
// by itself without an error. Each error is a [*DecodeError]. An error of kind [BadEntry]
// is about a single entry, of which only the Line is set; the loop may continue, but a
// caller that skips such an entry misses a resource. Any other error ends the sequence. If
// the caller leaves the loop early, a new call of Entries continues with the next entry.
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
	d.notePrologue(packed)
	if err := d.root(); err != nil {
		return err
	}
	return d.refusal()
}

func (d *Decoder) notePrologue(packed bool) {
	if packed {
		d.remark(Note{Quirk: QuirkGzip, Line: 1, Column: 1, Msg: "compressed with gzip"})
	}
	if d.s.leading {
		d.tolerate(Note{Quirk: QuirkSpaceFirst, Rule: ruleXML, Line: 1, Column: 1, Msg: "white space before the XML declaration"})
	}
	if d.s.encoding != "utf-8" {
		d.remark(Note{Quirk: QuirkEncoding, Rule: ruleXML, Line: 1, Column: 1, Msg: fmt.Sprintf("the document is in %s", d.s.encoding)})
	}
	if got := d.s.declared; got != "" && got != d.s.encoding {
		d.tolerate(Note{Rule: ruleXML, Line: 1, Column: 1, Msg: fmt.Sprintf("the declared encoding is %q, but the document is in %s", clip(got), d.s.encoding)})
	}
	if d.s.styled {
		d.remark(Note{Quirk: QuirkBrowser, Rule: ruleXML, Line: 1, Column: 1, Msg: "a style sheet is ignored"})
	}
}

// refusal returns d.refused as an error. If d.refused is nil, it returns a nil error: a
// nil *DecodeError in an error would not be nil.
func (d *Decoder) refusal() error {
	if d.refused == nil {
		return nil
	}
	return d.refused
}

func openError(err error) error {
	e := &DecodeError{Kind: Incomplete, Line: 1, Column: 1, Msg: "the document can't be read", Err: err}
	if known, ok := errors.AsType[*DecodeError](err); ok {
		e.Kind, e.Msg, e.Err = known.Kind, known.Msg, nil
	}
	return e
}

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

func (d *Decoder) keepRootAttrs() {
	for i := range d.s.attrs {
		a := &d.s.attrs[i]
		d.header.RootAttrs = append(d.header.RootAttrs, keptAttr(a))
		if a.uri == nsXSI {
			d.remark(Note{Quirk: QuirkBrowser, Rule: "schema-validation", Msg: fmt.Sprintf("attribute %s is stored, but has no effect", clip(string(a.name)))})
		}
	}
}

const ruleRoot = "root-element-urlset-or-sitemapindex"

func (d *Decoder) reject(rule, format string, args ...any) *DecodeError {
	err := d.fail(NotResourceSync, format, args...)
	err.Rule = rule
	return err
}

// fail returns an error with the position of the latest start tag.
func (d *Decoder) fail(kind Kind, format string, args ...any) *DecodeError {
	d.s.locate()
	el := &d.s.elem
	return &DecodeError{
		Kind: kind, Line: el.line, Column: el.column, Offset: el.at,
		Msg: fmt.Sprintf(format, args...),
	}
}

// tolerate sends a note about a deviation from the standard. If the Tolerance does not
// allow this deviation, tolerate stores an error in the field refused.
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

// remark sends a note about something unusual that the standard allows.
func (d *Decoder) remark(n Note) {
	n.Legal = true
	d.tolerate(n)
}

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
			continue // after the end tag of the root, the next token must be tokEOF
		}
		isEntry, err := d.rootChild()
		if err == nil {
			err = d.refusal()
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

// nextChild returns the next tag where only elements are allowed. It ignores a text
// before the tag, and sends a note about the text.
func (d *Decoder) nextChild() (token, error) {
	d.s.stray = strayText{}
	tok, err := d.s.next()
	if l := d.s.stray; l.line > 0 && d.form == formSitemap {
		d.tolerate(Note{Rule: "text-between-elements", Line: l.line, Column: l.column, Msg: fmt.Sprintf("text %q between elements; ignored", l.text)})
	}
	return tok, err
}

// rootChild reads a child of the root whose start tag was read. If the child is an
// entry, it does not read the content.
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
	case spaceNone, spaceForeign:
		switch name := string(el.local); {
		case (name == "md" || name == "ln") && strings.HasPrefix(el.uri, nsRSBase):
			return false, d.reject("namespace-rs-terms", "%s is in namespace %q of a draft; expected %q", name, clip(el.uri), nsRS)
		case (name == "url" || name == "sitemap") && (el.space == spaceNone || strings.Contains(el.uri, "/schemas/sitemap/")):
			return false, d.reject("namespace-sitemap", "%s is in namespace %q; expected %q", name, clip(el.uri), nsSitemap)
		}
	}
	return false, d.foreignRootChild()
}

func (d *Decoder) foreignRootChild() error {
	d.kept.b = d.rootForeign
	err := d.foreignChild()
	d.rootForeign, d.kept.b = d.kept.b, nil
	return err
}

// countEntry counts an entry. The parameter root is the root element in which such an
// entry belongs. If the document has another root, countEntry sends a note.
func (d *Decoder) countEntry(root Root) error {
	if root != d.header.Root {
		d.tolerate(Note{Rule: "entry-element-matches-root", Msg: "a url element in a sitemapindex, or a sitemap element in a urlset"})
	}
	if d.entries++; d.entries > d.s.lim.Entries {
		err := d.fail(LimitReached, "the document has more than %d entries", d.s.lim.Entries)
		err.Size = true
		return err
	}
	if d.entries == MaxEntries+1 {
		d.tolerate(Note{Rule: d.ruleHere("limit-50000-items", "dlib-limit-50000"), Msg: fmt.Sprintf("the document has more than the %d entries that are allowed", MaxEntries)})
	}
	return nil
}

// spaceOfElem returns the namespace of the current element. If this is a variant of the
// ResourceSync namespace, it sends a note and returns spaceRS.
func (d *Decoder) spaceOfElem() space {
	switch d.s.elem.space {
	case spaceRSAlias:
		if !d.aliasNoted {
			d.aliasNoted = true
			d.tolerate(Note{Quirk: QuirkNamespace, Rule: "namespace-rs-terms", Msg: "the ResourceSync namespace without the slash at its end"})
		}
	case spaceDLib:
		d.setDialect(DialectDLib, Note{Rule: "namespace-rs-terms", Msg: "the ResourceSync namespace of the draft in D-Lib Magazine 2013"})
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
	d.resolveUps()
	return d.skip()
}

// entry reads the content of an entry whose start tag was read. The result is
// d.current.
func (d *Decoder) entry() error {
	d.state = inRoot
	d.foreign, d.inLinks, d.badChange = 0, 0, false
	d.s.locate()
	start := d.s.elem
	sitemap := d.header.Root == URLSet && string(start.local) == "sitemap"
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
		d.convertEntry(&start)
	}
	in.checkEntry(&start)
	if sitemap && d.current.Capability == "" { // the entry names a document of the same kind, as in an index
		d.current.Capability = d.header.Capability
	}
	if d.refused != nil {
		return d.refused
	}
	d.inEntry = d.kept.b
	d.current.Foreign = string(d.inEntry)
	if rule, why := in.verdict(); why != "" {
		d.current = Entry{Line: start.line} // drop the other fields, because they may be incomplete
		return &DecodeError{Kind: BadEntry, Line: start.line, Column: start.column, Offset: start.at, Rule: rule, Msg: why}
	}
	return nil
}

func (d *Decoder) skip() error { return d.skipTo(len(d.s.opens)) }

// skipTo reads up to the end tag of the open element at the given depth. The root has
// depth 1.
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

// foreignChild stores an element of another vocabulary. It skips an element of
// ResourceSync or of the Sitemap protocol that is not allowed here.
func (d *Decoder) foreignChild() error {
	if err := d.countForeign(); err != nil {
		return err
	}
	if d.s.elem.space == spaceForeign {
		return d.keepForeign()
	}
	d.tolerate(Note{Msg: fmt.Sprintf("the standard defines no element %s here; ignored", clip(string(d.s.elem.name)))})
	return d.skip()
}

func (d *Decoder) countForeign() error {
	if d.foreign++; d.foreign > d.s.lim.Foreign {
		return d.fail(LimitReached, "more than %d elements from other vocabularies", d.s.lim.Foreign)
	}
	return nil
}

// text reads the content of an element whose start tag was read. It returns the text
// without white space around it. ok is false if the element contains other elements.
// The text is valid until the next call.
func (d *Decoder) text() (text []byte, ok bool, err error) {
	if text, ok := d.s.plainText(); ok {
		return d.trim(text), true, nil
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
	return d.trim(d.s.text), true, nil
}

// trim removes white space around the text. It sets d.padded if there was any.
func (d *Decoder) trim(text []byte) []byte {
	t := trimSpace(text)
	d.padded = len(t) < len(text)
	return t
}
