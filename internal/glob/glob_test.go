package glob

import (
	"slices"
	"strings"
	"testing"
)

func TestMatchIsThatOfGitignore(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"*.png", "x.png", true}, {"*.png", "a/b/x.png", true}, {"*.png", "x.png.txt", false}, {"*.png", "a.png/x.txt", true},
		{"/x.png", "x.png", true}, {"/x.png", "a/x.png", false}, {"/*.png", "a/x.png", false}, {"/*.png", "x.png", true},
		{"a/", "a/x", true}, {"a/", "a/b/x", true}, {"a/", "b/a/x", true}, {"a/", "a", false}, {"a/", "ab/x", false},
		{"/a/", "a/x", true}, {"/a/", "b/a/x", false},
		{"a", "a", true}, {"a", "a/x", true}, {"a", "b/a", true}, {"a", "ab", false},
		{"a/b", "a/b", true}, {"a/b", "a/b/c", true}, {"a/b", "x/a/b", false}, {"a/b/", "a/b", false}, {"a/b/", "a/b/c", true},
		{"a/*.txt", "a/x.txt", true}, {"a/*.txt", "a/b/x.txt", false}, {"a/**/*.txt", "a/b/c/x.txt", true}, {"a/**/*.txt", "a/x.txt", true},
		{"**/b", "a/b", true}, {"**/b", "b", true}, {"**", "a/b", true}, {"a/**", "a/b/c", true}, {"a/**", "ab", false},
		{"*.{png,jpg}", "a/x.jpg", true}, {"[ab].txt", "c/b.txt", true}, {`\*.txt`, "*.txt", true}, {`\*.txt`, "x.txt", false},
		{"!x", "!x", true}, {"!x", "x", false}, {"Ä*", "Änderung", true}, {"?", "ä", true}, {"a/", "c/a/", true},
	} {
		if got := Match(c.pattern, c.path, false); got != c.want {
			t.Errorf("%q and %q: got %t, want %t", c.pattern, c.path, got, c.want)
		}
	}
	if !Match("a/", "a", true) || !Match("a/", "b/a", true) || Match("/a/", "b/a", true) {
		t.Error("a directory: want that a/ matches a and b/a, and /a/ not b/a")
	}
}

func TestValid(t *testing.T) {
	for pattern, want := range map[string]bool{"*.png": true, "/a/": true, "[": false, "{a": false, "": false, "/": false, "//": false, "a/[": false} {
		if got := Valid(pattern); got != want {
			t.Errorf("%q: got %t, want %t", pattern, got, want)
		}
	}
}

func TestSetRemembersWhatMatched(t *testing.T) {
	s := NewSet([]string{"*.png", "a/*.png", "*.jpg", "docs/"})
	if !s.Match("a/x.png", false) || s.Match("x.txt", false) {
		t.Error("want that a/x.png matches and x.txt does not")
	}
	if got, want := s.Unmatched(), []string{"*.jpg", "docs/"}; !slices.Equal(got, want) {
		t.Errorf("unmatched: got %q, want %q", got, want)
	}
}

// FuzzMatch: no pattern and no path makes it fail, and what matches a path matches all
// that is below it.
func FuzzMatch(f *testing.F) {
	f.Add("a/**/*.png", "a/b/x.png")
	f.Add("/x/", "x")
	f.Add("[a-z", "b//c")
	f.Fuzz(func(t *testing.T, pattern, path string) {
		if !Valid(pattern) {
			return
		}
		if Match(pattern, path, true) && !strings.HasSuffix(path, "/") && !Match(pattern, path+"/below", false) {
			t.Errorf("%q matches the directory %q and not what is below it", pattern, path)
		}
	})
}
