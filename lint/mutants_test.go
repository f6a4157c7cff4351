package lint

import (
	"slices"
	"testing"
)

// TestMutants takes away the check of one rule after the other. Each time an example
// has to show it. Rules that nothing can break have no check to be taken away.
func TestMutants(t *testing.T) {
	fixtures, sites, maps := readFixtures(t), readSites(t), mapSites(t)
	killed, total := 0, 0
	for _, r := range Rules() {
		var mine []example
		for _, f := range fixtures {
			if !f.good() && slices.Contains(f.rules, r.ID) {
				mine = append(mine, f)
			}
		}
		for _, s := range sites {
			if !s.good() && slices.Contains(s.rules, r.ID) {
				mine = append(mine, s)
			}
		}
		for _, s := range maps {
			if !s.good() && slices.Contains(s.rules, r.ID) {
				mine = append(mine, s)
			}
		}
		if len(mine) == 0 {
			continue
		}
		total++
		if slices.ContainsFunc(mine, func(e example) bool { return noticed(t, e, r.ID) }) {
			killed++
		} else {
			t.Errorf("%s can be taken away and no example shows it", r.ID)
		}
	}
	t.Logf("mutants: %d of %d killed, %d %%", killed, total, 100*killed/max(total, 1))
}

// example is a document or a site that breaks a rule.
type example interface {
	profiles() []Profile
	found(t testing.TB, p Profile, disabled string) []string
	want(p Profile) []string
}

// noticed reports whether the example reports that the rule is not checked.
func noticed(t *testing.T, e example, id string) bool {
	p := e.profiles()[0]
	return !slices.Equal(e.found(t, p, id), e.want(p))
}
