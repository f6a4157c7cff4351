package resourcesync

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// decodeText returns a reader that converts the text of br to UTF-8 without byte order
// mark. It also returns the original encoding. The byte order mark decides the
// encoding, or else the first bytes of the text, or else the XML declaration.
func decodeText(br *bufio.Reader) (text io.Reader, encoding string, err error) {
	head, _ := br.Peek(1024) // the error is ignored, because the next read of br returns it again
	for _, m := range [...]struct {
		start    string
		discard  int
		encoding string
		order    binary.ByteOrder
	}{
		{"\xef\xbb\xbf", 3, "utf-8", nil},
		{"\xfe\xff", 2, "utf-16", binary.BigEndian},
		{"\xff\xfe", 2, "utf-16", binary.LittleEndian},
		{"\x00<\x00", 0, "utf-16", binary.BigEndian},
		{"<\x00", 0, "utf-16", binary.LittleEndian},
	} {
		if !bytes.HasPrefix(head, []byte(m.start)) {
			continue
		}
		_, err := br.Discard(m.discard)
		if m.order == nil {
			return br, m.encoding, err
		}
		return newTextReader(br, &utf16Decoder{order: m.order}), m.encoding, err
	}
	switch encoding = declaredEncoding(head); encoding {
	case "us-ascii":
		return newTextReader(br, &tableDecoder{ascii: true}), encoding, nil
	case "iso-8859-1":
		return newTextReader(br, &tableDecoder{}), encoding, nil
	case "windows-1252":
		return newTextReader(br, &tableDecoder{high: &windows1252}), encoding, nil
	case "", "utf-8", "utf-16":
		// A declaration of UTF-16 that can be read as ASCII is wrong: somebody has converted
		// the text without changing the declaration.
		return br, "utf-8", nil
	}
	return nil, "", &DecodeError{Kind: NotWellFormed, Msg: fmt.Sprintf(
		"encoding %q is not supported; expected UTF-8, UTF-16, US-ASCII, ISO-8859-1 or windows-1252", clip(encoding))}
}

func canonicalEncoding(name string) string {
	switch name = strings.ToLower(name); name {
	case "utf8":
		return "utf-8"
	case "utf-16le", "utf-16be":
		return "utf-16"
	case "ascii":
		return "us-ascii"
	case "latin1", "l1", "iso_8859-1", "iso8859-1":
		return "iso-8859-1"
	case "cp1252":
		return "windows-1252"
	}
	return name
}

func declaredEncoding(head []byte) string {
	head = bytes.TrimLeft(head, xmlSpace)
	end := bytes.Index(head, []byte("?>"))
	if !isXMLDecl(head) || end < 0 {
		return ""
	}
	encoding, _ := checkXMLDecl(head[len("<?xml"):end])
	return canonicalEncoding(encoding)
}

func isXMLDecl(b []byte) bool {
	return len(b) > 5 && bytes.HasPrefix(b, []byte("<?xml")) && isSpace(b[5])
}

// textDecoder converts text to UTF-8: it appends the characters in src to dst, and
// returns the number of bytes of src that it used. It does not use an incomplete
// character at the end of src.
type textDecoder interface {
	decode(dst, src []byte) (out []byte, used int, err error)
}

type textReader struct {
	r   io.Reader
	dec textDecoder
	in  []byte // bytes that were read but not converted yet
	out []byte // text that was converted but not returned yet
	err error

	inBuf, outBuf []byte
}

func newTextReader(r io.Reader, dec textDecoder) *textReader {
	return &textReader{r: r, dec: dec, inBuf: make([]byte, 8<<10), outBuf: make([]byte, 0, 24<<10)}
}

func (t *textReader) Read(p []byte) (int, error) {
	for len(t.out) == 0 {
		if t.err != nil {
			return 0, t.err
		}
		kept := copy(t.inBuf, t.in)
		n, err := t.r.Read(t.inBuf[kept:])
		t.in = t.inBuf[:kept+n]
		out, used, decErr := t.dec.decode(t.outBuf[:0], t.in)
		t.out, t.in = out, t.in[used:]
		switch {
		case decErr != nil:
			t.err = decErr
		case err == io.EOF && len(t.in) > 0:
			t.err = errCutChar
		default:
			t.err = err
		}
	}
	n := copy(p, t.out)
	t.out = t.out[n:]
	return n, nil
}

// tableDecoder decodes encodings that have one byte for each character.
type tableDecoder struct {
	ascii bool      // whether the encoding is US-ASCII, in which bytes above 127 are errors
	high  *[32]rune // characters of the bytes 0x80 to 0x9f; nil for ISO-8859-1
}

func (d *tableDecoder) decode(dst, src []byte) ([]byte, int, error) {
	for i, c := range src {
		switch {
		case c < utf8.RuneSelf:
			dst = append(dst, c)
		case d.ascii:
			return dst, i, errNotText
		case d.high != nil && c < 0xa0:
			dst = utf8.AppendRune(dst, d.high[c-0x80])
		default:
			dst = utf8.AppendRune(dst, rune(c))
		}
	}
	return dst, len(src), nil
}

// windows1252 has the characters of the bytes 0x80 to 0x9f. Windows-1252 leaves five of
// these bytes undefined; they become the control characters with the same numbers.
var windows1252 = [32]rune{
	'€', 0x81, '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', 0x8d, 'Ž', 0x8f,
	0x90, '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', 0x9d, 'ž', 'Ÿ',
}

type utf16Decoder struct{ order binary.ByteOrder }

func (d *utf16Decoder) decode(dst, src []byte) ([]byte, int, error) {
	i := 0
	for ; i+2 <= len(src); i += 2 {
		r := rune(d.order.Uint16(src[i:]))
		if utf16.IsSurrogate(r) {
			if i+4 > len(src) {
				break
			}
			r = utf16.DecodeRune(r, rune(d.order.Uint16(src[i+2:])))
			if r == utf8.RuneError {
				return dst, i, errNotText
			}
			i += 2
		}
		dst = utf8.AppendRune(dst, r)
	}
	return dst, i, nil
}
