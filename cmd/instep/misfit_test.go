//go:build unix

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A misfit is what somebody did to the catalog or to the files of a mirror.
type misfit struct {
	name string
	do   func(t *testing.T, w *misfitWorld)
}

// misfitWorld is a Source, a mirror of it, and copies of the mirror at earlier moments.
type misfitWorld struct {
	uri, top, dir, state string
	apart                bool   // the state is not in the directory
	first, second        string // copies of top: after the first state of the Source, and after the second
}

// catalogMisfits are done after the third state of the Source was published and mirrored.
var catalogMisfits = []misfit{
	{"sound", func(*testing.T, *misfitWorld) {}},
	{"old", func(t *testing.T, w *misfitWorld) { w.restoreCatalog(t, w.first, true) }},
	{"old beside a newer log", func(t *testing.T, w *misfitWorld) { w.restoreCatalog(t, w.second, false) }},
	{"lost", func(t *testing.T, w *misfitWorld) { removeGlob(t, w.catalog()+"*") }},
	{"empty", func(t *testing.T, w *misfitWorld) { truncate(t, w.catalog(), 0) }},
	{"cut", func(t *testing.T, w *misfitWorld) { truncate(t, w.catalog(), 20000) }},
	{"torn", tearPages},
	{"overwritten", func(t *testing.T, w *misfitWorld) { overwrite(t, w.catalog(), strings.Repeat("junk ", 9000)) }},
	{"log without its database", func(t *testing.T, w *misfitWorld) {
		overwrite(t, w.catalog()+"-wal", "junk")
		remove(t, w.catalog())
	}},
	{"without marker", func(t *testing.T, w *misfitWorld) { remove(t, filepath.Join(w.dir, ".instep", "marker")) }},
	{"marker of another one", func(t *testing.T, w *misfitWorld) {
		overwrite(t, filepath.Join(w.dir, ".instep", "marker"), `{"format":1,"uuid":"7f9c4b4e-0000-4000-8000-000000000000","created":"2026-01-01T00:00:00Z"}`)
	}},
}

var fileMisfits = []misfit{
	{"sound", func(*testing.T, *misfitWorld) {}},
	{"old", func(t *testing.T, w *misfitWorld) { w.restoreFiles(t, w.first) }},
	{"lost", func(t *testing.T, w *misfitWorld) { w.removeFiles(t) }},
	{"partly lost", func(t *testing.T, w *misfitWorld) { remove(t, filepath.Join(w.dir, "docs", "three.txt")) }},
	{"of somebody", func(t *testing.T, w *misfitWorld) { overwrite(t, filepath.Join(w.dir, "four.txt"), "mine") }},
}

func (w *misfitWorld) catalog() string { return filepath.Join(w.state, "catalog.db") }

// restoreCatalog brings the catalog of a copy back.
func (w *misfitWorld) restoreCatalog(t *testing.T, from string, alone bool) {
	t.Helper()
	rel, err := filepath.Rel(w.top, w.catalog())
	if err != nil {
		t.Fatal(err)
	}
	if alone {
		removeGlob(t, w.catalog()+"*")
	}
	text, err := os.ReadFile(filepath.Join(from, rel))
	if err != nil {
		t.Fatal(err)
	}
	overwrite(t, w.catalog(), string(text))
}

// restoreFiles brings the files of a copy back, with their times.
func (w *misfitWorld) restoreFiles(t *testing.T, from string) {
	t.Helper()
	w.removeFiles(t)
	shell(t, "cd "+filepath.Join(from, filepath.Base(w.dir))+" && tar cf - --exclude=./.instep . | tar xpf - -C "+w.dir)
}

func (w *misfitWorld) removeFiles(t *testing.T) {
	t.Helper()
	entries, err := os.ReadDir(w.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() == ".instep" {
			continue
		}
		if err := os.RemoveAll(filepath.Join(w.dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
}

// tearPages spoils a catalog behind its first pages.
func tearPages(t *testing.T, w *misfitWorld) {
	text, err := os.ReadFile(w.catalog())
	if err != nil {
		t.Fatal(err)
	}
	for i := 2 * 4096; i < len(text); i++ {
		text[i] = 0x5a
	}
	overwrite(t, w.catalog(), string(text))
}

func truncate(t *testing.T, path string, n int64) {
	t.Helper()
	if err := os.Truncate(path, n); err != nil {
		t.Fatal(err)
	}
}

func overwrite(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, []byte(text), 0o640)); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
}

func removeGlob(t *testing.T, pattern string) {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range found {
		remove(t, path)
	}
}

func shell(t *testing.T, text string) {
	t.Helper()
	if out, err := exec.Command("sh", "-c", text).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", text, err, out)
	}
}

// sourceStates are what the Source has, one after the other.
var sourceStates = []map[string]string{
	{"one.txt": "one 1", "docs/two.txt": "two", "gone.txt": "gone"},
	{"one.txt": "one 2", "docs/two.txt": "two", "docs/three.txt": "three"},
	{"one.txt": "one 3", "docs/two.txt": "two", "docs/three.txt": "three", "four.txt": "four"},
}

