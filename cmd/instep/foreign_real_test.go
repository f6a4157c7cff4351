//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Programs of others are run: they publish and we mirror, we publish and they copy.
// INSTEP_FOREIGN names the directory with their checkouts, as OWNER/REPO@COMMIT;
// tools/foreign.sh makes them, of the commits in testdata/foreign/checkouts.txt. With -update
// the rows of those that were run are written anew, and only these.
func TestForeignPrograms(t *testing.T) {
	checkouts := os.Getenv("INSTEP_FOREIGN")
	if checkouts == "" {
		t.Skip("SKIPPED: INSTEP_FOREIGN names no checkouts of other programs (make foreign does)")
	}
	kept := readRealRows(t)
	var rows []realRow
	try := func(kind, name string, needs []string, run func(t *testing.T, p *realProgram) realRow) {
		row := append(realRow{kind, name}, cellsOf(kept, kind, name)...)
		ran := t.Run(kind+" "+name, func(t *testing.T) {
			got := append(realRow{kind, name}, run(t, newRealProgram(t, checkouts, needs))...)
			if !slices.Equal(got, row) && !*update {
				t.Errorf("got  %q\nwant %q", got, row)
			}
			row = got
		})
		if ran && row[2] != "not run yet" { // nothing takes the place of what a run gave
			rows = append(rows, row)
		}
	}
	for _, s := range realSources {
		try("source", s.name, s.needs, s.row)
	}
	for _, c := range realClients {
		try("client", c.name, c.needs, c.row)
	}
	if *update && !t.Failed() {
		if err := writeRealRows(rows); err != nil {
			t.Fatal(err)
		}
	}
}

// realProgram is a program of others in a run: a directory of its own, with a site of 30
// files that is served.
type realProgram struct {
	*httptest.Server
	t         *testing.T
	checkouts []string // directories, the program's own first
	dir       string   // where it is run
	site      string
	docs      string // served below /rs/
}

// newRealProgram skips the test if a checkout is not there.
func newRealProgram(t *testing.T, checkouts string, needs []string) *realProgram {
	t.Helper()
	dir := t.TempDir()
	p := &realProgram{t: t, dir: dir, site: filepath.Join(dir, "site"), docs: filepath.Join(dir, "docs")}
	for _, need := range needs {
		found, err := filepath.Glob(filepath.Join(checkouts, need+"*"))
		if err != nil || len(found) != 1 {
			t.Skipf("NOT RUN: no checkout of %s below INSTEP_FOREIGN (%v): the row is that of an earlier run", need, err)
		}
		p.checkouts = append(p.checkouts, found[0])
	}
	makeSite(t, p.site, 30)
	if err := os.Mkdir(p.docs, 0o755); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServer(http.Dir(p.site)))
	mux.Handle("/rs/", http.StripPrefix("/rs/", http.FileServer(http.Dir(p.docs))))
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

// testFile is a file of ours that a program is run with.
func (p *realProgram) testFile(name string) string {
	path, err := filepath.Abs(filepath.Join("testdata", "foreign", name))
	if err != nil {
		p.t.Fatal(err)
	}
	return path
}

// copyFile gives the program a file of ours in its directory.
func (p *realProgram) copyFile(name, to string) {
	text, err := os.ReadFile(p.testFile(name))
	if err == nil {
		err = os.WriteFile(filepath.Join(p.dir, to), text, 0o644)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// command runs with the program's code where its language looks for it, and nothing of the
// home directory.
func (p *realProgram) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = p.dir
	var libraries []string
	for _, dir := range p.checkouts {
		libraries = append(libraries, filepath.Join(dir, "lib"))
	}
	cmd.Env = append(os.Environ(), "HOME="+p.dir, "PYTHONDONTWRITEBYTECODE=1",
		"PYTHONPATH="+strings.Join(append([]string{p.testFile("python")}, p.checkouts...), ":"),
		"RUBYLIB="+strings.Join(libraries, ":"))
	return cmd
}

// python runs a script to its end and returns what it said. That of the system has the
// modules that its packages bring.
func (p *realProgram) python(script string, args ...string) (string, error) {
	return p.run("/usr/bin/python3", append([]string{script}, args...)...)
}

func (p *realProgram) run(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(p.t.Context(), 2*time.Minute)
	defer cancel()
	out, err := p.command(ctx, name, args...).CombinedOutput()
	p.t.Logf("%s %s\n%s", name, strings.Join(args, " "), out)
	return string(out), err
}

// mustPython is python for what has to work.
func (p *realProgram) mustPython(script string, args ...string) {
	p.t.Helper()
	if _, err := p.python(script, args...); err != nil {
		p.t.Fatalf("%s does not run: %v", filepath.Base(script), err)
	}
}

// script is a program of the first checkout.
func (p *realProgram) script(name string) string { return filepath.Join(p.checkouts[0], name) }

// change creates a file that has an old time, as a copied one has, updates and deletes one.
func (p *realProgram) change() {
	p.t.Helper()
	created := filepath.Join(p.site, "d30", "new.txt")
	year := time.Now().AddDate(-1, 0, 0).Truncate(time.Second)
	if err := errors.Join(
		os.Mkdir(filepath.Dir(created), 0o755),
		os.WriteFile(created, []byte("created\n"), 0o644),
		os.Chtimes(created, year, year),
		os.RemoveAll(filepath.Join(p.site, "d07")),
	); err != nil {
		p.t.Fatal(err)
	}
	p.write("d03/f00003.txt", "updated, and longer than before\n")
}

// write updates a file of the site.
func (p *realProgram) write(name, body string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.site, name), []byte(body), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// files compares a copy with the files of the site; what is published beside them is none.
func (p *realProgram) files(copied string) string {
	p.t.Helper()
	want := map[string]string{}
	err := heldFiles(p.site, func(name, body string) {
		if _, _, below := strings.Cut(name, "/"); below && strings.HasPrefix(name, "d") {
			want[name] = body
		}
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return rightFiles(p.t, want, copied)
}

// rightFiles says how many of the files that there should be a copy has, byte by byte, and
// how many more.
func rightFiles(t *testing.T, want map[string]string, copied string) string {
	t.Helper()
	right, more := 0, 0
	err := heldFiles(copied, func(name, body string) {
		switch wanted, ok := want[name]; {
		case !ok:
			more++
		case wanted == body:
			right++
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d of %d, %d more", right, len(want), more)
}

// allRight is what rightFiles says of a copy as it should be.
const allRight = "30 of 30, 0 more"

// secondLater waits for the next second: the times of most programs are whole ones.
func secondLater() {
	<-time.After(time.Until(time.Now().Truncate(time.Second).Add(1050 * time.Millisecond)))
}

// freeAddress is an address of this machine that nothing listens at.
func freeAddress(t *testing.T) (addr, port string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, err = net.SplitHostPort(ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return ln.Addr().String(), port
}
