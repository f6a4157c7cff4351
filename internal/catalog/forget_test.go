package catalog

import (
	"fmt"
	"math"
	"testing"

	"instep/resourcesync"
)

// TestForgottenChanges: of one set alone, up to a number, in more than one transaction,
// and never the last.
func TestForgottenChanges(t *testing.T) {
	c := open(t)
	set, err := c.Facts.Set(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	other, err := c.Facts.Set(t.Context(), "other")
	if err != nil {
		t.Fatal(err)
	}
	var all []Change
	for i := range 2*forgetRows/MaxChanges + 1 {
		batch := make([]Change, MaxChanges)
		for k := range batch {
			uri := fmt.Sprintf("https://example.org/%d/%d", i, k)
			batch[k] = Change{Change: resourcesync.Created, Resource: Resource{URI: uri, Path: uri}}
		}
		if err := c.Facts.Record(t.Context(), set, batch); err != nil {
			t.Fatal(err)
		}
		all = append(all, batch...)
		if err := c.Facts.Record(t.Context(), other, batch[:1]); err != nil {
			t.Fatal(err)
		}
	}
	if at, err := c.Facts.Forgotten(t.Context(), set); err != nil || !at.IsZero() {
		t.Errorf("Forgotten = %v, %v before anything was", at, err)
	}
	most := all[len(all)-700]
	for _, test := range []struct {
		through, most, forgotten int64
		last                     Change
	}{
		{0, math.MaxInt64, 0, Change{}},
		{most.Seq, 1, forgetRows, all[forgetRows-1]},
		{most.Seq, math.MaxInt64, int64(len(all)) - 699 - forgetRows, most},
		{most.Seq, math.MaxInt64, 0, most},
		{math.MaxInt64, math.MaxInt64, 698, all[len(all)-2]},
		{math.MaxInt64, math.MaxInt64, 0, all[len(all)-2]},
	} {
		n, err := c.Facts.ForgetChanges(t.Context(), set, test.through, test.most)
		at, err2 := c.Facts.Forgotten(t.Context(), set)
		if err != nil || err2 != nil || n != test.forgotten || !at.Equal(test.last.Datetime) {
			t.Errorf("up to %d: %d, %v, until %v, %v; want %d until %v", test.through, n, err, at, err2, test.forgotten, test.last.Datetime)
		}
	}
	if seq, at, err := c.Facts.LastSeq(t.Context(), set); err != nil || seq != all[len(all)-1].Seq || !at.Equal(all[len(all)-1].Datetime) {
		t.Errorf("LastSeq = %d, %v, %v; want that of the last change", seq, at, err)
	}
	if n, err := c.Facts.CountChanges(t.Context(), other, 0, math.MaxInt64); err != nil || n != int64(2*forgetRows/MaxChanges+1) {
		t.Errorf("%d changes of the other set are left, %v; want all", n, err)
	}
}
