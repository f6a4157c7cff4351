//go:build unix

package main

import (
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// lintNow runs lint at a fixed time.
func lintNow(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, messages bytes.Buffer
	a := &app{stdout: &out, stderr: &messages, now: func() time.Time { return time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC) }}
	a.out = &output{stdout: &out, stderr: &messages}
	root := a.rootCommand()
	root.SetArgs(append([]string{"lint"}, args...))
	if err := root.ExecuteContext(ctx); err != nil {
		code, hint := explain(ctx, err)
		a.out.fail(err, code, hint)
		return code, out.String(), messages.String()
	}
	return a.code, out.String(), messages.String()
}

// TestLintOfABrokenSource keeps docs/lint as the program says; "make docs" writes it
// anew.
func TestLintOfABrokenSource(t *testing.T) {
	docs := filepath.Join(repoRoot, "docs", "lint")
	t.Chdir(filepath.Join("testdata", "museum"))
	for _, c := range []struct{ format, file string }{{"text", "museum.txt"}, {"json", "museum.json"}, {"sarif", "museum.sarif"}} {
		code, got, stderr := lintNow(t.Context(), "--format", c.format, ".")
		if code != exitDifferences {
			t.Fatalf("%s: exit code %d, want %d\n%s", c.format, code, exitDifferences, stderr)
		}
		kept := filepath.Join(docs, c.file)
		if *update {
			if err := os.WriteFile(kept, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(kept)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(got, string(want)); d != "" {
			t.Errorf("docs/lint/%s is not what lint says (make docs writes it anew), -got +want:\n%s", c.file, d)
		}
	}
}

func TestLintWritesValidSARIF(t *testing.T) {
	schema := filepath.Join(repoRoot, "lint", "testdata", "sarif.schema.json")
	t.Chdir(filepath.Join("testdata", "museum"))
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx        context.Context
		args       []string
		code       int
		successful bool
	}{
		"findings":         {t.Context(), []string{"."}, exitDifferences, true},
		"nothing":          {t.Context(), []string{"nowhere"}, exitFailed, false},
		"some not there":   {t.Context(), []string{".", "nowhere\x1b[2J"}, exitPartial, true},
		"stopped in midst": {interrupted, []string{"."}, exitFailed, false},
	} {
		code, out, _ := lintNow(c.ctx, append([]string{"--format", "sarif"}, c.args...)...)
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(out))
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		compiled, err := jsonschema.NewCompiler().Compile(schema)
		if err != nil {
			t.Fatal(err)
		}
		if err := compiled.Validate(v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		run := v.(map[string]any)["runs"].([]any)[0].(map[string]any)
		invocation := run["invocations"].([]any)[0].(map[string]any)
		if got := invocation["executionSuccessful"]; code != c.code || got != c.successful {
			t.Errorf("%s: exit code %d, successful %v; want %d, %v", name, code, got, c.code, c.successful)
		}
		if strings.ContainsFunc(strings.ReplaceAll(out, "\n", ""), steers) {
			t.Errorf("%s: a terminal obeys what was written", name)
		}
	}
}

const (
	rsRoot       = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">` + "\n"
	goodManifest = rsRoot + `<rs:ln rel="up" href="https://harbour.example.org/capabilitylist.xml"/>
<rs:md capability="resourcedump-manifest" at="2026-03-01T08:00:00Z"/>
<url><loc>https://harbour.example.org/a</loc><lastmod>2026-02-01T08:00:00Z</lastmod><rs:md path="/a" type="text/plain"/></url>
</urlset>`
	badManifest = rsRoot + `<rs:ln rel="up" href="https://harbour.example.org/capabilitylist.xml"/>
<rs:md capability="resourcelist" at="2026-03-01T08:00:00Z"/>
</urlset>`
)

func writePackage(t *testing.T, name string, members map[string]string) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, text := range members {
		f, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(f, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestLintReadsTheManifestOfAPackage(t *testing.T) {
	t.Chdir(t.TempDir())
	writePackage(t, "good.zip", map[string]string{"manifest.xml": goodManifest, "a": "a"})
	writePackage(t, "bad.zip", map[string]string{"manifest.xml": badManifest})
	writePackage(t, "none.zip", map[string]string{"a": "a"})
	whole, err := os.ReadFile("good.zip")
	if err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Replace(whole, []byte("2026-02-01T"), []byte("2026-02-02T"), 1)
	if err := os.Mkdir("other", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("other/damaged.zip", damaged, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("other/followed.zip", append(bytes.Clone(whole), "more"...), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		arg  string
		code int
		want string // in what was written
	}{
		{"other/followed.zip", exitOK, "followed.zip: a careful Destination refuses this package: "},
		{"other/damaged.zip", exitFailed, "checksum"},
		{"good.zip", exitOK, "good.zip!manifest.xml: resourcedump-manifest, 1 entry: OK\n"},
		{"bad.zip", exitDifferences, "error resourcedump-manifest-capability-value"},
		{"none.zip", exitFailed, "none of the 1 members is called manifest.xml"},
		{".", exitPartial, "(documents=3, errors="}, // a ZIP file without manifest is none of ours there
	} {
		code, stdout, stderr := lintNow(t.Context(), c.arg)
		if code != c.code || !strings.Contains(stdout+stderr, c.want) {
			t.Errorf("%s: exit code %d, want %d with %q\n%s%s", c.arg, code, c.code, c.want, stdout, stderr)
		}
	}
}

func TestLintChecksWhatAServerAnswers(t *testing.T) {
	var packed bytes.Buffer
	zw := gzip.NewWriter(&packed)
	if _, err := io.WriteString(zw, badManifest); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/page", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", `<https://harbour.example.org/capabilitylist.xml>; rel="sitemap"`)
		_, _ = io.WriteString(w, `<!doctype html><body><link rel="resourcesync" href="capabilitylist.xml">`)
	})
	mux.HandleFunc("/packed", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(packed.Bytes())
	})
	mux.HandleFunc("/wall.xml", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "<!doctype html><title>Just a moment...</title>")
	})
	mux.HandleFunc("/cut.xml", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, rsRoot)
	})
	mux.HandleFunc("/busy.xml", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	mux.Handle("/moved.xml", http.RedirectHandler("/packed", http.StatusFound))
	srv := httptest.NewServer(mux)
	defer srv.Close()
	for _, c := range []struct {
		path string
		code int
		want []string
	}{
		{"/page", exitDifferences, []string{"/page: Link header\n\n  error http-link-rel-resourcesync", "/page: HTML page\n\n  error html-link-in-head", "documents=2"}},
		{"/packed", exitOK, []string{"/packed: resourcelist, 0 entries: OK"}},
		{"/moved.xml", exitOK, []string{"/moved.xml: answered by http", "/moved.xml: resourcelist"}},
		{"/wall.xml", exitDifferences, []string{"error root-element-urlset-or-sitemapindex", "an HTML page that keeps programs out"}},
		{"/cut.xml", exitTemporary, []string{"cut off: expected 1000 bytes"}},
		{"/busy.xml", exitTemporary, []string{"403"}},
		{"/none.xml", exitFailed, []string{"404"}},
	} {
		code, stdout, stderr := lintNow(t.Context(), "--static", srv.URL+c.path)
		if code != c.code {
			t.Errorf("%s: exit code %d, want %d", c.path, code, c.code)
		}
		for _, want := range c.want {
			if !strings.Contains(stdout+stderr, want) {
				t.Errorf("%s: %q is not in\n%s%s", c.path, want, stdout, stderr)
			}
		}
	}
}

