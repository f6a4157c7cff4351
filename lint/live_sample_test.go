package lint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"instep/fetch"
	"instep/resourcesync"
)

// listServer serves a list of resources, and remembers which were requested.
func listServer(t *testing.T, entries int) (*httptest.Server, func() []string) {
	t.Helper()
	var mu sync.Mutex
	var asked []string
	mux := http.NewServeMux()
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	mux.HandleFunc("/{id}", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.PathValue("id"))
	})
	mux.HandleFunc("/robots.txt", http.NotFound)
	mux.HandleFunc("/list.xml", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/xml")
		var b strings.Builder
		fmt.Fprintf(&b, "<urlset>%s", upAt)
		for i := range entries {
			fmt.Fprintf(&b, "<url><loc>%s/%03d</loc></url>", srv.URL, i)
		}
		b.WriteString("</urlset>")
		_, _ = w.Write(declareNamespaces([]byte(b.String())))
	})
	mux.HandleFunc("/.well-known/resourcesync", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(declareNamespaces([]byte(`<urlset><rs:md capability="description"/></urlset>`)))
	})
	return srv, func() []string {
		mu.Lock()
		defer mu.Unlock()
		now := asked
		asked = nil
		return now
	}
}

func TestSampleIsBoundedAndTheSameEachTime(t *testing.T) {
	srv, asked := listServer(t, 200)
	check := func(sample int, seed uint64) []string {
		l := newLive(t, srv, &Checker{})
		l.Sample, l.Seed = sample, seed
		checkURL(t, l, srv.URL+"/list.xml")
		return asked()
	}
	if got := check(0, 0); len(got) != DefaultSample {
		t.Errorf("%d resources were requested, want %d", len(got), DefaultSample)
	}
	first := check(5, 1)
	if len(first) != 5 || !slices.IsSorted(first) {
		t.Errorf("%q, want five, in the order of the list", first)
	}
	if again := check(5, 1); !slices.Equal(first, again) {
		t.Errorf("%q and then %q for the same seed", first, again)
	}
	if other := check(5, 2); slices.Equal(first, other) {
		t.Errorf("%q for another seed as well", other)
	}
	if got := check(-1, 0); len(got) != 200 || !slices.IsSorted(got) {
		t.Errorf("%d resources were requested, want each one once", len(got))
	}
}

// TestWhatWeRefuseIsNoFinding: that a URI may not be connected to is no fault of a server
// that nobody asked.
func TestWhatWeRefuseIsNoFinding(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/list.xml" {
			w.Header().Set("Content-Type", "application/xml")
			_, _ = w.Write(declareNamespaces([]byte(`<urlset>` + upAt + `<url><loc>http://127.0.0.1:1/vase</loc></url></urlset>`)))
			return
		}
		_, _ = w.Write(declareNamespaces([]byte(`<urlset><rs:md capability="description"/></urlset>`)))
	}))
	defer srv.Close()
	var found, unchecked []string
	l := newLive(t, srv, &Checker{Report: func(f Finding) { found = append(found, f.Rule) }})
	l.Unchecked = func(uri string, err error) {
		if !errors.Is(err, fetch.Refused) {
			t.Errorf("%v, want that it was refused", err)
		}
		unchecked = append(unchecked, uri)
	}
	checkURL(t, l, srv.URL+"/list.xml")
	if !slices.Equal(unchecked, []string{"http://127.0.0.1:1/vase"}) || slices.Contains(found, "quirk-59-http-errors") {
		t.Errorf("not checked: %q, found: %q; want the one and no finding about errors", unchecked, found)
	}
}

// TestTheEndOfTheContextEndsLiveChecks: while a resource is requested, and before.
func TestTheEndOfTheContextEndsLiveChecks(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	defer srv.Close()
	base := srv.URL
	l := newLive(t, srv, &Checker{})
	text := string(declareNamespaces([]byte(`<urlset>` + upAt + `<url><loc>` + base + `/vase</loc></url></urlset>`)))
	open := func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
	d, err := l.Checker.Document(context.Background(), base+"/list.xml", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	a := Answer{URL: base + "/list.xml", Header: http.Header{}}
	for _, when := range []string{"while it is requested", "before"} {
		if err := l.Document(ctx, &d, a, open); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, want %v", when, err, context.Canceled)
		}
		if err := l.Source(ctx, a, d); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: Source: got %v, want %v", when, err, context.Canceled)
		}
	}
}

