package mirror

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/destination"
	"instep/harvest"
	"instep/internal/catalog"
	"instep/resourcesync"
)

func adopting(dir string) Options {
	o := options(dir)
	o.Adopt = true
	return o
}

// adopt adopts what Stray finds for each name, and returns where that was; "" where
// nothing was, or it was something else.
func adopt(t *testing.T, m *Mirror, bodies map[string]string) map[string]string {
	t.Helper()
	found := map[string]string{}
	commit(t, m, func(b destination.Batch) error {
		for name, body := range bodies {
			w := wantedOfBody(home+"/"+name, body, noon)
			path, ok, err := stray(t, m, &w)
			if err != nil {
				return err
			}
			found[name] = path
			if !ok {
				continue
			}
			n, err := b.Adopt(t.Context(), set, w, path)
			if errors.Is(err, destination.ErrNotHeld) {
				found[name] = ""
				continue
			}
			if err != nil || n != int64(len(body)) {
				t.Errorf("adopt %q: got %d bytes and %v, want %d", path, n, err, len(body))
			}
		}
		return nil
	})
	return found
}

func TestFilesAreAdoptedWhereverOthersPutThem(t *testing.T) {
	const host = "museum.example.org"
	for _, c := range []struct{ name, file string }{
		{"a.txt", "a.txt"},
		{"d/e/a.txt", "d/e/a.txt"},
		{"d/e/a.txt", host + "/d/e/a.txt"},
		{"d/e/a.txt", host + ":443/d/e/a.txt"},
		{"d/e/a.txt", "e/a.txt"}, // wget -nH --cut-dirs=1, or a mapping of the reference client
		{"d/e/a.txt", "a.txt"},
		{"", host + "/index.html"},
		{"d/", "d/index.html"},
		{"d/?q=1", "d/index.html?q=1"},
		{"a?q=1&r=x%2Fy", "a?q=1&r=x%2Fy"},
		{"a?q=1&r=x%20y", host + "/a?q=1&r=x y"},
		{"a?q=1", "a@q=1"}, // wget --restrict-file-names=windows
		{"page", "page.html"},
		{"a%20b.txt", "a b.txt"},
		{"a%20b.txt", "a%20b.txt"},
		{"%C3%A9t%C3%A9", "été"},
		{"x%2Fy", host + "/x%2Fy"},
		{"x%3Ay", host + "/x:y"},
		{"~%31", "~1"},
		{"a.txt#part", "a.txt"},
	} {
		t.Run(c.name+" at "+c.file, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, c.file, "body of it")
			m := openMirror(t, adopting(dir))
			if got := adopt(t, m, map[string]string{c.name: "body of it"}); got[c.name] != c.file {
				t.Fatalf("found at %q, want %q", got[c.name], c.file)
			}
			h := lookup(t, m, set, c.name)
			if !h.Stored || !h.Verified || h.Due != "" {
				t.Fatalf("held: %+v", h)
			}
			wantFiles(t, dir, map[string]string{h.Path: "body of it"})
			// The next run, which adopts nothing, knows it.
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
			m = openMirror(t, options(dir))
			r, err := m.Open(t.Context(), &h)
			if err != nil {
				t.Fatal(err)
			}
			r.Close()
		})
	}
}

