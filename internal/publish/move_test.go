package publish

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"instep/source"
)

const newBase = "https://www.example.org/museum/"

// has reports whether a file is in the output.
func (w *world) has(key string) bool {
	_, err := os.Stat(filepath.Join(w.o.Out, filepath.FromSlash(key)))
	return err == nil
}

// TestMovePublishesAnewAndRemovesWhatWasOurs: what was published for another base URL is
// removed as far as it is as it was written, and everything is published for the new one.
func TestMovePublishesAnewAndRemovesWhatWasOurs(t *testing.T) {
	w := newWorld(t)
	w.set.Dumps = true
	w.fill(3)
	w.run()
	w.write("room 0/item.txt", "another item")
	w.run()
	const list = "resourcesync/changes/1.xml"
	about := filepath.Join(w.o.Out, "resourcesync", "about.html")
	if err := os.WriteFile(about, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if !w.has(list) {
		t.Fatalf("%s is not there before", list)
	}
	w.o.BaseURL, w.o.Move = newBase, true
	if _, err := w.try(); !errors.As(err, new(*source.NotOursError)) {
		t.Errorf("got %v, want that about.html is not ours any more", err)
	}
	if text, err := os.ReadFile(about); err != nil || string(text) != "mine" {
		t.Errorf("about.html: got %q, %v; want it as the user has changed it", text, err)
	}
	if w.has("resourcesync/description.xml") {
		t.Error("the old Source Description is still there")
	}
	if err := os.Remove(about); err != nil {
		t.Fatal(err)
	}
	if rep := w.run(); rep.Resources != 3 || rep.ResourceList == "" {
		t.Errorf("got %d resources, Resource List %q; want 3 in one", rep.Resources, rep.ResourceList)
	}
	if info, err := publishedInfo(w.o.Out); err != nil || info.BaseURL != newBase {
		t.Errorf("published for %q (%v), want %q", info.BaseURL, err, newBase)
	}
	if rep := w.run(); rep.Unchanged != 3 {
		t.Errorf("moved again: got same=%d, want 3", rep.Unchanged)
	}
}

// TestMoveGoesOnAfterAnInterruption: documents that a move has removed already, and a
// state that it has put aside, are no trouble to the next one.
func TestMoveGoesOnAfterAnInterruption(t *testing.T) {
	for name, interrupt := range map[string]func(w *world){
		"documents are gone": func(w *world) {
			for _, key := range []string{"resourcesync/publication.json", ".well-known/resourcesync"} {
				if err := os.Remove(filepath.Join(w.o.Out, filepath.FromSlash(key))); err != nil {
					w.t.Fatal(err)
				}
			}
		},
		"the catalog is aside": func(w *world) {
			if err := os.RemoveAll(w.o.Out); err != nil {
				w.t.Fatal(err)
			}
			name := filepath.Join(w.o.State, catalogName)
			if err := os.Rename(name, name+movedSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
				w.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fill(2)
			w.run()
			interrupt(w)
			w.o.BaseURL, w.o.Move = newBase, true
			if rep := w.run(); rep.Created != 2 {
				t.Errorf("got created=%d, want 2", rep.Created)
			}
			if info, err := publishedInfo(w.o.Out); err != nil || info.BaseURL != newBase {
				t.Errorf("published for %q (%v), want %q", info.BaseURL, err, newBase)
			}
		})
	}
}

// TestMoveLeavesAPublicationOfAnotherState: what another state published is refused, and
// stays.
func TestMoveLeavesAPublicationOfAnotherState(t *testing.T) {
	w := newWorld(t)
	w.fill(2)
	w.run()
	if err := os.Rename(w.o.State, w.o.State+"-lost"); err != nil {
		t.Fatal(err)
	}
	w.o.BaseURL, w.o.Move = newBase, true
	if _, err := w.try(); !errors.As(err, new(*source.WrongStateError)) {
		t.Errorf("got %v, want a WrongStateError", err)
	}
	if info, err := publishedInfo(w.o.Out); err != nil || info.BaseURL != base {
		t.Errorf("published for %q (%v), want %q as before", info.BaseURL, err, base)
	}
}
