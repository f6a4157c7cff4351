package resourcesync

import (
	"bytes"
	"fmt"
	"io"
)

type token uint8

const (
	tokStart token = iota + 1
	tokEnd
	tokEOF
)

// scanner is a strict pull parser of XML 1.0 with namespaces, without DTDs. The fields
// of a token are parts of the scanner's buffer, which are valid until next is called
// again.
type scanner struct {
	window
	lim Limits

	names []byte // the names of the open elements, concatenated
	opens []openElement
	ns    []binding

	elem       element
	attrs      []attr
	declares   bool      // whether the start tag declares a namespace
	norm       []byte    // normalised attribute values
	collect    bool      // whether the scanner collects text
	text       []byte    // the collected text
	pendingEnd bool      // whether the latest tag was an empty-element tag, so that the next token is tokEnd
	rooted     bool      // whether the root element has begun
	prolog     bool      // whether a comment, an instruction or a declaration came before the root element
	encoding   string    // encoding of the document, as detected by the function open
	declared   string    // the encoding in the XML declaration
	leading    bool      // whether white space came before the XML declaration
	styled     bool      // whether the document has a style sheet for browsers
	stray      strayText // the first text between elements since nextChild was called; only used for a note
}

// strayText is text where only elements are allowed.
type strayText struct {
	line, column int // position of the text; line is 0 if there is no text
	text         string
}

// openElement is an element that is not closed yet: the index of its name in
// scanner.names, and the number of namespace bindings outside of the element.
type openElement struct{ name, ns int }

type element struct {
	at     int64 // the offset of the < of the tag
	line   int   // line and column are 0 until locate is called
	column int
	space  space
	uri    string
	name   []byte // as written
	colon  int    // the length of the namespace prefix; 0 if there is none
	local  []byte // the name without the prefix
}

// attr is an attribute of the latest start tag, but not a namespace declaration.
type attr struct {
	name  []byte // as written
	colon int    // the length of the namespace prefix; 0 if there is none
	value []byte // normalised
	space space
	ns    int32 // id of the attribute's namespace, see binding.id
	uri   string
}

func (a *attr) local() []byte {
	if a.colon == 0 {
		return a.name
	}
	return a.name[a.colon+1:]
}

// locate computes the line and column of the element. To save time, it is called only
// when they are needed, or when the start tag leaves the buffer.
func (s *scanner) locate() {
	if s.elem.line == 0 && s.elem.name != nil {
		s.count(int(s.elem.at - s.base))
		s.elem.line, s.elem.column = s.line, int(s.elem.at-s.lineStart)+1
	}
}

func (s *scanner) readMore() bool {
	s.locate()
	return s.window.readMore()
}

// plainText is a fast path. If the rest of the innermost open element is text without
// references, control characters and "]", it returns this text, and moves to the
// position after the end tag. Otherwise it does nothing, and ok is false.
func (s *scanner) plainText() (text []byte, ok bool) {
	b := s.buf[s.pos:s.end]
	i := plainRun(b, ']')
	n := s.endTagLength(b[i:])
	if n == 0 || s.pendingEnd || i > s.lim.Token {
		return nil, false
	}
	s.pos += i + n
	s.pop()
	return b[:i], true
}

// endTagLength returns the length of the end tag of the innermost open element if b
// begins with this tag, and otherwise 0. It does not recognise an end tag with white
// space.
func (s *scanner) endTagLength(b []byte) int {
	name := s.names[s.opens[len(s.opens)-1].name:]
	n := len(name) + 2
	if len(b) > n && b[0] == '<' && b[1] == '/' && b[n] == '>' && string(b[2:n]) == string(name) {
		return n + 1
	}
	return 0
}

// next returns the next tag. It skips comments and processing instructions. It also
// skips text, unless the field collect is set.
func (s *scanner) next() (token, error) {
	if s.pendingEnd {
		s.pendingEnd = false
		s.pop()
		return tokEnd, nil
	}
	for {
		if !s.collect {
			s.skipSpace()
		}
		if s.pos == s.end {
			if s.readMore() {
				continue
			}
			if s.err == io.EOF && s.rooted && len(s.opens) == 0 {
				return tokEOF, nil
			}
			return 0, s.endError()
		}
		if s.buf[s.pos] != '<' {
			if err := s.charData(); err != nil {
				return 0, err
			}
			continue
		}
		if s.end-s.pos < 2 {
			if !s.readMore() {
				return 0, s.endError()
			}
			continue
		}
		switch s.buf[s.pos+1] {
		case '/':
			return tokEnd, s.endTag()
		case '!':
			if err := s.declaration(); err != nil {
				return 0, err
			}
		case '?':
			if err := s.instruction(); err != nil {
				return 0, err
			}
		default:
			return tokStart, s.startTag()
		}
	}
}

func (s *scanner) skipSpace() {
	b := s.buf[s.pos:s.end]
	i := 0
	for i < len(b) && isSpace(b[i]) {
		i++
	}
	s.pos += i
}

