//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"instep/resourcesync"
)

// command runs the program as a process of its own.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), asInstep+"="+filepath.Join(t.TempDir(), "status"))
	return cmd
}

// outcome is how a process of the program ended.
type outcome struct {
	summary
	code    int
	records []record
	stderr  string
	peak    int64 // resident memory at its highest, in bytes
}

// instep runs a command with --json to its end.
func instep(t *testing.T, args ...string) outcome {
	t.Helper()
	cmd := command(t, append(args, "--json")...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	o := outcome{code: cmd.ProcessState.ExitCode(), stderr: stderr.String(), peak: peakMemory(cmd)}
	lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	for i, line := range lines {
		if i == len(lines)-1 {
			err = json.Unmarshal([]byte(line), &o.summary)
		} else {
			var r record
			err = json.Unmarshal([]byte(line), &r)
			o.records = append(o.records, r)
		}
		if err != nil {
			t.Fatalf("%v: %v in %q; standard error: %s", args, err, line, o.stderr)
		}
	}
	return o
}

// peakMemory is the resident memory of an ended process at its highest, in bytes; 0
// where the system does not tell.
func peakMemory(cmd *exec.Cmd) int64 {
	path := strings.TrimPrefix(cmd.Env[len(cmd.Env)-1], asInstep+"=")
	status, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	var kib int64
	_, _ = fmt.Sscan(rest, &kib)
	return kib << 10
}

// mustDo is instep that has to end with exit code 0.
func mustDo(t *testing.T, args ...string) outcome {
	t.Helper()
	o := instep(t, args...)
	if o.code != 0 {
		t.Fatalf("instep %s: exit code %d\n%s", strings.Join(args, " "), o.code, o.stderr)
	}
	return o
}

// counter is a proxy before a served site that remembers what was asked for.
type counter struct {
	*httptest.Server
	t     *testing.T
	proxy *httputil.ReverseProxy

	mu   sync.Mutex // guards the rest
	hits map[string]int
	sent map[string]int64 // bytes of bodies
}

func newCounter(t *testing.T) *counter {
	c := &counter{t: t}
	c.take()
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.hits[r.URL.Path]++
		c.mu.Unlock()
		c.proxy.ServeHTTP(&countedResponse{w, c, r.URL.Path}, r)
	}))
	t.Cleanup(c.Close)
	return c
}

// forward sends what comes to the site served at backend.
func (c *counter) forward(backend string) {
	u, err := url.Parse(backend)
	if err != nil {
		c.t.Fatal(err)
	}
	c.proxy = httputil.NewSingleHostReverseProxy(u)
	c.proxy.ErrorLog = log.New(io.Discard, "", 0) // clients that are killed
}

// take returns how often each path was asked for and how many bytes of it were sent,
// and forgets it.
func (c *counter) take() (hits map[string]int, sent map[string]int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	hits, sent = c.hits, c.sent
	c.hits, c.sent = map[string]int{}, map[string]int64{}
	return hits, sent
}

type countedResponse struct {
	http.ResponseWriter
	c    *counter
	path string
}

func (r *countedResponse) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *countedResponse) Write(p []byte) (int, error) {
	n, err := r.ResponseWriter.Write(p)
	r.c.mu.Lock()
	r.c.sent[r.path] += int64(n)
	r.c.mu.Unlock()
	return n, err
}

