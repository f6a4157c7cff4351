package publish

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/source"
)

const fixedKey = "resourcesync/changelist.xml"

// Asked for later, the list tells what has happened before too; it is no change, and
// comes back when somebody has removed it.
func TestFixedChangeListMayBeginLater(t *testing.T) {
	w := newWorld(t)
	w.set.ChangeListMax = 2
	w.fill(4)
	w.run()
	for _, text := range []string{"one", "two", "three"} {
		w.write("room 0/item.txt", text)
		w.write("room 1/item.txt", text)
		w.run()
	}
	w.set.Policy.FixedChanges = true
	rep := w.run()
	if !rep.Published || rep.Created+rep.Updated+rep.Deleted > 0 || rep.FixedChangeList != base+fixedKey {
		t.Errorf("got %+v, want it written and nothing changed", rep.SetReport)
	}
	if n := len(rep.Documents); n == 0 || rep.Documents[n-1] != fixedKey {
		t.Errorf("Documents: got %q, want it the last", rep.Documents)
	}
	list := w.document(rep.FixedChangeList)
	if len(list.Entries) != 6 || list.link("up") != base+"resourcesync/capabilitylist.xml" {
		t.Errorf("got %d changes, up %q, want the 6 of all lists", len(list.Entries), list.link("up"))
	}
	if diff := cmp.Diff(w.truth(), w.replayFixed()); diff != "" {
		t.Errorf("(-directory +documents):\n%s", diff)
	}
	if rep := w.run(); rep.Published {
		t.Errorf("next: got %+v, want nothing to publish", rep.SetReport)
	}
	if err := os.Remove(filepath.Join(w.o.Out, fixedKey)); err != nil {
		t.Fatal(err)
	}
	if rep := w.run(); !slices.Contains(rep.Documents, fixedKey) {
		t.Errorf("removed: got %q, want it written anew", rep.Documents)
	}
}

// An adopted publication continues with the list, or ends it.
func TestFixedChangeListIsAdopted(t *testing.T) {
	for _, goesOn := range []bool{true, false} {
		w := newWorld(t)
		w.set.ChangeListMax = 2
		w.set.Policy.FixedChanges = true
		w.fill(4)
		w.run()
		for _, text := range []string{"one", "two", "three"} {
			w.write("room 0/item.txt", text)
			w.write("room 1/item.txt", text)
			w.run()
		}
		before := w.document(base + fixedKey)
		w.lose()
		w.o.Adopt, w.set.Policy.FixedChanges = true, goesOn
		w.write("new.txt", "new")
		rep := w.run()
		if rep.Created != 1 || rep.Updated+rep.Deleted > 0 {
			t.Errorf("got %+v, want one creation", rep.SetReport)
		}
		if retired := slices.Contains(rep.Retired, fixedKey); retired == goesOn {
			t.Errorf("goes on: %v, retired: %v", goesOn, retired)
		}
		if !goesOn {
			w.now = w.now.Add(50 * time.Hour)
			w.write("new.txt", "newer")
			w.run()
			w.now = w.now.Add(50 * time.Hour)
			w.run()
			if _, err := os.Stat(filepath.Join(w.o.Out, fixedKey)); err == nil {
				t.Error("it is still there, and tells of the state before")
			}
			continue
		}
		after := w.document(source.FixedChangeListURI(base, ""))
		if n := len(before.Entries); len(after.Entries) != n+1 || !cmp.Equal(after.Entries[:n], before.Entries) || after.MD.From != before.MD.From {
			t.Errorf("got %+v\nafter %+v, want one change more", after, before)
		}
	}
}
