package resourcesync

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// builder writes the XML of a document to its buffer b. It returns an error for a value
// that the standard does not allow.
type builder struct {
	b     []byte
	err   error // error about the first value that the standard does not allow
	rules ruleBook
	place string // "root" or "entry": the part of the document that is being written; ids of rules begin with this word

	checker foreignChecker
}

func (w *builder) header(h *Header, plain bool) error {
	w.rules, w.place = ruleBookOf(h), "root"
	if err := w.rules.header(h); err != nil {
		return err
	}
	w.b = append(w.b, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"...)
	switch h.Root {
	case URLSet:
		w.b = append(w.b, "<urlset"...)
	case SitemapIndex:
		w.b = append(w.b, "<sitemapindex"...)
	default:
		return fmt.Errorf("the root is %d; expected URLSet or SitemapIndex", h.Root)
	}
	w.b = append(w.b, ` xmlns="`+nsSitemap+`"`...)
	if !plain {
		w.b = append(w.b, ` xmlns:rs="`+nsRS+`"`...)
	}
	w.foreign(h.RootAttrs)
	w.b = append(w.b, ">\n"...)
	if !plain {
		if h.Capability == "" {
			w.refuse("root-capability-required", "capability", "", "a document with metadata or links must have a capability")
		}
		w.links("  ", h.Links)
		w.metadata("  ", &h.Metadata)
	}
	w.verbatim("  ", h.Foreign)
	return w.err
}

func (w *builder) entry(e *Entry, root Root, plain bool) error {
	w.err, w.place = nil, "entry"
	if err := w.rules.entry(e); err != nil {
		return err
	}
	name := "url"
	if root == SitemapIndex {
		name = "sitemap"
	}
	w.b = append(append(append(w.b, "  <"...), name...), ">\n"...)
	w.b = append(w.b, "    <loc>"...)
	w.uri("loc", e.Loc)
	w.b = append(w.b, "</loc>\n"...)
	if !e.LastMod.IsZero() {
		w.b = append(w.b, "    <lastmod>"...)
		w.b = append(e.LastMod.appendTo(w.b), "</lastmod>\n"...)
	}
	w.element("changefreq", w.changeFreq(e.ChangeFreq))
	w.element("priority", e.Priority.text)
	if plain && (len(e.Links) > 0 || !e.Metadata.isZero()) {
		return &EncodeError{"capability", "", "root-capability-required", "a plain sitemap must not have metadata and links"}
	}
	w.links("    ", e.Links)
	if !e.Metadata.isZero() {
		w.metadata("    ", &e.Metadata)
	}
	w.verbatim("    ", e.Foreign)
	w.b = append(append(append(w.b, "  </"...), name...), ">\n"...)
	return w.err
}

func (w *builder) metadata(indent string, m *Metadata) {
	w.b = append(append(w.b, indent...), "<rs:md"...)
	w.attr("capability", w.capability(m.Capability))
	w.date("at", m.At)
	w.date("completed", m.Completed)
	w.date("from", m.From)
	w.date("until", m.Until)
	w.attr("change", w.change(m.Change))
	w.date("datetime", m.Datetime)
	w.representation(m.Digests, m.Length, m.Type, m.Encoding, m.Path)
	w.foreign(m.Attrs)
	w.b = append(w.b, "/>\n"...)
}

func (w *builder) links(indent string, links []Link) {
	for i := range links {
		l := &links[i]
		w.b = append(append(w.b, indent...), "<rs:ln"...)
		w.relation(l.Rel)
		w.attr("rel", l.Rel)
		w.b = append(w.b, ` href="`...)
		w.uri("href", l.Href)
		w.b = append(w.b, '"')
		w.date("modified", l.Modified)
		if l.Pri < 0 || l.Pri > maxPri {
			w.refuse("pri-range", "pri", strconv.Itoa(l.Pri), "expected a number from 1 to 999999, or 0 for no priority")
		}
		if l.Pri > 0 {
			w.attr("pri", strconv.Itoa(l.Pri))
		}
		w.representation(l.Digests, l.Length, l.Type, l.Encoding, l.Path)
		w.foreign(l.Attrs)
		w.b = append(w.b, "/>\n"...)
	}
}

// representation writes the attributes that describe a representation (1.1 §7 Table 3).
// It omits absent ones.
func (w *builder) representation(ds Digests, n Length, mediaType, encoding, path string) {
	if len(ds) > 0 {
		w.b = append(w.b, ` hash="`...)
		w.b = append(ds.appendTo(w.b), '"')
	}
	if n.Known() {
		w.b = append(w.b, ` length="`...)
		w.b = append(strconv.AppendInt(w.b, n.Int64(), 10), '"')
	}
	if mediaType != "" && !isMediaType(mediaType) {
		w.refuse("type-media-type-syntax", "type", mediaType, "expected a media type")
	}
	w.attr("type", mediaType)
	if strings.Trim(encoding, xmlSpace) != encoding {
		w.refuse("", "encoding", encoding, "expected a value without white space around it")
	}
	w.attr("encoding", encoding)
	if path != "" && !isPackagePath(path) {
		w.refuse(ruleOfPath(path), "path", path, `expected a path with one leading slash, without backslashes and without empty, "." or ".." segments`)
	}
	w.attr("path", path)
}

func (w *builder) date(name string, d Datetime) {
	if !d.IsZero() {
		w.b = append(append(append(w.b, ' '), name...), `="`...)
		w.b = append(d.appendTo(w.b), '"')
	}
}

func (w *builder) attr(name, value string) {
	if value != "" {
		w.b = append(append(append(w.b, ' '), name...), `="`...)
		w.escaped(name, value, true)
		w.b = append(w.b, '"')
	}
}

func (w *builder) element(name, value string) {
	if value != "" {
		w.b = append(append(append(w.b, "    <"...), name...), '>')
		w.escaped(name, value, false)
		w.b = append(append(append(w.b, "</"...), name...), ">\n"...)
	}
}

func (w *builder) foreign(attrs []Attr) {
	for i, a := range attrs {
		w.checkName(a.Name)
		if slices.ContainsFunc(attrs[:i], func(o Attr) bool { return o.Space == a.Space && o.Name == a.Name }) {
			w.refuse("xml-well-formed", "attribute", a.Name, "expected the attribute only once")
		}
		prefix := "xml"
		if a.Space != nsXML {
			if spaceOf(a.Space) != spaceForeign || a.Space == nsXMLNS {
				w.refuse(ruleOfSpace(a.Space), "attribute", a.Name, "expected a namespace of another vocabulary")
			}
			prefix = "x" + strconv.Itoa(i+1)
			w.attr("xmlns:"+prefix, a.Space)
		}
		w.b = append(append(append(append(w.b, ' '), prefix...), ':'), a.Name...)
		w.b = append(w.b, `="`...)
		w.escaped(a.Name, a.Value, true)
		w.b = append(w.b, '"')
	}
}

func (w *builder) checkName(name string) {
	if name == "" || scanName([]byte(name)) != len(name) {
		w.refuse("xml-well-formed", "attribute", name, "expected a name without prefix")
	}
}

func (w *builder) escaped(field, s string, attribute bool) {
	var ok bool
	if w.b, ok = appendEscaped(w.b, s, attribute); !ok {
		w.refuse("xml-well-formed", field, s, "expected valid UTF-8 without control characters")
	}
}

// appendEscaped appends a text for XML. In an attribute value it also escapes tabs and
// line feeds, which XML parsers replace by spaces. ok is false if XML cannot contain s.
func appendEscaped(dst []byte, s string, attribute bool) (out []byte, ok bool) {
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 || !isXMLChar(r) {
				return dst, false
			}
			i += size - 1
			continue
		}
		ref := escapes[c]
		if ref == "" || !attribute && (c == '"' || c == '\t' || c == '\n') {
			continue
		}
		if ref == refused {
			return dst, false
		}
		dst = append(append(dst, s[from:i]...), ref...)
		from = i + 1
	}
	return append(dst, s[from:]...), true
}

