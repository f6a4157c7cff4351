package oaipmh

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
)

// xmlDeclaration has one submatch: the name of the encoding.
var xmlDeclaration = regexp.MustCompile(`^<\?xml[ \t\r\n][^>]*?encoding[ \t\r\n]*=[ \t\r\n]*["']([A-Za-z0-9._-]+)["'][^>]*\?>`)

// Descriptions of the corrections, for a Note.
const (
	dirtLead       = "there was text before the XML declaration"
	dirtUTF8       = "bytes that are invalid in the encoding of the response were replaced by U+FFFD"
	dirtControl    = "characters that are not allowed in XML were replaced by U+FFFD"
	dirtAmpersand  = "ampersands that begin no reference were read as the character &"
	dirtEntity     = "named entities of HTML were replaced by their characters"
	dirtCharset    = "the response is in UTF-8, although its XML declaration names another encoding"
	replacement    = "\uFFFD"
	maxEntityBytes = 12 // largest length in bytes of the name of an entity
)

// dirt counts the corrections of a response by their descriptions.
type dirt map[string]int

// clean converts a response to legal XML 1.0 in UTF-8, and counts its corrections in d.
// The result shares no memory with raw.
func clean(raw []byte, d dirt) ([]byte, error) {
	text, err := toUTF8(raw, d)
	if err != nil {
		return nil, err
	}
	if trimmed := bytes.TrimLeft(text, " \t\r\n\v\f\x00"); len(trimmed) < len(text) {
		text = trimmed
		d[dirtLead]++
	}
	if m := xmlDeclaration.FindIndex(text[:min(len(text), 200)]); m != nil { // the XML declaration is removed, because the text is now UTF-8
		text = text[m[1]:]
	}
	c := cleaner{text: text, out: make([]byte, 0, len(text)+len(text)/64+64), dirt: d}
	if !c.run() {
		return nil, errors.New("the response is no XML: most of its characters had to be replaced")
	}
	return c.out, nil
}

func toUTF8(raw []byte, d dirt) ([]byte, error) {
	switch {
	case bytes.HasPrefix(raw, []byte("\xef\xbb\xbf")):
		return raw[3:], nil
	case bytes.HasPrefix(raw, []byte("\xff\xfe")), bytes.HasPrefix(raw, []byte("\xfe\xff")):
		return unicode.UTF16(unicode.BigEndian, unicode.ExpectBOM).NewDecoder().Bytes(raw)
	}
	m := xmlDeclaration.FindSubmatch(bytes.TrimLeft(raw[:min(len(raw), 400)], " \t\r\n"))
	if m == nil {
		return raw, nil
	}
	switch name := strings.ToLower(string(m[1])); name {
	case "utf-8", "utf8", "us-ascii", "ascii":
		return raw, nil
	case "iso-8859-1", "latin1", "windows-1252", "iso-8859-15":
		if utf8.Valid(raw) && utf8.RuneCount(raw) < len(raw) { // read as UTF-8, because text in another encoding is hardly ever valid UTF-8
			d[dirtCharset]++
			return raw, nil
		}
		return charmap.Windows1252.NewDecoder().Bytes(raw)
	default:
		return nil, fmt.Errorf("the response has the encoding %q: expected UTF-8, UTF-16, ISO-8859-1 or windows-1252", name)
	}
}

type cleaner struct {
	text []byte
	out  []byte
	i    int    // index in text of the next byte to copy
	end  string // end delimiter of the current CDATA section, comment or processing instruction, such as "-->"; "" outside of them
	dirt dirt
}

// run returns false if the corrections would make the text more than twice as long.
func (c *cleaner) run() bool {
	most := 2*len(c.text) + 64
	for c.i < len(c.text) && len(c.out) <= most {
		plain := c.i
		for plain < len(c.text) && isPlain[c.text[plain]] {
			plain++
		}
		c.out = append(c.out, c.text[c.i:plain]...)
		if c.i = plain; c.i < len(c.text) {
			c.special()
		}
	}
	return c.i == len(c.text)
}

// isPlain is true for the bytes that are copied unchanged.
var isPlain = func() (t [256]bool) {
	for c := range t {
		t[c] = c >= 0x20 && c < 0x80 && c != '&' && c != '<' && c != '>' || c == '\t' || c == '\n' || c == '\r'
	}
	return t
}()

func (c *cleaner) special() {
	switch b := c.text[c.i]; {
	case b == '<' && c.end == "":
		c.lessThan()
	case b == '>':
		if c.end != "" && bytes.HasSuffix(c.out, []byte(c.end[:len(c.end)-1])) {
			c.end = ""
		}
		c.copy(1)
	case b == '&' && c.end == "":
		c.reference()
	case b == '<' || b == '&':
		c.copy(1)
	case b < 0x20:
		c.replace(1, replacement, dirtControl)
	default:
		c.rune()
	}
}

func (c *cleaner) copy(n int) {
	c.out = append(c.out, c.text[c.i:c.i+n]...)
	c.i += n
}

// replace writes text in place of the next n bytes. The parameter correction is the
// description of this change.
func (c *cleaner) replace(n int, text, correction string) {
	c.out = append(c.out, text...)
	c.i += n
	c.dirt[correction]++
}

// lessThan copies a "<". If a CDATA section, a comment or a processing instruction begins
// there, it copies the whole start delimiter, such as "<!--".
func (c *cleaner) lessThan() {
	for _, s := range []struct{ begin, end string }{{"<![CDATA[", "]]>"}, {"<!--", "-->"}, {"<?", "?>"}} {
		if bytes.HasPrefix(c.text[c.i:], []byte(s.begin)) {
			c.end = s.end
			c.copy(len(s.begin))
			return
		}
	}
	c.copy(1)
}

func (c *cleaner) rune() {
	r, n := utf8.DecodeRune(c.text[c.i:])
	switch {
	case r == utf8.RuneError && n == 1:
		c.replace(1, replacement, dirtUTF8)
	case !isChar(r):
		c.replace(n, replacement, dirtControl)
	default:
		c.copy(n)
	}
}

// isChar reports whether XML 1.0 allows the character r (production 2).
func isChar(r rune) bool {
	return r == '\t' || r == '\n' || r == '\r' || r >= 0x20 && r <= 0xd7ff || r >= 0xe000 && r <= 0xfffd || r >= 0x10000 && r <= 0x10ffff
}

func (c *cleaner) reference() {
	rest := c.text[c.i+1 : min(len(c.text), c.i+2+maxEntityBytes)]
	end := bytes.IndexByte(rest, ';')
	name := ""
	if end > 0 {
		name = string(rest[:end])
	}
	switch name {
	case "amp", "lt", "gt", "quot", "apos":
		c.copy(end + 2)
		return
	}
	if number, ok := strings.CutPrefix(name, "#"); ok {
		switch r, err := parseCharacter(number); {
		case err == nil && isChar(r):
			c.copy(end + 2)
			return
		case !errors.Is(err, strconv.ErrSyntax):
			c.replace(end+2, replacement, dirtControl)
			return
		}
	}
	if text, ok := xml.HTMLEntity[name]; ok && name != "" {
		c.replace(end+2, text, dirtEntity)
		return
	}
	c.replace(1, "&amp;", dirtAmpersand)
}

// parseCharacter parses the number in a character reference, such as 228 or xe4.
func parseCharacter(text string) (rune, error) {
	base := 10
	if hex, ok := strings.CutPrefix(text, "x"); ok {
		text, base = hex, 16
	}
	n, err := strconv.ParseUint(text, base, 31)
	return rune(n), err
}
