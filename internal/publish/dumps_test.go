package publish

import (
	"archive/zip"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/internal/scan"
	"instep/resourcesync"
	"instep/source"
)

// dumped is a site with dumps.
func dumped(t *testing.T) *world {
	w := newWorld(t)
	w.set.Dumps = true
	return w
}

// offered returns the documents of a capability, those of an index in its order; nil
// if it is not offered.
func (w *world) offered(capability string) []reading {
	w.t.Helper()
	for _, en := range w.document(base + "resourcesync/capabilitylist.xml").Entries {
		if en.MD.Capability != capability {
			continue
		}
		root := w.document(en.Loc)
		if len(root.Parts) == 0 {
			return []reading{root}
		}
		var all []reading
		for _, part := range root.Parts {
			all = append(all, w.document(part.Loc))
		}
		return all
	}
	return nil
}

// unpack reads the packages of a dump: its entries with the bytes of each, as hash and
// length of what is in the package. It holds every package against what is said of it.
func (w *world) unpack(dump reading) (entries []entry) {
	w.t.Helper()
	for _, p := range dump.Entries {
		name := filepath.Join(w.o.Out, filepath.FromSlash(strings.TrimPrefix(p.Loc, base)))
		body, err := os.ReadFile(name)
		if err != nil {
			w.t.Fatal(err)
		}
		if got := describe(body); got != p.MD.Hash+" "+p.MD.Length {
			w.t.Errorf("%s: the dump says %s %s, it is %s", p.Loc, p.MD.Hash, p.MD.Length, got)
		}
		z, err := zip.OpenReader(name)
		if err != nil {
			w.t.Fatalf("%s: %v", p.Loc, err)
		}
		members := map[string][]byte{}
		for _, f := range z.File {
			r, err := f.Open()
			if err != nil {
				w.t.Fatal(err)
			}
			if members["/"+f.Name], err = io.ReadAll(r); err != nil {
				w.t.Fatalf("%s, %s: %v", p.Loc, f.Name, err)
			}
		}
		if err := z.Close(); err != nil {
			w.t.Fatal(err)
		}
		var manifest reading
		if err := xml.Unmarshal(members["/manifest.xml"], &manifest); err != nil {
			w.t.Fatalf("%s: manifest: %v", p.Loc, err)
		}
		for _, en := range manifest.Entries {
			if en.MD.Change != "deleted" {
				content, ok := members["/"+strings.TrimPrefix(en.MD.Path, "/")]
				if got := describe(content); !ok || got != en.MD.Hash+" "+en.MD.Length {
					w.t.Errorf("%s, %s of %s: the manifest says %s, there is %s", p.Loc, en.MD.Path, en.Loc, en.MD.Hash, got)
				}
			}
			entries = append(entries, en)
		}
	}
	return entries
}

func describe(content []byte) string {
	h := resourcesync.NewHasher(resourcesync.SHA256)
	h.Write(content)
	return fmt.Sprintf("%s %d", h.Digests(), len(content))
}

// replayDumps is what a reader makes of the Resource Dump and the Change Dumps.
func (w *world) replayDumps() map[string]string {
	w.t.Helper()
	dumps, changes := w.offered("resourcedump"), w.offered("changedump")
	if len(dumps) == 0 || len(changes) == 0 {
		w.t.Fatalf("%d Resource Dumps and %d Change Dumps are offered, want both", len(dumps), len(changes))
	}
	state := map[string]string{}
	for _, d := range dumps {
		for _, en := range w.unpack(d) {
			state[en.Loc] = en.MD.Hash + " " + en.MD.Length
		}
	}
	at := moment(w.t, dumps[0].MD.At)
	if moment(w.t, changes[0].MD.From).After(at) {
		w.t.Errorf("gap: dump at %s, changes from %s", dumps[0].MD.At, changes[0].MD.From)
	}
	for i, d := range changes {
		if i > 0 && d.MD.From != changes[i-1].MD.Until {
			w.t.Errorf("gap: changes until %s, then from %s", changes[i-1].MD.Until, d.MD.From)
		}
		for _, en := range w.unpack(d) {
			switch {
			case moment(w.t, en.MD.Datetime).Before(at):
			case en.MD.Change == "deleted":
				delete(state, en.Loc)
			default:
				state[en.Loc] = en.MD.Hash + " " + en.MD.Length
			}
		}
	}
	return state
}