const refused = "\x00"

// escapes has the escape of each ASCII character; "" if the character needs none.
var escapes = func() (t [utf8.RuneSelf]string) {
	for c := range byte(' ') {
		t[c] = refused
	}
	t['\t'], t['\n'], t['\r'] = "&#9;", "&#10;", "&#13;"
	t['&'], t['<'], t['>'], t['"'] = "&amp;", "&lt;", "&gt;", "&quot;"
	return t
}()

func (w *builder) verbatim(indent, xml string) {
	if xml == "" {
		return
	}
	if err := w.checker.check(xml); err != nil {
		w.refuse("", "foreign", xml, err.Error())
		return
	}
	w.b = append(append(append(w.b, indent...), xml...), '\n')
}

func (w *builder) ruleOfURI(field, s string) string {
	switch {
	case field == "loc" && s == "":
		return "entry-loc-required"
	case field == "loc":
		return "loc-absolute-uri"
	case s == "":
		return w.place + "-ln-href-required"
	}
	return "ln-href-absolute-uri"
}

func (w *builder) refuse(rule, field, value, expected string) {
	if w.err == nil {
		w.err = &EncodeError{field, clip(value), rule, expected}
	}
}

// relation writes the relation of a link. It accepts unknown names of relations, because
// IANA may register new ones (1.1 §14.1).
func (w *builder) relation(rel string) {
	switch {
	case rel == "":
		w.refuse(w.place+"-ln-rel-required", "rel", rel, "a link must have a relation")
	case !isRelation(rel):
		w.refuse("ln-rel-registered-or-uri", "rel", rel, "expected a name in lower case, or an absolute URI")
	}
}

// uri writes an absolute URI. It escapes only "&", because an absolute URI contains no
// other character that XML reserves.
func (w *builder) uri(field, s string) {
	if !isAbsoluteURI(s) {
		w.refuse(w.ruleOfURI(field, s), field, s, "expected an absolute URI in ASCII, other characters percent-encoded")
		return
	}
	for {
		before, after, found := strings.Cut(s, "&")
		w.b = append(w.b, before...)
		if !found {
			return
		}
		w.b = append(w.b, "&amp;"...)
		s = after
	}
}

func (w *builder) change(c Change) string {
	switch c {
	case "", Created, Updated, Deleted:
	default:
		w.refuse("change-values", "change", string(c), "expected created, updated or deleted")
	}
	return string(c)
}

func (w *builder) capability(c Capability) string {
	for i := range len(c) {
		if b := c[i]; (b < 'a' || b > 'z') && !isDigit(b) && b != '-' {
			w.refuse(w.place+"-capability-case", "capability", string(c), "expected lower-case letters, digits and hyphens")
		}
	}
	return string(c)
}

func (w *builder) changeFreq(c ChangeFreq) string {
	if c != "" && !c.Known() {
		w.refuse("changefreq-values", "changefreq", string(c), "expected always, hourly, daily, weekly, monthly, yearly or never")
	}
	return string(c)
}
