package publish

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/internal/scan"
	"instep/resourcesync"
	"instep/source"
)

const base = "https://museum.example.org/"

// world is a directory that is published, and what is around it.
type world struct {
	t    *testing.T
	o    Site
	set  Set // the only one
	what What
	now  time.Time
	seen []Event
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, now: time.Now().Add(time.Hour)} // far from the times of the files
	dir := t.TempDir()
	w.o = Site{
		Dir: filepath.Join(dir, "site"), Out: filepath.Join(dir, "out"), State: filepath.Join(dir, "state"),
		BaseURL: base, Workers: 2, Generator: "instep test",
		Now:     func() time.Time { return w.now },
		Observe: func(e Event) { w.seen = append(w.seen, e) },
	}
	if err := os.Mkdir(w.o.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) write(name, content string) {
	w.t.Helper()
	path := filepath.Join(w.o.Dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) remove(name string) {
	w.t.Helper()
	if err := os.Remove(filepath.Join(w.o.Dir, filepath.FromSlash(name))); err != nil {
		w.t.Fatal(err)
	}
}

// run publishes a while later.
func (w *world) run() Report {
	w.t.Helper()
	w.now = w.now.Add(10 * time.Second)
	w.seen = nil
	rep, err := w.try()
	if err != nil {
		w.t.Fatalf("Run: %v", err)
	}
	return rep
}

func (w *world) try() (Report, error) { return Run(w.t.Context(), w.site(), w.what) }

func (w *world) site() Site {
	site := w.o
	site.Sets = []Set{w.set}
	return site
}

func (w *world) fill(n int) {
	for i := range n {
		w.write(fmt.Sprintf("room %d/item.txt", i), fmt.Sprintf("item %d", i))
	}
}

// files are the paths below a directory.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, path)
			all = append(all, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return all
}

// reading is a ResourceSync document as encoding/xml reads it.
type reading struct {
	XMLName xml.Name
	MD      attributes `xml:"http://www.openarchives.org/rs/terms/ md"`
	Links   []link     `xml:"http://www.openarchives.org/rs/terms/ ln"`
	Entries []entry    `xml:"http://www.sitemaps.org/schemas/sitemap/0.9 url"`
	Parts   []entry    `xml:"http://www.sitemaps.org/schemas/sitemap/0.9 sitemap"`
}

type entry struct {
	Loc     string     `xml:"http://www.sitemaps.org/schemas/sitemap/0.9 loc"`
	LastMod string     `xml:"http://www.sitemaps.org/schemas/sitemap/0.9 lastmod"`
	MD      attributes `xml:"http://www.openarchives.org/rs/terms/ md"`
}

type link struct {
	Rel  string `xml:"rel,attr"`
	Href string `xml:"href,attr"`
}

func (d reading) link(rel string) string {
	for _, l := range d.Links {
		if l.Rel == rel {
			return l.Href
		}
	}
	return ""
}

type attributes struct {
	Capability string `xml:"capability,attr"`
	At         string `xml:"at,attr"`
	From       string `xml:"from,attr"`
	Until      string `xml:"until,attr"`
	Change     string `xml:"change,attr"`
	Datetime   string `xml:"datetime,attr"`
	Hash       string `xml:"hash,attr"`
	Length     string `xml:"length,attr"`
	Path       string `xml:"path,attr"`
	Type       string `xml:"type,attr"`
}

func (w *world) document(uri string) reading {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(w.o.Out, filepath.FromSlash(strings.TrimPrefix(uri, base))))
	if err != nil {
		w.t.Fatal(err)
	}
	var d reading
	if err := xml.Unmarshal(text, &d); err != nil {
		w.t.Fatalf("%s: %v", uri, err)
	}
	return d
}

func moment(t *testing.T, s string) time.Time {
	t.Helper()
	m, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// linked reads the document of a capability from the Capability List.
func (w *world) linked(capability string) reading {
	w.t.Helper()
	for _, en := range w.document(base + "resourcesync/capabilitylist.xml").Entries {
		if en.MD.Capability == capability {
			return w.document(en.Loc)
		}
	}
	w.t.Fatalf("no %s is linked", capability)
	return reading{}
}

// changes are the current Change Lists, oldest first. A list that is named alone and
// closed leads to the others by its index.
func (w *world) changes() []reading {
	w.t.Helper()
	root := w.linked("changelist")
	if root.MD.Until != "" {
		root = w.document(root.link("index"))
	}
	if len(root.Parts) == 0 {
		return []reading{root}
	}
	var lists []reading
	for _, en := range root.Parts {
		lists = append(lists, w.document(en.Loc))
	}
	return lists
}

// replay is what a reader makes of the documents: URI to hash and length.
func (w *world) replay() map[string]string {
	w.t.Helper()
	return w.replayed(w.changes())
}

// replayFixed is what a reader makes of the Resource List and the Change List at a fixed
// name.
func (w *world) replayFixed() map[string]string {
	w.t.Helper()
	return w.replayed([]reading{w.document(source.FixedChangeListURI(base, ""))})
}

func (w *world) replayed(changes []reading) map[string]string {
	w.t.Helper()
	list := w.linked("resourcelist")
	state := map[string]string{}
	parts := []reading{list}
	for _, en := range list.Parts {
		parts = append(parts, w.document(en.Loc))
	}
	for _, p := range parts {
		for _, en := range p.Entries {
			state[en.Loc] = en.MD.Hash + " " + en.MD.Length
		}
	}
	at := moment(w.t, list.MD.At)
	if moment(w.t, changes[0].MD.From).After(at) {
		w.t.Errorf("gap: list at %s, changes from %s", list.MD.At, changes[0].MD.From)
	}
	var entries []entry
	for i, list := range changes {
		entries = append(entries, list.Entries...)
		if i > 0 && list.MD.From != changes[i-1].MD.Until {
			w.t.Errorf("gap: changes until %s, then from %s", changes[i-1].MD.Until, list.MD.From)
		}
	}
	for _, en := range entries {
		switch {
		case moment(w.t, en.MD.Datetime).Before(at):
		case en.MD.Change == "deleted":
			delete(state, en.Loc)
		default:
			state[en.Loc] = en.MD.Hash + " " + en.MD.Length
		}
	}
	return state
}

// truth is what the directory holds, in the form of replay.
func (w *world) truth() map[string]string {
	w.t.Helper()
	state := map[string]string{}
	for _, name := range files(w.t, w.o.Dir) {
		content, err := os.ReadFile(filepath.Join(w.o.Dir, filepath.FromSlash(name)))
		if err != nil {
			w.t.Fatal(err)
		}
		h := resourcesync.NewHasher(resourcesync.SHA256)
		h.Write(content)
		state[scan.URI(base, name)] = fmt.Sprintf("%s %d", h.Digests(), len(content))
	}
	return state
}

func (w *world) check() {
	w.t.Helper()
	if diff := cmp.Diff(w.truth(), w.replay()); diff != "" {
		w.t.Errorf("what a reader makes of the documents (-directory +documents):\n%s", diff)
	}
}
