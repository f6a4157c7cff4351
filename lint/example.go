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
		panic(fmt.Sprintf("lint: examples.json: %v", err)) // the error cannot occur: the file is embedded, and a test reads it
	}
	return m
})

// Example returns two fragments of documents, as examples for people: the first
// satisfies the rule with the given id, and the second violates it. One of them may be
// empty. A fragment may omit the namespace declarations of 1.1 §7. If a fragment
// consists of several documents, a line with "### " and a URI comes before each of them.
func Example(id string) (right, wrong string) {
	e := samples()[id]
	return e.Right, e.Wrong
}
