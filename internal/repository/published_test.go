package repository

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/fetch"
	"instep/internal/catalog"
	"instep/internal/oaipmh"
	"instep/resourcesync"
)

// state is what a set last said of a resource.
type state struct {
	at      time.Time
	deleted bool
}

// world is a catalog of two sets, with a model of what its change log says.
type world struct {
	t     *testing.T
	now   time.Time
	db    *catalog.Catalog
	sets  []catalog.SetID
	model []map[string]state // of each set
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	var err error
	w.db, err = catalog.Open(t.Context(), catalog.Options{Path: filepath.Join(t.TempDir(), catalog.FileName), Create: true, Now: func() time.Time { return w.now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.db.Close() })
	for _, name := range []string{"maps", "books"} {
		id, err := w.db.Facts.Set(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		w.sets, w.model = append(w.sets, id), append(w.model, map[string]state{})
	}
	return w
}

// change records a change of a resource of a set, and remembers it.
func (w *world) change(set, i int, how resourcesync.Change, record func([]catalog.Change) error) {
	w.t.Helper()
	path := fmt.Sprintf("%s/%d", []string{"maps", "books"}[set], i)
	uri := "https://example.org/" + path
	if err := record([]catalog.Change{{Change: how, Resource: catalog.Resource{URI: uri, Path: path, Type: "text/plain"}}}); err != nil {
		w.t.Fatalf("%s %s: %v", how, uri, err)
	}
	w.model[set][uri] = state{w.now.Truncate(time.Second), how == resourcesync.Deleted}
}

// list reads a list of the handler, and returns each record with its datestamp.
func (w *world) list(url string, s oaipmh.Selection) map[string]string {
	w.t.Helper()
	f, err := fetch.New(fetch.Options{})
	if err == nil {
		err = f.TrustSource(w.t.Context(), url)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	got := map[string]string{}
	c := oaipmh.Client{Fetch: f, BaseURL: url}
	for h, err := range c.Headers(w.t.Context(), s) {
		if err != nil {
			w.t.Fatal(err)
		}
		if was, twice := got[h.Identifier]; twice {
			w.t.Errorf("%s comes twice: %s", h.Identifier, was)
		}
		got[h.Identifier] = fmt.Sprint(h.Datestamp, h.Deleted, h.Sets)
	}
	return got
}

// Lists by any from, until and set are what the log of changes says, whichever way they
// are made: over the members, or over the log.
func TestPublishedListsWhatChanged(t *testing.T) {
	w := newWorld(t)
	random := rand.New(rand.NewPCG(1, 2))
	for set, id := range w.sets {
		for i := range 200 {
			w.change(set, i, resourcesync.Created, func(c []catalog.Change) error { return w.db.Facts.Enroll(t.Context(), id, c) })
		}
	}
	for step := range 300 {
		w.now = w.now.Add(time.Duration(1+random.IntN(90)) * time.Second)
		set, i := random.IntN(2), random.IntN(260)
		uri := fmt.Sprintf("https://example.org/%s/%d", []string{"maps", "books"}[set], i)
		was, known := w.model[set][uri]
		how := resourcesync.Created
		if known && !was.deleted {
			how = []resourcesync.Change{resourcesync.Updated, resourcesync.Deleted}[step%2]
		}
		w.change(set, i, how, func(c []catalog.Change) error { return w.db.Facts.Record(t.Context(), w.sets[set], c) })
	}
	p := &Published{Catalog: w.db.Facts, BaseURL: "https://example.org/", Name: "x", Emails: []string{"a@example.org"}, Files: fstest.MapFS{},
		Shown: []PublishedSet{{ID: w.sets[0], Name: "maps"}, {ID: w.sets[1], Name: "books"}}}
	server := httptest.NewServer(&oaipmh.Handler{Repository: p, BaseURL: "https://example.org/oai", Now: func() time.Time { return w.now }, PageSize: 37})
	defer server.Close()
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for range 40 {
		s := oaipmh.Selection{Prefix: "oai_dc", Set: []string{"", "maps", "books"}[random.IntN(3)]}
		if random.IntN(3) > 0 {
			s.From = oaipmh.Stamp{Time: begin.Add(time.Duration(random.IntN(4*3600)) * time.Second)}
		}
		if random.IntN(3) == 0 {
			s.Until = oaipmh.Stamp{Time: begin.Add(time.Duration(4*3600+random.IntN(4*3600)) * time.Second)}
		}
		want := map[string]string{}
		for set, states := range w.model {
			name := p.Shown[set].Name
			for uri, st := range states {
				if (s.Set == "" || s.Set == name) && (s.From.IsZero() || !st.at.Before(s.From.Time)) && (s.Until.IsZero() || !st.at.After(s.Until.Time)) {
					want[uri] = fmt.Sprint(oaipmh.Stamp{Time: st.at}, st.deleted, []string{name})
				}
			}
		}
		if diff := cmp.Diff(want, w.list(server.URL, s)); diff != "" {
			t.Fatalf("%+v (-want +got):\n%.2000s", s, diff)
		}
	}
}

// TestDeletedRecords: a record that was deleted twice comes once, however far apart the
// deletions are, and GetRecord answers with the header that the list has.
func TestDeletedRecords(t *testing.T) {
	w := newWorld(t)
	record := func(c []catalog.Change) error { return w.db.Facts.Record(t.Context(), w.sets[0], c) }
	for i := range 2 * listBatch {
		w.change(0, i, resourcesync.Created, record)
	}
	for round := range 2 {
		for i := range 2 * listBatch {
			w.now = w.now.Add(time.Second)
			w.change(0, i, resourcesync.Deleted, record)
		}
		if round == 0 {
			for i := range 2 * listBatch {
				w.change(0, i, resourcesync.Created, record)
			}
		}
	}
	p := &Published{Catalog: w.db.Facts, BaseURL: "https://example.org/", Name: "x", Emails: []string{"a@example.org"}, Files: fstest.MapFS{},
		Shown: []PublishedSet{{ID: w.sets[0], Name: "maps"}, {ID: w.sets[1], Name: "books"}}}
	server := httptest.NewServer(&oaipmh.Handler{Repository: p, BaseURL: "https://example.org/oai", Now: func() time.Time { return w.now }, PageSize: 37})
	defer server.Close()
	got := w.list(server.URL, oaipmh.Selection{Prefix: "oai_dc"})
	if len(got) != 2*listBatch {
		t.Errorf("listed %d records, want %d", len(got), 2*listBatch)
	}
	const uri = "https://example.org/maps/7"
	r, err := p.Record(t.Context(), uri, "oai_dc")
	if err != nil {
		t.Fatal(err)
	}
	if is := fmt.Sprint(r.Datestamp, r.Deleted, r.Sets); r.Identifier != uri || !r.Deleted || len(r.Metadata) > 0 || is != got[uri] {
		t.Errorf("got %+v, the list has %s", r.Header, got[uri])
	}
	if _, err := p.Record(t.Context(), "https://example.org/maps/999", "oai_dc"); !errors.Is(err, oaipmh.IDDoesNotExist) {
		t.Errorf("one that never was: %v", err)
	}
	// it comes back in the other set
	w.change(1, 1, resourcesync.Created, func(c []catalog.Change) error {
		c[0].URI = uri
		return w.db.Facts.Record(t.Context(), w.sets[1], c)
	})
	if r, err = p.Record(t.Context(), uri, "oai_dc"); err != nil || r.Deleted {
		t.Errorf("one that came back: %+v, %v", r.Header, err)
	}
}

// TestListGoesOnAfterAFileThatIsGone: a record whose file was removed since the publication is
// left out, whatever the record after it is.
func TestListGoesOnAfterAFileThatIsGone(t *testing.T) {
	w := newWorld(t)
	record := func(c []catalog.Change) error { return w.db.Facts.Record(t.Context(), w.sets[0], c) }
	for i := range 4 {
		w.change(0, i, resourcesync.Created, record)
	}
	from := w.now.Add(time.Minute)
	w.now = from
	w.change(0, 1, resourcesync.Updated, record) // its file is gone
	w.change(0, 2, resourcesync.Deleted, record)
	w.change(0, 3, resourcesync.Updated, record)
	key := Key{"https://repository.example.org/oai", "full", ""}
	store, err := Open(t.Context(), t.TempDir(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	p := &Published{Catalog: w.db.Facts, BaseURL: "https://example.org/", Files: fstest.MapFS{"maps/3": {Data: []byte("<x/>")}},
		Stores: map[Key]*Store{key: store}, Shown: []PublishedSet{{ID: w.sets[0], Name: "maps", Harvest: &key}}}
	var got []string
	for it, err := range p.List(t.Context(), oaipmh.Selection{Prefix: key.Prefix, From: oaipmh.Stamp{Time: from}}, "", true) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(it.Identifier, it.Deleted))
	}
	if diff := cmp.Diff([]string{"https://example.org/maps/2true", "https://example.org/maps/3false"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPathsOfIdentifiers(t *testing.T) {
	for id, want := range map[string]string{
		"oai:example.org:1":      "records/oai_dc/7d/oai=3aexample.org=3a1.xml",
		"oai:example.org:a/../b": "records/oai_dc/18/oai=3aexample.org=3aa=2f..=2fb.xml",
	} {
		if got := PathOf("oai_dc", id); got[:15] != want[:15] || got[17:] != want[17:] {
			t.Errorf("%q: %q, want %q", id, got, want)
		}
	}
	seen := map[string]string{}
	for _, id := range []string{"a", "A", "a=41", "..", ".", "é", "É", "a b", "a_b", "a%20b", string(make([]byte, 1000)), string(make([]byte, 1001))} {
		path := catalog.Fold(PathOf("p", id))
		if other, taken := seen[path]; taken || len(filepath.Base(path)) > 255 {
			t.Errorf("%q and %q have the path %q", id, other, path)
		}
		seen[path] = id
	}
}
