//go:build unix

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"instep/internal/oaipmh/oaipmhtest"
)

// messages are all messages of a run.
func messages(o outcome) string {
	var b strings.Builder
	for _, r := range o.records {
		fmt.Fprintln(&b, r.Message)
	}
	return b.String() + o.stderr
}

// A repository that goes wrong after the first publication changes nothing of it, and the
// run says why.
func TestOAIRepositoryThatGoesWrong(t *testing.T) {
	private := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a private address was asked") }))
	defer private.Close()
	lists := func(do func(w http.ResponseWriter, r *http.Request)) func(int, http.ResponseWriter, *http.Request) bool {
		return func(_ int, w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Query().Get("verb") != "ListRecords" {
				return false
			}
			do(w, r)
			return true
		}
	}
	const head = `<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"><ListRecords>`
	endless := 0
	for _, c := range []struct {
		name  string
		fault func(int, http.ResponseWriter, *http.Request) bool
		code  int
		says  string
	}{
		{"a page for people", lists(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "<!DOCTYPE html><html><body>Moved</body></html>")
		}), 1, "the server sent an HTML page"},
		{"another XML", lists(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `<rss><channel/></rss>`) }), 1, `expected the element OAI-PMH, found the element "rss"`},
		{"an answer that is cut", lists(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, head, "<record><header>") }), 1, "unexpected EOF"},
		{"one token for ever", lists(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, head, "<resumptionToken>x</resumptionToken></ListRecords></OAI-PMH>")
		}), 1, "are too many for one response"},
		{"tokens without end", lists(func(w http.ResponseWriter, _ *http.Request) {
			endless++
			fmt.Fprint(w, head, "<resumptionToken>", endless, "</resumptionToken></ListRecords></OAI-PMH>")
		}), 1, "responses in a row have no record"},
		{"a redirect to a private address", lists(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, private.URL, http.StatusFound) }), 1, "leads to another origin"},
		{"out of order", lists(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "out of order", http.StatusBadGateway) }), 5, "502"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &oaipmhtest.Repository{Now: repositoryDay.Add(2 * time.Hour)}
			p.Fill(20, repositoryDay)
			h := newHarvester(t, p)
			h.publish()
			before, err := os.ReadFile(h.path("site/resourcesync/resourcelist.xml"))
			if err != nil {
				t.Fatal(err)
			}
			p.Put(oaipmhtest.Record{Identifier: "oai:example.org:1", Datestamp: repositoryDay.Add(time.Hour), Deleted: true})
			p.Lock()
			p.Fault = c.fault
			p.Unlock()
			o := instep(t, h.args()...)
			if o.code != c.code || !strings.Contains(messages(o), c.says) {
				t.Errorf("exit code %d, want %d; want %q in:\n%s", o.code, c.code, c.says, messages(o))
			}
			after, err := os.ReadFile(h.path("site/resourcesync/resourcelist.xml"))
			if err != nil || string(after) != string(before) || len(titles(t, h.path("site"))) != 20 {
				t.Errorf("what was published is another now: %v", err)
			}
			p.Lock()
			p.Fault = nil
			p.Unlock()
			h.publish()
			h.same("site")
		})
	}
}

// A record that cannot be used stays as it was published, and is named until it can.
func TestOAIRecordThatGoesWrong(t *testing.T) {
	p := &oaipmhtest.Repository{Now: repositoryDay.Add(48 * time.Hour)}
	p.Fill(5, repositoryDay)
	h := newHarvester(t, p)
	h.publish()
	p.Put(oaipmhtest.Record{Identifier: "oai:example.org:2", Datestamp: repositoryDay.Add(time.Hour), Metadata: "<dc><title>x</dc>"})
	for range 2 {
		o := instep(t, h.args()...)
		if o.code != 4 || !strings.Contains(messages(o), "oai:example.org:2") || titles(t, h.path("site"))["Title 2"] != 1 {
			t.Errorf("exit code %d, %s", o.code, messages(o))
		}
	}
	p.Put(oaipmhtest.Record{Identifier: "oai:example.org:2", Datestamp: repositoryDay.Add(2 * time.Hour), Title: "Mended"})
	h.publish()
	h.same("site")
}

// A repository that tells of no deletion is listed whole from time to time; what is gone
// is deleted then, but not if the list is shorter than it says, and not more than the guard allows.
func TestOAIRepositoryWithoutDeletions(t *testing.T) {
	p := &oaipmhtest.Repository{Now: repositoryDay.Add(48 * time.Hour), Deleted: "no", PageSize: 15}
	p.Fill(40, repositoryDay)
	h := newHarvester(t, p)
	config := h.path("site.yaml")
	text := fmt.Sprintf("base_url: %s/\ndir: site\nstate: state\nsets:\n  - from:\n      oai: %s\n      full_every: 1ms\n", h.base, strings.TrimPrefix(h.from, "oai+"))
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	publish := func(more ...string) outcome { return instep(t, append([]string{"publish", "-c", config}, more...)...) }
	if o := publish(); o.code != 0 {
		t.Fatalf("%s", messages(o))
	}
	p.Lock()
	p.Records = p.Records[:38]
	p.Change = func(r *http.Request, a string) string {
		return strings.ReplaceAll(a, `completeListSize="38"`, `completeListSize="40"`)
	}
	p.Unlock()
	if o := publish(); o.code != 0 || *o.Deleted != 0 || !strings.Contains(messages(o), "the repository states 2 more") {
		t.Errorf("a list that is too short: exit code %d, %s", o.code, messages(o))
	}
	p.Lock()
	p.Change = nil
	p.Unlock()
	if o := publish(); o.code != 0 || *o.Deleted != 2 {
		t.Errorf("two are gone: exit code %d, %s", o.code, messages(o))
	}
	h.same("site")
	p.Lock()
	p.Records = p.Records[:3]
	p.Unlock()
	if o := publish(); o.code != 6 || len(titles(t, h.path("site"))) != 38 {
		t.Errorf("nearly all are gone: exit code %d, %d records, %s", o.code, len(titles(t, h.path("site"))), messages(o))
	}
	if o := publish("--max-delete", "100%"); o.code != 0 || *o.Deleted != 35 {
		t.Errorf("allowed: exit code %d, %s", o.code, messages(o))
	}
	h.same("site")
}

// A file that is not of the harvest is never replaced.
func TestOAIForeignFile(t *testing.T) {
	p := &oaipmhtest.Repository{Now: repositoryDay.Add(48 * time.Hour)}
	p.Fill(3, repositoryDay)
	h := newHarvester(t, p)
	h.publish()
	found, err := filepath.Glob(h.path("site/records/oai_dc/*/oai=3aexample.org=3a2.xml"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v, %v", found, err)
	}
	other := newHarvester(t, p)
	rel, err := filepath.Rel(h.path("site"), found[0])
	if err != nil {
		t.Fatal(err)
	}
	mine := filepath.Join(other.path("site"), rel)
	if err := os.MkdirAll(filepath.Dir(mine), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(mine, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	o := instep(t, other.args()...)
	text, err := os.ReadFile(mine)
	if o.code != 4 || string(text) != "mine" || !strings.Contains(messages(o), "it does not belong to this harvest") {
		t.Errorf("exit code %d, %q, %v, %s", o.code, text, err, messages(o))
	}
	if err := os.Remove(mine); err != nil {
		t.Fatal(err)
	}
	other.publish()
	other.same("site")
}
