package resourcesync

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// TestWordsAgreeWithBytes puts every byte at every place of some words, and checks
// what looks at eight bytes or more at a time against what looks at one.
func TestWordsAgreeWithBytes(t *testing.T) {
	const size = 43 // one step of validText, one of plainRun, and a rest
	for _, fill := range []byte{' ', 'a', '~', '\n', 0x7f, 0x80, 0xbc, '<', '&', '!', '%', ';', '='} {
		for at := range size {
			for c := range 256 {
				b := bytes.Repeat([]byte{fill}, size)
				b[at] = byte(c)
				name := fmt.Sprintf("%#x at %d among %#x", c, at, fill)

				for _, stop := range []byte(`"']`) {
					if got, want := plainRun(b, stop), slowPlainRun(b, stop); got != want {
						t.Fatalf("plainRun to %q: %s: got %d, want %d", stop, name, got, want)
					}
				}
				if got, want := plainURI(b), slowPlainURI(b); got != want {
					t.Fatalf("plainURI: %s: got %d, want %d", name, got, want)
				}
				control := bytes.ContainsFunc(b, func(r rune) bool { return r < ' ' || r == 0x7f })
				if got := hasControl(b); got != control {
					t.Fatalf("hasControl: %s: got %v, want %v", name, got, control)
				}
				wantLen, wantOK := slowValidText(b)
				if n, ok := validText(b); n != wantLen || ok != wantOK {
					t.Fatalf("validText: %s: got %d, %v, want %d, %v", name, n, ok, wantLen, wantOK)
				}
			}
		}
	}
}

func slowPlainRun(b []byte, stop byte) int {
	for i, c := range b {
		if c < ' ' || c == '<' || c == '&' || c == stop {
			return i
		}
	}
	return len(b)
}

func slowPlainURI(b []byte) int {
	const others = "-._~" + ":/?#[]@" + "!$&'()*+,;=" // RFC 3986 §2.2, §2.3
	for i, c := range b {
		if c >= utf8.RuneSelf || !unicode.IsLetter(rune(c)) && !unicode.IsDigit(rune(c)) && !strings.ContainsRune(others, rune(c)) {
			return i
		}
	}
	return len(b)
}

func slowValidText(b []byte) (n int, ok bool) {
	for n < len(b) {
		r, size := utf8.DecodeRune(b[n:])
		switch {
		case r == utf8.RuneError && size == 1:
			return n, !utf8.FullRune(b[n:])
		case !isXMLChar(r):
			return n, false
		}
		n += size
	}
	return n, true
}

func TestNames(t *testing.T) {
	for in, want := range map[string]int{
		"": 0, "a": 1, "a b": 1, "_a.b-c1>": 7, "1a": 0, "-a": 0, ".": 0, "a:b": 1, "é": 2, "aé>": 3, "日本=": 6,
		"·a": 0, "a·": 3, "×": 0, "a×": 1, "÷": 0, "\u037e": 0, "\u2028": 0, "😀": 4, "a\u0300": 3, "\u0300": 0, "\uffff": 0,
	} {
		if got := scanName([]byte(in)); got != want {
			t.Errorf("%q: got %d, want %d", in, got, want)
		}
	}
}
