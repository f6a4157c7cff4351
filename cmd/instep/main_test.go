package main

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"instep/internal/oaipmh/oaipmhtest"
)

// asInstep makes the test binary run as the program itself, for tests that need
// several processes. Its value names the file that gets the peak of its memory.
const asInstep = "INSTEP_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if peak := os.Getenv(asInstep); peak != "" {
		code := run(os.Args[1:], os.Stdout, os.Stderr)
		// The kernel's count of a child (ru_maxrss) begins with the memory of the
		// parent that forked it, so the child reads its own.
		status, _ := os.ReadFile("/proc/self/status")
		_ = os.WriteFile(peak, status, 0o600)
		os.Exit(code)
	}
	testscript.Main(m, map[string]func(){"instep": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, ".xdg"))
			env.Setenv("HOME", env.WorkDir)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "freeport": freePort, "answers": answers, "get": get,
			"records": records, "sametree": sameTree, "flip": flipByte, "xmlwellformed": wellFormed,
			"cut": cut, "approveplan": approvePlan, "unzipped": unzipped, "post": post, "until": until,
			"expand": expand, "has": has, "oairepository": oaiRepository,
			"moment": presentMoment, "lie": lie,
		},
	})
}

// lie DIR NAME: replaces the files of that name below DIR by others with as many bytes.
func lie(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(filepath.WalkDir(ts.MkAbs(args[0]), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() != args[1] {
			return err
		}
		text, err := os.ReadFile(name)
		if err == nil {
			err = os.Remove(name) // it may be one file with the bytes that the publisher keeps
		}
		if err != nil {
			return err
		}
		return os.WriteFile(name, bytes.Repeat([]byte("x"), len(text)), 0o644)
	}))
}

// oairepository VAR N: serves an OAI-PMH repository of N records, and sets VAR to its base URL.
func oaiRepository(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	p := &oaipmhtest.Repository{}
	p.Fill(n, time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC))
	server := httptest.NewServer(p)
	ts.Defer(server.Close)
	ts.Setenv(args[0], server.URL+"/oai")
}

// moment VAR: sets VAR to the present moment.
func presentMoment(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv(args[0], time.Now().UTC().Format(time.RFC3339Nano))
}

// expand FILE: puts the values of environment variables into a file.
func expand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: expand FILE")
	}
	text := os.Expand(ts.ReadFile(args[0]), ts.Getenv)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o644))
}

// has FILE PART: the text of the second file, without its line end, is in the first.
func has(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: has FILE PART")
	}
	text, part := ts.ReadFile(args[0]), strings.TrimSuffix(ts.ReadFile(args[1]), "\n")
	if strings.Contains(text, part) == neg {
		ts.Fatalf("%s\nhas: got %v, want %v:\n%s", text, neg, !neg, part)
	}
}

// exits CODE COMMAND ARGS...: the command ends with exactly this exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var ee *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &ee) {
		got = ee.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit code: got %d, want %d", got, want)
	}
}

// lastPort gives each script ports of its own: if one looked at a port that another one was
// about to listen on, "answers" of that one would take it for its server.
var lastPort = func() *atomic.Uint32 {
	n := new(atomic.Uint32)
	n.Store(rand.Uint32N(10000)) // two runs of the tests at a time begin apart
	return n
}()

// freeport VAR: sets VAR to a port of loopback nobody listens on.
func freePort(ts *testscript.TestScript, _ bool, args []string) {
	// Below the ports that outgoing connections take, so that none takes it meanwhile.
	for range 100 {
		port := strconv.Itoa(20000 + int(lastPort.Add(1)%10000))
		ln, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err != nil {
			continue
		}
		ts.Check(ln.Close())
		ts.Setenv(args[0], port)
		return
	}
	ts.Fatalf("no port is free")
}

// answers HOST:PORT: waits until somebody listens there.
func answers(ts *testscript.TestScript, _ bool, args []string) {
	if err := waitForListener(args[0]); err != nil {
		ts.Fatalf("%v", err)
	}
}

func waitForListener(addr string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	retry := time.NewTicker(10 * time.Millisecond)
	defer retry.Stop()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("nobody listens on %s: %w", addr, err)
		case <-retry.C:
		}
	}
}

// get [-H 'NAME: VALUE'] URL: prints status, header in order, and body.
func get(ts *testscript.TestScript, _ bool, args []string) {
	req, err := http.NewRequest(http.MethodGet, args[len(args)-1], nil)
	ts.Check(err)
	for i := 0; i+1 < len(args) && args[i] == "-H"; i += 2 {
		name, value, _ := strings.Cut(args[i+1], ":")
		req.Header.Set(name, strings.TrimSpace(value))
	}
	exchange(ts, req)
}

// post URL JSON: sends the JSON and prints the answer as get does.
func post(ts *testscript.TestScript, _ bool, args []string) {
	req, err := http.NewRequest(http.MethodPost, args[0], strings.NewReader(args[1]))
	ts.Check(err)
	req.Header.Set("Content-Type", "application/json")
	exchange(ts, req)
}

