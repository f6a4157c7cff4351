package publish

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"instep/internal/catalog"
)

func TestStateIsNeitherPublishedNorServed(t *testing.T) {
	for name, place := range map[string]func(*world) string{
		"the directory":               func(w *world) string { return w.o.Dir },
		"the output":                  func(w *world) string { return w.o.Out },
		"below the directory":         func(w *world) string { return filepath.Join(w.o.Dir, "a", "state") },
		"below the output":            func(w *world) string { return filepath.Join(w.o.Out, "state") },
		"the directory by other name": func(w *world) string { return w.link(w.o.Dir) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fill(1)
			w.o.State = place(w)
			_, err := w.try()
			var wrong *OptionError
			if !errors.As(err, &wrong) || wrong.Option != "state" {
				t.Errorf("got %v, want an *OptionError of state", err)
			}
			if diff := cmp.Diff([]string{"room 0/item.txt"}, files(t, w.o.Dir)); diff != "" {
				t.Errorf("directory (-want +got):\n%s", diff)
			}
		})
	}
}

func (w *world) link(to string) string {
	w.t.Helper()
	name := filepath.Join(w.t.TempDir(), "link")
	if err := os.Symlink(to, name); err != nil {
		w.t.Fatal(err)
	}
	return name
}

func TestOutputIsNotLeftBehind(t *testing.T) {
	w := newWorld(t)
	w.fill(2)
	elsewhere := w.o.Out
	w.o.Out = ""
	w.run()
	w.o.Out = elsewhere
	_, err := w.try()
	var wrong *StateError
	if !errors.As(err, &wrong) || wrong.What != WhatOut {
		t.Fatalf("other output: got %v, want *StateError", err)
	}
	for _, name := range []string{"resourcesync", ".well-known", "sitemap.xml"} {
		if err := os.Rename(filepath.Join(w.o.Dir, name), filepath.Join(elsewhere, name)); err != nil {
			t.Fatal(err)
		}
	}
	rep := w.run()
	if rep.Resources != 2 || rep.Created != 0 || rep.Deleted != 0 || len(rep.Notes) != 0 {
		t.Errorf("after the move: got %+v", rep)
	}
	w.write("more.txt", "more")
	w.run()
	w.check()
}

// The state of a mirror is no place for what is published: the sets of the two are not
// named alike.
func TestStateOfAMirrorIsRefused(t *testing.T) {
	w := newWorld(t)
	w.fill(1)
	name := filepath.Join(w.o.State, catalogName)
	if err := os.MkdirAll(w.o.State, 0o750); err != nil {
		t.Fatal(err)
	}
	c, err := catalog.Open(t.Context(), catalog.Options{Path: name, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Facts.SetSettings(t.Context(), map[string]string{catalog.MirrorSetting: "https://example.org/source"}), c.Close()); err != nil {
		t.Fatal(err)
	}
	for _, dry := range []bool{true, false} {
		w.o.DryRun = dry
		var wrong *StateError
		if _, err := w.try(); !errors.As(err, &wrong) || wrong.Recorded != "https://example.org/source" {
			t.Errorf("dry run %v: got %v, want *StateError that names the mirrored Source", dry, err)
		}
		if diff := cmp.Diff([]string(nil), files(t, w.o.Out)); diff != "" {
			t.Errorf("published (-want +got):\n%s", diff)
		}
	}
}

func TestOutputBehindALinkIsKnownAgain(t *testing.T) {
	w := newWorld(t)
	w.fill(1)
	w.o.Out = filepath.Join(w.link(filepath.Dir(w.o.Out)), "new", "documents")
	w.run()
	if rep := w.run(); rep.Published {
		t.Errorf("got %+v, want nothing to publish", rep)
	}
}

func TestWithheldDeletionsAreNoted(t *testing.T) {
	w := newWorld(t)
	w.fill(3)
	w.run()
	w.remove("room 0/item.txt")
	w.write(strings.Repeat("d/", 300)+"too deep.txt", "")
	for _, dry := range []bool{true, false} {
		w.o.DryRun = dry
		if rep := w.run(); rep.Deleted != 0 || rep.Failed != 1 || !slices.Contains(rep.Notes, doubtNote) {
			t.Errorf("dry run %v: got %+v, want the deletion withheld and said so", dry, rep)
		}
	}
}
