package resourcesync

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

type space uint8

const (
	spaceNone    space = iota // no namespace
	spaceSitemap              // namespace of the Sitemap protocol
	spaceRS                   // namespace of ResourceSync
	spaceRSAlias              // namespace of ResourceSync without the slash at its end
	spaceDLib                 // namespace of the ResourceSync draft in D-Lib Magazine
	spaceForeign
)

const (
	nsSitemap = "http://www.sitemaps.org/schemas/sitemap/0.9"
	nsRSBase  = "http://www.openarchives.org/rs" // common prefix of the namespaces of ResourceSync and of its drafts
	nsRS      = "http://www.openarchives.org/rs/terms/"
	nsDLib    = "http://www.openarchives.org/rs/"
	nsAtom    = "http://www.w3.org/2005/Atom"
	nsXSI     = "http://www.w3.org/2001/XMLSchema-instance"
	nsXML     = "http://www.w3.org/XML/1998/namespace"
	nsXMLNS   = "http://www.w3.org/2000/xmlns/"
)

func spaceOf(uri string) space {
	switch uri {
	case "":
		return spaceNone
	case nsSitemap:
		return spaceSitemap
	case nsRS:
		return spaceRS
	case strings.TrimSuffix(nsRS, "/"):
		return spaceRSAlias
	case nsDLib:
		return spaceDLib
	}
	return spaceForeign
}

type binding struct {
	prefix, uri string
	space       space
	id          int32 // a number that all bindings of the same namespace URI share
}

func (s *scanner) startTag() error {
	for {
		n, why := s.scanTag(s.buf[s.pos:s.end])
		if n > s.lim.Token {
			return s.extendToken()
		}
		if why == "" && n > 0 {
			return s.beginElement(n)
		}
		if why != "" {
			return s.fail(NotWellFormed, s.pos+n, "%s", why)
		}
		if err := s.extendToken(); err != nil {
			return err
		}
	}
}

// scanTag reads the tag at the start of b and returns its length, or 0 if b ends inside
// the tag. For a malformed tag it returns the position of the mistake, and a message.
func (s *scanner) scanTag(b []byte) (n int, why string) {
	nameEnd, colon, why := scanQName(b, 1)
	if nameEnd == len(b) {
		return 0, ""
	}
	if why != "" {
		return 1, why
	}
	s.elem.name, s.elem.colon = b[1:nameEnd], colon
	s.attrs, s.norm, s.pendingEnd, s.declares = s.attrs[:0], s.norm[:0], false, false
	i := nameEnd
	for {
		spaceAt := i
		for i < len(b) && isSpace(b[i]) {
			i++
		}
		if i == len(b) {
			return 0, ""
		}
		switch b[i] {
		case '>':
			return i + 1, ""
		case '/':
			if i+1 == len(b) {
				return 0, ""
			}
			if b[i+1] != '>' {
				return i, "expected > after /"
			}
			s.pendingEnd = true
			return i + 2, ""
		}
		if i == spaceAt {
			return i, "expected white space before an attribute"
		}
		if i, why = s.scanAttr(b, i); why != "" || i == 0 {
			return i, why
		}
	}
}

// scanAttr reads the attribute that begins at b[i]. It returns the index of the end of
// the attribute, or 0 if b ends inside the attribute.
func (s *scanner) scanAttr(b []byte, i int) (end int, why string) {
	start := i
	i, colon, why := scanQName(b, start)
	name := b[start:i]
	for i < len(b) && isSpace(b[i]) {
		i++
	}
	if i == len(b) {
		return 0, ""
	}
	if why != "" {
		return start, why
	}
	if b[i] != '=' {
		return i, "expected = after the name of an attribute"
	}
	for i++; i < len(b) && isSpace(b[i]); i++ {
	}
	if i == len(b) {
		return 0, ""
	}
	if b[i] != '"' && b[i] != '\'' {
		return i, "an attribute value must be in quotes"
	}
	from, quote := i+1, b[i]
	i = from + plainRun(b[from:], quote)
	if i < len(b) && b[i] == quote {
		s.addAttr(name, colon, b[from:i])
		return i + 1, ""
	}
	n := bytes.IndexByte(b[i:], quote)
	if n < 0 {
		return 0, ""
	}
	end = i + n
	old := len(s.norm)
	out, at, why := appendUnescaped(s.norm, b[from:end], true)
	if why != "" {
		return from + at, why
	}
	s.norm = out
	s.addAttr(name, colon, out[old:])
	return end + 1, ""
}

