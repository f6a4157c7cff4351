package oaipmh_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"instep/internal/oaipmh"
)

// shelf is a repository of n records in memory, of which those in gone are deleted.
type shelf struct {
	n    int
	gone map[int]bool
	err  error
}

func (s *shelf) Identity(context.Context) (oaipmh.Identity, error) {
	return oaipmh.Identity{Name: "A & B", Emails: []string{"a@example.org"}, Deleted: oaipmh.DeletedTransient, Earliest: oaipmh.Stamp{Time: day}}, s.err
}

func (s *shelf) Formats(context.Context, string) ([]oaipmh.Format, error) {
	return []oaipmh.Format{{Prefix: "oai_dc", Schema: "http://example.org/s", Namespace: "http://example.org/n"}}, nil
}

func (s *shelf) Sets(context.Context) ([]oaipmh.Set, error) {
	return []oaipmh.Set{{Spec: "a:b", Name: "<A>"}}, nil
}

func (s *shelf) record(i int) oaipmh.Record {
	r := oaipmh.Record{Header: oaipmh.Header{Identifier: fmt.Sprintf("oai:example.org:%d?a&b", i), Datestamp: oaipmh.Stamp{Time: day.Add(time.Duration(i) * time.Second)},
		Sets: []string{"a:b"}, Deleted: s.gone[i]}}
	if !r.Deleted {
		r.Metadata = fmt.Appendf(nil, "<dc>%d</dc>", i)
	}
	return r
}

func (s *shelf) List(_ context.Context, sel oaipmh.Selection, after string, _ bool) iter.Seq2[oaipmh.Item, error] {
	return func(yield func(oaipmh.Item, error) bool) {
		from, err := strconv.Atoi(after)
		if err != nil && after != "" {
			yield(oaipmh.Item{}, &oaipmh.Error{Code: oaipmh.BadResumptionToken})
			return
		}
		for i := from + 1; i <= s.n; i++ {
			r := s.record(i)
			if !sel.From.IsZero() && r.Datestamp.Time.Before(sel.From.Time) || !sel.Until.IsZero() && r.Datestamp.Time.After(sel.Until.Time) {
				continue
			}
			if !yield(oaipmh.Item{Record: r, Place: fmt.Sprint(i)}, s.err) {
				return
			}
		}
	}
}

func (s *shelf) Record(_ context.Context, identifier, _ string) (oaipmh.Record, error) {
	for i := 1; i <= s.n; i++ {
		if r := s.record(i); r.Identifier == identifier {
			return r, nil
		}
	}
	return oaipmh.Record{}, &oaipmh.Error{Code: oaipmh.IDDoesNotExist, Msg: "none"}
}

func handler(s *shelf) *oaipmh.Handler {
	return &oaipmh.Handler{Repository: s, BaseURL: "http://example.org/oai", Now: func() time.Time { return day.Add(time.Hour) }, PageSize: 7}
}

