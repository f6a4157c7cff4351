package mirror

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"instep/blob"
	"instep/blob/blobtest"
	"instep/destination"
)

// kindNames are names of which a kind file system has each, by URI.
var kindNames = []string{
	"report.pdf", "Report.pdf", "REPORT.pdf", "M%C3%BCller.pdf", "Mu%CC%88ller.pdf", "docs", "Docs/a", "docs%2Fb", "DOCS/a", "DOCS/c",
	"a%3Ab", "con.txt", "end.", "stra%C3%9Fe", "STRASSE", "plain", "view.php?id=1", "VIEW.php?id=1", "same", "SAME",
}

func bodyOfName(name string) string {
	if strings.EqualFold(name, "same") {
		return "the same bytes"
	}
	return "of " + name
}

func fillKind(t *testing.T, dir string) {
	t.Helper()
	m := openMirror(t, options(dir))
	commit(t, m, func(b destination.Batch) error {
		for _, name := range kindNames {
			if err := put(b, set, name, bodyOfName(name), noon); err != nil {
				return err
			}
		}
		return nil
	})
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

// copyFolding copies a mirror as it would be to a file system with other rules: of files
// whose names are one there the last has its bytes at all of these names, in the file that
// the first one made, and what it refuses stays behind.
func copyFolding(t *testing.T, from, to string, rules *fileNames) {
	t.Helper()
	made := map[string]string{}
	isDir := map[string]bool{}
	err := filepath.WalkDir(from, func(name string, e fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(from, name)
		if err = errors.Join(err, relErr); err != nil || !rules.accepts(rel) && !strings.HasPrefix(rel, ours) && rel != "." {
			return err
		}
		at, key := filepath.Join(to, rel), rules.key(rel)
		if e.IsDir() {
			if _, file := made[key]; file {
				return fs.SkipDir
			}
			isDir[key] = true
			return os.MkdirAll(at, 0o700)
		}
		if isDir[key] {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if first, ok := made[key]; ok {
			return errors.Join(os.WriteFile(first, text, 0o600), os.Link(first, at))
		}
		made[key] = at
		return os.WriteFile(at, text, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// wantNoneLost checks that each resource has a path of its own, and its bytes there, or is
// due; it returns those that are due.
func wantNoneLost(t *testing.T, m *Mirror) (due []string) {
	t.Helper()
	taken := map[string]string{}
	for _, name := range kindNames {
		h := lookup(t, m, set, name)
		if !h.Member {
			t.Errorf("%s is no member any more", name)
			continue
		}
		if other, ok := taken[m.names.key(h.Path)]; ok || !m.names.accepts(h.Path) {
			t.Errorf("%s is at %q, which is refused or that of %q", name, h.Path, other)
		}
		taken[m.names.key(h.Path)] = h.Path
		if h.Due != "" {
			due = append(due, name)
		} else if got := bodyOf(t, m, home+"/"+name); got != bodyOfName(name) {
			t.Errorf("%s, at %q: got %q", name, h.Path, got)
		}
	}
	return due
}

// TestCat_STO_02_elsewhere: a mirror that was copied to a file system which takes names for
// one that were two loses no resource. Those whose bytes did not come are due.
func TestCat_STO_02_elsewhere(t *testing.T) {
	form := &fileNames{Longest: 255, Form: true}
	for name, rules := range map[string]*fileNames{"windows": windows, "form": form} {
		t.Run(name, func(t *testing.T) {
			from, to := t.TempDir(), t.TempDir()
			fillKind(t, from)
			copyFolding(t, from, to, rules)
			o := options(to)
			o.probe = func(*os.Root) (*fileNames, error) { return rules, nil }
			m := openMirror(t, o)
			due := wantNoneLost(t, m)
			if len(due) == 0 || len(due) > len(kindNames)/2+2 {
				t.Errorf("due: %q", due)
			}
			if slices.Contains(due, "plain") || slices.Contains(due, "same") || slices.Contains(due, "SAME") {
				t.Errorf("due: %q, want nothing whose bytes are here", due)
			}
			commit(t, m, func(b destination.Batch) error {
				for _, name := range due {
					if err := put(b, set, name, bodyOfName(name), noon); err != nil {
						return err
					}
				}
				return put(b, set, "sTRASSe", "new", noon)
			})
			if left := wantNoneLost(t, m); len(left) > 0 {
				t.Errorf("still due: %q", left)
			}
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
			// Nothing changes when it is opened there again, or where all names are taken.
			files := filesIn(t, to, isOurs)
			for range 2 {
				m = openMirror(t, o)
				if *m.names != *rules || len(wantNoneLost(t, m)) > 0 {
					t.Errorf("opened again: names are %+v", *m.names)
				}
				if err := m.Close(); err != nil {
					t.Fatal(err)
				}
				o.probe = func(*os.Root) (*fileNames, error) { return linux, nil }
			}
			if now := filesIn(t, to, isOurs); !maps.Equal(files, now) {
				t.Errorf("files: got %v, want %v", now, files)
			}
		})
	}
}

// An interruption at any write leaves a mirror that is opened as well.
func TestCat_STO_02_interrupted(t *testing.T) {
	for n := 1; ; n++ {
		from, to := t.TempDir(), t.TempDir()
		fillKind(t, from)
		copyFolding(t, from, to, windows)
		o := options(to)
		o.probe = func(*os.Root) (*fileNames, error) { return windows, nil }
		calls := 0
		o.bucket = func(b blob.Bucket) blob.Bucket {
			return blobtest.Faulty(b, func(blobtest.Call) *blobtest.Fault {
				if calls++; calls == n {
					return &blobtest.Fault{Steps: blobtest.All}
				}
				return nil
			})
		}
		m, err := Open(t.Context(), o)
		if err == nil {
			err = m.Close()
		}
		if reached := calls >= n; errors.Is(err, blobtest.ErrInjected) != reached {
			t.Errorf("call %d: Open told %v", n, err)
		}
		o.bucket = nil
		m = openMirror(t, o)
		if due := wantNoneLost(t, m); len(due) == 0 {
			t.Error("nothing is due")
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		if calls < n {
			break
		}
	}
}

// A mirror whose marker is lost gets one that fits, whatever its catalog has of paths.
func TestAMirrorWithoutAMarkerIsToldApartAnew(t *testing.T) {
	dir := t.TempDir()
	fillKind(t, dir)
	if err := os.Remove(filepath.Join(dir, markerKey)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		m := openMirror(t, options(dir))
		if due := wantNoneLost(t, m); len(due) > 0 || m.names == nil {
			t.Errorf("due: %q; names %+v", due, m.names)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// What the file system takes is found out once where a mirror is, and again where it was
// copied to.
func TestWhatAFileSystemTakesIsFoundOutOnceForEach(t *testing.T) {
	dir, probed := t.TempDir(), 0
	o := options(dir)
	o.probe = func(*os.Root) (*fileNames, error) { probed++; return linux, nil }
	for i, step := range []struct {
		where string
		want  int // how often it was found out by then
	}{{"here", 1}, {"here", 1}, {"there", 2}, {"there", 2}, {"here", 3}, {"", 4}, {"", 5}, {"here", 6}, {"here", 6}} {
		o.where = func(*os.Root) (string, error) { return step.where, nil }
		if err := openMirror(t, o).Close(); err != nil {
			t.Fatal(err)
		}
		if probed != step.want {
			t.Errorf("opened %d times, now at %q: found out %d times, want %d", i+1, step.where, probed, step.want)
		}
	}
}

// Where a run is killed before the marker has the rules that the catalog follows by now, they
// are followed all the same, also by a run where the file system is kinder.
func TestTheCatalogSaysWhichRulesItsPathsFollow(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	fillKind(t, from)
	copyFolding(t, from, to, windows)
	marker, err := os.ReadFile(filepath.Join(to, markerKey))
	if err != nil {
		t.Fatal(err)
	}
	o := options(to)
	o.probe = func(*os.Root) (*fileNames, error) { return windows, nil }
	if err := openMirror(t, o).Close(); err != nil {
		t.Fatal(err)
	}
	write(t, to, markerKey, string(marker))
	o.probe = func(*os.Root) (*fileNames, error) { return linux, nil }
	m := openMirror(t, o)
	defer m.Close()
	if *m.names != *windows {
		t.Errorf("rules: got %+v, want %+v", *m.names, *windows)
	}
	wantNoneLost(t, m)
	if known, err := m.isNamed(t.Context(), "REPORT.PDF"); !known || err != nil {
		t.Errorf("the path is known: got %v, %v", known, err)
	}
}

// A marker with rules that no file system has is none.
func TestAMarkerWithImpossibleRulesIsRefused(t *testing.T) {
	dir := t.TempDir()
	fillKind(t, dir)
	text, err := os.ReadFile(filepath.Join(dir, markerKey))
	if err != nil {
		t.Fatal(err)
	}
	for _, longest := range []string{`"longest":0`, `"longest":-1`, `"longest":99`, `"longest":256`} {
		write(t, dir, markerKey, strings.Replace(string(text), `"longest":255`, longest, 1))
		if m, err := Open(t.Context(), options(dir)); !errors.Is(err, ErrWrongStore) {
			t.Errorf("%s: got %v, %v; want ErrWrongStore", longest, m, err)
		}
	}
}
