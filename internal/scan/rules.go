package scan

import (
	"cmp"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// RuleFor returns what rules tell of a path: for each field the first one that
// matches and does not leave it empty. Their globs are known to be valid.
func RuleFor(rules []Rule, path string) Rule {
	var told Rule
	for _, r := range rules {
		if !doublestar.MatchUnvalidated(r.Match, path) {
			continue
		}
		told.Type = cmp.Or(told.Type, r.Type)
		told.Encoding = cmp.Or(told.Encoding, r.Encoding)
		told.ChangeFreq = cmp.Or(told.ChangeFreq, r.ChangeFreq)
	}
	return told
}

// Covers reports whether a regular file at path would be published by its names, as
// far as patterns tell: it asks no Tree and no Ours.
func (d *Dir) Covers(path string) bool {
	for end, r := range path + "/" {
		if r != '/' {
			continue
		}
		name := path[:end]
		if strings.HasPrefix(name[strings.LastIndexByte(name, '/')+1:], ".") || matchesAny(d.Exclude, name) {
			return false
		}
	}
	return d.included(path)
}
