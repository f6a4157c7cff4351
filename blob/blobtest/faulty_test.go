package blobtest

import (
	"errors"
	"strings"
	"testing"

	"instep/blob"
)

func TestFaultyWithoutFaultsIsABucket(t *testing.T) {
	Run(t, func(*testing.T) blob.Bucket {
		return Faulty(blob.NewMem(), func(Call) *Fault { return nil })
	})
}

func TestFaultyFailsTheChosenCall(t *testing.T) {
	own := errors.New("an error of the test")
	put := func(t *testing.T, b blob.Bucket) error {
		return tryPut(t, b, put{blob.Put{Key: "new"}, "new"}, put{blob.Put{Key: "a"}, "changed"})
	}
	for _, c := range []struct {
		name string
		plan Plan
		do   func(t *testing.T, b blob.Bucket) error
		err  error
		want map[string]string
	}{
		{"commit without effect", At(OpCommit, 1, Fault{Err: own}), put, own, map[string]string{"a": "a"}},
		{"commit with one step", At(OpCommit, 1, Fault{Steps: 1}), put, ErrInjected, map[string]string{"a": "a", "new": "new"}},
		{"commit with effect", At(OpCommit, 1, Fault{Steps: All}), put, ErrInjected, map[string]string{"a": "changed", "new": "new"}},
		{"another commit", At(OpCommit, 2, Fault{}), put, nil, map[string]string{"a": "changed", "new": "new"}},
		{"get", At(OpGet, 1, Fault{}), readA, ErrInjected, map[string]string{"a": "a"}},
		{"read", At(OpRead, 1, Fault{}), readA, ErrInjected, map[string]string{"a": "a"}},
		{"stat", At(OpStat, 1, Fault{}), func(t *testing.T, b blob.Bucket) error {
			_, err := b.Stat(t.Context(), "a")
			return err
		}, ErrInjected, map[string]string{"a": "a"}},
		{"begin", At(OpBegin, 1, Fault{}), writeA, ErrInjected, map[string]string{"a": "a"}},
		{"create", At(OpCreate, 1, Fault{}), writeA, ErrInjected, map[string]string{"a": "a"}},
		{"create with effect", At(OpCreate, 1, Fault{Steps: All}), writeA, ErrInjected, map[string]string{"a": "a"}},
		{"write", At(OpWrite, 1, Fault{Steps: 2}), writeA, ErrInjected, map[string]string{"a": "a"}},
		{"close", At(OpClose, 1, Fault{}), writeA, ErrInjected, map[string]string{"a": "a"}},
		{"list", At(OpList, 1, Fault{}), func(t *testing.T, b blob.Bucket) error {
			for _, err := range b.List(t.Context(), "") {
				return err
			}
			return nil
		}, ErrInjected, map[string]string{"a": "a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := blob.NewMem()
			fill(t, mem, "a")
			if err := c.do(t, Faulty(mem, c.plan)); !errors.Is(err, c.err) {
				t.Errorf("got %v, want %v", err, c.err)
			}
			want(t, mem, c.want)
		})
	}
}

func readA(t *testing.T, b blob.Bucket) error {
	_, err := blob.ReadAll(t.Context(), b, "a", 100)
	return err
}

func writeA(t *testing.T, b blob.Bucket) error {
	_, err := blob.Write(t.Context(), b, strings.NewReader("other"), blob.Put{Key: "a"})
	return err
}
