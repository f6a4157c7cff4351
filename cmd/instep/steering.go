package main

import (
	"bytes"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// steers reports whether a rune is invisible, or can move the cursor, or changes the terminal or
// the direction of writing. A text with such a rune may look like another text.
func steers(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp) || isInvisible(r)
}

// isInvisible reports whether a rune has no width, such as a zero-width space or a tag.
func isInvisible(r rune) bool {
	return r == '\u00ad' || r >= '\u200b' && r <= '\u200d' || r >= '\u2060' && r <= '\u2064' || r == '\ufeff' ||
		r >= '\ufff9' && r <= '\ufffb' || r >= 0xe0000 && r <= 0xe007f
}

// escapeSteering replaces the runes for which steers returns true by JSON escapes such as \u202e.
// Newlines and tabs stay as they are. A JSON text keeps its meaning, because such runes occur only
// in its strings.
func escapeSteering(text []byte) []byte {
	odd := func(c byte) bool { return c < ' ' || c >= 0x7f }
	if i := slices.IndexFunc(text, odd); i < 0 || utf8.Valid(text[i:]) && !bytes.ContainsFunc(text[i:], steersLine) {
		return text
	}
	return appendEscaped(make([]byte, 0, len(text)+64), string(text), steersLine)
}

func steersLine(r rune) bool { return r != '\n' && r != '\t' && steers(r) }

// printable escapes all runes for which steers returns true, so that a text from a Source cannot
// begin a new line.
func printable(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, steers) {
		return s
	}
	return string(appendEscaped(nil, s, steers))
}

var encodedRunes = regexp.MustCompile(`(%[89A-Fa-f][0-9A-Fa-f])+`)

// readableURI decodes the characters of a URI that are not ASCII (RFC 3987 §3.2), and applies
// printable. ASCII characters such as %20 stay encoded, so that different URIs look different.
func readableURI(uri string) string {
	return printable(encodedRunes.ReplaceAllStringFunc(uri, func(encoded string) string {
		if text, err := url.PathUnescape(encoded); err == nil && utf8.ValidString(text) {
			return text
		}
		return encoded
	}))
}

func appendEscaped(out []byte, s string, escaped func(rune) bool) []byte {
	for _, r := range s {
		switch high, low := utf16.EncodeRune(r); {
		case !escaped(r):
			out = utf8.AppendRune(out, r)
		case high != unicode.ReplacementChar:
			out = fmt.Appendf(out, "\\u%04x\\u%04x", high, low)
		default:
			out = fmt.Appendf(out, "\\u%04x", r)
		}
	}
	return out
}

// escaping is a writer that applies escapeSteering to each write. A write must end with a
// complete character.
type escaping struct{ w io.Writer }

func (e escaping) Write(p []byte) (int, error) {
	if _, err := e.w.Write(escapeSteering(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}
