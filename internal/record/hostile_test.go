package record

import (
	"os"
	"path/filepath"
	"testing"
)

// What encoding/json would mend names something else than what was meant.
func TestLinesThatAreNotUTF8AreRefused(t *testing.T) {
	w := newWorld(t)
	if err := os.WriteFile(filepath.Join(w.dir, "a\xff.txt"), []byte("x"), 0o600); err != nil {
		t.Skipf("SKIPPED: this file system takes no names that are not UTF-8: %v", err)
	}
	if got := w.push(`{"uri":"https://example.org/a","type":"text/plain","lastmod":"2024-01-01","hash":"` + sum1 + `","change":"updated"}`); !got[0].OK {
		t.Errorf("answers %+v, want it recorded", got)
	}
	for _, line := range []string{"{\"path\":\"a\xff.txt\"}", `{"path":"a\udcff.txt"}`, "{\"uri\":\"https://example.org/\xe4\"}"} {
		if got := w.push(line); len(got) != 1 || got[0].OK {
			t.Errorf("%q: answers %+v, want an error", line, got)
		}
	}
}

// Lengths are what somebody says: sums of them are made.
func TestLengthsOfNoResourceAreRefused(t *testing.T) {
	w := newWorld(t)
	got := w.push(`{"uri":"https://example.org/a","length":9223372036854775807}`, `{"uri":"https://example.org/b","length":9223372036854775807}`,
		`{"uri":"https://example.org/c","length":1}`)
	if len(got) != 3 || got[0].OK || got[1].OK || !got[2].OK {
		t.Errorf("answers %+v, want errors and the last one recorded", got)
	}
}
