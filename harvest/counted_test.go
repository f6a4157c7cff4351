package harvest

import "testing"

func TestCountedSaysOneOrSeveral(t *testing.T) {
	const text = "%d {resource is|resources are} left, {|such as }%s"
	for n, want := range map[int]string{
		0: "0 resources are left, such as {a|b}", 1: "1 resource is left, {a|b}", 2: "2 resources are left, such as {a|b}",
	} {
		if got := Counted(n, text, n, "{a|b}"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
