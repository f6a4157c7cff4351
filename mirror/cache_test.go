package mirror

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"instep/fetch"
	"instep/internal/catalog"
)

// store keeps a document and load reads what is kept of it; "" is nothing.
func store(t *testing.T, c fetch.Cache, uri string, body []byte) {
	t.Helper()
	c.Store(t.Context(), uri, &fetch.Cached{
		URL: uri + "#found", Header: http.Header{"Link": {"<a>", "<b>"}}, Length: int64(len(body)),
		Validators: fetch.Validators{ETag: `"` + uri + `"`, LastModified: "then"}, Body: io.NopCloser(bytes.NewReader(body)),
	})
}

func load(t *testing.T, c fetch.Cache, uri string) string {
	t.Helper()
	d, err := c.Load(t.Context(), uri)
	if err != nil {
		t.Fatal(err)
	}
	if d == nil {
		return ""
	}
	defer d.Body.Close()
	b, err := io.ReadAll(d.Body)
	if err != nil || int64(len(b)) != d.Length {
		t.Fatalf("%s: got %d bytes and %v, want %d", uri, len(b), err, d.Length)
	}
	want := fetch.Cached{URL: uri + "#found", Header: http.Header{"Link": {"<a>", "<b>"}}, Length: d.Length, Validators: fetch.Validators{ETag: `"` + uri + `"`, LastModified: "then"}}
	d.Body = nil
	if diff := cmp.Diff(want, *d); diff != "" {
		t.Errorf("%s (-want +got):\n%s", uri, diff)
	}
	return string(b)
}

