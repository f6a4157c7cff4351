package transfer

import (
	"fmt"
	"testing"
)

// An origin that fails three times in a row is left alone, whatever it has brought before;
// a success in between begins the count anew.
func TestFailingOriginIsAskedForNoMoreDuplicates(t *testing.T) {
	const origin = "https://mirror.example.org"
	var m Origins
	for i, ok := range []bool{false, false, true, false, false} {
		if !m.usable(origin) {
			t.Fatalf("request %d: refused", i)
		}
		if m.record(origin, ok) {
			t.Fatalf("request %d: given up", i)
		}
	}
	if !m.record(origin, false) {
		t.Error("not given up after three failures in a row")
	}
	if m.record(origin, false) || m.record(origin, true) || m.usable(origin) {
		t.Error("told twice, or asked again")
	}
	if !m.usable("https://other.example.org") {
		t.Error("another origin is refused")
	}
}

func TestDuplicatesAreAskedForAtFewOrigins(t *testing.T) {
	var m Origins
	for i := range maxDuplicateOrigins {
		if !m.usable(fmt.Sprintf("https://%d.example.org", i)) {
			t.Fatalf("origin %d is refused", i)
		}
	}
	if m.usable("https://more.example.org") {
		t.Error("one more origin is asked")
	}
	if !m.usable("https://0.example.org") {
		t.Error("the first origin is refused")
	}
}
