package publish

import (
	"testing"
	"time"
)

// Readers of 1.0 compare lastmod with when they came last, as resync 1.0.9 does (resync/client.py:384),
// and some know no fraction of a second: rounded down, a change of that second would be passed over.
func TestProfileBothRoundsChangesUp(t *testing.T) {
	for _, micros := range []int{0, 1, 500_000, 999_999} {
		w := newWorld(t)
		w.set.Policy.ProfileBoth = true
		w.set.Dumps = true
		w.now = w.now.Truncate(time.Second).Add(time.Duration(micros) * time.Microsecond)
		w.fill(2)
		w.run()
		w.write("room 0/item.txt", "changed")
		w.remove("room 1/item.txt")
		w.write("new.txt", "new")
		w.set.MaxDelete = "100%"
		w.run()
		changes := w.linked("changelist").Entries
		if len(changes) != 3 {
			t.Fatalf("changes: got %+v, want 3", changes)
		}
		for _, en := range changes {
			datetime, lastmod := moment(t, en.MD.Datetime), moment(t, en.LastMod)
			if d := lastmod.Sub(datetime); d < 0 || d >= time.Second || lastmod.Nanosecond() != 0 || fraction.MatchString(en.LastMod) {
				t.Errorf("%s at %s: lastmod %s, want it rounded up to a second", en.MD.Change, en.MD.Datetime, en.LastMod)
			}
		}
		for _, en := range w.linked("resourcelist").Entries {
			if moment(t, en.LastMod).After(time.Now()) {
				t.Errorf("Resource List: lastmod %s is not the time of the file", en.LastMod)
			}
		}
		w.check()

		w.lose() // what stands for a datetime is taken for no time of a file
		w.o.Adopt, w.set.Dumps = true, false
		w.what.Rebase = true
		if rep := w.run(); rep.Created+rep.Updated+rep.Deleted > 0 {
			t.Errorf("adopted: got %+v, want all as it was", rep.SetReport)
		}
		for _, en := range w.linked("resourcelist").Entries {
			if en.LastMod != "" && moment(t, en.LastMod).After(time.Now()) {
				t.Errorf("adopted: lastmod %s is not the time of the file", en.LastMod)
			}
		}
	}
}

// Another profile changes the form of the open Change List, and no resource.
func TestProfileIsNoChange(t *testing.T) {
	w := newWorld(t)
	w.fill(2)
	w.run()
	w.write("room 0/item.txt", "changed")
	w.run()
	w.set.Policy.ProfileBoth = true
	rep := w.run()
	if got := w.linked("changelist").Entries; rep.Updated != 0 || !rep.Published || len(got) != 1 || fraction.MatchString(got[0].LastMod) {
		t.Errorf("got %+v and %+v, want the one change in its new form", rep.SetReport, got)
	}
	if rep := w.run(); rep.Published {
		t.Errorf("next: got %+v, want nothing to publish", rep.SetReport)
	}
}
