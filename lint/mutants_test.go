package lint

import (
	"slices"
	"testing"
)

// TestMutants takes away the check of one rule after the other. Each time an example
// has to show it. Rules that nothing can break have no check to be taken away.
func TestMutants(t *testing.T) {
	fixtures := readFixtures(t)
	killed, total := 0, 0
	for _, r := range Rules() {
		var mine []*fixture
		for _, f := range fixtures {
			if !f.good() && slices.Contains(f.rules, r.ID) {
				mine = append(mine, f)
			}
		}
		if len(mine) == 0 {
			continue
		}
		total++
		if slices.ContainsFunc(mine, func(f *fixture) bool { return noticed(t, f, r.ID) }) {
			killed++
		} else {
			t.Errorf("%s can be taken away and no example shows it", r.ID)
		}
	}
	t.Logf("mutants: %d of %d killed, %d %%", killed, total, 100*killed/max(total, 1))
}

// noticed reports whether the example tells that the rule is not checked.
func noticed(t *testing.T, f *fixture, id string) bool {
	p := f.profiles()[0]
	return !slices.Equal(f.found(t, p, id), f.want(p))
}
