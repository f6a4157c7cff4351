package source

import (
	"bytes"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"instep/blob"
	"instep/discover"
	"instep/fetch"
	"instep/resourcesync"
)

// publishedAt is a site that is published for a path of a host, as files.
func publishedAt(t *testing.T, base string, sets ...string) (*site, fstest.MapFS) {
	t.Helper()
	s := newSite(t)
	s.fill(1)
	s.p.BaseURL, s.p.Sets = base, sets
	for _, set := range sets {
		s.publishSet(set)
	}
	dir := fstest.MapFS{}
	for _, key := range keysOf(t, s.bucket) {
		dir[key] = &fstest.MapFile{Data: bytesOf(t, s.bucket, key), Mode: 0o644, ModTime: time.Unix(1e9, 0)}
	}
	return s, dir
}

func TestSubPathHasACopyAtTheWellKnownName(t *testing.T) {
	s, _ := publishedAt(t, testBase+"sub/path/", "")
	description, copied := bytesOf(t, s.bucket, descriptionKey), bytesOf(t, s.bucket, wellKnownKey)
	if !bytes.Equal(description, copied) {
		t.Errorf("the copy differs from the Source Description:\n%s", copied)
	}
	up := ""
	dec := resourcesync.NewDecoder(bytes.NewReader(bytesOf(t, s.bucket, "resourcesync/capabilitylist.xml")))
	if h, err := dec.Header(); err == nil {
		up = h.Link(resourcesync.RelUp)
	}
	if want := testBase + "sub/path/" + descriptionKey; up != want {
		t.Errorf("up: got %q, want %q, which readers know the Source by", up, want)
	}
}

// Below a path a file that somebody else put there stops nothing.
func TestSubPathLeavesAForeignWellKnownFile(t *testing.T) {
	s := newSite(t)
	s.fill(1)
	s.p.BaseURL = testBase + "sub/"
	put(t, s.bucket, wellKnownKey, "theirs")
	pub := s.publish(s.first())
	if got := string(bytesOf(t, s.bucket, wellKnownKey)); got != "theirs" {
		t.Errorf("got %q, want it as it was", got)
	}
	if len(pub.Notes) != 1 || !strings.Contains(pub.Notes[0], wellKnownKey) {
		t.Errorf("Notes: got %q, want one that names it", pub.Notes)
	}
	if missing, err := s.p.Missing(t.Context(), pub); len(missing) > 0 || err != nil {
		t.Errorf("Missing: got %q, %v", missing, err)
	}
}

// An earlier version wrote no copy below a path: that is no loss, and the next
// publication writes it.
func TestSubPathOfAnEarlierVersion(t *testing.T) {
	s := newSite(t)
	s.fill(1)
	s.p.BaseURL = testBase + "sub/"
	pub := s.publish(s.first())
	if err := blob.Remove(t.Context(), s.bucket, []string{wellKnownKey}); err != nil {
		t.Fatal(err)
	}
	if err := s.log.Forget(t.Context(), wellKnownKey); err != nil {
		t.Fatal(err)
	}
	if missing, err := s.p.Missing(t.Context(), pub); len(missing) > 0 || err != nil {
		t.Errorf("Missing: got %q, %v, want none", missing, err)
	}
	s.set("item/0.txt", "new")
	if pub := s.publish(s.more(false)); !slices.Contains(pub.Written, wellKnownKey) {
		t.Errorf("Written: got %q, want the copy too", pub.Written)
	}
}

