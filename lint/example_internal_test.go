package lint

import "testing"

func TestExamplesAreOfRules(t *testing.T) {
	if len(samples()) < 200 {
		t.Errorf("got %d examples, want those of more than 200 static rules", len(samples()))
	}
	for id, e := range samples() {
		if _, ok := Lookup(id); !ok {
			t.Errorf("%s is no rule", id)
		}
		if e.Right == e.Wrong {
			t.Errorf("%s: what is right is what is wrong", id)
		}
	}
}