// addAttr appends an attribute to the field attrs. It keeps one attribute more than the
// limit allows, so that the caller sees that there are too many, and drops further
// ones.
func (s *scanner) addAttr(name []byte, colon int, value []byte) {
	n := len(s.attrs)
	if n > s.lim.Attributes {
		return
	}
	if n == cap(s.attrs) {
		s.attrs = append(s.attrs, attr{})
	}
	s.attrs = s.attrs[:n+1]
	a := &s.attrs[n]
	a.name, a.colon, a.value, a.space, a.uri = name, colon, value, spaceNone, ""
	s.declares = s.declares || a.isDeclaration()
}

// scanQName reads the name that begins at b[i] and may have one colon. It returns the
// index of the end of the name, and the index of the colon in the name, or 0 if there
// is none.
func scanQName(b []byte, i int) (end, colon int, why string) {
	end = i + scanName(b[i:])
	switch {
	case end == i:
		return end, 0, "expected a name"
	case end == len(b) || b[end] != ':':
		return end, 0, ""
	}
	local := scanName(b[end+1:])
	if local == 0 {
		return end + 1, end - i, "expected a name after the prefix"
	}
	return end + 1 + local, end - i, ""
}

// beginElement opens the element whose start tag has n bytes at pos. It applies the
// namespace declarations of the tag, and resolves the prefixes in the tag.
func (s *scanner) beginElement(n int) error {
	at := s.pos
	switch {
	case len(s.opens) == 0 && s.rooted:
		return s.concatenated("a second root element <%s>", clip(string(s.elem.name)))
	case len(s.opens) >= s.lim.Depth:
		return s.fail(LimitReached, at, "elements are nested deeper than %d", s.lim.Depth)
	case len(s.attrs) > s.lim.Attributes:
		return s.fail(LimitReached, at, "an element has more than %d attributes", s.lim.Attributes)
	}
	s.rooted = true
	s.elem.line, s.elem.at = 0, s.base+int64(at)
	s.opens = append(s.opens, openElement{len(s.names), len(s.ns)})
	s.names = append(s.names, s.elem.name...)
	if why := s.resolve(); why != "" {
		return s.fail(NotWellFormed, at, "%s", why)
	}
	if len(s.ns) > s.lim.Namespaces {
		return s.fail(LimitReached, at, "more than %d prefixes are declared at once", s.lim.Namespaces)
	}
	s.pos += n
	return nil
}

func (s *scanner) resolve() (why string) {
	for i := range s.attrs {
		for j := range i {
			if string(s.attrs[i].name) == string(s.attrs[j].name) {
				return fmt.Sprintf("attribute %q is given twice", clip(string(s.attrs[i].name)))
			}
		}
	}
	if s.declares {
		if why := s.declare(); why != "" {
			return why
		}
	}
	el := &s.elem
	prefix := el.name[:el.colon]
	b := s.lookup(prefix)
	if b == nil {
		return undeclared(prefix)
	}
	el.space, el.uri, el.local = b.space, b.uri, el.name
	if el.colon > 0 {
		el.local = el.name[el.colon+1:]
	}
	return s.resolveAttrs()
}

// declare removes the namespace declarations from the field attrs, and adds their
// bindings to the field ns.
func (s *scanner) declare() (why string) {
	kept := s.attrs[:0]
	for _, a := range s.attrs {
		if !a.isDeclaration() {
			kept = append(kept, a)
			continue
		}
		prefix := ""
		if a.colon > 0 {
			prefix = string(a.local())
		}
		if why := s.bind(prefix, string(a.value)); why != "" {
			return why
		}
	}
	s.attrs = kept
	return ""
}

// declares reports whether the attribute is a namespace declaration, xmlns or xmlns:prefix.
func (a *attr) isDeclaration() bool {
	return len(a.name) >= 5 && string(a.name[:5]) == "xmlns" && (len(a.name) == 5 || a.colon == 5)
}

func (s *scanner) resolveAttrs() (why string) {
	for i := range s.attrs {
		a := &s.attrs[i]
		if a.colon == 0 {
			continue
		}
		b := s.lookup(a.name[:a.colon])
		if b == nil {
			return undeclared(a.name[:a.colon])
		}
		a.space, a.uri, a.ns = b.space, b.uri, b.id
		for j := range i {
			if o := &s.attrs[j]; o.colon > 0 && o.ns == a.ns && bytes.Equal(o.local(), a.local()) {
				return fmt.Sprintf("attribute %q is given twice in one namespace", clip(string(a.local())))
			}
		}
	}
	return ""
}

