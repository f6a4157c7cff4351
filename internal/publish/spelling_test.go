package publish

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"instep/internal/catalog"
	"instep/resourcesync"
)

// spelled publishes, as another program, files whose URIs it spells in its own way: rspub-core
// (rspub/util/defaults.py:19) and py-resourcesync (resourcesync/utils/defaults.py:18) escape all that
// they can.
func spelled(t *testing.T) *world {
	w := newWorld(t)
	for _, name := range []string{"r&d.txt", "ä.txt", "plain.txt", "twice&.txt", "room/a b.txt"} {
		w.write(name, "text of "+name)
	}
	resource := func(uri, name, change string) string {
		h := resourcesync.NewHasher(resourcesync.SHA256)
		fmt.Fprint(h, "text of "+name)
		return fmt.Sprintf(`<url><loc>BASE%s</loc><rs:md hash="%s" length="%d"%s/></url>`, uri, h.Digests(), len("text of "+name), change)
	}
	list := resource("r%26d.txt", "r&d.txt", "") + resource("plain.txt", "plain.txt", "") +
		resource("twice%26.txt", "twice&.txt", "") + resource("twice&amp;.txt", "twice&.txt", "")
	changes := resource("%c3%a4.txt", "ä.txt", ` change="created" datetime="2024-01-02T00:00:00Z"`) +
		resource("room/a%20b%2Etxt", "room/a b.txt", ` change="created" datetime="2024-01-03T00:00:00Z"`)
	w.foreign("capabilitylist.xml", foreignCapabilities, "resourcelist.xml", foreignList("resourcelist", `at="2024-01-01T00:00:00Z"`, list),
		"changelist.xml", foreignList("changelist", `from="2024-01-01T00:00:00Z"`, changes))
	w.o.Adopt = true
	return w
}

// uris of the Resource List, in order.
func (w *world) uris() (all []string) {
	w.t.Helper()
	for uri := range w.replay() {
		all = append(all, strings.TrimPrefix(uri, base))
	}
	slices.Sort(all)
	return all
}

// An adopted publication's URIs stay as it spells them, through changes, deletions and
// returns of their files; a file that it lists by our URI too keeps that one.
func TestAdoptKeepsTheSpellingOfURIs(t *testing.T) {
	w := spelled(t)
	want := []string{"%c3%a4.txt", "plain.txt", "r%26d.txt", "room/a%20b%2Etxt", "twice&.txt"}
	check := func(step string) {
		t.Helper()
		if got := w.uris(); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", step, got, want)
		}
	}
	rep := w.run()
	if rep.Created+rep.Updated != 0 || rep.Deleted != 1 || rep.Unchanged != 5 {
		t.Errorf("adopted: got %+v, want one URI of two deleted and nothing else", rep.SetReport)
	}
	check("adopted")
	if rep := w.run(); rep.Published || rep.Unchanged != 5 {
		t.Errorf("next: got %+v, want nothing to publish", rep.SetReport)
	}

	w.write("r&d.txt", "changed")
	w.write("new&.txt", "x")
	want = append(want, "new&.txt")
	slices.Sort(want)
	if rep := w.run(); rep.Created != 1 || rep.Updated != 1 || rep.Deleted != 0 {
		t.Errorf("changed: got %+v", rep.SetReport)
	}
	check("changed")

	w.remove("r&d.txt")
	w.what.Paths = []string{"r&d.txt"}
	if rep := w.run(); rep.Deleted != 1 {
		t.Errorf("removed: got %+v", rep.SetReport)
	}
	w.what.Paths = nil
	w.write("r&d.txt", "back")
	if rep := w.run(); rep.Created != 1 {
		t.Errorf("back: got %+v", rep.SetReport)
	}
	check("back")

	w.lose()
	if rep := w.run(); rep.Created+rep.Updated+rep.Deleted != 0 || rep.Unchanged != 6 {
		t.Errorf("adopted once more, by ours: got %+v", rep.SetReport)
	}
	check("adopted once more")
	if rep := w.run(); rep.Published {
		t.Errorf("at the end: got %+v, want nothing to publish", rep.SetReport)
	}
}

// An application names a file by its path, or by the URI that mirrors know.
func TestApplicationsUseTheAdoptedURI(t *testing.T) {
	w := spelled(t)
	w.run()
	s, err := Open(t.Context(), w.site())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w.write("r&d.txt", "changed")
	found, _, err := s.Look(t.Context(), "", "r&d.txt")
	if err != nil || found.URI != base+"r%26d.txt" || found.Path != "r&d.txt" {
		t.Errorf("Look: got %+v, %v", found, err)
	}
	if uri, err := s.URIOf(t.Context(), "plain.txt"); uri != base+"plain.txt" || err != nil {
		t.Errorf("URIOf: got %q, %v", uri, err)
	}
	if _, _, err := s.Accept(t.Context(), "", catalog.Resource{URI: base + "r%26d.txt"}); err != nil {
		t.Errorf("Accept of the adopted URI: %v", err)
	}
	if _, _, err := s.Accept(t.Context(), "", catalog.Resource{URI: base + "r&d.txt"}); err == nil {
		t.Error("Accept of another URI of the file: got no error, and the next scan would delete it")
	}
	if err := s.Record(t.Context(), "", []catalog.Change{{Resource: found}}); err != nil {
		t.Fatal(err)
	}
	rep, err := s.Publish(t.Context(), What{})
	if err != nil || rep.Created+rep.Updated+rep.Deleted != 0 {
		t.Errorf("got %+v, %v, want nothing that the scan found anew", rep.SetReport, err)
	}
}
