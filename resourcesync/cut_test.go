package resourcesync

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// fixtures are the documents of all kinds and dialects in testdata, by name.
func fixtures(t testing.TB) map[string]string {
	t.Helper()
	all := maps.Collect(kinds(t))
	a, err := txtar.ParseFile("testdata/dialects.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range a.Files {
		if name, ok := strings.CutSuffix(f.Name, ".xml"); ok {
			all[name] = string(f.Data)
		}
	}
	return all
}

// TestNoPrefixIsComplete cuts every fixture at every byte, as it is, compressed and
// in UTF-16.
func TestNoPrefixIsComplete(t *testing.T) {
	all := fixtures(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, form := range wireForms {
			if form.name != "utf-8" && form.name != "gzip" && !strings.HasPrefix(form.name, "utf-16") {
				continue
			}
			text := all[name]
			end := strings.LastIndex(text, "</")
			end += strings.IndexByte(text[end:], '>') + 1
			wire, _ := form.of(text)
			complete := len(wire)
			if form.name != "gzip" {
				without, _ := form.of(text[:end])
				complete = len(without)
			}
			checkPrefixes(t, name+" as "+form.name, wire, complete)
		}
	}
}

// checkPrefixes reads every prefix of a document. Those of fewer than complete bytes
// are an error.
func checkPrefixes(t *testing.T, name, doc string, complete int) {
	if got := read(strings.NewReader(doc)); got.err != nil {
		t.Errorf("%s: %v", name, got.err)
		return
	}
	for n := range doc {
		got := read(strings.NewReader(doc[:n]))
		if n < complete && got.err == nil {
			t.Errorf("%s cut after %d of %d bytes: read as complete", name, n, len(doc))
		}
		if got.err == nil {
			continue
		}
		if got.header.Capability != "" {
			t.Errorf("%s cut after %d bytes: a header at the end of an incomplete document", name, n)
		}
		e, ok := errors.AsType[*DecodeError](got.err)
		if !ok || e.Kind != Incomplete && e.Kind != NotResourceSync && n > 1 { // one byte does not tell what it is
			t.Errorf("%s cut after %d bytes: got %v", name, n, got.err)
		}
	}
}
