package catalog

import (
	"strings"
	"testing"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// All letters that differ in their case or form only fold to one text, which folds to itself.
func TestFoldIsOneForAllCasesAndForms(t *testing.T) {
	for r := rune(1); r <= unicode.MaxRune; r++ {
		s := string(r)
		fold := Fold(s)
		others := []string{fold, norm.NFC.String(s), norm.NFD.String(s)}
		for o := unicode.SimpleFold(r); o != r; o = unicode.SimpleFold(o) {
			others = append(others, string(o))
		}
		for _, other := range others {
			if got := Fold(other); got != fold {
				t.Errorf("%q folds to %q, and %U to %q", other, got, r, fold)
			}
		}
	}
	for name, want := range map[string]string{"Stra\u00dfe": "strasse", "M\u00dcLLER": "mu\u0308ller", "\u13a0\uab70": "\u13a0\u13a0", "a/B": "a/b"} {
		if got := Fold(name); got != want || strings.Count(got, "/") != strings.Count(name, "/") {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}
