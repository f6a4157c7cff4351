package resourcesync

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// xmlSpace is the white space of XML 1.0 §2.3.
const xmlSpace = " \t\r\n"

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

func trimSpace(b []byte) []byte {
	for len(b) > 0 && isSpace(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && isSpace(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

const (
	eachByte  = 0x0101010101010101
	highBits  = 0x80 * eachByte
	allSpaces = ' ' * eachByte
	allLines  = '\n' * eachByte
)

// plainLines returns the length of the ASCII text at the start of b, without control
// characters other than line feeds. It counts in steps of 32 bytes, so up to 31 more
// bytes may be such text.
func plainLines(b []byte) int {
	i := 0
	for ; i <= len(b)-32; i += 32 {
		w := b[i : i+32]
		odd := oddBytes(binary.LittleEndian.Uint64(w)) | oddBytes(binary.LittleEndian.Uint64(w[8:])) |
			oddBytes(binary.LittleEndian.Uint64(w[16:])) | oddBytes(binary.LittleEndian.Uint64(w[24:]))
		if odd&highBits != 0 {
			break
		}
	}
	return i
}

// oddBytes examines the 8 bytes of x. The highest bit of at least one byte of the
// result is set if and only if a byte of x is not ASCII, or is a control character
// other than a line feed.
func oddBytes(x uint64) uint64 {
	const toBlank, toOne = (0x80 - ' ') * eachByte, 0x7f * eachByte
	// If all bytes of x are ASCII, no addition carries into the next byte. Otherwise a carry
	// does no harm, because the result contains the highest bits of x.
	printable, other := x+toBlank, (x^allLines)+toOne
	return x | other&^printable
}

// plainRun returns the number of bytes in b before the first <, &, control character or
// stop byte.
func plainRun(b []byte, stop byte) int {
	stops := uint64(stop) * eachByte
	i := 0
	for ; i <= len(b)-8; i += 8 {
		x := binary.LittleEndian.Uint64(b[i : i+8])
		// The lowest bit that is set in hit belongs to the first byte that ends the run or is
		// not ASCII.
		hit := (x - allSpaces) | ((x ^ '<'*eachByte) - eachByte) | ((x ^ '&'*eachByte) - eachByte) | ((x ^ stops) - eachByte)
		if hit &= highBits; hit != 0 {
			i += bits.TrailingZeros64(hit) / 8
			break
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c < ' ' || c == '<' || c == '&' || c == stop {
			break
		}
	}
	return i
}

// plainURI returns the number of bytes in b before the first byte that is a % or not
// allowed in a URI.
func plainURI(b []byte) int {
	const (
		toBrace = (0x80 - '{') * eachByte // x+toBrace sets the highest bit of the bytes {, |, }, ~ and DEL
		quote   = '"' * eachByte
		percent = '%' * eachByte
		tick    = '`' * eachByte
		mask    = 0x1d * eachByte // b&0x1d == 0x1c holds only for these printable bytes b: <, >, ^, \, | and ~
		sign    = 0x1c * eachByte
	)
	i := 0
	for ; i <= len(b)-8; i += 8 {
		x := binary.LittleEndian.Uint64(b[i : i+8])
		// The lowest bit of hit that is set belongs to the first byte that needs a closer look
		// by the loop below: a byte that is not allowed, or a ~, which is.
		hit := x | (x + toBrace) | (x - '!'*eachByte) | (((x & mask) ^ sign) - eachByte) |
			((x ^ quote) - eachByte) | ((x ^ percent) - eachByte) | ((x ^ tick) - eachByte)
		if hit &= highBits; hit != 0 {
			i += bits.TrailingZeros64(hit) / 8
			break
		}
	}
	for i < len(b) && syntaxClass[b[i]]&uriByte != 0 {
		i++
	}
	return i
}

func hasControl(b []byte) bool {
	return bytes.ContainsFunc(b, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// isXMLChar reports whether a document may contain r (XML 1.0 §2.2).
func isXMLChar(r rune) bool {
	return r >= ' ' && r < 0xD800 || r == '\t' || r == '\n' || r == '\r' ||
		r >= 0xE000 && r <= 0xFFFD || r >= 0x10000 && r <= utf8.MaxRune
}

const (
	nameByte  = 1 << iota // the character may be part of a name
	nameStart             // the character may begin a name
)

// nameClass has the ASCII characters that an XML name may contain or begin with (XML
// 1.0 §2.3), except the colon, which separates the prefix from the name.
var nameClass = func() (t [utf8.RuneSelf]byte) {
	for c := range byte(utf8.RuneSelf) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '_':
			t[c] = nameByte | nameStart
		case isDigit(c), c == '-', c == '.':
			t[c] = nameByte
		}
	}
	return t
}()

// scanName returns the length of the name at the start of b, up to a colon. It returns 0
// if there is no name.
func scanName(b []byte) int {
	i := 0
	for i < len(b) && b[i] < utf8.RuneSelf && nameClass[b[i]] != 0 {
		i++
	}
	if i > 0 && nameClass[b[0]]&nameStart == 0 {
		return 0
	}
	if i == len(b) || b[i] < utf8.RuneSelf {
		return i
	}
	return scanLongName(b, i)
}

// scanLongName is like scanName, but the caller knows that the first i bytes belong to
// the name and are ASCII.
func scanLongName(b []byte, i int) int {
	for i < len(b) {
		if b[i] < utf8.RuneSelf && nameClass[b[i]] == 0 {
			break
		}
		r, size := utf8.DecodeRune(b[i:])
		if r >= utf8.RuneSelf && !isNameRune(r, i == 0) {
			break
		}
		i += size
	}
	return i
}

func isNameRune(r rune, first bool) bool {
	switch {
	case r >= 0xC0 && r <= 0x2FF && r != 0xD7 && r != 0xF7, r >= 0x370 && r <= 0x1FFF && r != 0x37E,
		r == 0x200C, r == 0x200D, r >= 0x2070 && r <= 0x218F, r >= 0x2C00 && r <= 0x2FEF,
		r >= 0x3001 && r <= 0xD7FF, r >= 0xF900 && r <= 0xFDCF, r >= 0xFDF0 && r <= 0xFFFD,
		r >= 0x10000 && r <= 0xEFFFF:
		return true
	}
	return !first && (r == 0xB7 || r >= 0x300 && r <= 0x36F || r == 0x203F || r == 0x2040)
}
