package mirror

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"instep/destination"
	"instep/internal/catalog"
	"instep/internal/flock"
)

// tree is all that is in a directory, with times, to show that nothing was written.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		found[path] = fmt.Sprint(info.Mode(), info.ModTime(), info.Size())
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return found
}

func wantUntouched(t *testing.T, dir string, do func()) {
	t.Helper()
	was := tree(t, dir)
	do()
	if diff := cmp.Diff(was, tree(t, dir)); diff != "" {
		t.Errorf("something was written (-before +after):\n%s", diff)
	}
}

// makeStores makes the directories of TestCat_STO_07.
func makeStores(t *testing.T, path func(string) string, with func(dir, state string) Options) {
	t.Helper()
	for _, name := range []string{"one", "two"} {
		m := openMirror(t, with(name, name+".state"))
		commit(t, m, func(b destination.Batch) error { return put(b, set, "a", "one", noon) })
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
	inside := openMirror(t, options(path("inside")))
	if err := inside.Close(); err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(path("unmounted"), 0o750))
	must(os.CopyFS(path("no marker"), os.DirFS(path("one"))))
	must(os.Remove(filepath.Join(path("no marker"), markerKey)))
	must(os.CopyFS(path("bad marker"), os.DirFS(path("one"))))
	must(os.WriteFile(filepath.Join(path("bad marker"), markerKey), []byte("garbage"), 0o640))
	must(os.CopyFS(path("newer marker"), os.DirFS(path("one"))))
	must(os.WriteFile(filepath.Join(path("newer marker"), markerKey), []byte(`{"format":2,"uuid":"x"}`), 0o640))
	must(os.CopyFS(path("no catalog"), os.DirFS(path("inside"))))
	must(os.Remove(filepath.Join(path("no catalog"), ours, catName)))
	write(t, path("no catalog"), "a", "one")
	write(t, path("files"), "precious", "x")
	must(os.Mkdir(path("published.state"), 0o750))
	published, err := catalog.Open(t.Context(), catalog.Options{Path: filepath.Join(path("published.state"), catName), Create: true})
	must(err)
	must(published.Facts.SetSettings(t.Context(), map[string]string{catalog.PublisherSetting: "https://example.org/"}))
	must(published.Close())
}

// TestCat_STO_07: a directory that is not the one of the catalog is refused, and
// nothing is written there.
func TestCat_STO_07(t *testing.T) {
	top := t.TempDir()
	path := func(name string) string { return filepath.Join(top, name) }
	with := func(dir, state string) Options {
		o := options(path(dir))
		o.State = path(state)
		return o
	}
	makeStores(t, path, with)
	existing := func(o Options) Options {
		o.Create = false
		return o
	}
	for _, c := range []struct {
		name string
		o    Options
		want error
	}{
		{"the disk is not mounted", with("unmounted", "one.state"), ErrWrongStore},
		{"another disk is mounted", with("two", "one.state"), ErrWrongStore},
		{"the marker is gone", with("no marker", "one.state"), ErrUsedCatalog},
		{"the marker is damaged", with("bad marker", "one.state"), ErrWrongStore},
		{"the marker is of a newer version", with("newer marker", "one.state"), ErrWrongStore},
		{"the catalog is gone", options(path("no catalog")), ErrWrongStore},
		{"the state is gone", with("one", "none.state"), ErrWrongStore},
		{"the state is that of what is published", with("unmounted", "published.state"), ErrWrongStore},
		{"the directory has files of somebody", options(path("files")), ErrNotEmpty},
		{"the directory has files, none may be made", existing(options(path("files"))), ErrWrongStore},
		{"the directory is empty, none may be made", existing(options(path("unmounted"))), ErrWrongStore},
		{"the directory is absent, none may be made", existing(options(path("absent"))), fs.ErrNotExist},
		{"a directory that is absent is that of no mirror", existing(options(path("absent"))), ErrWrongStore},
	} {
		t.Run(c.name, func(t *testing.T) {
			was := slices.Sorted(maps.Keys(tree(t, top)))
			files := filesIn(t, top, func(string) bool { return false })
			m, err := Open(t.Context(), c.o)
			if err == nil {
				m.Close()
			}
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.o.Dir) {
				t.Errorf("got %v, want %v and the directory", err, c.want)
			}
			if diff := cmp.Diff(was, slices.Sorted(maps.Keys(tree(t, top)))); diff != "" {
				t.Errorf("something was made (-before +after):\n%s", diff)
			}
			if diff := cmp.Diff(files, filesIn(t, top, func(string) bool { return false })); diff != "" {
				t.Errorf("something was written (-before +after):\n%s", diff)
			}
		})
	}
	for _, o := range []Options{with("one", "one.state"), with("two", "two.state"), options(path("inside"))} {
		if err := openMirror(t, o).Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestTheMakingOfAMirrorCanBeInterrupted(t *testing.T) {
	dir := t.TempDir()
	if err := openMirror(t, options(dir)).Close(); err != nil {
		t.Fatal(err)
	}
	// As far as a run came that was killed before it wrote the marker.
	fresh := t.TempDir()
	m, err := Open(t.Context(), options(fresh))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(m.Close(), os.Remove(filepath.Join(fresh, markerKey))); err != nil {
		t.Fatal(err)
	}
	commit(t, openMirror(t, options(fresh)), func(b destination.Batch) error { return put(b, set, "a", "one", noon) })
	wantFiles(t, fresh, map[string]string{"a": "one"})
}

// checkReadOnly looks at a mirror that holds a and count members, and tries to change it.
func checkReadOnly(t *testing.T, m *Mirror, count int64) {
	t.Helper()
	n, err := m.Count(t.Context(), set)
	if err != nil || n != count {
		t.Errorf("members: got %d and %v, want %d", n, err, count)
	}
	h := lookup(t, m, set, "a")
	if h.Stored != (count > 0) {
		t.Errorf("held: %+v", h)
	}
	if r, err := m.Open(t.Context(), &h); err == nil {
		r.Close()
	} else if count > 0 || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open: %v", err)
	}
	for range m.Due(t.Context(), set) {
		t.Error("something is due")
	}
	_, ok, err := m.Cursor(t.Context(), set)
	if ok || err != nil {
		t.Errorf("cursor: %v, %v", ok, err)
	}
	if ok, err := m.Approved(t.Context(), "x"); ok || err != nil {
		t.Errorf("approved: %v, %v", ok, err)
	}
	if _, ok, err := m.FindContent(t.Context(), wantedOfBody("", "none", noon).Digests[0], 4); ok || err != nil {
		t.Errorf("content: %v, %v", ok, err)
	}
	_, err = m.Begin(t.Context())
	_, _, err2 := m.Approve(t.Context(), "x")
	for _, err := range []error{err, err2, m.Withhold(t.Context(), set, "x", "x"), m.PurgeTrash(t.Context(), 0)} {
		if !errors.Is(err, ErrReadOnly) {
			t.Errorf("a change: got %v, want ErrReadOnly", err)
		}
	}
	if err := m.Bind(t.Context(), site, home); err != nil {
		t.Error(err)
	}
}

func TestReadingOnlyWritesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "absent")
	look := func(count int64) {
		t.Helper()
		wantUntouched(t, filepath.Dir(dir), func() {
			m, err := OpenReadOnly(t.Context(), options(dir))
			if err != nil {
				t.Fatal(err)
			}
			checkReadOnly(t, m, count)
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	look(0) // absent
	if err := os.Mkdir(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	look(0) // empty
	m := openMirror(t, options(dir))
	commit(t, m, func(b destination.Batch) error { return put(b, set, "a", "one", noon) })
	look(1) // while another run has it open
	killed := filepath.Join(t.TempDir(), "killed")
	if err := errors.Join(os.CopyFS(killed, os.DirFS(dir)), m.Close()); err != nil {
		t.Fatal(err)
	}
	look(1)
	dir = killed
	look(1) // with the log that a killed run left
	write(t, filepath.Dir(dir), "files/precious", "x")
	dir = filepath.Join(filepath.Dir(dir), "files")
	wantUntouched(t, dir, func() {
		if _, err := OpenReadOnly(t.Context(), options(dir)); !errors.Is(err, ErrNotEmpty) {
			t.Errorf("a directory with files: got %v, want ErrNotEmpty", err)
		}
	})
}

// TestCat_CON_01: of many who open a mirror at once, one gets it.
func TestCat_CON_01(t *testing.T) {
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "new")} {
		for range 20 {
			contend(t, dir)
		}
	}
}

func contend(t *testing.T, dir string) {
	t.Helper()
	const rivals = 20
	var wg sync.WaitGroup
	var mu sync.Mutex
	var winners []*Mirror
	start := make(chan struct{})
	for range rivals {
		wg.Go(func() {
			<-start
			m, err := Open(t.Context(), options(dir))
			mu.Lock()
			defer mu.Unlock()
			var locked *flock.LockedError
			switch {
			case err == nil:
				winners = append(winners, m)
			case !errors.As(err, &locked):
				t.Errorf("got %v, want a LockedError", err)
			}
		})
	}
	close(start)
	wg.Wait()
	if len(winners) != 1 {
		t.Errorf("%d of %d opened the mirror at once", len(winners), rivals)
	}
	for _, m := range winners {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

const holderEnv = "MIRROR_TEST_HOLDER"

// TestMain also serves as the process that holds a mirror until it is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv(holderEnv); dir != "" {
		hold(dir)
	}
	goleak.VerifyTestMain(m)
}

func hold(dir string) {
	m, err := Open(context.Background(), options(dir))
	if err == nil {
		err = m.Bind(context.Background(), site, home)
	}
	if err == nil {
		err = intend(m, wantedOfBody(home+"/a", "one", noon))
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "a"), []byte("one"), 0o600)
	}
	fmt.Println("held", err)
	select {} // until killed
}

// A lock does not outlive its holder, nor does what he had begun.
func TestAKilledHolderLeavesNoLock(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holderEnv+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := sync.OnceFunc(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	defer kill()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held <nil>\n" {
		t.Fatalf("the holder said %q, %v", line, err)
	}
	var locked *flock.LockedError
	if _, err := Open(t.Context(), options(dir)); !errors.As(err, &locked) || locked.PID != cmd.Process.Pid || locked.Host == "" {
		t.Fatalf("got %v, want a LockedError with process %d", err, cmd.Process.Pid)
	}
	wantFiles(t, dir, map[string]string{"a": "one"})
	kill()
	openMirror(t, options(dir))
	wantFiles(t, dir, map[string]string{})
}
