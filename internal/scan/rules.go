package scan

import (
	"cmp"

	"instep/internal/glob"
)

// RuleFor returns what rules tell of a path: for each field the first one that
// matches and does not leave it empty. Their globs are known to be valid.
func RuleFor(rules []Rule, path string) Rule {
	var told Rule
	for _, r := range rules {
		if !glob.Match(r.Match, path, false) {
			continue
		}
		told.Type = cmp.Or(told.Type, r.Type)
		told.Encoding = cmp.Or(told.Encoding, r.Encoding)
		told.ChangeFreq = cmp.Or(told.ChangeFreq, r.ChangeFreq)
	}
	return told
}
