package lint

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var ruleID = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

func TestCatalogueIsWhole(t *testing.T) {
	rules := Rules()
	seen := map[string]bool{}
	for _, r := range rules {
		if seen[r.ID] {
			t.Errorf("%s stands there twice", r.ID)
		}
		seen[r.ID] = true
		if !ruleID.MatchString(r.ID) || r.Family == "" || len(r.Kinds) == 0 || r.Section == "" {
			t.Errorf("%s: a field is empty: %+v", r.ID, r)
		}
		for _, s := range []string{r.Text, r.Fix} {
			if !strings.HasSuffix(s, ".") || strings.ContainsAny(s, "\n{}") {
				t.Errorf("%s: %q is no sentence", r.ID, s)
			}
		}
		if !slices.Contains([]string{"static", "live", "crosslink", "behaviour"}, r.Checkable) {
			t.Errorf("%s: checkable %q", r.ID, r.Checkable)
		}
		if (r.Wins == "") != (len(r.Conflicts) == 0) {
			t.Errorf("%s: conflicts %q and %q wins", r.ID, r.Conflicts, r.Wins)
		}
	}
	const standard, quirks, own = 454, 60, 6
	if len(rules) != standard+quirks+own {
		t.Errorf("%d rules, want %d of the standard, %d about quirks and %d of ours", len(rules), standard, quirks, own)
	}
	for _, r := range rules {
		for _, id := range r.Conflicts {
			if other, ok := Lookup(id); !ok || other.Version == r.Version {
				t.Errorf("%s conflicts with %s, which is no rule of another edition", r.ID, id)
			}
		}
	}
}

// TestNoProfileHasBothSidesOfAConflict: which side a document has to follow depends on
// the profile.
func TestNoProfileHasBothSidesOfAConflict(t *testing.T) {
	for _, p := range []Profile{Profile11, Profile10, ProfileArchives, ProfileDLib} {
		for _, r := range Rules() {
			for _, id := range r.Conflicts {
				if other, _ := Lookup(id); r.Checkable == "static" && r.In(p) && other.In(p) {
					t.Errorf("profile %s has %s and %s, which conflict", p, r.ID, id)
				}
			}
		}
	}
}

func TestEveryStaticRuleHasACheck(t *testing.T) {
	families := map[string]bool{}
	for _, r := range Rules() {
		families[r.Family] = true
		if checkName(r.Family) == "" && r.Checkable == "static" && r.Version != "ore-alpha" {
			t.Errorf("%s: no check for the family %s", r.ID, r.Family)
		}
	}
	for _, family := range slices.Concat(slices.Collect(maps.Keys(checks)), slices.Collect(maps.Keys(noted)), slices.Collect(maps.Keys(plain)), permitted) {
		if !families[family] {
			t.Errorf("a check for the family %s, which the catalogue does not have", family)
		}
	}
}

func TestProfilesHaveTheRulesOfTheirEditions(t *testing.T) {
	tests := []struct {
		rule string
		in   []Profile
	}{
		{"up-single", []Profile{Profile11, Profile10, ProfileArchives}},
		{"datetime-scope", []Profile{Profile11}},
		{"changelist-lastmod-required", []Profile{Profile10, ProfileArchives}},
		{"changelist-archive-order", []Profile{Profile11, Profile10, ProfileArchives}},
		{"dlib-top-link", []Profile{ProfileDLib}},
		{"xml-well-formed", []Profile{Profile11, Profile10, ProfileArchives, ProfileDLib}},
		{"quirk-46-hash-spelling", []Profile{Profile11, Profile10, ProfileArchives, ProfileDLib}},
		{"ore-sitemap-path-scope", nil},
	}
	for _, test := range tests {
		r, ok := Lookup(test.rule)
		if !ok {
			t.Errorf("%s is missing", test.rule)
		}
		var in []Profile
		for _, p := range []Profile{Profile11, Profile10, ProfileArchives, ProfileDLib} {
			if r.In(p) {
				in = append(in, p)
			}
		}
		if !slices.Equal(in, test.in) {
			t.Errorf("%s is in %q, want %q", test.rule, in, test.in)
		}
	}
}
