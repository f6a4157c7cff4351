package publish

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/internal/versions"
	"instep/source"
)

// versionsIn returns the contents of the placed versions, by the path of the resource and in
// their order.
func versionsIn(t *testing.T, dir string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, name := range files(t, dir) {
		_, of, ok := versions.ParsePlace(name)
		if !ok {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		all[of] = append(all[of], string(text))
	}
	return all
}

func TestEachPublishedStateIsKept(t *testing.T) {
	for _, dumps := range []bool{false, true} {
		t.Run(map[bool]string{false: "lists", true: "dumps"}[dumps], func(t *testing.T) {
			w := newWorld(t)
			w.set.KeepVersions, w.set.Dumps = KeepAll, dumps
			w.write("a/one.txt", "one")
			w.write("two.txt", "two")
			w.run()
			w.write("a/one.txt", "one, second")
			w.run()
			w.write("a/one.txt", "one") // again as at first
			w.remove("two.txt")
			w.run()
			w.write("two.txt", "two is back")
			w.run()
			w.run() // nothing new

			want := map[string][]string{"a/one.txt": {"one", "one, second", "one"}, "two.txt": {"two", "two is back"}}
			if diff := cmp.Diff(want, versionsIn(t, w.o.Out)); diff != "" {
				t.Errorf("versions (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEntriesLinkToTheirVersion: each entry of a Resource List and of a Change List that has
// bytes links to the version with exactly these bytes.
func TestEntriesLinkToTheirVersion(t *testing.T) {
	w := newWorld(t)
	w.set.KeepVersions, w.set.TimeGates = KeepAll, true
	w.write("one.txt", "one")
	w.run()
	for _, text := range []string{"second", "third"} {
		w.write("one.txt", text)
		w.run()
	}
	w.write("kept.txt", "kept")
	w.run()
	w.remove("one.txt")
	w.write("ü b.txt", "other")
	rep := w.run()
	var got []string
	for _, document := range []string{rep.ChangeList, rep.ResourceList} {
		text, err := os.ReadFile(filepath.Join(w.o.Out, strings.TrimPrefix(document, base)))
		if err != nil {
			t.Fatal(err)
		}
		for entry := range strings.SplitSeq(string(text), "<url>") {
			_, rest, ok := strings.Cut(entry, `rel="memento"`)
			if !ok {
				continue
			}
			_, href, _ := strings.Cut(rest, `href="`+base)
			href, _, _ = strings.Cut(href, `"`)
			href = strings.ReplaceAll(strings.ReplaceAll(href, "%20", " "), "%C3%BC", "ü")
			text, err := os.ReadFile(filepath.Join(w.o.Out, filepath.FromSlash(href)))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(entry, `rel="timegate"`) || !strings.Contains(entry, `rel="timemap"`) {
				t.Errorf("no links to TimeGate and TimeMap in %s", entry)
			}
			got = append(got, string(text))
		}
	}
	if diff := cmp.Diff([]string{"second", "third", "kept", "other", "kept", "other"}, got); diff != "" {
		t.Errorf("versions linked (-want +got):\n%s", diff)
	}
}

// TestVersionsAreNoResources: neither a run nor a dry run publishes the files of versions in
// the directory itself.
func TestVersionsAreNoResources(t *testing.T) {
	w := newWorld(t)
	w.o.Out, w.set.KeepVersions = "", KeepAll
	w.write("one.txt", "one")
	w.run()
	w.write("one.txt", "two")
	w.run()
	if rep := w.run(); rep.Resources != 1 || rep.Published {
		t.Errorf("resources %d, published %t", rep.Resources, rep.Published)
	}
	w.set.KeepVersions, w.o.DryRun = 0, true
	if rep := w.run(); rep.Resources != 1 || rep.Created != 0 {
		t.Errorf("a dry run without versions: resources %d, created %d", rep.Resources, rep.Created)
	}
}

// TestVersionsExpire: a version goes when it ended longer ago than versions are kept; the
// present one and its bytes stay.
func TestVersionsExpire(t *testing.T) {
	w := newWorld(t)
	w.set.KeepVersions, w.set.Policy.KeepChanges, w.set.RebaseEvery = 48*time.Hour, 24*time.Hour, 24*time.Hour // a Resource List links to versions as well
	for _, text := range []string{"one", "two", "three"} {
		w.write("one.txt", text)
		w.run()
		w.now = w.now.Add(30 * time.Hour)
	}
	for _, name := range []string{"other.txt", "more.txt"} { // the first drops the list that links to "one"
		w.write(name, name)
		w.run()
	}
	want := map[string][]string{"one.txt": {"two", "three"}, "other.txt": {"other.txt"}, "more.txt": {"more.txt"}}
	if diff := cmp.Diff(want, versionsIn(t, w.o.Out)); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
}

// TestVersionsOutliveAMove: what was kept before the base URL changed is there after it, and
// goes on.
func TestVersionsOutliveAMove(t *testing.T) {
	w := newWorld(t)
	w.set.KeepVersions = KeepAll
	w.write("one.txt", "one")
	w.run()
	w.write("one.txt", "two")
	w.run()
	w.o.BaseURL, w.o.Move = "https://new.example.org/", true
	w.write("one.txt", "three")
	w.run()
	want := map[string][]string{"one.txt": {"one", "two", "three"}}
	if diff := cmp.Diff(want, versionsIn(t, w.o.Out)); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
}

func TestVersionsThatCannotBeKeptAreRefused(t *testing.T) {
	for name, set := range map[string]Set{
		"shorter than changes are offered": {KeepVersions: time.Hour},
		"TimeGates to nothing":             {TimeGates: true},
	} {
		w := newWorld(t)
		w.set = set
		_, err := w.try()
		if _, ok := errors.AsType[*OptionError](err); !ok {
			t.Errorf("%s: %v, want an *OptionError", name, err)
		}
	}
}

// TestVersionsAreThereAgain: the output was removed, and with it the files of versions, to
// which what is written anew links.
func TestVersionsAreThereAgain(t *testing.T) {
	w := newWorld(t)
	w.set.KeepVersions = KeepAll
	w.write("one.txt", "one")
	w.write("two.txt", "two")
	w.run()
	w.write("one.txt", "one, second")
	w.run()
	want := versionsIn(t, w.o.Out)
	if err := os.RemoveAll(filepath.Join(w.o.Out, "resourcesync")); err != nil {
		t.Fatal(err)
	}
	w.run()
	if diff := cmp.Diff(want, versionsIn(t, w.o.Out)); diff != "" || len(want["one.txt"]) != 2 {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
}

// TestVersionsAreKeptAgain: no versions were kept for a while, and the changes of that time
// are forgotten.
func TestVersionsAreKeptAgain(t *testing.T) {
	w := newWorld(t)
	w.set.KeepVersions = KeepAll
	w.write("one.txt", "one")
	w.write("two.txt", "two")
	w.run()
	w.set.KeepVersions = 0
	w.write("one.txt", "one, second")
	w.remove("two.txt")
	w.run()
	s, err := Open(t.Context(), w.site())
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.facts.ForgetChanges(t.Context(), s.sets[0].id, math.MaxInt64, 1000)
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	w.set.KeepVersions = KeepAll
	w.write("three.txt", "three")
	w.run()
	want := map[string][]string{"one.txt": {"one", "one, second"}, "two.txt": {"two"}, "three.txt": {"three"}}
	if diff := cmp.Diff(want, versionsIn(t, w.o.Out)); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
}

// TestEachLinkToAVersionLeadsSomewhere: of all documents that are offered, whatever their
// age, and of none to a version that was removed.
func TestEachLinkToAVersionLeadsSomewhere(t *testing.T) {
	for name, set := range map[string]Set{
		"lists":   {ChangeListMax: 3},
		"open":    {},
		"dumps":   {ChangeListMax: 3, Dumps: true},
		"archive": {ChangeListMax: 3, Policy: source.Policy{Archive: &source.Archive{Count: 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.set = set
			w.set.KeepVersions, w.set.Policy.KeepChanges, w.set.RebaseEvery = 24*time.Hour, 24*time.Hour, 100*time.Hour
			w.write("two.txt", "two")
			for n := range 20 {
				w.write("one.txt", strings.Repeat("x", n+1))
				w.run()
				w.now = w.now.Add(10 * time.Hour)
				for _, missing := range w.missingVersions() {
					t.Errorf("publication %d: %s", n+1, missing)
				}
			}
			if n := len(versionsIn(t, w.o.Out)["one.txt"]); n > 15 {
				t.Errorf("%d versions are kept", n)
			}
		})
	}
}

// missingVersions returns the links to versions whose file is not there, of all documents to
// which the Capability List leads.
func (w *world) missingVersions() (missing []string) {
	w.t.Helper()
	queue := []string{"resourcesync/capabilitylist.xml"}
	seen := map[string]bool{queue[0]: true}
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		text, err := os.ReadFile(filepath.Join(w.o.Out, filepath.FromSlash(name)))
		if err != nil {
			if strings.HasPrefix(name, versions.Places) {
				missing = append(missing, name)
				continue
			}
			w.t.Fatal(err)
		}
		for _, rest := range strings.Split(string(text), base+"resourcesync/")[1:] {
			to := "resourcesync/" + rest[:strings.IndexAny(rest, `"<`)]
			if !seen[to] && (strings.HasSuffix(to, ".xml") || strings.HasPrefix(to, versions.Places)) {
				queue, seen[to] = append(queue, to), true
			}
		}
	}
	return missing
}

// TestLinksToVersionsHaveRoom: what is estimated of an entry is not less than what is
// written, or a Change List would be larger than the standard allows.
func TestLinksToVersionsHaveRoom(t *testing.T) {
	w := newWorld(t)
	w.set.KeepVersions, w.set.TimeGates = KeepAll, true
	name := strings.Repeat("a&'ü", 40) + ".html"
	w.write("other.txt", "other")
	w.run()
	w.write(name, "one")
	rep := w.run()
	text, err := os.ReadFile(filepath.Join(w.o.Out, strings.TrimPrefix(rep.ChangeList, base)))
	if err != nil {
		t.Fatal(err)
	}
	_, entry, _ := strings.Cut(string(text), "<url>")
	entry, _, ok := strings.Cut(entry, "</url>")
	s, err := Open(t.Context(), w.site())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l := limits{linkLength: (&mementos{store: s.versions, gates: true}).linkLength}
	n := int64(0)
	for ch, err := range s.facts.Changes(t.Context(), s.sets[0].id, 0, math.MaxInt64) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(ch.URI, ".html") {
			n = l.size(&ch)
		}
	}
	if wrote := int64(len(entry) + len("<url></url>")); n < wrote || !ok || !strings.Contains(entry, `rel="timemap"`) {
		t.Errorf("estimated %d bytes, written are %d:\n%s", n, wrote, entry)
	}
}
