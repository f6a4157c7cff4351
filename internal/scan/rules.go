package scan

import (
	"cmp"

	"instep/internal/glob"
)

// RuleFor returns the rule for a path: each field comes from the first rule that matches
// and sets it, the links from all that match. The globs must be valid.
func RuleFor(rules []Rule, path string) Rule {
	var told Rule
	for _, r := range rules {
		if !glob.Match(r.Match, path, false) {
			continue
		}
		told.Type = cmp.Or(told.Type, r.Type)
		told.Encoding = cmp.Or(told.Encoding, r.Encoding)
		told.ChangeFreq = cmp.Or(told.ChangeFreq, r.ChangeFreq)
		told.KeepLinks = cmp.Or(told.KeepLinks, r.KeepLinks)
		told.Links = append(told.Links, r.Links...)
	}
	return told
}