func undeclared(prefix []byte) string {
	return fmt.Sprintf("prefix %q is not declared", clip(string(prefix)))
}

// bind adds a namespace declaration. The prefix "" stands for the default namespace.
func (s *scanner) bind(prefix, uri string) (why string) {
	switch {
	case prefix == "xmlns", uri == nsXMLNS, (prefix == "xml") != (uri == nsXML):
		return fmt.Sprintf("prefix %q can't be declared as %q", clip(prefix), clip(uri))
	case prefix != "" && uri == "":
		return fmt.Sprintf("prefix %q is declared with an empty namespace", clip(prefix))
	}
	first := slices.IndexFunc(s.ns, func(b binding) bool { return b.uri == uri })
	if first < 0 {
		first = len(s.ns)
	}
	s.ns = append(s.ns, binding{prefix, uri, spaceOf(uri), int32(first + 1)})
	return ""
}

// lookup returns the innermost binding of a prefix, or nil if the prefix is not
// declared. The empty prefix always has a binding.
func (s *scanner) lookup(prefix []byte) *binding {
	for i := len(s.ns) - 1; i >= 0; i-- {
		if b := &s.ns[i]; b.prefix == string(prefix) {
			return b
		}
	}
	switch string(prefix) {
	case "":
		return &noNamespace
	case "xml":
		return &xmlNamespace
	}
	return nil
}

var (
	noNamespace  = binding{}
	xmlNamespace = binding{"xml", nsXML, spaceForeign, 0}
)

// appendUnescaped appends a text or an attribute value to dst. It replaces references
// and normalises line ends (XML 1.0 §2.11, §3.3.3). For a malformed src it returns the
// index of the mistake in src, and a message.
func appendUnescaped(dst, src []byte, attribute bool) (out []byte, at int, why string) {
	for i := 0; i < len(src); i++ {
		c := src[i]
		switch {
		case c == '&':
			r, n, why := scanReference(src[i:])
			if why != "" {
				return dst, i, why
			}
			dst = utf8.AppendRune(dst, r)
			i += n - 1
			continue
		case c == '<' && attribute:
			return dst, i, "< in an attribute value"
		case c == '\r':
			if i+1 < len(src) && src[i+1] == '\n' {
				i++
			}
			c = '\n'
		}
		if attribute && c < ' ' {
			c = ' '
		}
		dst = append(dst, c)
	}
	return dst, 0, ""
}

// appendLines appends the text of a CDATA section, with normalised line ends.
func appendLines(dst, src []byte) []byte {
	for i, c := range src {
		if c == '\r' {
			if i+1 < len(src) && src[i+1] == '\n' {
				continue
			}
			c = '\n'
		}
		dst = append(dst, c)
	}
	return dst
}

// scanReference reads the reference at the start of b. It returns the character and the
// length of the reference.
func scanReference(b []byte) (r rune, n int, why string) {
	const maxLength = 64 // in bytes; long enough even for &#x0000000041;
	end := bytes.IndexByte(b[:min(len(b), maxLength)], ';')
	if end < 0 {
		return 0, 0, "& without a reference; expected &amp;"
	}
	name := string(b[1:end])
	switch name {
	case "amp":
		return '&', end + 1, ""
	case "lt":
		return '<', end + 1, ""
	case "gt":
		return '>', end + 1, ""
	case "quot":
		return '"', end + 1, ""
	case "apos":
		return '\'', end + 1, ""
	}
	digits, base := strings.TrimPrefix(name, "#"), rune(10)
	if digits == name {
		return 0, 0, fmt.Sprintf("entity %q is not defined", clip(name))
	}
	if strings.HasPrefix(digits, "x") {
		digits, base = digits[1:], 16
	}
	for _, c := range []byte(digits) {
		v := rune(hexValue[c])
		if v >= base || r > utf8.MaxRune {
			return 0, 0, fmt.Sprintf("reference %q does not mean a character", clip(name))
		}
		r = r*base + v
	}
	if digits == "" || !isXMLChar(r) {
		return 0, 0, fmt.Sprintf("reference %q does not mean a character", clip(name))
	}
	return r, end + 1, ""
}
