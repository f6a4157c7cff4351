package repo

import (
	"bufio"
	"bytes"
	"context"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/source"
)

// The programs of examples are a module of their own, as those of others are: it builds with
// what is exported. The second follows the first over a socket, before and after a change.
func TestExamples(t *testing.T) {
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-mod=readonly", "-o", bin, "./...")
	build.Dir = filepath.Join(root, "examples")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\nif go.mod is out of step: (cd examples && go mod tidy)", err, out)
	}
	dir, copied := t.TempDir(), filepath.Join(t.TempDir(), "mirror")
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("letters/1890.txt", "Dear Vincent")
	write("vase.jpg", strings.Repeat("vase", 100_000))
	write("gone.txt", "for a while")

	addr := freeAddr(t)
	base := "http://" + addr + "/"
	published := startSource(t, filepath.Join(bin, "source"), dir, t.TempDir(), base, addr)
	follow := func() (diff string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "destination"), base, copied, addr)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return cmp.Diff(bytesBelow(t, copied), bytesBelow(t, dir))
	}
	published()
	if diff := follow(); diff != "" {
		t.Errorf("(-mirror +source)\n%s", diff)
	}

	write("letters/1890.txt", "Dear Theo")
	write("letters/1891.txt", "a new one")
	if err := os.Remove(filepath.Join(dir, "gone.txt")); err != nil {
		t.Fatal(err)
	}
	for diff := "all"; diff != ""; { // of one publication, or of several if it came in between
		t.Logf("not in step yet: %s", diff)
		published()
		diff = follow()
	}
}

// freeAddr is an address that nobody listened at a moment ago.
func freeAddr(t *testing.T) string {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// startSource starts the program until the test ends, or for two minutes. The function returned
// waits until it has published.
func startSource(t *testing.T, name string, args ...string) (published func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Cancel = func() error {
		if runtime.GOOS == "windows" {
			return cmd.Process.Kill()
		}
		return cmd.Process.Signal(os.Interrupt)
	}
	cmd.WaitDelay = time.Minute
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	t.Cleanup(func() {
		cancel()
		for lines.Scan() { // until it has ended
		}
		if err := cmd.Wait(); cmd.ProcessState == nil || runtime.GOOS != "windows" && cmd.ProcessState.ExitCode() != 0 {
			t.Errorf("the source ended with %v", err)
		}
	})
	return func() {
		t.Helper()
		for lines.Scan() {
			t.Log(lines.Text())
			if strings.Contains(lines.Text(), "resourcesync/") {
				return
			}
		}
		t.Fatalf("the source published nothing: %v", lines.Err())
	}
}

// bytesBelow returns the bytes of the resources in a directory, by path.
func bytesBelow(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(name, ".") && name != "." || name == "resourcesync"):
			return fs.SkipDir
		case d.IsDir() || source.MayBeDocument(name):
			return nil
		}
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		found[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// README.md shows the programs of examples as they are.
func TestReadmeShowsTheExamples(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"source", "destination"} {
		program, err := os.ReadFile(filepath.Join(root, "examples", name, "main.go"))
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(program, []byte("\n")); n > 30 {
			t.Errorf("examples/%s/main.go has %d lines, want 30 at most", name, n)
		}
		if !bytes.Contains(readme, append([]byte("```go\n"), append(program, "```\n"...)...)) {
			t.Errorf("README.md does not show examples/%s/main.go as it is", name)
		}
	}
}