// makeMisfitWorld publishes the states and mirrors each. What it returns is the mirror
// below top, to be copied.
func makeMisfitWorld(t *testing.T, layout string, apart bool) *misfitWorld {
	t.Helper()
	top := t.TempDir()
	site := filepath.Join(top, "site")
	server := httptest.NewServer(http.FileServer(http.Dir(site)))
	t.Cleanup(server.Close)
	w := newMisfitWorld(server.URL+"/", filepath.Join(top, "mirrored"), apart)
	for i, files := range sourceStates {
		remove(t, filepath.Join(site, "gone.txt"))
		for name, text := range files {
			overwrite(t, filepath.Join(site, filepath.FromSlash(name)), text)
		}
		mustDo(t, "publish", site, "--base-url", w.uri, "--state", filepath.Join(top, "published"), "--max-delete", "100%")
		mustDo(t, w.args("sync", "--layout", layout)...)
		shell(t, fmt.Sprintf("cp -a %s %s-%d", w.top, w.top, i))
	}
	return w
}

func newMisfitWorld(uri, top string, apart bool) *misfitWorld {
	w := &misfitWorld{uri: uri, top: top, dir: filepath.Join(top, "mirror"), apart: apart, first: top + "-0", second: top + "-1"}
	w.state = filepath.Join(w.dir, ".instep")
	if apart {
		w.state = filepath.Join(top, "state")
	}
	return w
}

// args are those of a command about the mirror.
func (w *misfitWorld) args(command string, flags ...string) []string {
	args := append([]string{command}, flags...)
	if w.apart {
		args = append(args, "--state", w.state)
	}
	return append(args, w.uri, w.dir)
}

// TestCat_STA_05: a state that does not fit its mirror is mended. Whatever somebody did to the catalog and to
// the files, at most three runs, or the command that one of them printed, end in a mirror
// that is the Source, without files left over and with those of the user's.
func TestCat_STA_05(t *testing.T) {
	for _, k := range []struct {
		layout string
		apart  bool
	}{{"tree", false}, {"tree", true}, {"flat", false}} {
		w := makeMisfitWorld(t, k.layout, k.apart)
		for _, c := range catalogMisfits {
			for _, f := range fileMisfits {
				if (k.apart || k.layout == "flat") && c.name != "sound" && f.name != "sound" {
					continue // all pairs once
				}
				t.Run(fmt.Sprintf("%s, apart %v, catalog %s, files %s", k.layout, k.apart, c.name, f.name), func(t *testing.T) {
					mendMisfit(t, w, c, f, k.layout)
				})
			}
		}
	}
}

func mendMisfit(t *testing.T, made *misfitWorld, c, f misfit, layout string) {
	top := filepath.Join(t.TempDir(), "case")
	shell(t, "cp -a "+made.top+" "+top)
	w := newMisfitWorld(made.uri, top, made.apart)
	w.first, w.second = made.first, made.second
	c.do(t, w)
	f.do(t, w)
	for run := 1; ; run++ {
		if run > 3 {
			t.Fatal("three runs did not mend it")
		}
		o := instep(t, w.args("sync")...)
		if o.code != 0 {
			o = w.obey(t, o)
		}
		if o.code == 0 && instep(t, w.args("audit")...).code == 0 {
			break
		}
	}
	if o := mustDo(t, w.args("sync")...); *o.Created+*o.Updated+*o.Deleted > 0 {
		t.Errorf("a run more has something to do: %+v", o.summary)
	}
	w.check(t, f, layout)
}

// obey gives the command that a run printed. Without one nothing ends the refusal.
func (w *misfitWorld) obey(t *testing.T, o outcome) outcome {
	t.Helper()
	command := ""
	for _, r := range o.records {
		if _, after, ok := strings.Cut(r.Hint, "instep sync "); ok {
			command = "sync " + after
		}
	}
	if command == "" {
		t.Fatalf("exit code %d, and no command is printed: %s", o.code, o.stderr)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", exe+" "+command)
	cmd.Env = append(os.Environ(), asInstep+"="+filepath.Join(t.TempDir(), "status"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("instep %s: %v\n%s", command, err, out)
	}
	if _, state, ok := strings.Cut(command, "--state "); ok {
		w.state, _, _ = strings.Cut(state, " ")
	}
	return outcome{code: cmd.ProcessState.ExitCode(), stderr: string(out)}
}

// check looks at what is in the directory.
func (w *misfitWorld) check(t *testing.T, f misfit, layout string) {
	t.Helper()
	files, mine := map[string]string{}, false
	err := filepath.WalkDir(w.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		mine = mine || string(text) == "mine"
		if rel := strings.TrimPrefix(path, w.dir+"/"); !strings.HasPrefix(rel, ".instep/") {
			files[rel] = string(text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if f.name == "of somebody" && !mine {
		t.Error("the user's file is lost")
	}
	if layout == "flat" {
		return
	}
	if f.name == "old" {
		delete(files, "gone.txt") // restored, and nobody's by now
	}
	if diff := cmp.Diff(sourceStates[2], files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}
