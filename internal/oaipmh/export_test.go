package oaipmh

import (
	"errors"
	"testing"
)

// CheckAnswer reads an answer to any verb, in which nothing is to be tolerated.
func CheckAnswer(t *testing.T, text []byte) {
	t.Helper()
	for verb := range arguments {
		d := dirt{}
		text, err := clean(text, d)
		if err != nil {
			t.Fatal(err)
		}
		p, err := parse(text, verb, "u", d)
		if len(d) > 0 {
			t.Fatalf("%v in %q", d, text)
		}
		if _, refused := errors.AsType[*Error](err); p != nil && (err == nil || refused) {
			return
		}
	}
	t.Fatalf("no answer to any verb: %q", text)
}
