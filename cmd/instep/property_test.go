package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"instep/destination"
	"instep/fetch"
	"instep/guard"
	"instep/internal/publish"
	"instep/internal/scan"
	"instep/mirror"
	"instep/source"
)

// world is a Source whose files change at random, its mirror, and the model: what
// the files are.
type world struct {
	t      *rapid.T
	dir    string
	base   string
	model  map[string]string // path to content
	rounds int
}

// names are drawn from: they collide in case, in Unicode form, as file and
// directory, and hold what paths and URIs treat in a special way.
var names = []string{
	"latin-\xe9", "a", "A", "b.txt", "B.TXT", "a b", "100%", "%41", "é", "e\u0301", "con", "aux.txt", "x.", "y ", "~0123abcd", "@host", "q?x=1", "#f", "a:b", `back\slash`, `back\.dot`, "…", "a~89abcdef",
}

// TestMirrorEqualsSourceAfterRandomChanges is the main promise: whatever changes at
// a Source, published and followed, the mirror holds the same bytes for the same URIs.
func TestMirrorEqualsSourceAfterRandomChanges(t *testing.T) {
	everything, err := guard.ParseLimit("100%")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "world")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		w := &world{t: rt, dir: dir, model: map[string]string{}}
		var handler http.Handler
		srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { handler.ServeHTTP(rw, r) }))
		defer srv.Close()
		w.base = srv.URL + "/"
		w.write("keep", "the set is never empty")
		root, err := os.OpenRoot(w.path("site"))
		if err != nil {
			rt.Fatal(err)
		}
		defer root.Close()
		handler = source.NewHandler(source.HandlerOptions{Dirs: []fs.FS{publish.Files{Root: root}}, Now: time.Now})
		for range rapid.IntRange(2, 5).Draw(rt, "rounds") {
			for range rapid.IntRange(0, 12).Draw(rt, "changes") {
				w.change()
			}
			w.publish()
			if rapid.Bool().Draw(rt, "follow") {
				w.follow(everything)
				w.check()
			}
		}
		w.follow(everything)
		w.check()
	})
}

func (w *world) path(elem ...string) string {
	return filepath.Join(append([]string{w.dir}, elem...)...)
}

func (w *world) write(name, content string) {
	full := w.path("site", filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		return // a file is where a directory is needed
	}
	if os.WriteFile(full, []byte(content), 0o644) == nil {
		w.model[name] = content
	}
}

// change creates or replaces, deletes or renames a file.
func (w *world) change() {
	depth := rapid.IntRange(1, 3).Draw(w.t, "depth")
	var segments []string
	for range depth {
		segments = append(segments, rapid.SampledFrom(names).Draw(w.t, "name"))
	}
	name := strings.Join(segments, "/")
	switch rapid.IntRange(0, 5).Draw(w.t, "kind") {
	case 0, 1, 2:
		w.write(name, rapid.SampledFrom([]string{"", "same", "other", fmt.Sprint("round ", w.rounds)}).Draw(w.t, "content"))
	case 3, 4:
		w.remove(rapid.SampledFrom(slices.Sorted(maps.Keys(w.model))).Draw(w.t, "victim"))
	default:
		old := rapid.SampledFrom(slices.Sorted(maps.Keys(w.model))).Draw(w.t, "moved")
		content := w.model[old]
		if w.remove(old) {
			w.write(name, content)
		}
	}
}

func (w *world) remove(name string) bool {
	if name == "keep" {
		return false
	}
	if err := os.Remove(w.path("site", filepath.FromSlash(name))); err != nil {
		w.t.Fatal(err)
	}
	delete(w.model, name)
	for dir := filepath.Dir(filepath.FromSlash(name)); dir != "." && os.Remove(w.path("site", dir)) == nil; {
		dir = filepath.Dir(dir)
	}
	return true
}

func (w *world) publish() {
	w.rounds++
	rep, err := publish.Run(context.Background(), publish.Site{
		Dir: w.path("site"), State: w.path("state"), BaseURL: w.base, Now: time.Now,
		Sets: []publish.Set{{MaxDelete: "100%", ChangeListMax: 20}},
	}, publish.What{})
	if err != nil || rep.Failed > 0 {
		w.t.Fatalf("publish: %+v, %v", rep, err)
	}
}

func (w *world) follow(limit guard.Limit) {
	ctx := context.Background()
	c, err := fetch.New(fetch.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	if err := c.TrustSource(ctx, w.base); err != nil {
		w.t.Fatal(err)
	}
	m, err := mirror.Open(ctx, mirror.Options{Dir: w.path("mirror"), Create: true, Now: time.Now})
	if err != nil {
		w.t.Fatal(err)
	}
	defer m.Close()
	d := &destination.Destination{Source: w.base, Mirror: m, Client: c, MaxDelete: limit}
	plan, err := d.Plan(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	defer plan.Close()
	if err := m.Bind(ctx, plan.Source, plan.Origin, plan.URIs()...); err != nil {
		w.t.Fatal(err)
	}
	rep, err := d.Apply(ctx, plan)
	if err != nil || rep.Sets[0].Failed > 0 || rep.Sets[0].Withheld > 0 {
		w.t.Fatalf("sync: %+v, %v", rep.Sets[0], err)
	}
}

// check compares the mirror with the model, URI by URI.
func (w *world) check() {
	ctx := context.Background()
	m, err := mirror.OpenReadOnly(ctx, mirror.Options{Dir: w.path("mirror"), Now: time.Now})
	if err != nil {
		w.t.Fatal(err)
	}
	defer m.Close()
	for name, want := range w.model {
		uri := scan.URI(w.base, name)
		held, err := m.Lookup(ctx, "", []string{uri})
		if err != nil {
			w.t.Fatalf("%s: %v", uri, err)
		}
		f, err := m.Open(ctx, &held[0])
		if err != nil {
			w.t.Fatalf("%s: %v", uri, err)
		}
		got, err := io.ReadAll(f)
		if err := errors.Join(err, f.Close()); err != nil || string(got) != want {
			w.t.Fatalf("%s: got %q, %v; want %q", uri, got, err, want)
		}
	}
	n, err := m.Count(ctx, w.base+"resourcesync/capabilitylist.xml")
	if err != nil || n != int64(len(w.model)) {
		w.t.Fatalf("members: got %d, %v; want %d", n, err, len(w.model))
	}
}