// What cannot be what is wanted is not even looked at.
func TestFilesThatAreNotAdopted(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "short", "b")
	write(t, dir, ".instep/tmp/secret", "secret")
	write(t, dir, "deep/other", "body")
	m := openMirror(t, adopting(dir))
	commit(t, m, func(b destination.Batch) error { return put(b, set, "held/mine", "body", noon) })
	for _, name := range []string{"short", "none", ".instep/tmp/secret", "../short", "deep", "x/mine", "mine"} {
		w := wantedOfBody(home+"/"+name, "body", noon)
		if path, ok, err := stray(t, m, &w); ok || err != nil {
			t.Errorf("%s: got %q, %v", name, path, err)
		}
	}
	w := wantedOfBody("ftp://museum.example.org/short", "b", noon)
	if path, ok, err := stray(t, m, &w); ok || err != nil {
		t.Errorf("a URI without a place: got %q, %v", path, err)
	}
	w = wantedOfBody(home+"/short", "b", noon)
	err := tryCommit(m, nil, func(b destination.Batch) error {
		_, err := b.Adopt(t.Context(), set, w, "../short")
		return err
	})
	if !errors.Is(err, destination.ErrNotHeld) {
		t.Errorf("a path that Stray never finds: got %v, want ErrNotHeld", err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	m = openMirror(t, options(dir))
	w = wantedOfBody(home+"/from/elsewhere/short", "b", noon)
	if path, ok, err := stray(t, m, &w); ok || err != nil {
		t.Errorf("a mirror that adopts nothing: got %q, %v", path, err)
	}
}

// Without a digest, length and time are the proof, and nothing but both is.
func TestFilesAreAdoptedByTimeOnlyWithoutDigests(t *testing.T) {
	dir := t.TempDir()
	changed := time.Date(2024, 3, 1, 10, 0, 0, 0, time.UTC)
	for _, name := range []string{"right", "later", "sub/cut"} {
		write(t, dir, name, "body")
		if err := os.Chtimes(filepath.Join(dir, name), changed, changed); err != nil {
			t.Fatal(err)
		}
	}
	m := openMirror(t, adopting(dir))
	lastmod, err := resourcesync.ParseDatetime("2024-03-01T11:00:00+01:00")
	if err != nil {
		t.Fatal(err)
	}
	day, err := resourcesync.ParseDatetime("2024-03-01")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		w    harvest.Resource
		want bool
	}{
		{"right", harvest.Resource{LastMod: lastmod, Length: resourcesync.Bytes(4)}, true},
		{"right", harvest.Resource{LastMod: lastmod}, false},
		{"right", harvest.Resource{LastMod: day, Length: resourcesync.Bytes(4)}, false},
		{"right", harvest.Resource{Length: resourcesync.Bytes(4)}, false},
		{"later", harvest.Resource{LastMod: resourcesync.DatetimeOf(changed.Add(time.Second)), Length: resourcesync.Bytes(4)}, false},
		{"long/sub/cut", harvest.Resource{LastMod: lastmod, Length: resourcesync.Bytes(4)}, false},
	} {
		c.w.URI, c.w.Changed = home+"/"+c.name, noon
		if _, ok, err := stray(t, m, &c.w); ok != c.want || err != nil {
			t.Errorf("%s %+v: got %v, %v, want %v", c.name, c.w, ok, err, c.want)
		}
		if !c.want {
			continue
		}
		commit(t, m, func(b destination.Batch) error {
			_, err := b.Adopt(t.Context(), set, c.w, c.name)
			return err
		})
	}
	if h := lookup(t, m, set, "right"); !h.Stored || h.LastMod != lastmod {
		t.Errorf("held: %+v", h)
	}
}

// A file that is not what is wanted is fetched, and kept in the trash.
func TestWhatIsNotTheResourceGoesToTheTrash(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "d/a", "mine")
	write(t, dir, "unwanted", "mine too")
	m := openMirror(t, adopting(dir))
	if got := adopt(t, m, map[string]string{"d/a": "thei"}); got["d/a"] != "" {
		t.Fatalf("adopted %q", got)
	}
	wantFiles(t, dir, map[string]string{"d/a": "mine", "unwanted": "mine too"})
	commit(t, m, func(b destination.Batch) error { return put(b, set, "d/a", "thei", noon) })
	wantFiles(t, dir, map[string]string{"d/a": "thei", "unwanted": "mine too"})
	trashed := filesIn(t, filepath.Join(dir, trashKey), func(string) bool { return false })
	if len(trashed) != 1 {
		t.Fatalf("trash: %q", trashed)
	}
	for path, body := range trashed {
		if !strings.HasSuffix(path, "/d/a") || body != "mine" {
			t.Errorf("trash: %q holds %q", path, body)
		}
	}
	var strangers []string
	for path, err := range m.Strangers(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		strangers = append(strangers, path)
	}
	if diff := cmp.Diff([]string{"unwanted"}, strangers); diff != "" {
		t.Errorf("strangers (-want +got):\n%s", diff)
	}
}

// Two resources may look for one file, and a file may stand where another resource
// belongs.
func TestAFileIsAdoptedOnce(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "index.html", "page")
	m := openMirror(t, adopting(dir))
	front, page := wantedOfBody(home+"/", "page", noon), wantedOfBody(home+"/index.html", "page", noon)
	commit(t, m, func(b destination.Batch) error {
		ab := b
		if _, err := ab.Adopt(t.Context(), set, front, "index.html"); err != nil {
			return err
		}
		if _, err := ab.Adopt(t.Context(), set, page, "index.html"); !errors.Is(err, destination.ErrNotHeld) {
			t.Errorf("a second time: got %v, want ErrNotHeld", err)
		}
		return put(b, set, "index.html", "page", noon) // it is fetched, and its place is about to be free
	})
	wantFiles(t, dir, map[string]string{"%index": "page", "index.html": "page"})

	// Bytes that come to a place before another resource could adopt what stands there.
	dir = t.TempDir()
	write(t, dir, "index.html", "page")
	m = openMirror(t, adopting(dir))
	commit(t, m, func(b destination.Batch) error {
		if err := put(b, set, "index.html", "other", noon); err != nil {
			return err
		}
		if _, err := b.Adopt(t.Context(), set, front, "index.html"); !errors.Is(err, destination.ErrNotHeld) {
			t.Errorf("what is about to be replaced: got %v, want ErrNotHeld", err)
		}
		return nil
	})
	wantFiles(t, dir, map[string]string{"index.html": "other"})
}

