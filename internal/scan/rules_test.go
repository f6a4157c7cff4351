package scan

import (
	"reflect"
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
		if got := RuleFor(rules, path); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", path, got, want)
		}
	}
}

func TestCoversAsAScanDoes(t *testing.T) {
	for name, c := range map[string]struct {
		dir  Choice
		path string
		want bool
	}{
		"everything":             {Choice{}, "a/b.txt", true},
		"a dotfile":              {Choice{}, ".b", false},
		"below a dot":            {Choice{}, "a/.b/c", false},
		"a dot inside of a name": {Choice{}, "a/b.txt", true},
		"included":               {Choice{Include: []string{"a/**"}}, "a/b/c", true},
		"not included":           {Choice{Include: []string{"a/**"}}, "b/c", false},
		"excluded":               {Choice{Exclude: []string{"**/*.tmp"}}, "a/b.tmp", false},
		"in an excluded one":     {Choice{Exclude: []string{"a/b"}}, "a/b/c/d", false},
		"beside an excluded one": {Choice{Exclude: []string{"a/b"}}, "a/bb/c", true},
		"at any level":           {Choice{Include: []string{"*.png"}}, "a/b/c.png", true},
		"at the root":            {Choice{Include: []string{"/*.png"}}, "a/c.png", false},
		"in a directory":         {Choice{Exclude: []string{"b/"}}, "a/b/c.png", false},
		"litter":                 {Choice{}, "a/Thumbs.db", false},
		"a lock file":            {Choice{}, "a/~$letter.docx", false},
		"all files":              {Choice{AllFiles: true}, "a/Thumbs.db", true},
		"assumed":                {Choice{AssumeUnchanged: []string{"a/"}}, "a/b", true},
		"both":                   {Choice{Include: []string{"a/**"}, Exclude: []string{"a/b/*"}}, "a/b/c", false},
	} {
		if got := c.dir.Covers(c.path); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