func (w *world) checkDumps() {
	w.t.Helper()
	w.check()
	if diff := cmp.Diff(w.truth(), w.replayDumps()); diff != "" {
		w.t.Errorf("what a reader makes of the dumps (-directory +documents):\n%s", diff)
	}
}

// kept are the files with bytes of changes that no dump has yet.
func (w *world) kept() []string {
	w.t.Helper()
	return files(w.t, filepath.Join(w.o.State, contentName))
}

// TestDumpsHoldEveryState: also those that were overwritten before they were published.
func TestDumpsHoldEveryState(t *testing.T) {
	w := dumped(t)
	w.set.ChangeListMax = 3
	w.fill(200)
	if rep := w.run(); !rep.Dumped || rep.ResourceDump == "" || rep.ChangeDump == "" || rep.Packaged != rep.Bytes || rep.Kept != 0 {
		t.Errorf("first: got %+v", rep)
	}
	w.checkDumps()
	for i := range 6 {
		w.write(fmt.Sprintf("room %d/item.txt", i%2), fmt.Sprint("state ", i))
		w.write("new.txt", strings.Repeat("x", i))
		if i%3 == 1 {
			w.remove("room 5/item.txt")
		} else {
			w.write("room 5/item.txt", "back")
		}
		if rep := w.run(); rep.Dumped || rep.Kept == 0 || rep.Packaged != rep.Kept {
			t.Errorf("publication %d: got %+v, want changes alone", i, rep)
		}
		w.checkDumps()
		if kept := w.kept(); len(kept) != 0 {
			t.Errorf("publication %d: %q are kept though they are published", i, kept)
		}
	}
	var states []string
	for _, d := range w.offered("changedump") {
		for _, en := range w.unpack(d) {
			if en.Loc == base+"room%200/item.txt" {
				states = append(states, en.MD.Hash+" "+en.MD.Length)
			}
		}
	}
	want := []string{describe([]byte("state 0")), describe([]byte("state 2")), describe([]byte("state 4"))}
	if diff := cmp.Diff(want, states); diff != "" {
		t.Errorf("states of room 0 in the Change Dumps (-want +got):\n%s", diff)
	}
	if rep := w.run(); rep.Published {
		t.Errorf("once more: got %+v, want nothing", rep)
	}
}

// TestDumpsBeginAnewWhenBytesAreGone: what was recorded can't be packed any more, by
// whatever mishap; the documents go on without dumps, and then with new ones.
func TestDumpsBeginAnewWhenBytesAreGone(t *testing.T) {
	w := dumped(t)
	w.fill(30)
	w.run()
	w.write("room 0/item.txt", "short-lived")
	w.interrupt()
	if err := os.RemoveAll(filepath.Join(w.o.State, contentName)); err != nil {
		t.Fatal(err)
	}
	w.write("room 0/item.txt", "what follows")
	rep := w.run()
	if !rep.Published || rep.ChangeDump != "" || rep.ResourceDump != "" || len(rep.Notes) == 0 || !strings.Contains(rep.Notes[0], "room%200") {
		t.Errorf("without the bytes: got %+v, want it published without dumps, and a note", rep)
	}
	w.check()
	if rep := w.run(); !rep.Dumped || rep.ChangeDump == "" {
		t.Errorf("the next: got %+v, want new dumps", rep)
	}
	w.checkDumps()
	w.write("room 1/item.txt", "a change")
	w.run()
	w.checkDumps()
}

func TestDumpsCanBeSwitchedOnAndOff(t *testing.T) {
	w := newWorld(t)
	w.fill(30)
	w.run()
	w.write("room 0/item.txt", "before the dumps")
	w.set.Dumps = true
	if rep := w.run(); !rep.Dumped || rep.Updated != 1 {
		t.Errorf("on: got %+v", rep)
	}
	w.checkDumps()
	w.write("room 0/item.txt", "with dumps")
	w.run()
	w.checkDumps()
	w.set.Dumps = false
	if rep := w.run(); !rep.Published || rep.ResourceDump != "" || rep.ChangeDump != "" || !mentions(rep, "end with this publication") {
		t.Errorf("off: got %+v, want no dump offered, and a note", rep)
	}
	w.write("room 0/item.txt", "without dumps")
	if rep := w.run(); mentions(rep, "end with this publication") {
		t.Errorf("still off: got the note again: %q", rep.Notes)
	}
	w.check()
	w.set.Dumps = true
	w.run()
	w.checkDumps()
}

