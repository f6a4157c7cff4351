package resourcesync

import (
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHasherGoesOnFromAState(t *testing.T) {
	all := []Algorithm{MD5, SHA1, SHA224, SHA256, SHA384, SHA512}
	for _, algs := range [][]Algorithm{nil, {SHA256}, all} {
		one, first := NewHasher(algs...), NewHasher(algs...)
		io.WriteString(one, "hello, world")
		io.WriteString(first, "hello,")
		state, err := first.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		second := NewHasher(algs...)
		if err := second.UnmarshalBinary(state); err != nil {
			t.Fatal(err)
		}
		io.WriteString(second, " world")
		if got, want := second.Digests().String(), one.Digests().String(); got != want {
			t.Errorf("%v: %s", algs, cmp.Diff(got, want))
		}
		for cut := range len(state) {
			if NewHasher(algs...).UnmarshalBinary(state[:cut]) == nil {
				t.Errorf("%v: a state cut at %d of %d was taken", algs, cut, len(state))
			}
		}
		if NewHasher(append(algs, SHA1)...).UnmarshalBinary(state) == nil || NewHasher(algs...).UnmarshalBinary(append(state, 1)) == nil {
			t.Errorf("%v: the state of other algorithms was taken", algs)
		}
	}
	state, err := NewHasher(SHA224).MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	if NewHasher(SHA256).UnmarshalBinary(state) == nil {
		t.Error("the state of SHA-224 was taken for one of SHA-256")
	}
}