func TestDocumentsStayFromRunToRun(t *testing.T) {
	o := options(filepath.Join(t.TempDir(), "mirror"))
	m := openMirror(t, o)
	store(t, m.Documents(), home+"/a.xml", []byte("one"))
	store(t, m.Documents(), home+"/b.xml", []byte("two\n\n"))
	store(t, m.Documents(), home+"/a.xml", []byte("three"))
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	look, err := OpenReadOnly(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer look.Close()
	before := filesIn(t, o.Dir, func(path string) bool { return strings.Contains(path, catName) })
	store(t, look.Documents(), home+"/a.xml", []byte("four"))
	store(t, look.Documents(), home+"/c.xml", []byte("five"))
	if diff := cmp.Diff(before, filesIn(t, o.Dir, func(path string) bool { return strings.Contains(path, catName) })); diff != "" {
		t.Errorf("a mirror open for reading was written to (-before +after):\n%s", diff)
	}
	for uri, want := range map[string]string{home + "/a.xml": "three", home + "/b.xml": "two\n\n", home + "/c.xml": ""} {
		if got := load(t, look.Documents(), uri); got != want {
			t.Errorf("%s: got %q, want %q", uri, got, want)
		}
	}
}

func TestMirrorThatDoesNotExistKeepsNoDocuments(t *testing.T) {
	m, err := OpenReadOnly(t.Context(), options(filepath.Join(t.TempDir(), "mirror")))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if m.Documents() != nil {
		t.Error("got a cache, want none")
	}
}

// Each bit of a kept document counts: what is damaged is as good as gone.
func TestDamagedDocumentsAreNotThere(t *testing.T) {
	o := options(filepath.Join(t.TempDir(), "mirror"))
	m := openMirror(t, o)
	store(t, m.Documents(), home+"/a.xml", []byte("body"))
	path := filepath.Join(o.Dir, ours, documentPath(documentName(home+"/a.xml")))
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := load(t, m.Documents(), home+"/a.xml"); got != "" {
			t.Fatalf("byte %d damaged: got %q", i, got)
		}
		if err := os.WriteFile(path, good[:i], 0o600); err != nil {
			t.Fatal(err)
		}
		if got := load(t, m.Documents(), home+"/a.xml"); got != "" {
			t.Fatalf("cut after %d bytes: got %q", i, got)
		}
	}
	other := filepath.Join(o.Dir, ours, documentPath(documentName(home+"/b.xml")))
	if err := os.WriteFile(other, good, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := load(t, m.Documents(), home+"/b.xml"); got != "" {
		t.Errorf("in the place of another document: got %q", got)
	}
	store(t, m.Documents(), home+"/a.xml", []byte("new"))
	if got := load(t, m.Documents(), home+"/a.xml"); got != "new" {
		t.Errorf("stored anew: got %q", got)
	}
}

func TestOldestDocumentsMakeRoom(t *testing.T) {
	o := options(filepath.Join(t.TempDir(), "mirror"))
	m := openMirror(t, o)
	large := make([]byte, fetch.MaxCached)
	n := maxDocuments/len(large) + 2
	for i := range n {
		uri := fmt.Sprintf("%s/%d.xml", home, i)
		store(t, m.Documents(), uri, large)
		path := filepath.Join(o.Dir, ours, documentPath(documentName(uri)))
		m.docs.files[documentName(uri)] = keptFile{m.docs.files[documentName(uri)].size, noon.AddDate(0, 0, i)} // a day between two
		if _, err := os.Stat(path); err != nil {
			t.Errorf("document %d: %v", i, err)
		}
	}
	if m.docs.total > maxDocuments {
		t.Errorf("kept %d bytes, want at most %d", m.docs.total, maxDocuments)
	}
	for i := range n {
		if got, want := load(t, m.Documents(), fmt.Sprintf("%s/%d.xml", home, i)) != "", i > 2; got != want {
			t.Errorf("document %d of %d kept: got %v, want %v", i, n, got, want)
		}
	}
	store(t, m.Documents(), home+"/longer.xml", make([]byte, fetch.MaxCached+1))
	if got := load(t, m.Documents(), home+"/longer.xml"); got != "" {
		t.Errorf("a document longer than the bound is kept: %d bytes", len(got))
	}
}

// What stands where documents are kept is not followed and not destroyed.
func TestDocumentsLeaveTheDirectoryOfTheStateNowhere(t *testing.T) {
	dir := t.TempDir()
	o := options(filepath.Join(dir, "mirror"))
	m := openMirror(t, o)
	outside := filepath.Join(dir, "outside")
	if err := os.Mkdir(outside, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(outside, "mine"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(o.Dir, ours, documentsName)); err != nil {
		t.Skipf("SKIPPED: no symbolic links here: %v", err)
	}
	store(t, m.Documents(), home+"/a.xml", []byte("body"))
	if got := load(t, m.Documents(), home+"/a.xml"); got != "" {
		t.Errorf("got %q, want nothing kept", got)
	}
	if diff := cmp.Diff(map[string]string{"mine": "mine"}, filesIn(t, outside, func(string) bool { return false })); diff != "" {
		t.Errorf("outside (-want +got):\n%s", diff)
	}
}

func TestMemoryIsKeptApartFromSettings(t *testing.T) {
	o := options(filepath.Join(t.TempDir(), "mirror"))
	m := openMirror(t, o)
	recall := func(name, want string) {
		t.Helper()
		got, ok, err := m.Recall(t.Context(), name)
		if err != nil || got != want || ok != (want != "") {
			t.Errorf("%s: got %q, %v, %v; want %q", name, got, ok, err, want)
		}
	}
	recall(catalog.MirrorSetting, "")
	for _, value := range []string{"one", "two"} {
		if err := m.Remember(t.Context(), catalog.MirrorSetting, value); err != nil {
			t.Fatal(err)
		}
		recall(catalog.MirrorSetting, value)
	}
	if err := m.Bind(t.Context(), site, home); err != nil {
		t.Errorf("the mirror forgot its Source: %v", err)
	}
	if err := m.Remember(t.Context(), catalog.MirrorSetting, ""); err != nil {
		t.Fatal(err)
	}
	recall(catalog.MirrorSetting, "")
	if err := m.Remember(t.Context(), "long", strings.Repeat("x", maxMemory+1)); err == nil {
		t.Error("a value beyond the bound was remembered")
	}
}
