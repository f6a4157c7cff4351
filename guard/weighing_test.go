package guard

import (
	"fmt"
	"testing"
)

func TestContentThatMovedIsNotLost(t *testing.T) {
	of := func(b byte) []byte { return append([]byte{b}, make([]byte, 31)...) }
	for _, tt := range []struct {
		name  string
		weigh func(*Weighing)
		want  string // all, old
	}{
		{"nothing", func(*Weighing) {}, "{0 0} {0 0}"},
		{"an old member", func(w *Weighing) { w.Add(of(1), true, false) }, "{1 0} {1 0}"},
		{"a planned deletion of one that joined", func(w *Weighing) { w.Add(of(1), false, true) }, "{1 1} {0 0}"},
		{"a copy that replaced an old member, both gone", func(w *Weighing) { w.Add(of(1), true, false); w.Add(of(1), false, true) }, "{1 1} {1 1}"},
		{"what is somewhere else", func(w *Weighing) { w.Add(of(1), true, true); w.Add(of(2), true, true); w.Forget(of(1)) }, "{1 1} {1 1}"},
		{"unknown bytes cannot be found elsewhere", func(w *Weighing) { w.Add(nil, true, true); w.Add(nil, true, false); w.Forget(nil) }, "{2 1} {2 1}"},
	} {
		var w Weighing
		tt.weigh(&w)
		all, old := w.Losses()
		if got := fmt.Sprint(all, old); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
	if got := (Loss{Total: 5, Planned: 2}).Before(); got != 3 {
		t.Errorf("before: got %d, want 3", got)
	}
}