// serveSite starts "instep serve" as a process and returns its address.
func serveSite(t *testing.T, dirs ...string) (base string, stop func() *exec.Cmd) {
	t.Helper()
	cmd := command(t, append([]string{"serve", "--json", "--addr", "127.0.0.1:0"}, dirs...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var first record
	if err := json.NewDecoder(out).Decode(&first); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	stopped := false
	stop = func() *exec.Cmd {
		if !stopped {
			stopped = true
			_ = cmd.Process.Signal(os.Interrupt)
			_ = cmd.Wait()
		}
		return cmd
	}
	t.Cleanup(func() { stop() })
	return "http://" + first.Addr, stop
}

// peakLimit is the memory that a command may take on this set, in bytes.
const peakLimit = 100_000_000

// TestRingOnGoSource runs the whole ring on Go's own source tree.
func TestRingOnGoSource(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: the ring on Go's source tree takes a while; run without -short")
	}
	dir := t.TempDir()
	site, docs, state, mirrorDir := filepath.Join(dir, "src"), filepath.Join(dir, "docs"), filepath.Join(dir, "state"), filepath.Join(dir, "mirror")
	hidden := copyTree(t, filepath.Join(goRoot(t), "src"), site)
	files := listTree(site)
	c := newCounter(t)
	base := c.URL + "/"
	publish := []string{"publish", site, "--base-url", base, "--out", docs, "--state", state}

	pub := mustDo(t, publish...)
	if *pub.Created != int64(len(files)) || len(files) < 9000 {
		t.Fatalf("published %d of %d files", *pub.Created, len(files))
	}
	if pub.Excluded["dotfile"] != int64(hidden) {
		t.Errorf("dotfiles left out: got %v, want %d", pub.Excluded, hidden)
	}
	backend, stop := serveSite(t, site, docs)
	c.forward(backend)

	first := mustDo(t, "sync", base, mirrorDir)
	sameTrees(t, site, mirrorDir)
	checkPeak(t, "publish", pub)
	checkPeak(t, "sync (baseline)", first)
	c.take()

	again := mustDo(t, "sync", base, mirrorDir)
	hits, _ := c.take()
	if n := total(hits); n > 5 || *again.Created+*again.Updated+*again.Deleted != 0 {
		t.Errorf("second sync: %d requests, %+v; want nothing to do in at most 5", n, again.summary)
	}
	changed := changeTree(t, site, files)
	repub := mustDo(t, publish...)
	if *repub.Created != 30 || *repub.Updated != 100 || *repub.Deleted != 20 {
		t.Fatalf("published again: %+v", repub.summary)
	}
	checkChangeList(t, docs, base, changed)
	checkDocuments(t, docs)
	c.take()
	inc := mustDo(t, "sync", base, mirrorDir)
	hits, _ = c.take()
	if bodies := bodiesOf(hits); bodies != 130 || *inc.Deleted != 20 || *inc.Created != 30 || *inc.Updated != 100 {
		t.Errorf("incremental: %d bodies, %+v; want 130 bodies and 20 removed", bodies, inc.summary)
	}
	sameTrees(t, site, mirrorDir)
	audit := mustDo(t, "audit", base, mirrorDir)
	checkPeak(t, "audit", audit)
	if *audit.Same != int64(len(files))+10 {
		t.Errorf("audit: %+v", audit.summary)
	}

	victim := "fmt/print.go"
	flipFile(t, filepath.Join(mirrorDir, victim))
	bad := instep(t, "audit", base, mirrorDir)
	named := slices.ContainsFunc(bad.records, func(r record) bool { return r.Verdict == "different" && r.Path == victim })
	if bad.code != exitDifferences || !named || *bad.Different != 1 {
		t.Errorf("audit after a flipped bit: exit code %d, %+v, named %v", bad.code, bad.summary, named)
	}
	mustDo(t, "sync", base, mirrorDir)
	sameTrees(t, site, mirrorDir)
	mustDo(t, "audit", base, mirrorDir)
	served := stop()
	t.Logf("peak memory of serve: %.1f MB", float64(peakMemory(served))/1e6)
	if peakMemory(served) > peakLimit {
		t.Errorf("serve: peak memory %.1f MB", float64(peakMemory(served))/1e6)
	}
	t.Logf("%d files, %d dotfiles left out; publish %.2f s, baseline %.2f s in %d requests, incremental %.2f s, audit %.2f s",
		len(files), hidden, *pub.Seconds, *first.Seconds, *first.Requests, *inc.Seconds, *audit.Seconds)
}

func goRoot(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func checkPeak(t *testing.T, what string, o outcome) {
	t.Helper()
	t.Logf("peak memory of %s: %.1f MB", what, float64(o.peak)/1e6)
	if o.peak == 0 && runtime.GOOS == "linux" || o.peak > peakLimit {
		t.Errorf("%s: peak memory %.1f MB, want below %.0f", what, float64(o.peak)/1e6, peakLimit/1e6)
	}
}

func total(hits map[string]int) (n int) {
	for _, h := range hits {
		n += h
	}
	return n
}

// bodiesOf counts requests for resources: everything but our documents.
func bodiesOf(hits map[string]int) (n int) {
	for path, h := range hits {
		if !strings.HasPrefix(path, "/resourcesync/") && !strings.HasPrefix(path, "/.well-known/") {
			n += h
		}
	}
	return n
}

func sameTrees(t *testing.T, site, mirror string) {
	t.Helper()
	if diff := compareTrees(site, mirror); len(diff) > 0 {
		t.Fatalf("%d differences between site and mirror, the first: %s", len(diff), diff[0])
	}
}

// copyTree copies regular files and returns how many dotfiles there were.
func copyTree(t *testing.T, from, to string) (hidden int) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(to, func(path string, d os.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), ".") {
			hidden++
			if d.IsDir() {
				return filepath.SkipDir
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return hidden
}

// changeTree changes 100 files, deletes 20 and creates 30 with content of their own;
// it returns the kind of change of each path.
func changeTree(t *testing.T, site string, files map[string]bool) map[string]resourcesync.Change {
	t.Helper()
	paths := make([]string, 0, len(files))
	for p := range files {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	changed := map[string]resourcesync.Change{}
	write := func(path string, kind resourcesync.Change) {
		full := filepath.Join(site, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, fmt.Appendf(nil, "// %s %s\n", kind, path), 0o644); err != nil {
			t.Fatal(err)
		}
		changed[filepath.ToSlash(path)] = kind
	}
	step := len(paths) / 120
	for i := range 100 {
		write(paths[i*step], resourcesync.Updated)
	}
	for i := 100; i < 120; i++ {
		if err := os.Remove(filepath.Join(site, paths[i*step])); err != nil {
			t.Fatal(err)
		}
		changed[filepath.ToSlash(paths[i*step])] = resourcesync.Deleted
	}
	for i := range 30 {
		write(fmt.Sprintf("new/%d/file%d.go", i%3, i), resourcesync.Created)
	}
	return changed
}

// readDocument decodes a document below docs.
func readDocument(t *testing.T, docs, key string) (resourcesync.Header, []resourcesync.Entry) {
	t.Helper()
	f, err := os.Open(filepath.Join(docs, key))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d := resourcesync.NewDecoder(f, resourcesync.WithTolerance(resourcesync.Strict))
	var entries []resourcesync.Entry
	for e, err := range d.Entries() {
		if err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		entries = append(entries, e)
	}
	h, err := d.Header()
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return h, entries
}

// checkChangeList checks that the one Change List has exactly these changes, in order.
func checkChangeList(t *testing.T, docs, base string, changed map[string]resourcesync.Change) {
	t.Helper()
	lists, err := filepath.Glob(filepath.Join(docs, "resourcesync", "changes", "*.xml"))
	if err != nil || len(lists) != 1 {
		t.Fatalf("Change Lists: got %v, %v; want one", lists, err)
	}
	h, entries := readDocument(t, docs, filepath.Join("resourcesync", "changes", filepath.Base(lists[0])))
	if h.Capability != resourcesync.CapabilityChangeList || h.From.IsZero() || !h.Until.IsZero() {
		t.Errorf("header: got %+v, want an open Change List", h)
	}
	last := h.From
	got := map[string]resourcesync.Change{}
	for _, e := range entries {
		if e.Datetime.Before(last) {
			t.Errorf("%s: datetime %s after %s: not in order", e.Loc, e.Datetime, last)
		}
		last = e.Datetime
		got[strings.TrimPrefix(e.Loc, base)] = e.Change
	}
	if len(entries) != len(changed) || len(got) != len(changed) {
		t.Fatalf("Change List: %d entries for %d URIs, want %d", len(entries), len(got), len(changed))
	}
	for path, kind := range changed {
		if got[path] != kind {
			t.Errorf("%s: got %q, want %q", path, got[path], kind)
		}
	}
}

// checkDocuments reads every document by an independent XML parser and by our own
// decoder, and writes it again to an equal value.
func checkDocuments(t *testing.T, docs string) {
	t.Helper()
	var keys []string
	for path := range listTree(docs) {
		if strings.HasSuffix(path, ".xml") {
			keys = append(keys, path)
		}
	}
	keys = append(keys, filepath.Join(".well-known", "resourcesync"))
	for _, key := range keys {
		h, entries := readDocument(t, docs, key)
		h2, entries2 := rewrite(t, h, entries)
		if fmt.Sprint(h) != fmt.Sprint(h2) || fmt.Sprint(entries) != fmt.Sprint(entries2) {
			t.Errorf("%s: read, written and read again it differs", key)
		}
	}
	lint, err := exec.LookPath("xmllint")
	if err != nil {
		t.Log("SKIPPED: xmllint is not installed, so no independent parser reads the documents (make test installs it)")
		return
	}
	for _, key := range keys {
		if out, err := exec.Command(lint, "--noout", "--nonet", filepath.Join(docs, key)).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", key, err, out)
		}
	}
	t.Logf("%d documents read by xmllint and by the decoder", len(keys))
}

func rewrite(t *testing.T, h resourcesync.Header, entries []resourcesync.Entry) (resourcesync.Header, []resourcesync.Entry) {
	t.Helper()
	var b bytes.Buffer
	enc, err := resourcesync.NewEncoder(&b, h)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := enc.Encode(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := enc.Close(); err != nil {
		t.Fatal(err)
	}
	d := resourcesync.NewDecoder(&b)
	var again []resourcesync.Entry
	for e, err := range d.Entries() {
		if err != nil {
			t.Fatal(err)
		}
		again = append(again, e)
	}
	h2, err := d.Header()
	if err != nil {
		t.Fatal(err)
	}
	for i := range again { // positions in the document are not part of the value
		again[i].Line = entries[i].Line
	}
	return h2, again
}

func flipFile(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(path, b, 0o640); err != nil {
		t.Fatal(err)
	}
}
