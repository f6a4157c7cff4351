package scan

import (
	"cmp"

	"instep/internal/glob"
)

// RuleFor returns the combination of all rules whose glob matches a path: each field comes
// from the first matching rule that sets it, and the links come from all matching rules.
// The globs of the rules must be valid.
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
