package oaipmh_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"instep/fetch"
	"instep/internal/oaipmh"
	"instep/internal/oaipmh/oaipmhtest"
)

var day = time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC)

// client asks a server; notes gets what it tolerates.
func client(t *testing.T, h http.Handler, notes *[]string) *oaipmh.Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	f, err := fetch.New(fetch.Options{Backoff: time.Millisecond, BackoffMax: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.TrustSource(t.Context(), s.URL); err != nil {
		t.Fatal(err)
	}
	return &oaipmh.Client{Fetch: f, BaseURL: s.URL + "/oai?page=oai", Observe: func(n oaipmh.Note) {
		if notes != nil {
			*notes = append(*notes, n.What)
		}
	}}
}

func TestVerbs(t *testing.T) {
	p := &oaipmhtest.Repository{PageSize: 4}
	p.Fill(10, day)
	p.Records[2].Deleted = true
	c := client(t, p, nil)
	id, err := c.Identify(t.Context())
	if err != nil || id.Name != "A repository of tests" || id.Deleted != oaipmh.DeletedPersistent || id.Days || id.Earliest.String() != "2020-01-01T00:00:00Z" {
		t.Errorf("Identify: %+v, %v", id, err)
	}
	formats, err := c.Formats(t.Context())
	if err != nil || len(formats) != 1 || formats[0].Prefix != "oai_dc" {
		t.Errorf("ListMetadataFormats: %v, %v", formats, err)
	}
	n := 0
	for h, err := range c.Headers(t.Context(), oaipmh.Selection{Prefix: "oai_dc", Set: "books"}) {
		if n++; err != nil || h.Deleted != (h.Identifier == "oai:example.org:3") || !strings.HasPrefix(h.Sets[0], "books:") && !h.Deleted {
			t.Errorf("ListIdentifiers: %+v, %v", h, err)
		}
	}
	for r, err := range c.Records(t.Context(), oaipmh.Selection{Prefix: "oai_dc"}) {
		if n++; err != nil || r.Deleted != (r.Metadata == nil) {
			t.Errorf("ListRecords: %+v, %v", r, err)
		}
	}
	if n != 7+10 {
		t.Errorf("%d headers and records, want 17", n)
	}
	r, err := c.Record(t.Context(), "oai:example.org:4", "oai_dc")
	if err != nil || !strings.Contains(string(r.Metadata), "<dc:title>Title 4<") {
		t.Errorf("GetRecord: %s, %v", r.Metadata, err)
	}
	if _, err := c.Record(t.Context(), "oai:example.org:99", "oai_dc"); !errors.Is(err, oaipmh.IDDoesNotExist) {
		t.Errorf("GetRecord of none: %v", err)
	}
	for _, q := range p.Requests() {
		if !strings.HasPrefix(q, "page=oai&verb=") {
			t.Errorf("request %q lost the query of the base URL", q)
		}
	}
}

// TestAnswers: answers to ListRecords in testdata/answers: "-- answer --" as it is served
// (Go escapes where the first line of the comment says "quoted"), "-- want --" what comes of it.
func TestAnswers(t *testing.T) {
	files, err := filepath.Glob("testdata/answers/*.txtar")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d cases, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			answer := string(a.Files[0].Data)
			if strings.HasPrefix(string(a.Comment), "quoted") {
				if answer, err = strconv.Unquote(`"` + strings.ReplaceAll(strings.TrimSpace(answer), "\n", `\n`) + `"`); err != nil {
					t.Fatal(err)
				}
			}
			got := ask(t, answer)
			if want := string(a.Files[1].Data); got != want {
				if os.Getenv("UPDATE") != "" {
					a.Files[1].Data = []byte(got)
					if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

// ask says what becomes of an answer to ListRecords.
func ask(t *testing.T, answer string) string {
	var b strings.Builder
	var notes []string
	c := client(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, answer) }), &notes)
	hide := strings.NewReplacer(c.BaseURL+"&metadataPrefix=oai_dc&verb=ListRecords", "URL", c.BaseURL+"&verb=ListRecords&metadataPrefix=oai_dc", "URL")
	for r, err := range c.Records(t.Context(), oaipmh.Selection{Prefix: "oai_dc"}) {
		switch {
		case err != nil && r.Identifier != "":
			fmt.Fprintf(&b, "bad %s: %s\n", r.Identifier, hide.Replace(err.Error()))
		case err != nil:
			fmt.Fprintf(&b, "error: %s\n", hide.Replace(err.Error()))
		case r.Deleted:
			fmt.Fprintf(&b, "deleted %s %s %v\n", r.Identifier, r.Datestamp, r.Sets)
		default:
			fmt.Fprintf(&b, "record %s %s %v\n%s\n", r.Identifier, r.Datestamp, r.Sets, r.Metadata)
		}
	}
	slices.Sort(notes)
	for _, n := range notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	return b.String()
}

// An answer that would take far more memory or time than its size is no answer.
func TestAnswersThatCostTooMuch(t *testing.T) {
	for name, change := range map[string]func(text string) string{
		"namespaces": func(text string) string {
			var all strings.Builder
			for i := range 1000 {
				fmt.Fprintf(&all, ` xmlns:n%d="x:y"`, i)
			}
			return strings.Replace(text, "<ListRecords", "<ListRecords"+all.String(), 1)
		},
		"ampersands": func(text string) string {
			return strings.Replace(text, "<record>", strings.Repeat("&", 4*len(text))+"<record>", 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := &oaipmhtest.Repository{Records: []oaipmhtest.Record{{Identifier: "a", Datestamp: day}}}
			p.Change = func(_ *http.Request, text string) string { return change(text) }
			bad := 0
			for r, err := range client(t, p, nil).Records(t.Context(), oaipmh.Selection{Prefix: "oai_dc"}) {
				if errors.Is(err, oaipmh.ErrAnswer) && r.Identifier == "" && bad == 0 {
					return
				}
				bad++
			}
			t.Errorf("got a list with %d records, want %v", bad, oaipmh.ErrAnswer)
		})
	}
}

// Of many unusable records only some are named; the others are read all the same.
func TestManyUnusableRecords(t *testing.T) {
	p := &oaipmhtest.Repository{Records: []oaipmhtest.Record{{Identifier: "a", Datestamp: day}}}
	p.Change = func(_ *http.Request, text string) string {
		return strings.Replace(text, "<record>", strings.Repeat("<record><header><identifier>x</identifier></header></record>", 20_000)+"<record>", 1)
	}
	good, unnamed, named := 0, 0, 0
	for r, err := range client(t, p, nil).Records(t.Context(), oaipmh.Selection{Prefix: "oai_dc"}) {
		switch {
		case err == nil:
			good++
		case r.Identifier == "":
			unnamed++
		default:
			named++
		}
	}
	if good != 1 || unnamed != 1 || named != 10_000 {
		t.Errorf("got %d usable records, %d bad with an identifier and %d without", good, named, unnamed)
	}
}
