package publish

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"instep/internal/scan"
	"instep/source"
)

// lose removes the state.
func (w *world) lose() {
	w.t.Helper()
	if err := os.RemoveAll(w.o.State); err != nil {
		w.t.Fatal(err)
	}
}

// Several sets, lists in parts, closed Change Lists and dumps: nothing of them is
// recorded anew, and what is said replays to what there is.
func TestAdoptSeveralSetsInParts(t *testing.T) {
	w := newWorld(t)
	w.fill(9)
	sets := []Set{
		{MaxEntries: 4, ChangeListMax: 2},
		{Name: "few", Choice: scan.Choice{Include: []string{"room 1/**", "room 2/**"}}, ChangeListMax: 2, Dumps: true},
	}
	publish := func() Report {
		t.Helper()
		w.o.Sets = sets
		rep, err := Run(t.Context(), w.o, What{})
		if err != nil {
			t.Fatal(err)
		}
		return rep
	}
	for _, name := range []string{"", "again", "once more", "and on", "and on and on"} {
		if name != "" {
			w.write("room 1/item.txt", name)
			w.write("room 5/item.txt", name)
		}
		publish()
	}
	before := files(t, w.o.Out)
	lists := len(w.changes())
	w.lose()
	if _, err := Run(t.Context(), w.o, What{}); !errors.As(err, new(*source.WrongStateError)) {
		t.Fatalf("without Adopt: got %v, want a *source.WrongStateError", err)
	}
	w.o.Adopt = true
	rep := publish()
	if rep.Created+rep.Updated+rep.Deleted > 0 || rep.Unchanged != 11 || len(rep.Notes) == 0 {
		t.Errorf("got %+v, want all as it was", rep)
	}
	for _, key := range before {
		if _, err := os.Stat(filepath.Join(w.o.Out, key)); err != nil {
			t.Errorf("after the adoption: %v", err)
		}
	}
	if got := len(w.changes()); got != lists {
		t.Errorf("Change Lists: got %d, want %d as before", got, lists)
	}
	w.write("room 1/item.txt", "after")
	w.remove("room 3/item.txt")
	if rep := publish(); rep.Updated != 2 || rep.Deleted != 1 || len(rep.Notes) > 0 {
		t.Errorf("after the adoption: got %+v, want two updates and a deletion", rep)
	}
	w.check()
}

func TestAdoptRefusesOtherSets(t *testing.T) {
	w := newWorld(t)
	w.fill(3)
	w.o.Sets = []Set{{}, {Name: "few", Choice: scan.Choice{Include: []string{"room 1/**"}}}}
	if _, err := Run(t.Context(), w.o, What{}); err != nil {
		t.Fatal(err)
	}
	before := files(t, w.o.Out)
	w.lose()
	w.o.Adopt, w.o.Sets = true, []Set{{}}
	_, err := Run(t.Context(), w.o, What{})
	var refused *AdoptError
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "sets/few") {
		t.Errorf("got %v, want the set named that would be lost", err)
	}
	if diff := cmp.Diff(files(t, w.o.Out), before); diff != "" {
		t.Errorf("what is published (-got +want):\n%s", diff)
	}
}

// The copy of the Source Description below a path is ours when it is one; what somebody
// else has there stays.
func TestAdoptBelowAPath(t *testing.T) {
	for _, theirs := range []string{"", "theirs"} {
		w := newWorld(t)
		w.fill(3)
		w.o.BaseURL = base + "sub/"
		copied := filepath.Join(w.o.Out, ".well-known", "resourcesync")
		w.run()
		if theirs != "" {
			if err := os.WriteFile(copied, []byte(theirs), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		w.lose()
		w.o.Adopt = true
		if rep := w.run(); rep.Created+rep.Updated+rep.Deleted > 0 || rep.Unchanged != 3 {
			t.Errorf("got %+v, want all as it was", rep.SetReport)
		}
		w.set.MaxEntries, w.o.About = 1, source.About{Title: "Another title"} // another description
		w.write("new.txt", "new")
		rep := w.run()
		text, err := os.ReadFile(copied)
		if err != nil {
			t.Fatal(err)
		}
		description, err := os.ReadFile(filepath.Join(w.o.Out, "resourcesync", "description.xml"))
		if err != nil {
			t.Fatal(err)
		}
		want := theirs
		if want == "" {
			want = string(description)
		}
		if string(text) != want || (theirs != "") != (len(rep.Notes) > 0) {
			t.Errorf("%q: got %q, notes %q", theirs, text, rep.Notes)
		}
	}
}
