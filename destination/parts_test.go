package destination

import (
	"context"
	"testing"

	"instep/harvest"
)

// keeper is a Mirror that takes over files; the tests of it call nothing else.
type keeper struct{ Mirror }

func (keeper) Stray(context.Context, *harvest.Resource, *Held) (string, bool, error) {
	return "found", true, nil
}

type opaque struct{ Mirror }

type wrapper struct{ Mirror }

func (w wrapper) Unwrap() Mirror { return w.Mirror }

// What a Mirror implements besides is found behind those that wrap it and say so.
func TestOptionalInterfacesOfAMirrorThatIsWrapped(t *testing.T) {
	for _, tt := range []struct {
		name string
		m    Mirror
		want bool
	}{
		{"none", nil, false},
		{"itself", keeper{}, true},
		{"wrapped twice", wrapper{wrapper{keeper{}}}, true},
		{"wrapped by one that hides it", opaque{keeper{}}, false},
		{"another one", wrapper{opaque{}}, false},
	} {
		if _, got := optional[Adopter](tt.m); got != tt.want {
			t.Errorf("%s: an Adopter was found: got %t, want %t", tt.name, got, tt.want)
		}
	}
}