func TestLintCountsRepeatedFindings(t *testing.T) {
	t.Chdir(t.TempDir())
	writeLargeList(t, "list.xml", 5000)
	code, stdout, _ := lintNow(t.Context(), "list.xml")
	if code != exitDifferences || strings.Count(stdout, `hash "md5:`) != maxFindings || strings.Count(stdout, "    and 4,995 more\n") != 1 {
		t.Errorf("exit code %d, want %d, %d findings of the rule and how many more there are\n%s", code, exitDifferences, maxFindings, stdout)
	}
	if !strings.Contains(stdout, "also warning quirk-47-hash-base64: ") || !strings.Contains(stdout, "errors=5,000, warnings=5,000") {
		t.Errorf("want the quirk with the rule that it repeats, and both counted\n%s", stdout)
	}
}

func TestLintTellsThatADocumentIsCut(t *testing.T) {
	t.Chdir(t.TempDir())
	writeLargeList(t, "list.xml", 2)
	if err := os.Truncate("list.xml", 460); err != nil {
		t.Fatal(err)
	}
	code, stdout, _ := lintNow(t.Context(), "list.xml")
	if code != exitDifferences || !strings.HasPrefix(stdout, "list.xml: resourcelist, 1 entry, not read completely\n") {
		t.Errorf("exit code %d, want %d and that the list was not read completely\n%s", code, exitDifferences, stdout)
	}
}