// TestSourceIsLookedForWhereItsServerFails: a server in trouble does not show that there is
// no Source Description.
func TestSourceIsLookedForWhereItsServerFails(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer srv.Close()
	var found []string
	l := newLive(t, srv, &Checker{Report: func(f Finding) { found = append(found, f.Rule) }})
	if err := l.Source(context.Background(), Answer{URL: srv.URL + "/list.xml"}, Document{URI: srv.URL + "/list.xml"}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"source-description-well-known"}; !slices.Equal(found, want) {
		t.Errorf("got %q, want %q: whether there is one, nobody knows", found, want)
	}
}

// TestMissingResourceWithoutChangeListBlamesNobody: it may have been deleted since.
func TestMissingResourceWithoutChangeListBlamesNobody(t *testing.T) {
	srv, _ := listServer(t, 0)
	var found []string
	l := newLive(t, srv, &Checker{Report: func(f Finding) {
		if f.Rule == "quirk-59-http-errors" {
			found = append(found, f.Message)
		}
	}})
	r := l.run(srv.URL+"/list.xml", "", "resourcelist")
	if err := r.checkListed(t.Context(), &entry{Entry: resourcesync.Entry{Loc: srv.URL + "/is/not/there"}}); err != nil {
		t.Fatal(err)
	}
	if err := r.reportMissing(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 || !strings.HasSuffix(found[0], "404 Not Found; if it was deleted after the list was made, the next list shows it") {
		t.Errorf("got %q", found)
	}
}

// TestMissingResourceIsLookedUp checks what is said of a missing resource, and that a Source with
// many Change Lists does not get many requests.
func TestMissingResourceIsLookedUp(t *testing.T) {
	const (
		list    = `<urlset><rs:ln rel="up" href="/caps.xml"/><rs:md capability="resourcelist" at="2024-05-01T00:00:00Z"/><url><loc>{{base}}/vase</loc></url></urlset>`
		changes = `<url><loc>{{base}}/changes.xml?%d</loc><rs:md capability="changelist"/></url>`
		caps    = `<urlset><rs:ln rel="up" href="/.well-known/resourcesync"/><rs:md capability="capabilitylist"/>%s</urlset>`
		change  = `<url><loc>{{base}}/vase</loc><rs:md change="%s" datetime="%s"/></url>`
	)
	one := fmt.Sprintf(caps, fmt.Sprintf(changes, 1))
	deleted := fmt.Sprintf(change, "deleted", "2024-05-02T00:00:00Z")
	for _, tt := range []struct{ name, list, caps, changes, says string }{
		{"a Capability List names a missing list", one, "", "", "404 Not Found"},
		{"deleted before the list", list, one, fmt.Sprintf(change, "deleted", "2024-04-30T00:00:00Z"), "404 Not Found, although it still exists according to the lists of the Source"},
		{"created again", list, one, deleted + fmt.Sprintf(change, "created", "2024-05-03T00:00:00Z"), "404 Not Found, although it still exists according to the lists of the Source"},
		{"without Change Lists", list, fmt.Sprintf(caps, ""), "", "404 Not Found; if it was deleted after the list was made, the next list shows it"},
		{"many Change Lists", list, fmt.Sprintf(caps, strings.Repeat(fmt.Sprintf(changes, 2), 500)), "", "404 Not Found; if it was deleted after the list was made, the next list shows it"},
		{"deleted", list, one, deleted, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pages := map[string]string{"/list.xml": tt.list, "/caps.xml": tt.caps}
			if tt.changes != "" || tt.name == "many Change Lists" {
				pages["/changes.xml"] = `<urlset><rs:ln rel="up" href="/caps.xml"/><rs:md capability="changelist" from="2024-04-01T00:00:00Z"/>` + tt.changes + `</urlset>`
			}
			says, requests := messages(t, "quirk-59-http-errors", liveNow, pages)
			if !strings.HasSuffix(says, tt.says) || (says == "") != (tt.says == "") {
				t.Errorf("got %q, want %q", says, tt.says)
			}
			if requests > 150 {
				t.Errorf("%d requests", requests)
			}
		})
	}
}