// TestCat_STA_04_adopt: a mirror whose catalog is lost is made again from its files,
// by the very names it has, whatever they are.
func TestCat_STA_04_adopt(t *testing.T) {
	bodies := map[string]string{}
	for _, name := range []string{
		"a", "A", "a/", "a/b", "a/b/", "a//b", "a?b", "a?B", "a%2Fb", "d/x", "d/x?q=1", "%C3%A9", "e%CC%81", "con", ".hidden", "",
		strings.Repeat("long", 100), strings.Repeat("long", 100) + "er", strings.Repeat("deep/", 70) + "end",
	} {
		bodies[name] = "body of " + name
	}
	dir := t.TempDir()
	m := openMirror(t, options(dir))
	commit(t, m, func(b destination.Batch) error { return putAll(b, bodies) })
	was := filesIn(t, dir, isOurs)
	if err := errors.Join(m.Close(), os.RemoveAll(filepath.Join(dir, ours))); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), options(dir)); !errors.Is(err, ErrNotEmpty) {
		t.Fatalf("without being told to adopt: got %v, want ErrNotEmpty", err)
	}
	m = openMirror(t, adopting(dir))
	for name, path := range adopt(t, m, bodies) {
		if path == "" {
			t.Errorf("%q was not found", name)
		}
	}
	if diff := cmp.Diff(was, filesIn(t, dir, isOurs)); diff != "" {
		t.Errorf("files (-before +after):\n%s", diff)
	}
}

// A batch that adopts and is interrupted leaves every file where it was.
func TestAnInterruptedAdoptionGivesEverythingBack(t *testing.T) {
	files := map[string]string{
		"in/place": "in place", "museum.example.org/moved": "moved", "wrong": "mine", "due": "stray of due", "index.html": "page", "held": "old",
	}
	fill := func(m *Mirror, dir string) {
		write(t, dir, "in/place", "in place")
		commit(t, m, func(b destination.Batch) error {
			return errors.Join(put(b, set, "held", "old", noon),
				b.Due(context.Background(), set, wantedOfBody(home+"/due", "due", noon), "not found"))
		})
		for path, body := range files {
			if path != "held" {
				write(t, dir, path, body)
			}
		}
	}
	later := noon.AddDate(0, 0, 1)
	do := func(m *Mirror) func(b destination.Batch) error {
		return func(b destination.Batch) error {
			ctx, ab := context.Background(), b
			for name, path := range map[string]string{"in/place": "in/place", "moved": "museum.example.org/moved", "": "index.html"} {
				w := wantedOfBody(home+"/"+name, files[path], later)
				if _, err := ab.Adopt(ctx, set, w, path); err != nil {
					return err
				}
			}
			p, err := m.Part(ctx, "big")
			if err != nil {
				return err
			}
			if p.Size() == 0 {
				_, err = p.Write([]byte("new and big"))
			}
			if err := errors.Join(err, p.Checkpoint(ctx, "all of it")); err != nil {
				return errors.Join(err, p.Close())
			}
			if _, err := b.PutPart(ctx, set, wantedOfBody(home+"/held", "new and big", later), p, true); err != nil {
				return errors.Join(err, p.Close())
			}
			return errors.Join(put(b, set, "wrong", "theirs", later), put(b, set, "due", "due", later), put(b, set, "index.html", "other page", later))
		}
	}
	want := map[string]string{
		"in/place": "in place", "moved": "moved", "%index": "page", "wrong": "theirs", "due": "due", "index.html": "other page", "held": "new and big",
	}
	for _, f := range faults() {
		name := f.name
		if f.dead {
			name += ", then a crash"
		}
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			o, arm := faulty(adopting(dir), f)
			m := openMirror(t, o)
			fill(m, dir)
			trigger(t, dir, f.sql)
			arm()
			if err := tryCommit(m, storyMove, do(m)); err == nil {
				t.Fatal("the batch was committed in spite of the fault")
			}
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
			if f.sql != "" {
				trigger(t, dir, "DROP TRIGGER fault")
			}
			m = openMirror(t, adopting(dir))
			wantFiles(t, dir, files)
			if p, err := m.Part(t.Context(), "big"); err != nil {
				t.Error(err)
			} else if note, at := p.Note(); at != 0 && (note != "all of it" || p.Size() != 11) {
				t.Errorf("the part has %d bytes and the note %q at %d", p.Size(), note, at)
			} else if err := p.Close(); err != nil {
				t.Error(err)
			}
			if err := tryCommit(m, storyMove, do(m)); err != nil {
				t.Fatal(err)
			}
			wantFiles(t, dir, want)
		})
	}
}

