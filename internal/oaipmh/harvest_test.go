package oaipmh_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"instep/fetch"
	"instep/internal/oaipmh"
	"instep/internal/oaipmh/oaipmhtest"
)

var all = oaipmh.Selection{Prefix: "oai_dc"}

// harvest reads a list from a position on, and returns how often each record came and
// the last position.
func harvest(t *testing.T, c *oaipmh.Client, at oaipmh.Position) (map[string]int, oaipmh.Position, error) {
	t.Helper()
	id, err := c.Identify(t.Context())
	if err != nil {
		return nil, at, err
	}
	came := map[string]int{}
	for step, err := range c.Harvest(t.Context(), all, id, at) {
		if err != nil {
			return came, at, err
		}
		at = step.Next
		if step.Page != nil {
			for i := range step.Page.Records {
				came[step.Page.Records[i].Identifier]++
			}
		}
	}
	return came, at, nil
}

// whole says that all of n records came.
func whole(t *testing.T, came map[string]int, n int, err error) {
	t.Helper()
	if err != nil || len(came) != n {
		t.Errorf("%d records came, want %d; %v", len(came), n, err)
	}
}

func answer(code string) string {
	return `<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"><responseDate>2026-01-01T00:00:00Z</responseDate><error code="` + code + `"/></OAI-PMH>`
}

// onList is a fault of ListRecords.
func onList(do func(w http.ResponseWriter, r *http.Request) bool) func(int, http.ResponseWriter, *http.Request) bool {
	return func(_ int, w http.ResponseWriter, r *http.Request) bool {
		return r.URL.Query().Get("verb") == "ListRecords" && do(w, r)
	}
}

func TestHarvestGoesOnAtAPosition(t *testing.T) {
	p := &oaipmhtest.Repository{PageSize: 10}
	p.Fill(95, day)
	c := client(t, p, nil)
	id, err := c.Identify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	came := map[string]int{}
	var text []byte
	for runs := 0; ; runs++ {
		var at oaipmh.Position
		if text != nil {
			if err := json.Unmarshal(text, &at); err != nil {
				t.Fatal(err)
			}
		}
		if at.Done {
			if runs != 10 {
				t.Errorf("%d runs, want one for each of 10 answers", runs)
			}
			break
		}
		for step, err := range c.Harvest(t.Context(), all, id, at) {
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range step.Page.Records {
				came[r.Identifier]++
			}
			if text, err = json.Marshal(step.Next); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	whole(t, came, 95, nil)
	for id, n := range came {
		if n != 1 {
			t.Errorf("%s came %d times", id, n)
		}
	}
}

// Tokens that fail after a while, in all ways, do not keep any record from coming.
func TestTokensThatFail(t *testing.T) {
	count := 0
	faults := map[string]func(p *oaipmhtest.Repository) func(w http.ResponseWriter, r *http.Request) bool{
		"expired": func(*oaipmhtest.Repository) func(http.ResponseWriter, *http.Request) bool {
			return func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Query().Get("resumptionToken") == "" {
					count = 0
				}
				if count++; count > 3 {
					fmt.Fprint(w, answer("badResumptionToken"))
				}
				return count > 3
			}
		},
		"none works": func(*oaipmhtest.Repository) func(http.ResponseWriter, *http.Request) bool {
			return func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Query().Get("resumptionToken") == "" {
					return false
				}
				http.Error(w, "internal", http.StatusInternalServerError)
				return true
			}
		},
		"not found": func(*oaipmhtest.Repository) func(http.ResponseWriter, *http.Request) bool {
			return func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Query().Get("resumptionToken") == "" {
					return false
				}
				http.NotFound(w, r)
				return true
			}
		},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			p := &oaipmhtest.Repository{PageSize: 10}
			p.Fill(100, day)
			p.Fault = onList(fault(p))
			came, at, err := harvest(t, client(t, p, nil), oaipmh.Position{})
			whole(t, came, 100, err)
			if n := len(p.Requests()); n > 300 || at.Width == 0 {
				t.Errorf("%d requests, window %v", n, at.Width)
			}
		})
	}
}

// A server that always gives the same token, or the same records, or tokens in a circle,
// is found out, and its list read by datestamps.
func TestTokenLoops(t *testing.T) {
	for name, change := range map[string]func(n int, answer string) string{
		"the same token":   func(_ int, a string) string { return withToken(a, "same") },
		"a circle":         func(n int, a string) string { return withToken(a, fmt.Sprint("t", n%5)) },
		"the same records": func(n int, a string) string { return withToken(a, fmt.Sprint("t", n)) },
		"no records":       func(n int, _ string) string { return withToken(answer("x"), fmt.Sprint("t", n)) },
	} {
		t.Run(name, func(t *testing.T) {
			p := &oaipmhtest.Repository{PageSize: 10}
			p.Fill(40, day)
			n, first := 0, ""
			p.Change = func(r *http.Request, a string) string {
				if r.URL.Query().Get("verb") != "ListRecords" {
					return a
				}
				if r.URL.Query().Get("resumptionToken") == "" {
					if first = a; !strings.Contains(a, "<resumptionToken") {
						return a
					}
				}
				n++
				if name == "no records" {
					return change(n, "")
				}
				return change(n, first)
			}
			came, _, err := harvest(t, client(t, p, nil), oaipmh.Position{})
			whole(t, came, 40, err)
		})
	}
}

