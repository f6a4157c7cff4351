//go:build unix

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"instep/destination"
	"instep/internal/runs"
)

// hostileTexts is what a Source may put into URIs, paths and messages to reach the reader
// of a report.
var hostileTexts = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `=HYPERLINK("http://evil.example/")`, "@SUM(1)", "-1+1", "a\u202eb", "javascript:alert(1)",
	"line\nbreak", `";"`, "]}", "\x1b[31m",
}

func hostileAudit(t *testing.T, name string) []byte {
	t.Helper()
	var b bytes.Buffer
	a := &app{now: time.Now, given: []string{"--quick"}, out: &output{}}
	r := a.newAuditReport(&b, reportFormOf(name), "https://museum.example.org/", "mirror", t0)
	t.Cleanup(func() { _ = r.close() })
	verdicts := destination.Verdicts
	for i, text := range hostileTexts {
		e := destination.Event{Kind: destination.EventVerdict, Set: text, Verdict: verdicts[i%len(verdicts)], Path: text, Err: fmt.Errorf("%s", text)}
		e.Action.Want.URI = text
		r.event(e)
	}
	audit := &destination.Audit{Source: "https://museum.example.org/", Sets: []*destination.SetAudit{{
		Set: hostileTexts[0], At: t0, Verdicts: map[destination.Verdict]int64{destination.VerdictSame: 2}, Partial: fmt.Errorf("%s", hostileTexts[1]),
	}}}
	if err := r.end(audit, &summary{Status: "not-in-sync", Same: num(2), ExitCode: 3}, t0.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// wantDigest checks that the last line holds the digest of all before it.
func wantDigest(t *testing.T, text []byte) {
	t.Helper()
	body := text[:bytes.LastIndexByte(bytes.TrimSuffix(text, []byte("\n")), '\n')+1]
	sum := sha256.Sum256(body)
	if last := string(text[len(body):]); !strings.Contains(last, hex.EncodeToString(sum[:])) {
		t.Errorf("the last line is %q, want the digest %x of the %d bytes before it", last, sum, len(body))
	}
}

func TestReportsEndWithTheirDigest(t *testing.T) {
	for _, name := range []string{"a.html", "a.csv", "a.JSON"} {
		wantDigest(t, hostileAudit(t, name))
	}
}

func TestCSVReportIsATableWithoutFormulas(t *testing.T) {
	lines, err := csv.NewReader(bytes.NewReader(hostileAudit(t, "a.csv"))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	resources := 0
	for _, line := range lines {
		if line[0] == "resource" {
			resources++
		}
		for _, cell := range line {
			if cell != "" && strings.ContainsRune("=+-@", rune(cell[0])) {
				t.Errorf("a spreadsheet takes %q for a formula", cell)
			}
		}
	}
	if resources != len(hostileTexts) {
		t.Errorf("got %d resources, want all %d", resources, len(hostileTexts))
	}
}

func TestJSONReportIsOneObject(t *testing.T) {
	var got struct {
		Report    reportHead
		Resources []reportRow
		Outcome   reportTail
		Digest    string `json:"sha-256"`
	}
	d := json.NewDecoder(bytes.NewReader(hostileAudit(t, "a.json")))
	d.DisallowUnknownFields()
	if err := d.Decode(&got); err != nil {
		t.Fatal(err)
	}
	if len(got.Resources) != len(hostileTexts) || got.Resources[0].URI != hostileTexts[0] || got.Outcome.Status != "not-in-sync" || len(got.Digest) != 64 {
		t.Errorf("got %+v", got)
	}
	if !got.Report.Date.Equal(t0) || got.Report.Program == "" || got.Report.Go == "" || got.Outcome.Sets[0].At.IsZero() {
		t.Errorf("got %+v, want the date, versions and the moment of the Source's documents", got.Report)
	}
}

// loads parses a page and returns what it would load or run, and its text.
func loads(t *testing.T, page io.Reader) (active []string, text string) {
	t.Helper()
	var b strings.Builder
	z := html.NewTokenizer(page)
	for {
		switch z.Next() {
		case html.ErrorToken:
			return active, b.String()
		case html.TextToken:
			b.Write(z.Text())
		case html.StartTagToken, html.SelfClosingTagToken:
			tok := z.Token()
			switch tok.Data {
			case "script", "iframe", "img", "link", "object", "embed", "a", "form":
				active = append(active, tok.String())
			}
			for _, attr := range tok.Attr {
				if strings.HasPrefix(attr.Key, "on") || attr.Key == "src" || attr.Key == "href" {
					active = append(active, tok.String())
				}
			}
		}
	}
}

// hostileRuns is the page about a run whose record holds hostile texts.
func hostileRuns(t *testing.T) []byte {
	t.Helper()
	state := filepath.Join(t.TempDir(), ".instep")
	if err := os.Mkdir(state, 0o750); err != nil {
		t.Fatal(err)
	}
	rec := runs.NewLog(runs.Run{Command: "sync", Source: hostileTexts[0], Dir: hostileTexts[1], Options: hostileTexts, Begun: t0}, func() time.Time { return t0 })
	if err := rec.Begin(state, 0); err != nil {
		t.Fatal(err)
	}
	for _, text := range hostileTexts {
		for _, kind := range []runs.Kind{runs.Set, runs.Note, runs.Failure} {
			rec.Add(runs.Row{Kind: kind, Set: text, Mode: text, Cause: text, URI: text, Path: text, Message: text, Hint: text})
		}
	}
	if err := rec.End(runs.Outcome{Status: "partial", Error: hostileTexts[0], Hint: hostileTexts[1]}); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if code := run([]string{"report", "--format", "html", filepath.Dir(state)}, &b, io.Discard); code != 0 {
		t.Fatalf("instep report: exit code %d", code)
	}
	return b.Bytes()
}

func TestHTMLReportsRunNothingAndLoadNothing(t *testing.T) {
	for name, page := range map[string][]byte{"audit": hostileAudit(t, "a.html"), "runs": hostileRuns(t)} {
		active, text := loads(t, bytes.NewReader(page))
		if len(active) > 0 {
			t.Errorf("the page of %s loads or runs %q", name, active)
		}
		if !strings.Contains(html.UnescapeString(text), `"><img src=x onerror=alert(1)>`) {
			t.Errorf("the page of %s does not show what it was told", name)
		}
	}
}

func TestCommandLinesCanBeGivenToAShell(t *testing.T) {
	words := append([]string{"plain", "", "a b", "it's", "$HOME", "`id`", "ü", "*"}, hostileTexts...)
	out, err := exec.Command("sh", "-c", `for w in `+shellLine(words...)+`; do printf '%s\0' "$w"; done`).Output()
	if err != nil {
		t.Skipf("SKIPPED: no shell: %v", err)
	}
	if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); strings.Join(got, "\x00") != strings.Join(words, "\x00") {
		t.Errorf("got %q, want %q", got, words)
	}
}

// A run that is killed is known by its record, and a secret is in none.
func TestKilledRunIsRecordedUnfinishedAndWithoutSecrets(t *testing.T) {
	const secret = "canary-6f1e"
	hang, asked := make(chan struct{}), make(chan struct{}, 100)
	var list []byte
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/list.xml":
			_, _ = w.Write(list)
		case "/a":
			_, _ = io.WriteString(w, "a")
		case "/never":
			asked <- struct{}{}
			<-hang
		default:
			http.NotFound(w, r)
		}
	}))
	defer srv.Close()
	defer close(hang)
	document := func(names ...string) []byte {
		text := `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md capability="resourcelist" at="2026-03-01T12:00:00Z"/>`
		for _, name := range names {
			text += `<url><loc>` + srv.URL + `/` + name + `</loc></url>`
		}
		return []byte(text + `</urlset>`)
	}
	dir := filepath.Join(t.TempDir(), "mirror")
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	list = document("a")
	if code := run([]string{"sync", "-q", srv.URL + "/list.xml", dir}, io.Discard, io.Discard); code != 0 {
		t.Fatalf("the first sync: exit code %d", code)
	}
	list = document("a", "never")
	cmd := command(t, "sync", "--bearer-file", token, srv.URL+"/list.xml", dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-asked
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()

	state := filepath.Join(dir, ".instep")
	all, err := runs.List(state)
	if err != nil || len(all) != 2 || all[0].End != nil || all[1].End == nil {
		t.Fatalf("got %+v, %v; want the killed run without an end, and the one before with it", all, err)
	}
	var out bytes.Buffer
	if code := run([]string{"errors", dir}, &out, io.Discard); code != 0 || !strings.Contains(out.String(), "UNFINISHED") {
		t.Errorf("instep errors: exit code %d, %q", code, out.String())
	}
	for _, r := range all {
		text, err := os.ReadFile(filepath.Join(state, "runs", strconv.FormatInt(r.ID, 10)+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte(secret)) {
			t.Errorf("the record of %d holds the secret", r.ID)
		}
	}
}