// mentions reports whether a note of a run has this text.
func mentions(rep Report, text string) bool {
	return slices.ContainsFunc(rep.Notes, func(note string) bool { return strings.Contains(note, text) })
}

func TestArchivesThatEndAreTold(t *testing.T) {
	w := newWorld(t)
	w.set.Policy.Archive = &source.Archive{}
	for i := range 3 {
		w.write("a", fmt.Sprint(i))
		w.run()
	}
	w.set.Policy.Archive = nil
	if rep := w.run(); !mentions(rep, "empties the archives") {
		t.Errorf("off: got notes %q", rep.Notes)
	}
	w.write("a", "later")
	if rep := w.run(); mentions(rep, "empties the archives") {
		t.Errorf("still off: got the note again: %q", rep.Notes)
	}
}

func TestDumpsNeedSHA256(t *testing.T) {
	w := dumped(t)
	w.o.Algorithms = []resourcesync.Algorithm{"md5"}
	var wrong *OptionError
	if _, err := w.try(); !errors.As(err, &wrong) || wrong.Option != "hash" {
		t.Errorf("got %v, want *OptionError", err)
	}
}

func TestDumpsNeedBytes(t *testing.T) {
	w := dumped(t)
	w.o.Dir = ""
	var wrong *OptionError
	if _, err := w.try(); !errors.As(err, &wrong) || wrong.Option != "dump" {
		t.Errorf("got %v, want *OptionError", err)
	}
}

