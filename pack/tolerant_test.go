package pack_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"instep/pack"
)

// What is refused as ambiguous opens for who only looks at it, and says what is wrong.
func TestTolerantOpenSaysWhatIsWrong(t *testing.T) {
	seen := 0
	for name, z := range ambiguous {
		b := z.bytes()
		_, refused := pack.Open(bytes.NewReader(b), int64(len(b)), pack.Limits{})
		p, err := pack.Open(bytes.NewReader(b), int64(len(b)), pack.Limits{Tolerant: true})
		switch {
		case !errors.Is(refused, pack.ErrAmbiguous):
			if err == nil && len(p.Flaws()) > 0 {
				t.Errorf("%s: got flaws %v of what was not refused for them", name, p.Flaws())
			}
		case errors.Is(err, pack.ErrNotZIP):
			// its directory is not where it could be guessed to be
		case err != nil || len(p.Flaws()) == 0:
			t.Errorf("%s: got %v; want that it opens, and why it was refused: %v", name, err, refused)
		default:
			seen++
			if !strings.Contains(refused.Error(), p.Flaws()[0].Error()) {
				t.Errorf("%s: got the flaw %q, want that for which it was refused: %v", name, p.Flaws()[0], refused)
			}
		}
	}
	if seen < 20 {
		t.Errorf("got %d packages with flaws, want at least 20", seen)
	}
	if p := open(t, withMembers().bytes()); len(p.Flaws()) > 0 {
		t.Errorf("got flaws %v of a good package", p.Flaws())
	}
}

func TestSniff(t *testing.T) {
	tar := strings.Repeat("\x00", 257) + "ustar\x0000"
	for head, want := range map[string]string{
		string(withMembers().bytes()): pack.KindZIP,
		string(rawZip{}.bytes()):      pack.KindZIP,
		"\x1f\x8b\x08":                pack.KindGzip,
		"\xfd7zXZ\x00\x00":            pack.KindXZ,
		"BZh91AY":                     pack.KindBzip2,
		"\x28\xb5\x2f\xfd":            pack.KindZstd,
		"7z\xbc\xaf\x27\x1c":          pack.Kind7z,
		"Rar!\x1a\x07\x01":            pack.KindRAR,
		tar:                           pack.KindTar,
		"\n<!DOCTYPE HTML>":           pack.KindHTML,
		"<?xml version='1.0'?><html>": pack.KindHTML,
		"\xef\xbb\xbf<urlset>":        pack.KindXML,
		"":                            "",
		"PK":                          "",
		"some text":                   "",
	} {
		if got := pack.Sniff([]byte(head)); got != want {
			t.Errorf("%q: got %q, want %q", head[:min(len(head), 20)], got, want)
		}
	}
}