// messages checks the list of a site at a time, and returns the messages about a rule and the
// number of requests. The vase of the site was changed at noon of 2 May 2024.
func messages(t *testing.T, rule string, now time.Time, pages map[string]string) (says string, requests int) {
	t.Helper()
	mux := http.NewServeMux()
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		requests++
		text, ok := pages[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/xml")
		if r.URL.Path == "/vase" {
			w.Header().Set("Last-Modified", "Thu, 02 May 2024 12:00:00 GMT")
		}
		_, _ = w.Write(declareNamespaces([]byte(strings.ReplaceAll(text, "{{base}}", srv.URL))))
	})
	l := newLive(t, srv, &Checker{Report: func(f Finding) {
		if f.Rule == rule {
			says += f.Message
		}
	}})
	l.Now = func() time.Time { return now }
	checkURL(t, l, srv.URL+"/list.xml")
	return says, requests
}

// TestChangedResourceIsLookedUp checks that a resource with other bytes than listed, which was
// changed after the list was made, is a finding unless a Change List names the change.
func TestChangedResourceIsLookedUp(t *testing.T) {
	const (
		list    = `<urlset><rs:ln rel="up" href="/caps.xml"/><rs:md capability="resourcelist" at="2024-05-01T00:00:00Z"/><url><loc>{{base}}/vase</loc><rs:md %s/></url></urlset>`
		changed = `<urlset><rs:ln rel="up" href="/caps.xml"/><rs:md capability="changelist" from="2024-05-01T00:00:00Z"/>` +
			`<url><loc>{{base}}/vase</loc><rs:md change="updated" datetime="%s" length="9"/></url></urlset>`
		with    = `<urlset><rs:ln rel="up" href="/.well-known/resourcesync"/><rs:md capability="capabilitylist"/><url><loc>{{base}}/changes.xml</loc><rs:md capability="changelist"/></url></urlset>`
		without = `<urlset><rs:ln rel="up" href="/.well-known/resourcesync"/><rs:md capability="capabilitylist"/></urlset>`

		unnamed = "has other bytes than listed, because it was changed later, at 2024-05-02T12:00:00Z; no Change List names the change: publish again"
		unknown = "has other bytes than listed, because it was changed later, at 2024-05-02T12:00:00Z; publish again unless another list has the change"
	)
	other, same := fmt.Sprintf(list, `length="9"`), fmt.Sprintf(list, `length="7"`)
	before, after := fmt.Sprintf(changed, "2024-04-30T00:00:00Z"), fmt.Sprintf(changed, "2024-05-02T12:00:00Z")
	noon := time.Date(2024, 5, 2, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name, list, caps, changes string
		now                       time.Time
		says                      string
	}{
		{"no change is listed", other, with, before, liveNow, unnamed},
		{"the change is listed", other, with, after, liveNow, ""},
		{"on that day", other, with, fmt.Sprintf(changed, "2024-05-01"), liveNow, ""},
		{"the same bytes", same, with, before, liveNow, ""},
		{"nothing to compare", fmt.Sprintf(list, `type="text/plain"`), with, before, liveNow, ""},
		{"without Change Lists", other, without, "", liveNow, unknown},
		{"without Change Lists, just now", other, without, "", noon.Add(20 * time.Second), ""},
		{"the last change of a Change List", after, with, after, liveNow, ""},
		{"an older change of a Change List", fmt.Sprintf(changed, "2024-05-02T11:00:00Z"), with, fmt.Sprintf(changed, "2024-05-02T11:00:00Z"), liveNow, unnamed},
		{"a change that a later Change List follows", fmt.Sprintf(changed, "2024-05-02T11:00:00Z"), with, after, liveNow, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pages := map[string]string{"/list.xml": tt.list, "/caps.xml": tt.caps, "/vase": "A vase."}
			if tt.changes != "" {
				pages["/changes.xml"] = tt.changes
			}
			says, _ := messages(t, "quirk-50-hash-of-other-bytes", tt.now, pages)
			if !strings.HasSuffix(says, tt.says) || (says == "") != (tt.says == "") {
				t.Errorf("got %q, want %q", says, tt.says)
			}
		})
	}
}
