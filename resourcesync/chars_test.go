package resourcesync

import (
	"bytes"
	"fmt"
	"testing"
	"unicode/utf8"
)

// TestWordsAgreeWithBytes puts every byte at every place of two words, and checks
// what looks at eight bytes at a time against what looks at one.
func TestWordsAgreeWithBytes(t *testing.T) {
	for _, fill := range []byte{' ', 'a', '~', '\n', 0x7f, '<', '&', '!', '%', ';', '='} {
		for at := range 19 {
			for c := range 256 {
				b := bytes.Repeat([]byte{fill}, 19)
				b[at] = byte(c)
				name := fmt.Sprintf("%#x at %d among %#x", c, at, fill)

				plain := true
				for _, v := range b {
					plain = plain && v >= ' ' && v != '<' && v != '&'
				}
				if got := plainValue(b); got != plain {
					t.Fatalf("plainValue: %s: got %v, want %v", name, got, plain)
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