// What a crash left in its new place goes back, and is found there at once, although its
// directory was gone in between.
func TestWhatWasGivenBackIsAdopted(t *testing.T) {
	dir := t.TempDir()
	m := openMirror(t, adopting(dir))
	write(t, dir, "d/a", "body")
	w := wantedOfBody(home+"/d/a", "body", noon)
	in := catalog.Intent{URI: w.URI, Length: w.Length, SHA256: w.Digests[0], Taken: "museum.example.org/d/a"}
	err := m.own.Intend(t.Context(), []catalog.Intent{in}, &catalog.Outcome{}, placeOf(m))
	if err := errors.Join(err, m.Close()); err != nil {
		t.Fatal(err)
	}
	m = openMirror(t, adopting(dir))
	if path, ok, err := stray(t, m, &w); err != nil || !ok || path != in.Taken {
		t.Errorf("found at %q, %t, %v; want %q", path, ok, err, in.Taken)
	}
}

// TestCat_STO_03_adopt: links and special files are not adopted, whatever they lead to.
func TestCat_STO_03_adopt(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	write(t, outside, "body", "body")
	write(t, outside, "sub/body", "body")
	m := openMirror(t, adopting(dir))
	for link, target := range map[string]string{"file": filepath.Join(outside, "body"), "dir": outside, "inside": ours} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	write(t, dir, ".instep/body", "body")
	for _, name := range []string{"file", "dir/body", "dir/sub/body", "inside/body"} {
		w := wantedOfBody(home+"/"+name, "body", noon)
		if path, ok, err := stray(t, m, &w); ok || err != nil {
			t.Errorf("%s: got %q, %v", name, path, err)
		}
		err := tryCommit(m, nil, func(b destination.Batch) error {
			_, err := b.Adopt(t.Context(), set, w, name)
			return err
		})
		if !errors.Is(err, destination.ErrNotHeld) {
			t.Errorf("adopt %s: got %v, want ErrNotHeld", name, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(outside, "body")); errors.Is(err, fs.ErrNotExist) {
		t.Error("a file outside the mirror is gone")
	}
}

// TestTheHistoryNamesWhatAdoptionReplaces: a file that was no resource and made room for one
// is told, stands in the history, comes back byte for byte, and never as a resource.
func TestTheHistoryNamesWhatAdoptionReplaces(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "d/a", "mine")
	var told []Found
	o := adopting(dir)
	o.Found = func(f Found) { told = append(told, f) }
	p := &pastMirror{t: t, now: noon, Mirror: openMirror(t, o)}
	p.do(func(b destination.Batch) error { return put(b, set, "d/a", "theirs", noon) })
	want := []Found{{URI: home + "/d/a", Path: "d/a", Kept: ".instep/trash/2026-05-01/120000-1/d/a"}}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	var found []Version
	for v, err := range p.Ended(t.Context(), time.Time{}) {
		p.ok(err)
		found = append(found, v)
	}
	if len(found) != 1 || found[0].SetURI != FoundSet || found[0].Kept != want[0].Kept || p.body(&found[0]) != "mine" {
		t.Fatalf("history: %+v", found)
	}
	run, err := p.Run(t.Context())
	p.ok(err)
	p.do(func(destination.Batch) error { return nil })
	if _, failed := p.revert(p.Undoing(t.Context(), run), false); len(failed) != 1 {
		t.Errorf("undo: left alone %v, want the file that was no resource", failed)
	}
	if sets, err := p.Sets(t.Context()); err != nil || len(sets) != 1 {
		t.Errorf("sets: %q, %v; want that of the Source", sets, err)
	}
	if p.body(&found[0]) != "mine" {
		t.Error("the file is not in the trash any more")
	}
}
