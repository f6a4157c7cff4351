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

// Example returns, for people, a fragment that satisfies the rule with that id and one
// that breaks it; either may be empty. Namespaces that it does not declare are those of
// 1.1 §7. If there are several documents, a line "### " with the URI precedes each.
func Example(id string) (right, wrong string) {
	e := samples()[id]
	return e.Right, e.Wrong
}