// exchange sends a request and prints status, header in order, and body.
func exchange(ts *testscript.TestScript, req *http.Request) {
	resp, err := (&http.Transport{DisableCompression: true, DisableKeepAlives: true}).RoundTrip(req)
	ts.Check(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	ts.Check(err)
	out := ts.Stdout()
	fmt.Fprintln(out, resp.Status)
	names := make([]string, 0, len(resp.Header))
	for name := range resp.Header {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Fprintf(out, "%s: %s\n", name, strings.Join(resp.Header[name], ", "))
	}
	fmt.Fprintf(out, "\n%s", body)
}

// records FILE: every line is a record of docs/schema.json, the first names the
// schema's version, the last is the summary.
func records(ts *testscript.TestScript, _ bool, args []string) {
	schema, err := jsonschema.NewCompiler().Compile(filepath.Join(repoRoot, "docs", "schema.json"))
	ts.Check(err)
	text := ts.ReadFile(args[0])
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, line := range lines {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
		ts.Check(err)
		if err := schema.Validate(v); err != nil {
			ts.Fatalf("%s\n%v", line, err)
		}
		rec := v.(map[string]any)
		if _, ok := rec["schema_version"]; ok != (i == 0) {
			ts.Fatalf("schema_version in line %d: %s", i+1, line)
		}
		if last := i == len(lines)-1; last != (rec["type"] == "summary") {
			ts.Fatalf("line %d of %d: %s", i+1, len(lines), line)
		}
	}
}

// repoRoot is the root of the repository; tests run in cmd/instep.
var repoRoot = func() string {
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		panic(err)
	}
	return dir
}()

// sametree DIR MIRROR: the regular files without dotfiles are the same.
func sameTree(ts *testscript.TestScript, neg bool, args []string) {
	diff := compareTrees(ts.MkAbs(args[0]), ts.MkAbs(args[1]))
	if neg != (len(diff) > 0) {
		ts.Fatalf("differences: %d\n%s", len(diff), strings.Join(diff, "\n"))
	}
}

// flip FILE: changes one bit of the file, leaving its times alone.
func flipByte(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	info, err := os.Stat(path)
	ts.Check(err)
	b, err := os.ReadFile(path)
	ts.Check(err)
	b[len(b)/2] ^= 1
	ts.Check(os.WriteFile(path, b, info.Mode()))
	ts.Check(os.Chtimes(path, info.ModTime(), info.ModTime()))
}

// cut FILE: drops the second half of the file.
func cut(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	info, err := os.Stat(path)
	ts.Check(err)
	ts.Check(os.Truncate(path, info.Size()/2))
}

// until FILE TEXT: waits until the file is there and holds the text.
func until(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		text, err := os.ReadFile(ts.MkAbs(args[0]))
		if err == nil && strings.Contains(string(text), args[1]) {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			ts.Fatalf("%s never held %q: %v\n%s", args[0], args[1], err, text)
		}
	}
}

// unzipped FILE DIR: unpacks a ZIP package into a new directory.
func unzipped(ts *testscript.TestScript, _ bool, args []string) {
	z, err := zip.OpenReader(ts.MkAbs(args[0]))
	ts.Check(err)
	defer z.Close()
	ts.Check(os.CopyFS(ts.MkAbs(args[1]), z))
}

// approveplan FILE [FLAGS...] DIR: approves the plan that the summary in FILE names.
func approvePlan(ts *testscript.TestScript, _ bool, args []string) {
	lines := strings.Split(strings.TrimSpace(ts.ReadFile(args[0])), "\n")
	var sum struct{ Plan string }
	ts.Check(json.Unmarshal([]byte(lines[len(lines)-1]), &sum))
	ts.Check(ts.Exec("instep", append(append([]string{"approve"}, args[1:]...), sum.Plan)...))
}

// xmlwellformed FILE...: xmllint reads each.
func wellFormed(ts *testscript.TestScript, _ bool, args []string) {
	lint, err := exec.LookPath("xmllint")
	if err != nil {
		ts.Logf("SKIPPED: xmllint is not installed, so no independent parser reads the documents (make test installs it)")
		return
	}
	for _, f := range args {
		if out, err := exec.Command(lint, "--noout", "--nonet", ts.MkAbs(f)).CombinedOutput(); err != nil {
			ts.Fatalf("%s: %v\n%s", f, err, out)
		}
	}
}

// compareTrees returns the differences between the files of two trees, dotfiles left out.
func compareTrees(a, b string) (diff []string) {
	inA, inB := listTree(a), listTree(b)
	for path := range inA {
		if _, ok := inB[path]; !ok {
			diff = append(diff, "only in the first: "+path)
			continue
		}
		delete(inB, path)
		if same, err := sameFile(filepath.Join(a, path), filepath.Join(b, path)); err != nil || !same {
			diff = append(diff, fmt.Sprintf("different: %s %v", path, err))
		}
	}
	for path := range inB {
		diff = append(diff, "only in the second: "+path)
	}
	sort.Strings(diff)
	return diff
}

func listTree(root string) map[string]bool {
	files := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		hidden := strings.HasPrefix(d.Name(), ".") && path != root
		if d.IsDir() {
			if hidden {
				return filepath.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if !hidden {
			files[rel] = true
		}
		return err
	})
	if err != nil {
		files["error: "+err.Error()] = true
	}
	return files
}

func sameFile(a, b string) (bool, error) {
	fa, err := os.Open(a)
	if err != nil {
		return false, err
	}
	defer fa.Close()
	fb, err := os.Open(b)
	if err != nil {
		return false, err
	}
	defer fb.Close()
	ra, rb := bufio.NewReader(fa), bufio.NewReader(fb)
	bufA, bufB := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, errA := io.ReadFull(ra, bufA)
		m, errB := io.ReadFull(rb, bufB)
		if n != m || !bytes.Equal(bufA[:n], bufB[:m]) {
			return false, nil
		}
		if errA != nil || errB != nil {
			return (errA == io.EOF || errA == io.ErrUnexpectedEOF) && (errB == io.EOF || errB == io.ErrUnexpectedEOF), nil
		}
	}
}