// extendToken reads more bytes of the incomplete token at pos. It returns an error if the
// token is too long, or the document ends.
func (s *scanner) extendToken() error {
	if s.end-s.pos > s.lim.Token {
		return s.fail(LimitReached, s.pos, "a tag, text, comment or processing instruction is longer than %d bytes", s.lim.Token)
	}
	if !s.readMore() {
		return s.endError()
	}
	return nil
}

func (s *scanner) charData() error {
	i := bytes.IndexByte(s.buf[s.pos:s.end], '<')
	for i < 0 && s.end-s.pos <= s.lim.Token {
		switch {
		case s.readMore():
		case len(s.opens) > 0:
			return s.endError()
		default:
			i = s.end - s.pos
			continue
		}
		i = bytes.IndexByte(s.buf[s.pos:s.end], '<')
	}
	if i < 0 || i > s.lim.Token {
		return s.extendToken()
	}
	run := s.buf[s.pos : s.pos+i]
	if len(s.opens) == 0 && len(trimSpace(run)) > 0 {
		return s.outside(run)
	}
	if bytes.IndexByte(run, ']') >= 0 && bytes.Contains(run, []byte("]]>")) {
		return s.fail(NotWellFormed, s.pos, "]]> in text")
	}
	s.recordStray(s.pos, run)
	if err := s.addText(run); err != nil {
		return err
	}
	s.pos += i
	return nil
}

func (s *scanner) recordStray(at int, run []byte) {
	if s.collect || s.stray.line > 0 {
		return
	}
	if bytes.IndexByte(run, '&') >= 0 {
		if text, _, why := appendUnescaped(nil, run, false); why == "" {
			run = text
		}
	}
	if len(trimSpace(run)) == 0 {
		return
	}
	s.locate() // call locate before count, because count cannot go backwards
	s.count(at)
	s.stray = strayText{s.line, int(s.base+int64(at)-s.lineStart) + 1, clip(string(trimSpace(run)))}
}

// addText checks text and replaces references. If the field collect is set, it appends
// the result to the field text.
func (s *scanner) addText(run []byte) error {
	if bytes.IndexByte(run, '&') < 0 && bytes.IndexByte(run, '\r') < 0 {
		if s.collect {
			s.text = append(s.text, run...)
		}
	} else {
		out, at, why := appendUnescaped(s.text, run, false)
		if why != "" {
			return s.fail(NotWellFormed, s.pos+at, "%s", why)
		}
		if s.collect {
			s.text = out
		}
	}
	return s.checkText()
}

// checkText limits the length of the text of an element. Such a text may consist of
// several tokens, such as CDATA sections.
func (s *scanner) checkText() error {
	if len(s.text) > s.lim.Token {
		return s.fail(LimitReached, s.pos, "the text of an element is longer than %d bytes", s.lim.Token)
	}
	return nil
}

func (s *scanner) outside(run []byte) error {
	at := s.pos + len(run) - len(bytes.TrimLeft(run, xmlSpace))
	if s.rooted {
		return s.fail(Incomplete, at, "%q after the end of the root element", clip(string(trimSpace(run))))
	}
	err := s.fail(NotResourceSync, at, "%s", describeStart(trimSpace(run)))
	err.Rule = ruleXML
	return err
}

func (s *scanner) endTag() error {
	if len(s.opens) == 0 {
		return s.fail(NotWellFormed, s.pos, "an end tag where no element is open")
	}
	b := s.buf[s.pos:s.end]
	if n := s.endTagLength(b); n > 0 {
		s.pos += n
		s.pop()
		return nil
	}
	i := bytes.IndexByte(b, '>')
	for i < 0 {
		if err := s.extendToken(); err != nil {
			return err
		}
		i = bytes.IndexByte(s.buf[s.pos:s.end], '>')
	}
	got := bytes.TrimRight(s.buf[s.pos+2:s.pos+i], xmlSpace)
	if name := s.names[s.opens[len(s.opens)-1].name:]; !bytes.Equal(got, name) {
		return s.fail(NotWellFormed, s.pos, "end tag %q where </%s> was expected", clip(string(got)), clip(string(name)))
	}
	s.pos += i + 1
	s.pop()
	return nil
}

func (s *scanner) pop() {
	last := s.opens[len(s.opens)-1]
	s.opens = s.opens[:len(s.opens)-1]
	s.names = s.names[:last.name]
	s.ns = s.ns[:last.ns]
}

