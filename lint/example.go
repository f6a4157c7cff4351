package lint

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"
)

//go:embed examples.json
var samplesJSON []byte

type sample struct{ Right, Wrong string }

var samples = sync.OnceValue(func() map[string]sample {
	var m map[string]sample
	if err := json.Unmarshal(samplesJSON, &m); err != nil {
		panic(fmt.Sprintf("lint: examples.json: %v", err)) // cannot happen: the file is embedded, and a test reads it
	}
	return m
})

// Example returns two fragments of documents for people: one that satisfies the rule with
// the given id, and one that breaks it. Either may be empty. A fragment may omit the
// namespace declarations of 1.1 §7. If it consists of several documents, a line with "### "
// and a URI precedes each.
func Example(id string) (right, wrong string) {
	e := samples()[id]
	return e.Right, e.Wrong
}