// What the Handler answers our client reads without a note: all records, in pages whose
// tokens are good whenever they are used, while records come and go.
func TestClientReadsHandler(t *testing.T) {
	s := &shelf{n: 50, gone: map[int]bool{3: true}}
	var notes []string
	c := client(t, handler(s), &notes)
	c.BaseURL = strings.TrimSuffix(c.BaseURL, "?page=oai")
	n := 0
	for r, err := range c.Records(t.Context(), all) {
		if n++; err != nil || r.Identifier != fmt.Sprintf("oai:example.org:%d?a&b", n) || r.Deleted != (n == 3) || !r.Deleted && string(r.Metadata) != fmt.Sprintf(`<dc xmlns="%s">%d</dc>`, oaipmh.Namespace, n) {
			t.Fatalf("record %d: %+v, %v", n, r, err)
		}
		if n == 10 {
			s.n = 60
		}
	}
	if n != 60 || len(notes) > 0 {
		t.Errorf("%d records, notes %q", n, notes)
	}
	from := oaipmh.Selection{Prefix: "oai_dc", From: oaipmh.Stamp{Time: day.Add(20 * time.Second)}, Until: oaipmh.Stamp{Time: day.Add(29 * time.Second)}}
	n = 0
	for _, err := range c.Headers(t.Context(), from) {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if n != 10 {
		t.Errorf("%d records of ten seconds", n)
	}
	id, err := c.Identify(t.Context())
	if err != nil || id.Name != "A & B" {
		t.Errorf("%+v, %v", id, err)
	}
	w := httptest.NewRecorder()
	handler(s).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/oai?verb=ListSets", nil))
	if want := "<set><setSpec>a:b</setSpec><setName>&lt;A&gt;</setName></set>"; !strings.Contains(w.Body.String(), want) {
		t.Errorf("ListSets: got %s, want %s", w.Body, want)
	}
}

func TestHandlerRefuses(t *testing.T) {
	h := handler(&shelf{n: 20})
	for query, want := range map[string]oaipmh.Code{
		"":                            oaipmh.BadVerb,
		"verb=x":                      oaipmh.BadVerb,
		"verb=Identify&verb=Identify": oaipmh.BadVerb,
		"verb=Identify&set=a":         oaipmh.BadArgument,
		"verb=ListRecords":            oaipmh.BadArgument,
		"verb=ListRecords&metadataPrefix=oai_dc&metadataPrefix=oai_dc":                      oaipmh.BadArgument,
		"verb=ListRecords&metadataPrefix=oai_dc&from=1.1.2024":                              oaipmh.BadArgument,
		"verb=ListRecords&metadataPrefix=oai_dc&from=2024-05-01&until=2024-05-01T00:00:00Z": oaipmh.BadArgument,
		"verb=ListRecords&metadataPrefix=oai_dc&from=2024-05-02&until=2024-05-01":           oaipmh.BadArgument,
		"verb=ListRecords&metadataPrefix=oai_dc&resumptionToken=x":                          oaipmh.BadArgument,
		"verb=ListRecords&resumptionToken=x":                                                oaipmh.BadResumptionToken,
		"verb=ListRecords&resumptionToken=eyJwIjoiYSIsImEiOiJ4IiwiYyI6MX0":                  oaipmh.BadResumptionToken,
		"verb=ListRecords&metadataPrefix=marc21":                                            oaipmh.CannotDisseminateFormat,
		"verb=ListRecords&metadataPrefix=oai_dc&from=2030-01-01":                            oaipmh.NoRecordsMatch,
		"verb=ListRecords&metadataPrefix=oai_dc&set=none":                                   oaipmh.NoRecordsMatch,
		"verb=GetRecord&metadataPrefix=oai_dc&identifier=none":                              oaipmh.IDDoesNotExist,
		"verb=GetRecord&metadataPrefix=oai_dc&identifier=%00":                               oaipmh.BadArgument,
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/oai?"+query, nil))
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `<error code="`+string(want)+`"`) {
			t.Errorf("%s: %d, want %s:\n%s", query, w.Code, want, w.Body)
		}
	}
	post := httptest.NewRequest(http.MethodPost, "/oai", strings.NewReader("verb=Identify"))
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, post); !strings.Contains(w.Body.String(), "<Identify>") {
		t.Errorf("by POST: %s", w.Body)
	}
	w = httptest.NewRecorder()
	if h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/oai", strings.NewReader(strings.Repeat("x", 100_000)))); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("a long POST: %d", w.Code)
	}
	w = httptest.NewRecorder()
	if h.ServeHTTP(w, httptest.NewRequest(http.MethodDelete, "/oai", nil)); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("DELETE: %d", w.Code)
	}
	failing, reported := handler(&shelf{n: 1, err: io.ErrUnexpectedEOF}), error(nil)
	failing.Report = func(err error) { reported = err }
	w = httptest.NewRecorder()
	if failing.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/oai?verb=Identify", nil)); w.Code != http.StatusInternalServerError || reported == nil {
		t.Errorf("a failure of ours: %d, reported %v", w.Code, reported)
	}
}

// FuzzHandler: whatever is asked for, the answer is one that our client can read.
func FuzzHandler(f *testing.F) {
	for _, q := range []string{
		"verb=Identify", "verb=ListRecords&metadataPrefix=oai_dc", "verb=ListRecords&resumptionToken=eyJwIjoib2FpX2RjIiwiYSI6IjciLCJjIjo3fQ",
		"verb=GetRecord&identifier=%ff&metadataPrefix=a", "verb=ListSets&x=%3C%00", "verb=%E2%9C%93",
	} {
		f.Add(q)
	}
	h := handler(&shelf{n: 20})
	f.Fuzz(func(t *testing.T, query string) {
		r := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/oai", RawQuery: query}, Header: http.Header{}}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			t.Fatalf("%q: %d", query, w.Code)
		}
		oaipmh.CheckAnswer(t, w.Body.Bytes())
	})
}