// TestDumpsOfOtherInputs: an Input that opens its resources has dumps as a directory has.
func TestDumpsOfOtherInputs(t *testing.T) {
	w := dumped(t)
	w.fill(20)
	root, err := os.OpenRoot(w.o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	w.o.Dir = ""
	dir := filepath.Join(filepath.Dir(w.o.Out), "site")
	w.set.Input = func(d scan.Deps) (scan.Input, error) {
		return &scan.List{Deps: d, Tree: scan.RootTree(root), Listing: func(context.Context, time.Time) iter.Seq2[scan.Listed, error] {
			return func(yield func(scan.Listed, error) bool) {
				for _, name := range files(t, dir) {
					if !yield(scan.Listed{URI: scan.URI(base, name), Path: name}, nil) {
						return
					}
				}
			}
		}}, nil
	}
	check := func() {
		t.Helper()
		w.o.Dir = dir // for the truth
		w.checkDumps()
		w.o.Dir = ""
	}
	if rep := w.run(); !rep.Dumped || rep.Resources != 20 {
		t.Errorf("first: got %+v", rep)
	}
	check()
	if err := os.WriteFile(filepath.Join(dir, "room 0", "item.txt"), []byte("changed"), 0o644); err != nil {
		t.Fatal(err)
	}
	if rep := w.run(); rep.Updated != 1 || rep.Dumped || len(rep.Notes) != 0 {
		t.Errorf("second: got %+v", rep)
	}
	check()
}

func TestDryRunSaysWhatDumpsTake(t *testing.T) {
	w := dumped(t)
	w.fill(30)
	w.o.DryRun = true
	rep := w.run()
	if !rep.Dumped || rep.Packaged != rep.Bytes || !slices.Contains(rep.Documents, "resourcesync/dumps/1/00001.zip") {
		t.Errorf("first: got %+v, want a package of all", rep)
	}
	w.o.DryRun = false
	w.run()
	w.write("room 0/item.txt", "changed")
	before := slices.Concat(files(t, w.o.Out), files(t, w.o.State))
	w.o.DryRun = true
	planned := w.run()
	if planned.Dumped || planned.Kept != 7 || planned.Packaged != 7 {
		t.Errorf("second: got %+v, want a package of 7 bytes, kept until then", planned)
	}
	if diff := cmp.Diff(before, slices.Concat(files(t, w.o.Out), files(t, w.o.State))); diff != "" {
		t.Errorf("files (-before +after):\n%s", diff)
	}
	w.o.DryRun = false
	if diff := cmp.Diff(planned.Documents, w.run().Documents); diff != "" {
		t.Errorf("Documents (-planned +done):\n%s", diff)
	}
	w.checkDumps()
}

func TestSnapshotsFollowTheirSchedules(t *testing.T) {
	w := dumped(t)
	w.set.DumpEvery, w.set.RotateEvery, w.o.RebaseMin = 24*time.Hour, time.Hour, 20*time.Hour
	w.fill(30)
	w.run()
	var lists, dumps, rotations int
	for hour := range 30 {
		w.write("room 0/item.txt", fmt.Sprint("hour ", hour))
		w.now = w.now.Add(time.Hour)
		before := len(w.changes())
		rep := w.run()
		lists += count(rep.Rebased)
		dumps += count(rep.Dumped)
		rotations += len(w.changes()) - before
	}
	w.checkDumps()
	if lists != 1 || dumps != 1 || rotations < 28 {
		t.Errorf("%d lists, %d dumps, %d more Change Lists: want 1, 1 and one each hour", lists, dumps, rotations)
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestArchivesOfManyGenerations: what leaves the current documents is in the archives,
// and each generation there is followed by all changes after it.
func TestArchivesOfManyGenerations(t *testing.T) {
	w := dumped(t)
	w.set.ChangeListMax = 4
	w.set.Policy.KeepChanges = 2 * time.Hour
	w.set.Policy.Archive = &source.Archive{}
	w.fill(12)
	w.run()
	for round := range 30 {
		for k := range round%3 + 1 {
			w.write(fmt.Sprintf("room %d/item.txt", (round+k)%12), fmt.Sprint("round ", round))
		}
		w.now = w.now.Add(100 * time.Minute)
		w.run()
	}
	w.checkDumps()
	lists := w.offered("resourcelist-archive")[0].Entries
	changes := w.offered("changelist-archive")[0].Entries
	if len(lists) < 25 || len(changes) < 10 {
		t.Fatalf("the archives have %d lists and %d Change Lists, want nearly all there were", len(lists), len(changes))
	}
	for i, en := range changes {
		d := w.document(en.Loc)
		if d.MD.From != en.MD.From || d.MD.Until != en.MD.Until || i > 0 && en.MD.From != changes[i-1].MD.Until {
			t.Errorf("archived Change List %s: from %s until %s after one until %s", en.Loc, d.MD.From, d.MD.Until, changes[max(i-1, 0)].MD.Until)
		}
	}
	if current := w.changes(); current[0].MD.From == changes[0].MD.From {
		t.Errorf("nothing has left the index of the current Change Lists")
	}
	for _, kind := range []string{"resourcedump-archive", "changedump-archive"} {
		if all := w.offered(kind); len(all) == 0 || len(all[0].Entries) == 0 {
			t.Errorf("no %s is offered", kind)
		}
	}
}

// TestArchivesLoseNothingWhenTheirPartsChangeSize: whatever number of entries a document
// may have from one publication to the next.
func TestArchivesLoseNothingWhenTheirPartsChangeSize(t *testing.T) {
	w := newWorld(t)
	w.set.Policy.Archive = &source.Archive{}
	w.fill(1)
	for n, size := range []int{2, 2, 2, 2, 2, 2, 3, 3, 4, 9, 9, 9, 2, 0, 0, 3} {
		w.set.MaxEntries = size
		w.write("room 0/item.txt", fmt.Sprint("state ", n))
		w.run()
		got := 0
		for _, part := range w.offered("resourcelist-archive") {
			got += len(part.Entries)
		}
		if got != n {
			t.Errorf("publication %d, of documents with %d entries: %d lists are archived, want %d", n+1, size, got, n)
		}
		w.onlyWhatIsKnown(fmt.Sprint("publication ", n+1))
	}
	w.set.MaxEntries = 0
	for range 3 { // until what nothing links any more may go
		w.now = w.now.Add(25 * time.Hour)
		w.write("room 0/item.txt", fmt.Sprint("of ", w.now))
		w.run()
	}
	for _, key := range files(t, filepath.Join(w.o.Out, "resourcesync", "archives")) {
		if strings.HasPrefix(key, "resourcelist-archive-") {
			t.Errorf("part %q is linked by nothing and stays", key)
		}
	}
}

func TestUnknownFilesAmongTheKeptAreRemoved(t *testing.T) {
	w := dumped(t)
	w.fill(3)
	w.run()
	left := filepath.Join(w.o.State, contentName, "default", "ab", "abcd")
	if err := errors.Join(os.MkdirAll(filepath.Dir(left), 0o750), os.WriteFile(left, []byte("x"), 0o640)); err != nil {
		t.Fatal(err)
	}
	w.run()
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what a crash left is still kept: %v", err)
	}
}

// TestLostDocumentsComeBackWhole: whatever is lost of the output, a reader of what is
// written again finds no dangling link and the present set.
func TestLostDocumentsComeBackWhole(t *testing.T) {
	for _, lost := range []string{"", "resourcesync/changes", "resourcesync/lists", "resourcesync/dumps", "resourcesync/changedumps", "resourcesync/changelist-index.xml", "resourcesync/archives"} {
		t.Run(lost, func(t *testing.T) {
			w := dumped(t)
			w.set.ChangeListMax = 2
			w.set.Policy.Archive = &source.Archive{}
			w.fill(40)
			w.run()
			for i := range 3 {
				w.write("room 0/item.txt", fmt.Sprint("state ", i))
				w.write("room 1/item.txt", fmt.Sprint("state ", i))
				w.run()
			}
			if err := os.RemoveAll(filepath.Join(w.o.Out, filepath.FromSlash(lost))); err != nil {
				t.Fatal(err)
			}
			if rep := w.run(); !rep.Published || len(rep.Notes) == 0 {
				t.Errorf("got %+v, want all written anew and a note", rep)
			}
			w.checkDumps()
			w.write("room 0/item.txt", "after that")
			w.run()
			w.checkDumps()
			w.walk(base + "resourcesync/description.xml")
		})
	}
}

// TestLostDumpsAreNotForgottenByAFailure: the run that finds them lost fails.
func TestLostDumpsAreNotForgottenByAFailure(t *testing.T) {
	w := dumped(t)
	w.fill(40)
	w.run()
	w.write("room 0/item.txt", "packed")
	w.run()
	if err := os.RemoveAll(filepath.Join(w.o.Out, "resourcesync", "changedumps")); err != nil {
		t.Fatal(err)
	}
	w.write("room 1/item.txt", "packed too")
	w.interrupt()
	w.run()
	w.checkDumps()
	w.walk(base + "resourcesync/description.xml")
}

// walk reads all that a document leads to.
func (w *world) walk(uri string) {
	w.t.Helper()
	seen := map[string]bool{}
	var visit func(uri string)
	visit = func(uri string) {
		if seen[uri] {
			return
		}
		seen[uri] = true
		d := w.document(uri)
		for _, l := range d.Links {
			if slices.Contains([]string{"up", "index", "archives"}, l.Rel) {
				visit(l.Href)
			}
		}
		for _, en := range slices.Concat(d.Entries, d.Parts) {
			switch {
			case strings.HasSuffix(en.Loc, ".zip"):
				if _, err := os.Stat(filepath.Join(w.o.Out, strings.TrimPrefix(en.Loc, base))); err != nil {
					w.t.Errorf("%s leads to a package that is not there: %v", uri, err)
				}
			case strings.HasPrefix(en.Loc, base+"resourcesync/"):
				visit(en.Loc)
			}
		}
	}
	visit(uri)
}

// TestStateIsPackedThoughItWasOverwritten: it was recorded by a run that could not
// publish it, and by now the file holds something else.
func TestStateIsPackedThoughItWasOverwritten(t *testing.T) {
	w := dumped(t)
	w.fill(30)
	w.run()
	w.write("room 0/item.txt", "short-lived")
	w.interrupt()
	if len(w.kept()) != 1 {
		t.Fatalf("kept: %q, want the one state", w.kept())
	}
	w.write("room 0/item.txt", "what follows")
	w.run()
	w.checkDumps()
	var states []string
	for _, d := range w.offered("changedump") {
		for _, en := range w.unpack(d) {
			states = append(states, en.MD.Hash+" "+en.MD.Length)
		}
	}
	if diff := cmp.Diff([]string{describe([]byte("short-lived")), describe([]byte("what follows"))}, states); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	if kept := w.kept(); len(kept) != 0 {
		t.Errorf("still kept: %q", kept)
	}
}
