package blob_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"instep/blob"
	"instep/blob/blobtest"
	"instep/internal/durable"
)

func openDir(t testing.TB, name string) *blob.Dir {
	t.Helper()
	return openDirAs(t, name, blob.DirOptions{})
}

func openDirAs(t testing.TB, name string, o blob.DirOptions) *blob.Dir {
	t.Helper()
	d, err := blob.OpenDir(name, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func TestDirIsABucket(t *testing.T) {
	for name, change := range map[string]func(durable.Disk) durable.Disk{
		"with all that the system has": func(d durable.Disk) durable.Disk { return d },
		"without sync of the file system": func(d durable.Disk) durable.Disk {
			d.SyncFS = nil
			return d
		},
		"without links": func(d durable.Disk) durable.Disk {
			d.Link = func(*durable.Parents, string, string) error { return errors.ErrUnsupported }
			return quick(d)
		},
	} {
		for _, kind := range kinds {
			t.Run(name+", "+kind.name, func(t *testing.T) {
				open := func(t *testing.T) blob.Bucket {
					d := openDir(t, t.TempDir())
					d.SetDisk(kind.of(change(d.Disk())))
					return d
				}
				blobtest.Run(t, open)
				blobtest.RunTimes(t, open(t))
			})
		}
	}
}

// kinds are the two kinds of files that objects are written into. Where the system has
// none without a name both are the same.
var kinds = []struct {
	name string
	of   func(durable.Disk) durable.Disk
}{
	{"files without a name", func(d durable.Disk) durable.Disk { return d }},
	{"files with a name", func(d durable.Disk) durable.Disk {
		d.OpenNameless, d.NameNew = nil, nil
		return d
	}},
}

func TestMemIsABucket(t *testing.T) {
	blobtest.Run(t, func(*testing.T) blob.Bucket { return blob.NewMem() })
	blobtest.RunTimes(t, blob.NewMem())
}

// write stores data at key in a batch of its own.
func write(t testing.TB, b blob.Bucket, key, data string) {
	t.Helper()
	if _, err := blob.Write(t.Context(), b, strings.NewReader(data), blob.Put{Key: key}); err != nil {
		t.Fatal(err)
	}
}

// tree lists everything below dir: files with their content, directories with "/".
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch {
		case e.IsDir():
			got[rel+"/"] = ""
		case e.Type().IsRegular():
			data, err := os.ReadFile(name)
			got[rel] = string(data)
			return err
		default:
			got[rel] = e.Type().String()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func wantTree(t testing.TB, dir string, want map[string]string) {
	t.Helper()
	if diff := cmp.Diff(tree(t, dir), want); diff != "" {
		t.Errorf("files differ (-got +want):\n%s", diff)
	}
}

func TestDirLeavesOnlyObjects(t *testing.T) {
	root := t.TempDir()
	d, err := blob.OpenDir(root, blob.DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	write(t, d, "a/b/c", "c")
	write(t, d, "a/d", "d")
	write(t, d, ".instep/trash", "t")
	wantTree(t, root, map[string]string{
		".instep/": "", ".instep/tmp/": "", ".instep/trash": "t", "a/": "", "a/b/": "", "a/b/c": "c", "a/d": "d",
	})
	if diff := cmp.Diff(held(t, d), map[string]string{".instep/trash": "t", "a/b/c": "c", "a/d": "d"}); diff != "" {
		t.Errorf("objects differ (-got +want):\n%s", diff)
	}
	batch, err := d.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	batch.Move("a/b/c", "x/c")
	batch.Delete("a/d")
	batch.Delete(".instep/trash")
	if err := batch.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	wantTree(t, root, map[string]string{"x/": "", "x/c": "c"})
}

func TestDirCleansWhatInterruptedRunsLeft(t *testing.T) {
	root := t.TempDir()
	before := openDir(t, root)
	before.SetNameless(100) // the others have names
	write(t, before, "a", "a")
	batch, err := before.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 600 { // never committed, as after kill -9
		if _, err := batch.Create(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	after := openDir(t, root)
	write(t, after, "b", "old") // the names left over are not in the way
	write(t, after, "b", "b")
	if err := after.Clean(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantTree(t, root, map[string]string{".instep/": "", ".instep/tmp/": "", "a": "a", "b": "b"})
	if err := batch.Discard(); err != nil {
		t.Errorf("Discard of what was cleaned: %v", err)
	}
	if err := openDir(t, t.TempDir()).Clean(t.Context()); err != nil {
		t.Errorf("Clean of nothing: %v", err)
	}
}

func TestDirGivesTheModesAskedFor(t *testing.T) {
	root := t.TempDir()
	d, err := blob.OpenDir(root, blob.DirOptions{Temp: "tmp", FileMode: 0o600, DirMode: 0o700})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	write(t, d, "dir/a", "a")
	for name, want := range map[string]fs.FileMode{"dir/a": 0o600, "dir": 0o700, "tmp": 0o700} {
		st, err := os.Stat(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := st.Mode().Perm(); got != want {
			t.Errorf("%s: mode %v, want %v", name, got, want)
		}
	}
}

func TestOpenDirRefuses(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]blob.DirOptions{
		filepath.Join(root, "missing"): {}, file: {}, root: {Temp: "../tmp"},
	} {
		if d, err := blob.OpenDir(name, o); err == nil {
			t.Errorf("OpenDir(%q, %+v): no error", name, o)
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestDirMakesADirectoryAgainThatSomebodyRemoved(t *testing.T) {
	root := t.TempDir()
	d := openDir(t, root)
	write(t, d, "a/b/c", "1")
	if err := os.RemoveAll(filepath.Join(root, "a")); err != nil {
		t.Fatal(err)
	}
	write(t, d, "a/b/c", "2")
	if got, err := blob.ReadAll(t.Context(), d, "a/b/c", 10); string(got) != "2" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestAFailedWriteIsNeverPut(t *testing.T) {
	d := openDir(t, t.TempDir())
	write(t, d, "a", "old")
	batch, err := d.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o, err := batch.Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.Write([]byte("half")); err != nil {
		t.Fatal(err)
	}
	blob.BreakObject(o)
	if _, err := o.Write([]byte("other half")); err == nil {
		t.Fatal("the write did not fail")
	}
	if err := o.Close(); err == nil {
		t.Error("Close after a failed write: no error")
	}
	batch.Put(o, blob.Put{Key: "a"})
	if err := batch.Commit(t.Context()); err == nil {
		t.Error("Commit of an object whose write failed: no error")
	}
	if got, err := blob.ReadAll(t.Context(), d, "a", 10); string(got) != "old" || err != nil {
		t.Errorf("got %q, %v, want the old object", got, err)
	}
}

// TestCat_STO_01 puts every kind of escape into a bucket; what is outside its
// directory, and where its temporary files are, stays as it was.
func TestCat_STO_01(t *testing.T) {
	top := t.TempDir()
	root := filepath.Join(top, "root")
	if err := errors.Join(os.Mkdir(root, 0o750), os.WriteFile(filepath.Join(top, "canary"), []byte("tweet"), 0o600)); err != nil {
		t.Fatal(err)
	}
	d := openDir(t, root)
	write(t, d, "a", "a")
	before := tree(t, top)
	for _, key := range []string{
		"../canary", "a/../../canary", "/canary", filepath.ToSlash(filepath.Join(top, "canary")), "..", "./../canary", "a\x00b", "",
		".instep", ".Instep", ".instep/tmp", ".instep/tmp/1", ".INSTEP/TMP/1", ".instep/tmp/x/y", ".In\u017ftep/tmp/1",
	} {
		if _, err := blob.Write(t.Context(), d, strings.NewReader("evil"), blob.Put{Key: key}); !errors.Is(err, blob.ErrKey) {
			t.Errorf("put %q: got %v, want ErrKey", key, err)
		}
		if _, _, err := d.Get(t.Context(), key, 0, -1); !errors.Is(err, blob.ErrKey) {
			t.Errorf("get %q: got %v, want ErrKey", key, err)
		}
	}
	for _, prefix := range []string{"../", "/", "a/../../"} {
		for info, err := range d.List(t.Context(), prefix) {
			if err == nil {
				t.Errorf("list %q: yields %q", prefix, info.Key)
			}
		}
	}
	wantTree(t, top, before)
}

// FuzzDirKeepsInside stores something under any key: it comes back by this key, or
// the key is refused; nothing else in the directory above changes.
func FuzzDirKeepsInside(f *testing.F) {
	for _, key := range []string{"a", "a/b", ".instep", "../a", "/a", "a/../b", ".instep/tmp/1", "a\\..\\b", "\x00", "é", strings.Repeat("x/", 300)} {
		f.Add(key)
	}
	top := f.TempDir()
	root := filepath.Join(top, "root")
	if err := os.Mkdir(root, 0o750); err != nil {
		f.Fatal(err)
	}
	d := openDir(f, root)
	d.SetDisk(quick(d.Disk()))
	f.Fuzz(func(t *testing.T, key string) {
		_, err := blob.Write(t.Context(), d, strings.NewReader(key), blob.Put{Key: key})
		if err != nil {
			if !errors.Is(err, blob.ErrKey) {
				t.Fatalf("put %q: got %v, want no error or ErrKey", key, err)
			}
			return
		}
		got, err := blob.ReadAll(t.Context(), d, key, blob.MaxKey)
		if string(got) != key || err != nil {
			t.Fatalf("%q comes back as %q, %v", key, got, err)
		}
		var keys []string
		for info, err := range d.List(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, info.Key)
		}
		if !slices.Equal(keys, []string{key}) {
			t.Fatalf("put %q: the list is %q", key, keys)
		}
		batch, err := d.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		batch.Delete(key)
		if err := batch.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantTree(t, top, map[string]string{"root/": "", "root/.instep/": "", "root/.instep/tmp/": ""})
	})
}

// BenchmarkDirBaseline stores files of 1 to 20 KiB, in batches of 500, in a tree; what
// it costs is to be compared with BenchmarkPlainFiles.
func BenchmarkDirBaseline(b *testing.B) {
	data := make([]byte, 20<<10)
	for b.Loop() {
		d := openDir(b, b.TempDir())
		for done := 0; done < baselineFiles; done += 500 {
			batch, err := d.Begin(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			for i := range 500 {
				o, err := batch.Create(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				if _, err := o.Write(data[:sizeOf(i)]); err != nil {
					b.Fatal(err)
				}
				if err := o.Close(); err != nil {
					b.Fatal(err)
				}
				batch.Put(o, blob.Put{Key: keyOf(done + i)})
			}
			if err := batch.Commit(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/baselineFiles, "µs/file")
}

// BenchmarkPlainFiles writes the same files in place, and makes nothing durable.
func BenchmarkPlainFiles(b *testing.B) {
	data := make([]byte, 20<<10)
	for b.Loop() {
		root := b.TempDir()
		for i := range baselineFiles {
			name := filepath.Join(root, keyOf(i))
			err := os.WriteFile(name, data[:sizeOf(i)], 0o640)
			if errors.Is(err, fs.ErrNotExist) {
				err = errors.Join(os.MkdirAll(filepath.Dir(name), 0o750), os.WriteFile(name, data[:sizeOf(i)], 0o640))
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/baselineFiles, "µs/file")
}

const baselineFiles = 5000

func sizeOf(i int) int { return 1<<10 + i*37%(19<<10) }

func keyOf(i int) string { return fmt.Sprintf("dir%d/sub%d/file%d.html", i/1000, i/100, i) }