// writeLargeList writes a Resource List in which every entry breaks a rule, and has a quirk, by
// its digest.
func writeLargeList(t *testing.T, name string, entries int) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(f)
	fmt.Fprint(w, rsRoot, `<rs:ln rel="up" href="https://harbour.example.org/capabilitylist.xml"/><rs:md capability="resourcelist" at="2026-03-01T08:00:00Z"/>`, "\n")
	for i := range entries {
		fmt.Fprintf(w, "<url><loc>https://harbour.example.org/objects/%06d</loc><lastmod>2026-02-01T08:00:00Z</lastmod><rs:md hash=\"md5:1B2M2Y8AsgTpgAmY7PhCfg==\"/></url>\n", i)
	}
	fmt.Fprint(w, "</urlset>\n")
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestLintTakesLittleMemory(t *testing.T) {
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("SKIPPED: the race detector takes memory of its own")
	}
	t.Chdir(t.TempDir())
	writeLargeList(t, "list.xml", 50_000)
	for _, format := range []string{"text", "json", "sarif"} {
		cmd := command(t, "lint", "--format", format, "list.xml")
		out, err := cmd.Output()
		if cmd.ProcessState.ExitCode() != exitDifferences {
			t.Fatalf("%s: %v\n%.1000s", format, err, out)
		}
		const most = 50 << 20
		peak := peakMemory(cmd)
		if peak == 0 {
			t.Skip("SKIPPED: this system does not tell the memory of a process, so that of lint is not measured")
		}
		t.Logf("%s: %d MiB, %d bytes of output", format, peak>>20, len(out))
		if peak > most {
			t.Errorf("%s: %d bytes of memory, want at most %d", format, peak, most)
		}
	}
}

// Records of a document follow it, also when they are more than memory should hold.
func TestLintRecordsFollowTheirDocument(t *testing.T) {
	t.Chdir(t.TempDir())
	writeLargeList(t, "a.xml", 3000)
	writeLargeList(t, "b.xml", 2)
	_, stdout, _ := lintNow(t.Context(), "--json", "a.xml", "b.xml")
	document, findings := "", map[string]int{}
	for line := range strings.Lines(stdout) {
		var r record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		switch r.Type {
		case "document":
			document = r.URI
		case "finding":
			if findings[r.URI]++; r.URI != document {
				t.Fatalf("a finding of %s follows the document %s", r.URI, document)
			}
		}
	}
	if findings["a.xml"] < 3000 || findings["b.xml"] < 2 {
		t.Errorf("got %v findings, want at least one for each of the 3000 and 2 entries", findings)
	}
}
