package aggregate

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/ore"
	"instep/resourcesync"
	"instep/source"
)

const base = "https://museum.example.org/"

func TestAggregationsOfAPath(t *testing.T) {
	rules := []Rule{
		{Match: "/books/", Name: "{2}", Title: "Book {2}", Creator: "{2} & sons"},
		{Match: "*.txt", Name: "texts"},
		{Match: "/scans/", Name: "{dir}{stem}"},
		{Match: "/books/vase/", Name: "texts"},
		{Match: "/flat/", Name: "{dir}"},
	}
	for at, want := range map[string][]string{
		"books/vase/1.png":    {"vase|Book vase|vase & sons", "texts|texts|"},
		"books/vase/a/b/1.md": {"vase|Book vase|vase & sons", "texts|texts|"},
		"books/loose.txt":     {"texts|texts|"}, // it has no second directory
		"scans/7.tif":         {"scans/7|scans/7|"},
		"scans/7.xml":         {"scans/7|scans/7|"},
		"flat/x/y.md":         {"flat/x|flat/x|"},
		"root.md":             nil,
		"flat/.x":             {"flat|flat|"},
	} {
		var got []string
		for _, a := range Of(rules, at) {
			got = append(got, a.Name+"|"+a.Title+"|"+a.Creator)
		}
		if d := cmp.Diff(got, want); d != "" {
			t.Errorf("%s (-got +want):\n%s", at, d)
		}
	}
}

// TestKeysAreFileNames: every name has a key of its own that all file systems and URIs
// have as it is.
func TestKeysAreFileNames(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{
		"vase", "Vase", "VASE", "a/b", "a-b", "a b", "../../etc/passwd", ".hidden", "con", "maps", "sitemap", "",
		"ö", "\u00e9", "e\u0301", "x\x00y", "x\ny", strings.Repeat("a", 64), strings.Repeat("a", 65), strings.Repeat("a", 300), `"<&>'`, "~", "-",
	} {
		key := keyOf(name)
		if !plainKey.MatchString(key) || reservedKey.MatchString(key) {
			t.Errorf("%q has the key %q", name, key)
		}
		if other, ok := seen[key]; ok {
			t.Errorf("%q and %q have the key %q", name, other, key)
		}
		seen[key] = name
	}
	if keyOf("vase") != "vase" {
		t.Error("a plain name is not its own key")
	}
}

func TestRulesThatAreWrong(t *testing.T) {
	for want, r := range map[string]Rule{
		"no pattern":     {Match: "[", Name: "x"},
		"needs a name":   {Match: "*"},
		"found {0}":      {Match: "*", Name: "{0}"},
		"found {path}":   {Match: "*", Name: "{path}"},
		"which the name": {Match: "*", Name: "{1}", Creator: "{2}"},
	} {
		if err := r.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", r, err, want)
		}
	}
}

// grouped returns the texts of the maps of paths, by file name.
func grouped(t *testing.T, o Options, paths ...string) (map[string]string, map[string]source.Sum) {
	t.Helper()
	o.BaseURL, o.Creator, o.Title, o.Temp = base, "The museum", "All", t.TempDir()
	if o.Note == nil {
		o.Note = func(format string, args ...any) { t.Errorf(format, args...) }
	}
	g := New(o)
	defer g.Close()
	for _, p := range paths {
		if err := g.Add(p, entry(p)); err != nil {
			t.Fatal(err)
		}
	}
	texts, sums := map[string]string{}, map[string]source.Sum{}
	for m, err := range g.Maps(t.Context()).All {
		if err != nil {
			t.Fatal(err)
		}
		sums[m.Name] = m.Sum
		for _, f := range m.Files {
			var b bytes.Buffer
			if err := f.Write(&b, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)); err != nil {
				t.Fatal(err)
			}
			texts[f.Name] = b.String()
		}
	}
	return texts, sums
}

func entry(p string) *resourcesync.Entry {
	en := &resourcesync.Entry{Loc: base + p, LastMod: resourcesync.DatetimeOf(time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC))}
	en.Type = "text/plain"
	return en
}

