package catalog

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// openVariable names a catalog that the program of the tests opens, and does nothing else:
// another one can be killed meanwhile.
const openVariable = "INSTEP_OPEN_CATALOG"

func TestMain(m *testing.M) {
	path := os.Getenv(openVariable)
	if path == "" {
		os.Exit(m.Run())
	}
	ctx := context.Background()
	c, err := Open(ctx, Options{Path: path})
	if err == nil {
		err = c.indexContents(ctx)
	}
	if err == nil {
		err = c.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// The system calls that write, name or make durable. Between two of them the disk stays as it is.
var writingCalls = []string{"pwrite64", "fsync", "fdatasync", "renameat", "unlink", "unlinkat", "ftruncate"}

// openAndKill opens a catalog in a process that is killed at the nth call of a kind; false if
// it ended without.
func openAndKill(t *testing.T, path, call string, n int) bool {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "strace", "-f", "-qq", "-o", os.DevNull, "-e", "trace="+call,
		"-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", call, n), self)
	cmd.Env = append(os.Environ(), openVariable+"="+path)
	out, err := cmd.CombinedOutput()
	if err == nil {
		return false
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL && status.ExitStatus() != 128+int(syscall.SIGKILL) {
		t.Fatalf("%s number %d: %v\n%s", call, n, err, out)
	}
	return true
}

// Wherever the migration of a catalog is killed, or the making of the index of contents after
// it, the next opening goes on, and nothing is lost or left. Each call that writes is tried,
// with -short every 20th.
func TestCat_STA_07_killed(t *testing.T) {
	if out, err := exec.Command("strace", "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: strace may not trace here: %v: %s", err, out)
	}
	every := 1
	if testing.Short() {
		every = 20
	}
	dir := t.TempDir()
	first := filepath.Join(dir, "first.db")
	fillSchema12(t, first)
	file, err := os.ReadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	kills := 0
	for _, call := range writingCalls {
		for n := 1; ; n += every {
			path := filepath.Join(dir, fmt.Sprint(call, n), "catalog.db")
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, file, 0o600); err != nil {
				t.Fatal(err)
			}
			if !openAndKill(t, path, call, n) {
				break
			}
			kills++
			wantWhole(t, path)
			if t.Failed() {
				t.Fatalf("killed at the %s number %d", call, n)
			}
		}
	}
	t.Logf("killed %d times", kills)
	if kills < 200/every {
		t.Errorf("killed %d times, want at least %d", kills, 200/every)
	}
}

// wantWhole fails unless the catalog is sound, has everything, and nothing is beside it but
// the copy of what it was.
func wantWhole(t *testing.T, path string) {
	t.Helper()
	c, err := Open(t.Context(), Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	wantSchema12(t, c)
	if err := c.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if err := c.indexContents(t.Context()); err != nil {
		t.Error(err)
	}
	if _, ok, err := c.Mirror.FindContent(t.Context(), sum(t, "a/b")[0], 1); !ok || err != nil {
		t.Errorf("content: found is %v, %v", ok, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if name := e.Name(); name != "catalog.db" && !strings.HasPrefix(name, "catalog.db.schema1") {
			t.Errorf("%q is left", name)
		}
	}
}
