package publish

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"instep/internal/aggregate"
	"instep/ore"
)

func (w *world) mapped() {
	w.set.Aggregations = []aggregate.Rule{{Match: "/room*/", Name: "{1}"}}
}

// aggregated are the members and the time of a published map.
func (w *world) aggregated(name string) (members []string, updated string) {
	w.t.Helper()
	f, err := os.Open(filepath.Join(w.o.Out, "resourcesync", "maps", name))
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	m, err := new(ore.Reader).Read(base+"resourcesync/maps/"+name, f)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range m.Resources {
		members = append(members, strings.TrimPrefix(r.URI, base))
	}
	return members, m.Modified.String()
}

func isMap(key string) bool { return strings.Contains(key, "/maps/") }

// TestMapsFollowTheirMembers: a map is written when its members change and not otherwise,
// its time moves with it, and it goes with its last member after the time that readers of
// the list have.
func TestMapsFollowTheirMembers(t *testing.T) {
	w := newWorld(t)
	w.mapped()
	w.write("room1/a.txt", "a")
	w.write("room1/b.txt", "b")
	w.write("room2/c.txt", "c")
	w.write("other.txt", "o")
	w.run()
	members, first := w.aggregated("room1.atom")
	if !slices.Equal(members, []string{"room1/a.txt", "room1/b.txt"}) {
		t.Errorf("members %q", members)
	}
	_, second := w.aggregated("room2.atom")

	w.write("other.txt", "another")
	if rep := w.run(); slices.ContainsFunc(rep.Documents, isMap) {
		t.Errorf("what is in no map wrote %q", rep.Documents)
	}

	w.remove("room1/b.txt")
	rep := w.run()
	members, later := w.aggregated("room1.jsonld")
	if !slices.Equal(members, []string{"room1/a.txt"}) || later <= first {
		t.Errorf("members %q, updated %s after %s", members, later, first)
	}
	if _, got := w.aggregated("room2.atom"); got != second {
		t.Errorf("room2 was updated %s, %s before", got, second)
	}
	got := slices.DeleteFunc(slices.Clone(rep.Documents), func(key string) bool { return !isMap(key) })
	want := []string{"maps.atom", "maps.rss", "room1.atom", "room1.jsonld", "sitemap.xml"}
	for i := range got {
		got[i] = filepath.Base(got[i])
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("wrote %q, want %q", got, want)
	}

	w.remove("room2/c.txt")
	rep = w.run()
	if !slices.Contains(rep.Retired, "resourcesync/maps/room2.atom") {
		t.Errorf("retired %q", rep.Retired)
	}
	w.aggregated("room2.atom") // still there for readers that know it
	sitemap, _ := os.ReadFile(filepath.Join(w.o.Out, "resourcesync/maps/sitemap.xml"))
	if strings.Contains(string(sitemap), "room2") || !strings.Contains(string(sitemap), "room1") {
		t.Errorf("sitemap:\n%s", sitemap)
	}
	for range 3 {
		w.now = w.now.Add(25 * time.Hour)
		w.write("other.txt", w.now.String())
		w.run()
	}
	if _, err := os.Stat(filepath.Join(w.o.Out, "resourcesync/maps/room2.atom")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("room2.atom: %v", err)
	}
	w.aggregated("room1.atom")

	// it comes back, and a removed one is written again
	w.write("room2/d.txt", "d")
	if err := os.Remove(filepath.Join(w.o.Out, "resourcesync/maps/room1.jsonld")); err != nil {
		t.Fatal(err)
	}
	w.run()
	if members, _ := w.aggregated("room2.atom"); !slices.Equal(members, []string{"room2/d.txt"}) {
		t.Errorf("members %q", members)
	}
	w.aggregated("room1.jsonld")
}

// TestEntriesLinkTheirAggregations, in both lists and in manifests, as long as there is a
// map.
func TestEntriesLinkTheirAggregations(t *testing.T) {
	w := newWorld(t)
	w.set.Dumps = true
	w.mapped()
	w.write("room1/a.txt", "a")
	w.write("other.txt", "o")
	w.run()
	w.write("room1/a.txt", "changed")
	rep := w.run()
	link := `rel="collection" href="` + base + `resourcesync/maps/room1.atom#aggregation"`
	manifests, err := filepath.Glob(filepath.Join(w.o.Out, "resourcesync/*dumps/*/*-manifest.xml"))
	if err != nil || len(manifests) != 3 {
		t.Fatal(manifests, err)
	}
	for _, uri := range append(manifests, rep.ResourceList, rep.ChangeList) {
		uri = strings.TrimPrefix(uri, w.o.Out+string(filepath.Separator))
		text, err := os.ReadFile(filepath.Join(w.o.Out, strings.TrimPrefix(uri, base)))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), link); n != 1 {
			t.Errorf("%s links it %d times:\n%s", uri, n, text)
		}
	}
	w.set.Aggregations = nil
	rep = w.run()
	text, err := os.ReadFile(filepath.Join(w.o.Out, strings.TrimPrefix(rep.ResourceList, base)))
	if err != nil || strings.Contains(string(text), "collection") {
		t.Errorf("%v:\n%s", err, text)
	}
}

// TestWithoutANewListNothingIsLinkedThatIsNotThere: between two Resource Lists maps stay as
// they are, and a Change List links none that is to come.
func TestWithoutANewListNothingIsLinkedThatIsNotThere(t *testing.T) {
	w := newWorld(t)
	w.mapped()
	w.o.RebaseMin = time.Hour
	w.write("room1/a.txt", "a")
	w.run()
	_, before := w.aggregated("room1.atom")
	w.write("room1/b.txt", "b")
	w.write("room2/c.txt", "c")
	rep := w.run()
	text, err := os.ReadFile(filepath.Join(w.o.Out, strings.TrimPrefix(rep.ChangeList, base)))
	if err != nil || !strings.Contains(string(text), "maps/room1.atom#") || strings.Contains(string(text), "maps/room2.atom#") {
		t.Errorf("%v:\n%s", err, text)
	}
	if _, got := w.aggregated("room1.atom"); got != before {
		t.Errorf("updated %s, %s before", got, before)
	}
	w.now = w.now.Add(2 * time.Hour)
	w.run()
	w.aggregated("room2.atom")
	if members, _ := w.aggregated("room1.atom"); len(members) != 2 {
		t.Errorf("members %q", members)
	}
}

// TestADryRunSaysWhichMapsItWouldWrite and writes none.
func TestADryRunSaysWhichMapsItWouldWrite(t *testing.T) {
	w := newWorld(t)
	w.mapped()
	w.write("room1/a.txt", "a")
	w.o.DryRun = true
	if rep := w.run(); !slices.Contains(rep.Documents, "resourcesync/maps/room1.atom") {
		t.Errorf("documents %q", rep.Documents)
	}
	if found := files(t, w.o.Out); len(found) != 0 {
		t.Errorf("wrote %q", found)
	}
}

func TestRulesOfAggregationsAreChecked(t *testing.T) {
	w := newWorld(t)
	w.set.Aggregations = []aggregate.Rule{{Match: "*", Name: "{0}"}}
	_, err := w.try()
	if oe, ok := errors.AsType[*OptionError](err); !ok || oe.Option != "aggregations" || oe.Value != "*" {
		t.Errorf("got %v", err)
	}
}