// TestMapsAreReadBack: a reader finds in each format what was grouped.
func TestMapsAreReadBack(t *testing.T) {
	texts, _ := grouped(t, Options{Rules: []Rule{{Match: "*", Name: "{1}", Title: `<"{1}"> & more`, Creator: "O'Neil"}}},
		"b/2", "a/1&'x", "b/1", "a/0")
	if len(texts) != 4 {
		t.Fatalf("got %d files", len(texts))
	}
	for name, text := range texts {
		m, err := new(ore.Reader).Read(source.MapURI(base, "", name), strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		dir := name[:1]
		want := map[string][]string{"a": {base + "a/0", base + "a/1&'x"}, "b": {base + "b/1", base + "b/2"}}[dir]
		var got []string
		for _, r := range m.Resources {
			got = append(got, r.URI)
			if r.MediaType != "text/plain" || r.Modified.String() != "2025-01-02T03:04:05Z" {
				t.Errorf("%s: %+v", name, r)
			}
		}
		if d := cmp.Diff(got, want); d != "" {
			t.Errorf("%s (-got +want):\n%s", name, d)
		}
		if m.Self != m.URI || m.Aggregation.URI != source.MapURI(base, "", dir+".atom")+"#aggregation" || m.Aggregation.Title != `<"`+dir+`"> & more` ||
			len(m.Aggregation.Maps) != 1 || m.Modified.String() != "2026-01-02T03:04:05Z" {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

// TestSumIsOfWhatAMapSays: not of the order in which resources came, nor of others.
func TestSumIsOfWhatAMapSays(t *testing.T) {
	o := Options{Rules: []Rule{{Match: "*", Name: "{1}"}}}
	_, one := grouped(t, o, "a/1", "a/2", "b/1")
	_, same := grouped(t, o, "b/2", "a/2", "a/1")
	_, less := grouped(t, o, "a/1")
	o.Rules[0].Title = "Now {1}"
	_, titled := grouped(t, o, "a/1", "a/2")
	if one["a"] != same["a"] {
		t.Error("the order changes the sum")
	}
	if one["a"] == less["a"] || one["a"] == titled["a"] || one["b"] == same["b"] {
		t.Error("a change leaves the sum as it is")
	}
}

// TestManyMembersNeedLittleMemory: an Aggregation of 100,000 resources is grouped and
// written in Atom, which our reader takes; JSON-LD would be too large for readers.
func TestManyMembersNeedLittleMemory(t *testing.T) {
	const n, limit = maxMembers, 24 << 20
	g := New(Options{BaseURL: base, Rules: []Rule{{Match: "*", Name: "all"}}, Creator: "x", Temp: t.TempDir(), Note: t.Errorf})
	defer g.Close()
	out, err := os.Create(filepath.Join(t.TempDir(), "map"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	before, peak := heap(), uint64(0)
	for i := range n {
		p := fmt.Sprintf("room/%d/item-%d.txt", i%1000, i)
		if err := g.Add(p, entry(p)); err != nil {
			t.Fatal(err)
		}
	}
	for m, err := range g.Maps(t.Context()).All {
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Files) != 1 {
			t.Fatalf("got %d formats", len(m.Files))
		}
		w := &watcher{File: out, peak: &peak}
		if err := m.Files[0].Write(w, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if grown := int64(peak) - int64(before); grown > limit {
		t.Errorf("the heap grew by %d MiB, want at most %d", grown>>20, limit>>20)
	}
	if _, err := out.Seek(0, 0); err != nil {
		t.Fatal(err)
	}
	m, err := new(ore.Reader).Read(source.MapURI(base, "", "all.atom"), out)
	if err != nil || len(m.Resources) != n {
		t.Fatalf("%v, %d resources", err, len(m.Resources))
	}
}

type watcher struct {
	*os.File
	n    int
	peak *uint64
}

func (w *watcher) Write(p []byte) (int, error) {
	if w.n++; w.n%1000 == 0 {
		*w.peak = max(*w.peak, heap())
	}
	return w.File.Write(p)
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestMapsBeyondTheBounds are left out with a note, and are not linked.
func TestMapsBeyondTheBounds(t *testing.T) {
	var notes []string
	g := New(Options{BaseURL: base, Rules: []Rule{{Match: "/a/", Name: "a"}, {Match: "/b/", Name: "b"}, {Match: "*.no", Name: "no"}}, Temp: t.TempDir(),
		Note: func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }})
	defer g.Close()
	for i := range maxMembers + 1 {
		p := fmt.Sprint("a/", i)
		if err := g.Add(p, &resourcesync.Entry{Loc: base + p}); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Add("b/1", entry("b/1")); err != nil {
		t.Fatal(err)
	}
	var names []string
	for m, err := range g.Maps(t.Context()).All {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, m.Name)
	}
	if d := cmp.Diff(names, []string{"b"}); d != "" || g.Has("a") || !g.Has("b") || g.Has("c") {
		t.Errorf("(-got +want):\n%s%v %v %v", d, g.Has("a"), g.Has("b"), g.Has("c"))
	}
	if len(notes) != 1 || !strings.Contains(notes[0], `"a" has 100001 resources`) {
		t.Errorf("notes %q", notes)
	}
	if d := cmp.Diff(g.Unmatched(), []string{"*.no"}); d != "" {
		t.Error(d)
	}
}