// withToken puts a token into an answer.
func withToken(a, token string) string {
	if a == "" || strings.Contains(a, "<error") {
		return `<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"><ListRecords><resumptionToken>` + token + `</resumptionToken></ListRecords></OAI-PMH>`
	}
	before, _, _ := strings.Cut(a, "<resumptionToken")
	before = strings.TrimSuffix(strings.TrimSuffix(before, "</ListRecords></OAI-PMH>\n"), "</ListRecords></OAI-PMH>")
	return before + "<resumptionToken>" + token + "</resumptionToken></ListRecords></OAI-PMH>"
}

// All records of one second, and tokens that fail: there is no way, and it ends.
func TestNoWayIsSaid(t *testing.T) {
	p := &oaipmhtest.Repository{PageSize: 10}
	p.Fill(30, day)
	for i := range p.Records {
		p.Records[i].Datestamp = day
	}
	p.Fault = onList(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("resumptionToken") == "" {
			return false
		}
		fmt.Fprint(w, answer("badResumptionToken"))
		return true
	})
	_, at, err := harvest(t, client(t, p, nil), oaipmh.Position{})
	if err == nil || !errors.Is(err, oaipmh.BadResumptionToken) || !strings.Contains(err.Error(), "are too many for one response") || at.Done {
		t.Errorf("got %v at %+v", err, at)
	}
}

func TestSecondsThatAreRefused(t *testing.T) {
	p := &oaipmhtest.Repository{PageSize: 10}
	p.Fill(30, day)
	p.Fault = onList(func(w http.ResponseWriter, r *http.Request) bool {
		if len(r.URL.Query().Get("from")) <= len(time.DateOnly) {
			return false
		}
		fmt.Fprint(w, answer("badArgument"))
		return true
	})
	var notes []string
	c := client(t, p, &notes)
	id, err := c.Identify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := all
	s.From = oaipmh.Stamp{Time: day.Add(time.Hour)}
	n := 0
	for step, err := range c.Harvest(t.Context(), s, id, oaipmh.Position{}) {
		if err != nil {
			t.Fatal(err)
		}
		if step.Page != nil {
			n += len(step.Page.Records)
		}
	}
	if n != 30 || len(notes) != 1 || !strings.Contains(notes[0], "requests now use days") {
		t.Errorf("%d records, notes %q", n, notes)
	}
}

func TestBusyServerIsWaitedFor(t *testing.T) {
	p := &oaipmhtest.Repository{PageSize: 10}
	p.Fill(30, day)
	waits := 0
	p.Fault = func(n int, w http.ResponseWriter, _ *http.Request) bool {
		if n%2 == 0 {
			waits++
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return false
	}
	came, _, err := harvest(t, client(t, p, nil), oaipmh.Position{})
	whole(t, came, 30, err)
	if waits < 3 {
		t.Errorf("asked to wait %d times", waits)
	}
}

// bytesOf serves bytes, compressed.
func bytesOf(r func() io.Reader) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.Copy(z, r())
		_ = z.Close()
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestHugeAnswersAreBounded(t *testing.T) {
	c := client(t, bytesOf(func() io.Reader { return io.LimitReader(zeros{}, 1<<30) }), nil)
	c.MaxAnswer = 1 << 20
	if _, err := c.Identify(t.Context()); !errors.Is(err, fetch.TooLarge) || !strings.Contains(err.Error(), "--max-document") {
		t.Errorf("a gigabyte of zeros in 1 MiB: %v", err)
	}
	head := `<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"><ListRecords>`
	huge := head + `<record><header><identifier>oai:example.org:1</identifier><datestamp>2024-05-01</datestamp></header><metadata><a>` +
		strings.Repeat("x", oaipmh.MaxRecord) + `</a></metadata></record><record><header><identifier>oai:example.org:2</identifier><datestamp>2024-05-01</datestamp></header><metadata><a/></metadata></record></ListRecords></OAI-PMH>`
	c = client(t, bytesOf(func() io.Reader { return strings.NewReader(huge) }), nil)
	var good, bad []string
	for r, err := range c.Records(t.Context(), all) {
		if err != nil {
			bad = append(bad, r.Identifier)
			continue
		}
		good = append(good, r.Identifier)
	}
	if fmt.Sprint(good, bad) != "[oai:example.org:2] [oai:example.org:1]" {
		t.Errorf("good %q, bad %q", good, bad)
	}
}

func TestAnswersThatAreNotWhatTheySay(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"no gzip": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			fmt.Fprint(w, answer("x"))
		},
		"another coding": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			fmt.Fprint(w, answer("x"))
		},
		"cut gzip": func(w http.ResponseWriter, _ *http.Request) {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			fmt.Fprint(z, answer("x"))
			_ = z.Close()
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(b.Bytes()[:b.Len()-9])
		},
	} {
		if _, err := client(t, h, nil).Identify(t.Context()); !errors.Is(err, oaipmh.ErrAnswer) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A redirect to an address that is not public is not followed, though the repository itself is there.
func TestRedirectToAPrivateAddress(t *testing.T) {
	asked := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer other.Close()
	c := client(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, http.StatusFound) }), nil)
	if _, err := c.Identify(t.Context()); !errors.Is(err, fetch.Refused) || asked {
		t.Errorf("got %v; the other was asked: %v", err, asked)
	}
}