// declaration skips a comment and reads a CDATA section as text. Everything else that
// begins with "<!" is an error.
func (s *scanner) declaration() error {
	for s.end-s.pos < len("<![CDATA[") && s.readMore() {
	}
	b := s.buf[s.pos:s.end]
	switch {
	case bytes.HasPrefix(b, []byte("<!--")):
		s.prolog = true
		i, err := s.find(4, "--")
		if err != nil {
			return err
		}
		for s.end-s.pos < i+3 {
			if err := s.extendToken(); err != nil {
				return err
			}
		}
		if s.buf[s.pos+i+2] != '>' {
			return s.fail(NotWellFormed, s.pos+i, "-- in a comment")
		}
		s.pos += i + 3
		return nil
	case bytes.HasPrefix(b, []byte("<![CDATA[")):
		return s.cdata()
	case len(b) >= 9 && bytes.EqualFold(b[:9], []byte("<!DOCTYPE")):
		for s.end-s.pos < 64 && s.readMore() {
		}
		if looksLikeHTML(s.buf[s.pos:s.end]) {
			err := s.fail(NotResourceSync, s.pos, "this is an HTML page")
			err.Rule = ruleRoot
			return err
		}
		return s.fail(NotResourceSync, s.pos, "DTD not allowed")
	case len(b) < 9 && !s.readMore():
		return s.endError()
	}
	return s.fail(NotWellFormed, s.pos, "%q is neither a comment nor a CDATA section", clip(string(b[:min(len(b), 16)])))
}

func (s *scanner) cdata() error {
	const open = "<![CDATA["
	if len(s.opens) == 0 {
		return s.fail(NotWellFormed, s.pos, "a CDATA section outside the root element")
	}
	i, err := s.find(len(open), "]]>")
	if err != nil {
		return err
	}
	run := s.buf[s.pos+len(open) : s.pos+i]
	s.recordStray(s.pos, run)
	if s.collect {
		s.text = appendLines(s.text, run)
	}
	if err := s.checkText(); err != nil {
		return err
	}
	s.pos += i + 3
	return nil
}

func (s *scanner) instruction() error {
	i, err := s.find(2, "?>")
	if err != nil {
		return err
	}
	body := s.buf[s.pos+2 : s.pos+i]
	n := scanName(body)
	switch {
	case n == 0 || n < len(body) && !isSpace(body[n]):
		return s.fail(NotWellFormed, s.pos, "a processing instruction without a name")
	case string(body[:n]) == "xml" && s.atDeclaration():
		encoding, why := checkXMLDecl(body[n:])
		if why != "" {
			return s.fail(NotWellFormed, s.pos, "XML declaration: %s", why)
		}
		s.leading = s.base+int64(s.pos) > 0
		s.declared = canonicalEncoding(encoding)
	case string(body[:n]) == "xml" && s.rooted && len(s.opens) == 0:
		return s.concatenated("a second XML declaration")
	case bytes.EqualFold(body[:n], []byte("xml")):
		return s.fail(NotWellFormed, s.pos, "an XML declaration that is not at the beginning of the document")
	}
	s.styled = s.styled || string(body[:n]) == "xml-stylesheet"
	s.pos += i + 2
	s.prolog = true
	return nil
}

// find returns the offset of a delimiter in the token at pos. It searches from the
// offset start on, and reads more bytes if necessary. Both offsets are relative to pos.
func (s *scanner) find(start int, delimiter string) (int, error) {
	for {
		if b := s.buf[s.pos:s.end]; len(b) > start {
			if i := bytes.Index(b[start:], []byte(delimiter)); i >= 0 {
				if start+i > s.lim.Token {
					return 0, s.extendToken()
				}
				return start + i, nil
			}
		}
		if err := s.extendToken(); err != nil {
			return 0, err
		}
	}
}

func (s *scanner) endError() error {
	at := s.end
	switch s.err {
	case errTooLarge:
		err := s.fail(LimitReached, at, "the document is larger than %d bytes", s.limit)
		err.Size = true
		return err
	case errEndless:
		return s.fail(LimitReached, at, "the document has more than twice the %d bytes that are allowed, but little text", s.limit)
	case errNotText:
		return s.fail(NotWellFormed, at, "%v", s.err)
	case io.EOF:
		if !s.rooted && s.pos == s.end {
			err := s.fail(NotResourceSync, at, "the document is empty or has no root element")
			err.Rule = ruleXML
			return err
		}
		return s.fail(Incomplete, at, "%s", s.missing())
	}
	err := s.fail(Incomplete, at, "%s", s.missing())
	err.Rule, err.Err = "", s.err // no rule is broken: the document itself may be well-formed
	return err
}

func (s *scanner) missing() string {
	if len(s.opens) == 0 {
		return "the document ends within a tag, comment or processing instruction"
	}
	return fmt.Sprintf("the document ends before </%s>", clip(string(s.names[:s.rootLen()])))
}

func (s *scanner) rootLen() int {
	if len(s.opens) > 1 {
		return s.opens[1].name
	}
	return len(s.names)
}

func (s *scanner) concatenated(format string, args ...any) *DecodeError {
	err := s.fail(Incomplete, s.pos, format, args...)
	err.Quirk = QuirkConcatenated
	return err
}

const ruleXML = "xml-well-formed"

// fail returns an error with the position of the byte buf[at].
func (s *scanner) fail(kind Kind, at int, format string, args ...any) *DecodeError {
	s.count(at)
	offset := s.base + int64(at)
	rule := ""
	if kind == NotWellFormed || kind == Incomplete {
		rule = ruleXML
	}
	return &DecodeError{
		Kind: kind, Rule: rule, Line: s.line, Column: int(offset-s.lineStart) + 1, Offset: offset,
		Msg: fmt.Sprintf(format, args...),
	}
}
