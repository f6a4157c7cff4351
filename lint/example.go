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
		panic(fmt.Sprintf("lint: examples.json: %v", err)) // the file is embedded, and a test reads it
	}
	return m
})

// Example returns a fragment that follows the rule with that id and one that breaks it,
// for people to look at; either may be empty. Namespaces that a fragment does not
// declare are those of 1.1 §7. Where several documents take part, a line "### " and
// the URI stands before each.
func Example(id string) (right, wrong string) {
	e := samples()[id]
	return e.Right, e.Wrong
}
