package publish

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"instep/internal/flock"
	"instep/internal/scan"
	"instep/resourcesync"
	"instep/source"
)

func TestFirstPublication(t *testing.T) {
	w := newWorld(t)
	w.fill(3)
	rep := w.run()
	want := SetReport{
		Published: true, Publication: 1, Rebased: true, Resources: 3, Bytes: 18, Created: 3, Hashed: 18,
		Excluded: map[string]int64{},
		Documents: []string{
			"resourcesync/publication.json", "resourcesync/changes/1.xml", "resourcesync/changelist-index.xml",
			"resourcesync/lists/1/resourcelist.xml", "resourcesync/resourcelist.xml", "sitemap.xml",
			"resourcesync/set.html", "resourcesync/about.html", "resourcesync/capabilitylist.xml", "resourcesync/description.xml", ".well-known/resourcesync",
		},
		CapabilityList: base + "resourcesync/capabilitylist.xml",
		ResourceList:   base + "resourcesync/lists/1/resourcelist.xml",
		ChangeList:     base + "resourcesync/changes/1.xml",
	}
	if diff := cmp.Diff(want, rep.SetReport, cmpopts.IgnoreFields(SetReport{}, "At"), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("Report (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(rep.SetReport, rep.Sets[0], cmpopts.EquateEmpty()); diff != "" || rep.Description != base+"resourcesync/description.xml" {
		t.Errorf("%s; the report of the one set (-all +set):\n%s", rep.Description, diff)
	}
	w.check()
	list, changes := w.linked("resourcelist"), w.linked("changelist")
	if changes.MD.From != list.MD.At || len(changes.Entries) != 0 || !rep.At.Equal(moment(t, list.MD.At)) {
		t.Errorf("at %s, from %s, %d changes: want one moment and no change", list.MD.At, changes.MD.From, len(changes.Entries))
	}
	if len(w.seen) != 3 || w.seen[0].Change != resourcesync.Created {
		t.Errorf("observed %v, want 3 creations", w.seen)
	}
	if got := files(t, w.o.Out); len(got) != len(want.Documents) {
		t.Errorf("output holds %q", got)
	}
	if _, err := os.Stat(filepath.Join(w.o.Out, tempKey)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the temporary directory is still there: %v", err)
	}
}

func TestNothingToPublish(t *testing.T) {
	w := newWorld(t)
	w.fill(3)
	w.run()
	before := stats(t, w.o.Out)
	rep := w.run()
	if rep.Published || rep.Publication != 0 || len(rep.Documents) != 0 || rep.Unchanged != 3 || rep.ResourceList == "" {
		t.Errorf("second run: got %+v", rep)
	}
	if diff := cmp.Diff(before, stats(t, w.o.Out)); diff != "" {
		t.Errorf("files (-before +after):\n%s", diff)
	}
}

// stats tells rewritten files from those left alone.
func stats(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range files(t, dir) {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		all[name] = fmt.Sprint(info.Size(), info.ModTime())
	}
	return all
}

func TestChangesAreListedOnceAndInOrder(t *testing.T) {
	w := newWorld(t)
	w.fill(8)
	w.run()
	w.write("room 0/item.txt", "changed")
	w.write("new.txt", "new")
	w.remove("room 7/item.txt")
	rep := w.run()
	if rep.Created != 1 || rep.Updated != 1 || rep.Deleted != 1 || !rep.Rebased {
		t.Errorf("got %+v", rep)
	}
	w.write("room 0/item.txt", "changed again")
	w.run()
	w.check()
	var got []string
	for _, en := range w.linked("changelist").Entries {
		got = append(got, en.MD.Change+" "+strings.TrimPrefix(en.Loc, base))
		if (en.LastMod == "") != (en.MD.Change == "deleted") || en.MD.Datetime == "" {
			t.Errorf("%s %s: lastmod %q, datetime %q", en.MD.Change, en.Loc, en.LastMod, en.MD.Datetime)
		}
	}
	want := []string{"created new.txt", "updated room%200/item.txt", "deleted room%207/item.txt", "updated room%200/item.txt"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

// TestCat_PUB_04: lists rotate while the clock steps back and forth. Each change
// is in exactly one list, no datetime decreases, and until is the next from.
func TestCat_PUB_04(t *testing.T) {
	w := newWorld(t)
	w.set.ChangeListMax = 3
	w.fill(6)
	w.run()
	steps := []time.Duration{0, -time.Hour, time.Hour, -9 * time.Hour, 0, 8 * time.Hour, -time.Minute, 0}
	total := 0
	for i, step := range steps {
		w.now = w.now.Add(step)
		for k := range i%3 + 1 {
			w.write(fmt.Sprintf("room %d/item.txt", k), fmt.Sprintf("round %d", i))
			total++
		}
		w.run()
		w.check()
	}
	seen := w.changes()
	if len(seen) < 4 {
		t.Fatalf("only %d lists: it did not rotate", len(seen))
	}
	var last time.Time
	until, listed := "", 0
	for i, d := range seen {
		uri := fmt.Sprint("list ", i)
		if n := len(d.Entries); n > 3 {
			t.Errorf("%s has %d changes, want at most 3", uri, n)
		}
		if i > 0 && d.MD.From != until {
			t.Errorf("%s: from %s, want the until %s of the one before", uri, d.MD.From, until)
		}
		if until = d.MD.Until; (until == "") != (i == len(seen)-1) {
			t.Errorf("%s: until %q", uri, until)
		}
		for _, en := range d.Entries {
			at := moment(t, en.MD.Datetime)
			if at.Before(last) || at.Before(moment(t, d.MD.From)) || until != "" && !at.Before(moment(t, until)) {
				t.Errorf("%s: datetime %s outside of [%s, %s) or before %s", uri, en.MD.Datetime, d.MD.From, until, last)
			}
			last = at
			listed++
		}
	}
	if listed != total {
		t.Errorf("the lists have %d changes, %d were made", listed, total)
	}
}

func TestListsSplitAtMaxEntries(t *testing.T) {
	w := newWorld(t)
	w.set.MaxEntries = 4
	w.fill(10)
	w.run()
	if d := w.linked("resourcelist"); d.XMLName.Local != "sitemapindex" || len(d.Parts) != 3 {
		t.Errorf("got a %s of %d, want a sitemapindex of 3", d.XMLName.Local, len(d.Parts))
	}
	w.check()
}

func TestPublishIntoTheDirectoryItself(t *testing.T) {
	w := newWorld(t)
	w.o.Out, w.o.State = "", filepath.Join(w.o.Dir, ".state")
	w.fill(2)
	w.write("resourcesync/theirs.txt", "a directory of this name may hold resources")
	rep := w.run()
	if rep.Resources != 3 || rep.Excluded["dotfile"] != 1 {
		t.Errorf("first run: got %+v", rep)
	}
	rep = w.run()
	if rep.Published || rep.Resources != 3 || rep.Excluded["ours"] == 0 {
		t.Errorf("second run sees its own documents: got %+v", rep)
	}
	w.remove("resourcesync/theirs.txt")
	w.write("more.txt", "more")
	rep = w.run()
	if rep.Resources != 3 || rep.Created != 1 || rep.Deleted != 1 {
		t.Errorf("third run: got %+v", rep)
	}
}

func TestOutputInsideTheDirectoryIsNotScanned(t *testing.T) {
	w := newWorld(t)
	w.o.Out = filepath.Join(w.o.Dir, "meta")
	w.fill(2)
	w.run()
	rep := w.run()
	if rep.Resources != 2 || rep.Published {
		t.Errorf("got %+v, want the 2 resources and nothing to publish", rep)
	}
}

func TestForeignSitemapIsAResourceAndStays(t *testing.T) {
	w := newWorld(t)
	w.o.Out = ""
	w.write("sitemap.xml", "<urlset/>")
	w.write("a.txt", "a")
	rep := w.run()
	if rep.Resources != 2 || len(rep.Notes) != 1 || !slices.Contains(rep.Documents, "resourcesync/sitemap.xml") {
		t.Errorf("got %+v", rep)
	}
	got, err := os.ReadFile(filepath.Join(w.o.Dir, "sitemap.xml"))
	if err != nil || string(got) != "<urlset/>" {
		t.Errorf("sitemap.xml: got %q, %v", got, err)
	}
}

// TestForeignInfoBesideAnOutput: a resource has the name of our publication.json. Documents
// elsewhere are not in its way.
func TestForeignInfoBesideAnOutput(t *testing.T) {
	w := newWorld(t)
	for _, text := range []string{"theirs", "{}"} {
		w.write("resourcesync/publication.json", text)
		if rep := w.run(); rep.Created+rep.Updated != 1 {
			t.Errorf("%q: got %+v, want it published as a resource", text, rep)
		}
	}
}

func TestForeignDocumentIsRefused(t *testing.T) {
	w := newWorld(t)
	w.o.Out = ""
	w.write("resourcesync/capabilitylist.xml", "theirs")
	_, err := w.try()
	var foreign *source.NotOursError
	if !errors.As(err, &foreign) || foreign.Key != "resourcesync/capabilitylist.xml" {
		t.Fatalf("got %v, want *NotOursError", err)
	}
	if got := files(t, w.o.Dir); len(got) != 1 {
		t.Errorf("the directory holds %q", got)
	}
}

func TestStateBelongsToOneDirectoryAndOneURL(t *testing.T) {
	w := newWorld(t)
	w.fill(1)
	w.run()
	for what, change := range map[string]func(*Site){
		"directory": func(o *Site) { o.Dir = t.TempDir() },
		"base URL":  func(o *Site) { o.BaseURL = "https://other.example.org/" },
	} {
		o := w.site()
		change(&o)
		_, err := Run(t.Context(), o, What{})
		var wrong *StateError
		if !errors.As(err, &wrong) || wrong.What != what || !strings.Contains(err.Error(), wrong.Recorded) {
			t.Errorf("other %s: got %v, want *StateError", what, err)
		}
	}
	if rep := w.run(); rep.Resources != 1 {
		t.Errorf("the state was changed: %+v", rep)
	}
}

func TestLostStateIsNotedAndNothingReplaced(t *testing.T) {
	w := newWorld(t)
	w.fill(1)
	w.run()
	before := stats(t, w.o.Out)
	w.o.State = filepath.Join(t.TempDir(), "new")
	_, err := w.try()
	var wrong *source.WrongStateError
	if !errors.As(err, &wrong) {
		t.Fatalf("got %v, want *source.WrongStateError", err)
	}
	if diff := cmp.Diff(before, stats(t, w.o.Out)); diff != "" {
		t.Errorf("files (-before +after):\n%s", diff)
	}
}

func TestGuardLeavesEverythingAsItWas(t *testing.T) {
	w := newWorld(t)
	w.fill(10)
	w.run()
	for i := range 9 {
		w.remove(fmt.Sprintf("room %d/item.txt", i))
	}
	before := stats(t, w.o.Out)
	_, err := w.try()
	var held *scan.GuardError
	if !errors.As(err, &held) {
		t.Fatalf("got %v, want *scan.GuardError", err)
	}
	if diff := cmp.Diff(before, stats(t, w.o.Out)); diff != "" {
		t.Errorf("files (-before +after):\n%s", diff)
	}
	w.set.MaxDelete = "100%"
	if rep := w.run(); rep.Deleted != 9 {
		t.Errorf("with the limit raised: got %+v", rep)
	}
	w.check()
}

func TestUnreadableDirectoryIsAnError(t *testing.T) {
	w := newWorld(t)
	w.o.Dir = filepath.Join(t.TempDir(), "absent")
	_, err := w.try()
	if !errors.Is(err, scan.ErrRoot) {
		t.Fatalf("got %v, want ErrRoot", err)
	}
	if _, err := os.Stat(w.o.State); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("state: got %v, want none", err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	w := newWorld(t)
	for option, change := range map[string]func(*Site){
		"base-url":        func(o *Site) { o.BaseURL = "museum" },
		"set":             func(o *Site) { o.Sets[0].Name = "a/b" },
		"max-delete":      func(o *Site) { o.Sets[0].MaxDelete = "many" },
		"max-entries":     func(o *Site) { o.Sets[0].MaxEntries = 50001 },
		"change-list-max": func(o *Site) { o.Sets[0].ChangeListMax = -1 },
		"hash":            func(o *Site) { o.Algorithms = []resourcesync.Algorithm{"crc32"} },
		"exclude":         func(o *Site) { o.Sets[0].Exclude = []string{"["} },
	} {
		o := w.site()
		change(&o)
		_, err := Run(t.Context(), o, What{})
		var wrong *OptionError
		if !errors.As(err, &wrong) || wrong.Option != option {
			t.Errorf("%s: got %v, want *OptionError", option, err)
		}
	}
}

func TestDryRunSaysItAllAndWritesNothing(t *testing.T) {
	w := newWorld(t)
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	w.fill(5)
	w.o.DryRun = true
	rep := w.run()
	if rep.Published || rep.Created != 5 || len(rep.Documents) != 11 || len(w.seen) != 5 {
		t.Errorf("first dry run: got %+v", rep)
	}
	for _, name := range []string{w.o.State, w.o.Out} {
		if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q was made: %v", name, err)
		}
	}
	w.o.DryRun = false
	w.run()
	before, state := stats(t, w.o.Out), stats(t, w.o.State)
	w.write("room 0/item.txt", "changed")
	w.remove("room 1/item.txt")
	w.o.DryRun = true
	planned := w.run()
	if planned.Updated != 1 || planned.Deleted != 1 || planned.Resources != 4 {
		t.Errorf("second dry run: got %+v", planned)
	}
	if diff := cmp.Diff(before, stats(t, w.o.Out)); diff != "" {
		t.Errorf("output (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(state, stats(t, w.o.State)); diff != "" {
		t.Errorf("state (-before +after):\n%s", diff)
	}
	w.o.DryRun = false
	done := w.run()
	if diff := cmp.Diff(planned.Documents, done.Documents); diff != "" {
		t.Errorf("Documents (-planned +done):\n%s", diff)
	}
	if left := files(t, temp); len(left) != 0 {
		t.Errorf("left in the temporary directory: %q", left)
	}
}

func TestMissingDocumentsAreWrittenAnew(t *testing.T) {
	w := newWorld(t)
	w.fill(2)
	rep := w.run()
	if err := os.RemoveAll(w.o.Out); err != nil {
		t.Fatal(err)
	}
	again := w.run()
	if !again.Published || len(again.Notes) != 1 {
		t.Errorf("got %+v, want everything written anew and a note", again)
	}
	if got := len(files(t, w.o.Out)); got != len(rep.Documents) {
		t.Errorf("got %d documents, want %d", got, len(rep.Documents))
	}
	w.check()
}

func TestOtherDigestsAreListedAtOnce(t *testing.T) {
	w := newWorld(t)
	w.fill(2)
	w.run()
	w.o.Algorithms = []resourcesync.Algorithm{resourcesync.SHA256, "md5"}
	if rep := w.run(); !rep.Rebased || rep.Updated != 0 {
		t.Errorf("got %+v, want a new Resource List and no change", rep)
	}
	for _, en := range w.linked("resourcelist").Entries {
		if !strings.Contains(en.MD.Hash, "sha-256:") || !strings.Contains(en.MD.Hash, " md5:") {
			t.Errorf("%s: hash %q", en.Loc, en.MD.Hash)
		}
	}
	if rep := w.run(); rep.Published {
		t.Errorf("once more: got %+v, want nothing to publish", rep)
	}
}

// TestCat_PUB_07: of two publishers one works and the other is told who.
func TestCat_PUB_07(t *testing.T) {
	w := newWorld(t)
	w.fill(3)
	var inner, dry error
	w.o.Observe = func(Event) {
		o := w.site()
		o.Observe = nil
		if inner == nil {
			_, inner = Run(t.Context(), o, What{})
			o.DryRun = true
			_, dry = Run(t.Context(), o, What{})
		}
	}
	if rep := w.run(); rep.Created != 3 {
		t.Errorf("the first: got %+v", rep)
	}
	for _, err := range []error{inner, dry} {
		var locked *flock.LockedError
		if !errors.As(err, &locked) || locked.PID != os.Getpid() {
			t.Errorf("the second: got %v, want *flock.LockedError", err)
		}
	}
	w.check()
}

func TestSetsLieBesideEachOther(t *testing.T) {
	w := newWorld(t)
	w.fill(2)
	w.run()
	w.set.Name = "maps"
	w.set.Include = []string{"room 1/**"}
	rep := w.run()
	if rep.Resources != 1 || rep.CapabilityList != base+"resourcesync/sets/maps/capabilitylist.xml" {
		t.Errorf("got %+v", rep)
	}
	var got []string
	for _, en := range w.document(base + "resourcesync/description.xml").Entries {
		got = append(got, en.Loc)
	}
	want := []string{base + "resourcesync/capabilitylist.xml", base + "resourcesync/sets/maps/capabilitylist.xml"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sets (-want +got):\n%s", diff)
	}
}

func TestChangeIsRecordedInEverySet(t *testing.T) {
	w := newWorld(t)
	w.fill(2)
	both := func() (all, maps Report) {
		w.set.Name, w.set.Include = "", nil
		all = w.run()
		w.set.Name, w.set.Include = "maps", []string{"room 1/**"}
		return all, w.run()
	}
	both()
	for _, content := range []string{"another", "yet another"} {
		w.write("room 1/item.txt", content)
		if all, maps := both(); all.Updated != 1 || maps.Updated != 1 {
			t.Errorf("updated %d and %d, want 1 in each set", all.Updated, maps.Updated)
		}
		if all, maps := both(); all.Published || maps.Published {
			t.Error("published again what had not changed")
		}
	}
}
