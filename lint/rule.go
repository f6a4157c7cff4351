package lint

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"instep/resourcesync"
)

// Rule is one requirement or recommendation of the standard.
type Rule struct {
	ID      string   `json:"id"`
	Family  string   `json:"family"` // the rules of one family are the same requirement for several kinds of document, with one check
	Level   Level    `json:"level"`
	Kinds   []string `json:"kinds"`   // the kinds of document that the rule applies to, such as "changelist-index"; AnyKind alone for all kinds
	Version string   `json:"version"` // the edition of the standard that contains the rule; "both" for 1.0 and 1.1
	Section string   `json:"section"` // the sections of the standard with the rule, such as "1.1 §12.1; 1.0 §12.1"

	Text string `json:"text"` // the requirement, as a sentence
	Fix  string `json:"fix"`  // what the owner of the Source should do, as a sentence

	// Checkable says what is needed to find a violation: "static" means one document,
	// "live" means requests to the server, "crosslink" means several documents, and
	// "behaviour" means more than these.
	Checkable string `json:"checkable"`

	Derived   bool     `json:"derived,omitempty"`   // whether the standard implies the rule without stating it
	Conflicts []string `json:"conflicts,omitempty"` // the rules of other editions that contradict this rule
	Wins      string   `json:"wins,omitempty"`      // the edition whose rule is checked if Conflicts is not empty and no profile is given
}

// AnyKind in Rule.Kinds means all kinds of ResourceSync documents.
const AnyKind = "any"

// In reports whether the rule belongs to the given profile.
func (r *Rule) In(p Profile) bool {
	if r.Version == "any" || r.ID == "xml-well-formed" {
		return true
	}
	switch p {
	case Profile11, "":
		return r.Version == "1.1" || r.Version == "both" || r.Version == "archives-0.9.1"
	case Profile10, ProfileArchives:
		return r.Version == "1.0" || r.Version == "both" || r.Version == "archives-0.9.1"
	case ProfileMid2013: // the drafts of mid-2013 have the attribute "modified" instead of "at" and "from"
		return (r.Version == "1.0" || r.Version == "both") && !strings.HasSuffix(r.ID, "-at-required") && !strings.HasSuffix(r.ID, "-from-required")
	}
	return r.Version == string(p)
}

// concerns reports whether the rule applies to documents of the given kind. The kind ""
// is unknown.
func (r *Rule) concerns(kind string) bool {
	return r.Kinds[0] == AnyKind || kind != "" && slices.Contains(r.Kinds, kind)
}

//go:embed rules.json
var rulesJSON []byte

type rulebook struct {
	rules   []Rule
	byID    map[string]*Rule
	byQuirk map[resourcesync.Quirk]*Rule
}

var book = sync.OnceValue(func() rulebook {
	var b rulebook
	if err := json.Unmarshal(rulesJSON, &b.rules); err != nil {
		panic(fmt.Sprintf("lint: rules.json: %v", err)) // the error cannot occur: the file is embedded, and a test reads it
	}
	b.byID = make(map[string]*Rule, len(b.rules))
	b.byQuirk = make(map[resourcesync.Quirk]*Rule)
	for i := range b.rules {
		b.byID[b.rules[i].ID] = &b.rules[i]
		if n := quirkNumber(&b.rules[i]); n > 0 {
			b.byQuirk[resourcesync.Quirk(n)] = &b.rules[i]
		}
	}
	return b
})

// Rules returns the catalogue of rules: first the rules of all editions, in the order
// of the standard, and then those about quirks (known deviations of existing Sources).
func Rules() []Rule { return slices.Clone(book().rules) }

// Lookup returns the rule with the given id.
func Lookup(id string) (Rule, bool) {
	r, ok := book().byID[id]
	if !ok {
		return Rule{}, false
	}
	return *r, true
}
