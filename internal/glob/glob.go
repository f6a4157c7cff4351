// Package glob matches slash-separated paths against patterns with the meaning of
// .gitignore: "*.png" matches at any level, "/x.png" and "a/x.png" from the root, "a/" only
// a directory, and a pattern that matches a directory matches everything below it. "*" and
// "?" match within a segment, "**" matches any number of segments, and [a-z] and {a,b}
// match alternatives. A backslash escapes the next character.
//
// Unlike in .gitignore, "!" is an ordinary character: commands have separate patterns to
// include and to exclude.
package glob

import (
	"strings"
	"sync/atomic"

	"github.com/bmatcuk/doublestar/v4"
)

// Valid reports whether a pattern is not empty and follows the rules in the package comment.
func Valid(pattern string) bool {
	body, _, _ := parse(pattern)
	return body != "" && doublestar.ValidatePattern(body)
}

// parse returns a pattern without leading and trailing slashes. anchored is true if the
// pattern matches only from the root, and dir is true if it matches only directories.
func parse(pattern string) (body string, anchored, dir bool) {
	body, dir = strings.CutSuffix(pattern, "/")
	body, anchored = strings.CutPrefix(body, "/")
	return body, anchored || strings.Contains(body, "/"), dir
}

// Match reports whether a valid pattern matches a path or one of the directories above
// it. The path is that of a directory if dir is true or if the path ends in a slash.
func Match(pattern, path string, dir bool) bool {
	body, anchored, dirOnly := parse(pattern)
	path, slash := strings.CutSuffix(path, "/")
	dir = dir || slash
	for begin, end := 0, 0; end < len(path); begin = end + 1 {
		end = len(path)
		if i := strings.IndexByte(path[begin:], '/'); i >= 0 {
			end = begin + i
		}
		name := path[begin:end]
		if anchored {
			name = path[:end]
		}
		if (!dirOnly || dir || end < len(path)) && doublestar.MatchUnvalidated(body, name) {
			return true
		}
	}
	return false
}

// MatchAny reports whether one of the patterns matches.
func MatchAny(patterns []string, path string, dir bool) bool {
	for _, p := range patterns {
		if Match(p, path, dir) {
			return true
		}
	}
	return false
}

// Set is a list of patterns that records which of them have matched. It is safe for
// concurrent use.
type Set struct {
	patterns []string
	hit      []atomic.Bool
}

// NewSet returns a Set of the given patterns, which must be valid.
func NewSet(patterns []string) *Set {
	return &Set{patterns: patterns, hit: make([]atomic.Bool, len(patterns))}
}

// Match reports whether one of the patterns in the Set matches a path, and records which of
// them have matched.
func (s *Set) Match(path string, dir bool) (found bool) {
	for i, p := range s.patterns {
		if found && s.hit[i].Load() {
			continue
		}
		if Match(p, path, dir) {
			s.hit[i].Store(true)
			found = true
		}
	}
	return found
}

// Empty reports whether there are no patterns.
func (s *Set) Empty() bool { return len(s.patterns) == 0 }

// Unmatched returns the patterns that have not matched yet.
func (s *Set) Unmatched() (patterns []string) {
	for i := range s.hit {
		if !s.hit[i].Load() {
			patterns = append(patterns, s.patterns[i])
		}
	}
	return patterns
}
