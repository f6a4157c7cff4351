package resourcesync

import (
	"strings"
	"testing"
)

func TestParsePriority(t *testing.T) {
	for _, s := range []string{"0", "1", "0.0", "1.0", "0.50", ".5", "1.", "0.00001"} {
		p, err := ParsePriority(" " + s + "\n")
		if err != nil || p.String() != s || p.IsZero() {
			t.Errorf("%q: got %q, %v", s, p, err)
		}
	}
	for _, s := range []string{"", " ", ".", "1.1", "2", "-0.5", "+0.5", "NaN", "Inf", "1e-1", "0x1p-2", "0,5", "0.5.5", "high"} {
		if p, err := ParsePriority(s); err == nil {
			t.Errorf("%q: got %q, want an error", s, p)
		}
	}
	var p Priority
	if err := p.UnmarshalText([]byte("0.7")); err != nil || p.Float64() != 0.7 {
		t.Errorf("0.7: got %v, %v", p, err)
	}
	if err := p.UnmarshalText(nil); err != nil || !p.IsZero() {
		t.Errorf("empty: got %v, %v", p, err)
	}
}

func TestMessagesAreCutBetweenCharacters(t *testing.T) {
	if got, want := clip("a"+strings.Repeat("é", 60)), "a"+strings.Repeat("é", 39)+"…"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
