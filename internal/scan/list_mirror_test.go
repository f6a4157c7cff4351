package scan

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"instep/resourcesync"
)

// untouched is a tree whose files must not be read.
type untouched struct{ Tree }

func (untouched) Open(string) (fs.ReadDirFile, error) { return nil, errors.New("it was read") }

// TestWhatAMirrorKnowsOfItsFiles: an intact file is not read, another is; what the Source says
// otherwise of the same bytes is a change; what is in doubt stays as it is, or goes if its bytes
// are others.
func TestWhatAMirrorKnowsOfItsFiles(t *testing.T) {
	of := func(text string) resourcesync.Digests {
		ds, err := resourcesync.ParseDigests(digestOf(text))
		if err != nil {
			t.Fatal(err)
		}
		return ds
	}
	entry := func(change func(*Listed)) Listed {
		e := Listed{URI: base + "a", Path: "a", Length: resourcesync.Bytes(4), Digests: of("text"), Type: "text/plain", Told: true, Intact: true}
		if change != nil {
			change(&e)
		}
		return e
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	read := RootTree(root)
	old := resourcesync.DatetimeOf(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))
	type counts struct{ created, updated, deleted, unchanged, hashed int64 }
	listed := []Listed{entry(nil)}
	f := newList(t, told(&listed))
	f.Tree = read
	for _, test := range []struct {
		name   string
		change func(*Listed)
		read   bool // files may be read
		want   counts
	}{
		{"new", nil, false, counts{created: 1}},
		{"the same", nil, false, counts{unchanged: 1}},
		{"another lastmod", func(e *Listed) { e.LastMod = old }, false, counts{updated: 1}},
		{"none again", nil, false, counts{updated: 1}},
		{"other links", func(e *Listed) { e.Remainder = `{"links":[{"rel":"via","href":"http://example.org/"}]}` }, false, counts{updated: 1}},
		{"the same links", func(e *Listed) { e.Remainder = `{"links":[{"rel":"via","href":"http://example.org/"}]}` }, false, counts{unchanged: 1}},
		{"another type", func(e *Listed) { e.Type = "text/x-other" }, false, counts{updated: 1}},
		{"somebody wrote to it", func(e *Listed) { e.Type, e.Intact = "text/x-other", false }, true, counts{unchanged: 1, hashed: 4}},
		{"in doubt", func(e *Listed) { e.Out = Due }, false, counts{unchanged: 1}},
		{"in doubt with other bytes", func(e *Listed) { e.Out, e.Digests = Due, of("newer") }, false, counts{deleted: 1}},
		{"in doubt and not published", func(e *Listed) { e.Out = Unverified }, false, counts{}},
		{"new again", nil, false, counts{created: 1}},
		{"a loop", func(e *Listed) { e.Out = Loop }, false, counts{deleted: 1}},
	} {
		listed[0] = entry(test.change)
		f.Tree = untouched{read}
		if test.read {
			f.Tree = read
		}
		f.MaxDelete = everything(t)
		r := f.scan()
		if got := (counts{r.Created, r.Updated, r.Deleted, r.Unchanged, r.Hashed}); got != test.want || r.Failures.Count > 0 {
			t.Errorf("%s: got %+v, failures %+v; want %+v", test.name, got, r.Failures, test.want)
		}
	}
}

// TestAMirrorPublishedWithOtherDigests: where the listing has no digest that is published, the
// file says whether it is the one that was read.
func TestAMirrorPublishedWithOtherDigests(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a")
	write := func(text string, modified time.Time) {
		t.Helper()
		if err := errors.Join(os.WriteFile(name, []byte(text), 0o600), os.Chtimes(name, modified, modified)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	at := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	var listed []Listed
	f := newList(t, told(&listed))
	f.Algorithms, f.MaxDelete = []resourcesync.Algorithm{resourcesync.MD5}, everything(t)
	f.Now = func() time.Time { return time.Now().Add(time.Hour) } // long after the files were written
	type counts struct{ created, updated, deleted, unchanged, hashed int64 }
	for _, test := range []struct {
		name, text string
		out        Reason
		read       bool
		want       counts
	}{
		{"new", "text", "", true, counts{created: 1, hashed: 4}},
		{"the same", "text", "", false, counts{unchanged: 1}},
		{"in doubt", "text", Held, false, counts{unchanged: 1}},
		{"other bytes", "diff", "", true, counts{updated: 1, hashed: 4}},
		{"in doubt with other bytes", "more", Held, false, counts{deleted: 1}},
	} {
		ds, err := resourcesync.ParseDigests(digestOf(test.text))
		if err != nil {
			t.Fatal(err)
		}
		listed = []Listed{{URI: base + "a", Path: "a", Length: resourcesync.Bytes(4), Digests: ds, Type: "text/plain", Told: true, Intact: true, Out: test.out}}
		if last, _ := os.ReadFile(name); string(last) != test.text {
			at = at.Add(time.Hour)
			write(test.text, at)
		}
		if f.Tree = RootTree(root); !test.read {
			f.Tree = untouched{f.Tree}
		}
		r := f.scan()
		if got := (counts{r.Created, r.Updated, r.Deleted, r.Unchanged, r.Hashed}); got != test.want || r.Failures.Count > 0 {
			t.Errorf("%s: got %+v, failures %+v; want %+v", test.name, got, r.Failures, test.want)
		}
	}
	// damage that kept size and time: the published digest alone cannot show it
	listed = []Listed{{URI: base + "b", Path: "a", Length: resourcesync.Bytes(4), Digests: digestsOf(t, "text"), Told: true, Intact: true}}
	write("taxt", at)
	f.Tree = RootTree(root)
	if r := f.scan(); r.Failures.Count != 1 || r.Created != 0 {
		t.Errorf("damaged: got %d created, failures %+v; want 1 failure", r.Created, r.Failures)
	}
}

// TestLeftOutByTheLastState: in a listing of changes a resource is left out if its last state is,
// whatever its earlier states were, and counts once.
func TestLeftOutByTheLastState(t *testing.T) {
	state := func(name string, out Reason) Listed {
		return Listed{URI: base + name, Digests: digestsOf(t, "text"), Length: resourcesync.Bytes(4), Past: true, Out: out}
	}
	gone := state("gone", "")
	gone.Gone = true
	listed := []Listed{
		state("mended", Due), state("gone", Due), state("due", Due), state("hidden", ""), state("proved", Unverified),
		state("mended", ""), gone, state("due", ""), state("hidden", ""), state("proved", Due),
		state("due", Due),
	}
	f := newList(t, told(&listed))
	f.Changes, f.Exclude = true, []string{"hidden"}
	var names []string
	f.LeftOut = func(path string, why Reason) {
		names = append(names, fmt.Sprint(strings.TrimPrefix(path, base), " ", why))
	}
	r := f.scan()
	if want := []string{"due due", "proved due"}; !slices.Equal(names, want) {
		t.Errorf("left out: got %q, want %q", names, want)
	}
	if want := map[Reason]int64{Due: 2, Pattern: 1}; !maps.Equal(r.Excluded, want) {
		t.Errorf("counts: got %v, want %v", r.Excluded, want)
	}
}

func digestsOf(t *testing.T, text string) resourcesync.Digests {
	t.Helper()
	ds, err := resourcesync.ParseDigests(digestOf(text))
	if err != nil {
		t.Fatal(err)
	}
	return ds
}
