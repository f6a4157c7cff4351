package scan

import (
	"testing"

	"instep/resourcesync"
)

func TestRuleForTakesEachFieldFromTheFirstThatHasIt(t *testing.T) {
	rules := []Rule{
		{Match: "**/*.csv.gz", Type: "text/csv", Encoding: "gzip"},
		{Match: "old/**", Type: "text/plain", ChangeFreq: resourcesync.Never},
	}
	for path, want := range map[string]Rule{
		"a.csv.gz":     {Type: "text/csv", Encoding: "gzip"},
		"old/a.csv.gz": {Type: "text/csv", Encoding: "gzip", ChangeFreq: resourcesync.Never},
		"old/a":        {Type: "text/plain", ChangeFreq: resourcesync.Never},
		"a":            {},
	} {
		if got := RuleFor(rules, path); got != want {
			t.Errorf("%s: got %+v, want %+v", path, got, want)
		}
	}
}

func TestCoversAsAScanDoes(t *testing.T) {
	for name, c := range map[string]struct {
		dir  Dir
		path string
		want bool
	}{
		"everything":             {Dir{}, "a/b.txt", true},
		"a dotfile":              {Dir{}, ".b", false},
		"below a dot":            {Dir{}, "a/.b/c", false},
		"a dot inside of a name": {Dir{}, "a/b.txt", true},
		"included":               {Dir{Include: []string{"a/**"}}, "a/b/c", true},
		"not included":           {Dir{Include: []string{"a/**"}}, "b/c", false},
		"excluded":               {Dir{Exclude: []string{"**/*.tmp"}}, "a/b.tmp", false},
		"in an excluded one":     {Dir{Exclude: []string{"a/b"}}, "a/b/c/d", false},
		"beside an excluded one": {Dir{Exclude: []string{"a/b"}}, "a/bb/c", true},
		"both":                   {Dir{Include: []string{"a/**"}, Exclude: []string{"a/b/*"}}, "a/b/c", false},
	} {
		if got := c.dir.Covers(c.path); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