// A plain web server over the files is found by the base URL, below which resync (resync/client.py:182)
// and resydes (des/processor.py:209) look; instep serve by the host.
func TestSubPathIsFoundByItsBaseURL(t *testing.T) {
	mux := http.NewServeMux()
	srv := httptest.NewServer(mux)
	defer srv.Close()
	_, dir := publishedAt(t, srv.URL+"/museum/", "")
	mux.Handle("/museum/", http.StripPrefix("/museum/", http.FileServerFS(dir)))
	client, err := fetch.New(fetch.Options{MaxRetries: -1, AllowPrivate: []string{srv.Listener.Addr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	find := func(given string) *discover.Source {
		t.Helper()
		src, err := discover.Find(t.Context(), discover.Finder{Client: client}, given)
		if err != nil {
			t.Fatal(err)
		}
		return src
	}
	if src := find(srv.URL + "/museum/"); src.Way != discover.WayBelow || len(src.Sets) != 1 {
		t.Errorf("got way %s, %d sets", src.Way, len(src.Sets))
	}
	if src := find(srv.URL + "/museum"); len(src.Sets) != 1 {
		t.Errorf("without a slash: got way %s, %d sets", src.Way, len(src.Sets))
	}
	mux.Handle("/", NewHandler(HandlerOptions{Dirs: []fs.FS{dir}, Prefix: "/museum/"}))
	if src := find(srv.URL + "/"); src.Way != discover.WayWellKnown || len(src.Sets) != 1 {
		t.Errorf("by the host: got way %s, %d sets", src.Way, len(src.Sets))
	}
}

// The publications of a host are served each below its path, and listed together at
// its root, where alone rs-aggregator looks (Expedition.java:47): their sets, or the Source Descriptions if those are too many.
func TestHostListsItsPublications(t *testing.T) {
	_, root := publishedAt(t, testBase, "")
	_, museum := publishedAt(t, testBase+"museum/", "", "maps")
	_, many := publishedAt(t, testBase+"many/", "a", "b", "c", "d") // three in a document
	options := func(dir fstest.MapFS, prefix string) HandlerOptions {
		return HandlerOptions{Dirs: []fs.FS{dir}, Prefix: prefix, Report: func(err error) { t.Log(err) }}
	}
	h := NewHostHandler([]HandlerOptions{options(root, "/"), options(museum, "/museum/")})
	locs := func(h http.Handler) (all []string) {
		t.Helper()
		r := get(t, h, "/"+wellKnownKey)
		if r.StatusCode != http.StatusOK || r.Header.Get("Content-Type") != "application/xml" || r.Header.Get("ETag") == "" {
			t.Fatalf("got %s, %v", r.Status, r.Header)
		}
		dec := resourcesync.NewDecoder(r.Body)
		for en, err := range dec.Entries() {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, strings.TrimPrefix(en.Loc, testBase))
		}
		slices.Sort(all)
		return all
	}
	want := []string{"museum/resourcesync/capabilitylist.xml", "museum/resourcesync/sets/maps/capabilitylist.xml", "resourcesync/capabilitylist.xml"}
	if got := locs(h); !slices.Equal(got, want) {
		t.Errorf("sets: got %q, want %q", got, want)
	}
	for target, status := range map[string]int{
		"/resourcesync/description.xml": 200, "/museum/resourcesync/description.xml": 200, "/museum/.well-known/resourcesync": 200,
		"/museum/resourcesync/nothing": 404, "/nothing": 404, "/museum": 404,
	} {
		if r := get(t, h, target); r.StatusCode != status {
			t.Errorf("%s: got %s, want %d", target, r.Status, status)
		}
	}
	robots, err := io.ReadAll(get(t, h, "/robots.txt").Body)
	if text := string(robots); err != nil || !strings.Contains(text, testBase+"sitemap.xml") || !strings.Contains(text, testBase+"museum/sitemap.xml") {
		t.Errorf("robots.txt: got %q, %v", text, err)
	}

	h = NewHostHandler([]HandlerOptions{options(museum, "/museum/"), options(many, "/many/")})
	if got, want := locs(h), []string{"many/resourcesync/description-00001.xml", "many/resourcesync/description-00002.xml", "museum/resourcesync/description.xml"}; !slices.Equal(got, want) {
		t.Errorf("an index: got %q, want %q", got, want)
	}
	delete(many, descriptionKey)
	if r := get(t, h, "/"+wellKnownKey); r.StatusCode != http.StatusInternalServerError {
		t.Errorf("without one of the descriptions: got %s, want none rather than a part", r.Status)
	}
	for _, prefix := range []string{"/museum/", "/other/"} {
		if r := get(t, NewHandler(options(museum, prefix)), "/"+wellKnownKey); r.StatusCode != http.StatusOK {
			t.Errorf("%s alone: got %s", prefix, r.Status)
		}
	}
}
