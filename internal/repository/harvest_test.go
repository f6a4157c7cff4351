package repository

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"instep/fetch"
	"instep/internal/oaipmh"
	"instep/internal/oaipmh/oaipmhtest"
)

var firstDay = time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC)

// harvest harvests a repository into a store, and returns the metadata that is pending,
// by identifier.
func harvest(t *testing.T, p *oaipmhtest.Repository, st *Store) (pending map[string]string, err error) {
	t.Helper()
	s := httptest.NewServer(p)
	defer s.Close()
	f, err := fetch.New(fetch.Options{MaxRetries: -1})
	if err != nil {
		t.Fatal(err)
	}
	h := Harvest{Client: &oaipmh.Client{Fetch: f, BaseURL: s.URL}, Store: st, Prefix: "oai_dc", Now: func() time.Time { return p.Now }}
	_, err = h.Run(t.Context())
	pending = map[string]string{}
	for some, err := range st.recordsWhere(t.Context(), "NOT deleted", batch) {
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range some {
			pending[k.identifier] = string(k.pending)
		}
	}
	return pending, err
}

// A record that was listed on the first day of a harvest, and changed on the second,
// comes with the next harvest, though this one goes on for days and sees later datestamps.
func TestChangeDuringALongHarvestIsNotLost(t *testing.T) {
	st, err := Open(t.Context(), t.TempDir(), Key{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	p := &oaipmhtest.Repository{PageSize: 10, Now: firstDay.Add(24 * time.Hour), Unsorted: true}
	p.Fill(30, firstDay)
	p.Fault = func(_ int, w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("resumptionToken") == "" {
			return false
		}
		http.Error(w, "later", http.StatusServiceUnavailable)
		return true
	}
	if _, err := harvest(t, p, st); err == nil {
		t.Fatal("the harvest was not interrupted")
	}
	p.Fault, p.Now = nil, firstDay.Add(8*24*time.Hour)
	p.Records[1].Title, p.Records[1].Datestamp = "Changed on the third day", firstDay.Add(2*24*time.Hour)
	for i := 20; i < 30; i++ {
		p.Records[i].Datestamp = firstDay.Add(7 * 24 * time.Hour)
	}
	p.Changed()
	if got, err := harvest(t, p, st); err != nil || strings.Contains(got["oai:example.org:2"], "Changed") {
		t.Fatalf("%v; the record that changed came with the harvest that had passed it: %s", err, got["oai:example.org:2"])
	}
	got, err := harvest(t, p, st)
	if err != nil || len(got) != 30 || !strings.Contains(got["oai:example.org:2"], "Changed on the third day") {
		t.Errorf("%d records, %v; the record that changed: %s", len(got), err, got["oai:example.org:2"])
	}
}

// earliestDatestamp is often wrong: no record is left out for it.
func TestEarliestDatestampThatIsWrong(t *testing.T) {
	for _, failing := range []bool{false, true} {
		t.Run(fmt.Sprint("tokens fail: ", failing), func(t *testing.T) {
			st, err := Open(t.Context(), t.TempDir(), Key{})
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			p := &oaipmhtest.Repository{PageSize: 10, Now: firstDay.Add(24 * time.Hour)}
			p.Fill(30, firstDay)
			p.Change = func(_ *http.Request, a string) string {
				return strings.Replace(a, "<earliestDatestamp>2020-01-01T00:00:00Z", "<earliestDatestamp>2024-05-01T00:00:15Z", 1)
			}
			if failing {
				p.Fault = func(_ int, w http.ResponseWriter, r *http.Request) bool {
					if r.URL.Query().Get("resumptionToken") == "" {
						return false
					}
					http.NotFound(w, r)
					return true
				}
			}
			got, err := harvest(t, p, st)
			if err != nil || len(got) != 30 {
				t.Errorf("%d records, %v", len(got), err)
			}
		})
	}
}

// A list of all records by offset leaves one out when another is deleted while it is
// read: that one is asked for, and stays. What is really gone is deleted.
func TestRecordThatAListSkippedStays(t *testing.T) {
	st, err := Open(t.Context(), t.TempDir(), Key{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	p := &oaipmhtest.Repository{PageSize: 10, Now: firstDay.Add(24 * time.Hour), Deleted: "no"}
	p.Fill(30, firstDay)
	if got, err := harvest(t, p, st); err != nil || len(got) != 30 {
		t.Fatalf("%d records, %v", len(got), err)
	}
	p.Now = p.Now.Add(60 * 24 * time.Hour) // all is listed again
	p.Change = func(r *http.Request, a string) string {
		if r.URL.Query().Get("verb") == "ListRecords" && r.URL.Query().Get("resumptionToken") == "" {
			p.Records = p.Records[1:] // behind the first answer
		}
		return strings.ReplaceAll(a, "completeListSize", "x")
	}
	got, err := harvest(t, p, st)
	if err != nil || len(got) != 30 || got["oai:example.org:11"] == "" {
		t.Errorf("while one is deleted: %d records, %v", len(got), err)
	}
	p.Now = p.Now.Add(60 * 24 * time.Hour)
	p.Change = nil
	if got, err = harvest(t, p, st); err != nil || len(got) != 29 || got["oai:example.org:1"] != "" {
		t.Errorf("after one was deleted: %d records, %v", len(got), err)
	}
}
