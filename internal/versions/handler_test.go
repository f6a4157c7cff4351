package versions_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/internal/memento"
	"instep/internal/versions"
	"instep/internal/weblink"
)

const base = "https://example.org/museum/"

func newHandler(t *testing.T, s *versions.Store) *versions.Handler {
	return &versions.Handler{
		Store: s, Prefix: "/museum/", URI: func(path string) string { return base + strings.ReplaceAll(path, " ", "%20") },
		Next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "missing.txt") {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/octet-stream")
			_, _ = w.Write([]byte("from the site"))
		}),
		Report: func(err error) { t.Errorf("reported: %v", err) },
	}
}

// ask requests a path below the base URL.
func ask(t *testing.T, h http.Handler, path string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/museum/"+path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// TestTimeGateGivesTheVersionOfEachInstant asks for 1,000 random instants of a history with
// deletions, and compares with a model.
func TestTimeGateGivesTheVersionOfEachInstant(t *testing.T) {
	s, _ := openStore(t)
	h := newHandler(t, s)
	rnd := rand.New(rand.NewPCG(3, 4))
	var model []versions.Version
	at := start
	for i := range 300 {
		at = at.Add(time.Duration(1+rnd.IntN(90_000_000)) * time.Microsecond)
		text := fmt.Sprint(i)
		if rnd.IntN(6) == 0 && i > 0 && !model[len(model)-1].Deleted {
			text = ""
		}
		st := state(t, "a/b.txt", text, at)
		keep(t, s, st)
		model = append(model, st.Version)
	}
	for range 1000 {
		instant := start.Add(-time.Hour).Add(time.Duration(rnd.Int64N(int64(at.Sub(start) + 2*time.Hour)))).Truncate(time.Second)
		want := model[0]
		for _, v := range model {
			if !v.Since.Truncate(time.Second).After(instant) {
				want = v
			}
		}
		answer := ask(t, h, "resourcesync/timegate/a/b.txt", "Accept-Datetime", memento.FormatDatetime(instant))
		location, status := base+want.Place(), http.StatusFound
		if want.Deleted {
			location, status = "", http.StatusNotFound
		}
		if got := answer.Header.Get("Location"); answer.StatusCode != status || got != location {
			t.Fatalf("at %s: %d, %q, want %d, %q", instant, answer.StatusCode, got, status, location)
		}
	}
}

// TestTheTimeMapHasEveryVersion parses a TimeMap as application/link-format.
func TestTheTimeMapHasEveryVersion(t *testing.T) {
	s, _ := openStore(t)
	h := newHandler(t, s)
	var want []memento.Memento
	for i := range 200 {
		text := fmt.Sprint(i)
		if i%50 == 49 {
			text = ""
		}
		st := state(t, "a b,c.txt", text, start.Add(time.Duration(i)*1500*time.Millisecond))
		keep(t, s, st)
		if !st.Deleted {
			want = append(want, memento.Memento{URI: strings.ReplaceAll(base+st.Place(), " ", "%20"), Datetime: st.Since.Truncate(time.Second)})
		}
	}
	answer := ask(t, h, "resourcesync/timemap/a%20b,c.txt")
	if got := answer.Header.Get("Content-Type"); got != "application/link-format" {
		t.Errorf("Content-Type is %q", got)
	}
	m, got, err := memento.ReadTimeMap(answer.Body, base+"resourcesync/timemap/a%20b,c.txt")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Mementos (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(memento.TimeMap{Original: base + "a%20b,c.txt", Self: base + "resourcesync/timemap/a%20b,c.txt", TimeGate: base + "resourcesync/timegate/a%20b,c.txt"}, m); diff != "" {
		t.Errorf("the TimeMap (-want +got):\n%s", diff)
	}
}

// TestTimeGateAnswers has the other rules of RFC 7089 §4.5.
func TestTimeGateAnswers(t *testing.T) {
	s, _ := openStore(t)
	h := newHandler(t, s)
	first, second, third := state(t, "x.txt", "1", start), state(t, "x.txt", "2", start.Add(time.Hour)), state(t, "x.txt", "3", start.Add(2*time.Hour))
	keep(t, s, first, second, third, state(t, "gone.txt", "1", start), state(t, "gone.txt", "", start.Add(time.Hour)))
	for name, test := range map[string]struct {
		path, datetime string
		status         int
		location       string
	}{
		"without a datetime the last":             {"x.txt", "", 302, third.Place()},
		"before the first":                        {"x.txt", "Thu, 01 Jan 1970 00:00:00 GMT", 302, first.Place()},
		"after the last":                          {"x.txt", "Fri, 01 Jan 2038 00:00:00 GMT", 302, third.Place()},
		"exactly":                                 {"x.txt", "Thu, 01 Jan 2026 01:00:00 GMT", 302, second.Place()},
		"a second before":                         {"x.txt", "Thu, 01 Jan 2026 00:59:59 GMT", 302, first.Place()},
		"no datetime":                             {"x.txt", "yesterday", 400, ""},
		"another form":                            {"x.txt", "2026-01-01T01:00:00Z", 400, ""},
		"the whole URI":                           {"https://example.org/museum/x.txt", "", 302, third.Place()},
		"the whole URI, as a proxy sends it":      {"https:/example.org/museum/x.txt", "", 302, third.Place()},
		"the URI of another host":                 {"https://other.example.org/museum/x.txt", "", 404, ""},
		"nothing is kept":                         {"y.txt", "", 404, ""},
		"it was deleted: then the last there was": {"gone.txt", "", 302, "resourcesync/versions/20260101000000.000000/gone.txt"},
		"when it was gone":                        {"gone.txt", "Thu, 01 Jan 2026 03:00:00 GMT", 404, ""},
	} {
		var header []string
		if test.datetime != "" {
			header = []string{"Accept-Datetime", test.datetime}
		}
		answer := ask(t, h, "resourcesync/timegate/"+test.path, header...)
		location := test.location
		if location != "" {
			location = base + location
		}
		if got := answer.Header.Get("Location"); answer.StatusCode != test.status || got != location {
			t.Errorf("%s: %d, %q, want %d, %q", name, answer.StatusCode, got, test.status, location)
		}
		if answer.Header.Get("Vary") != "accept-datetime" || answer.Header.Get("Memento-Datetime") != "" {
			t.Errorf("%s: headers %v", name, answer.Header)
		}
		links := weblink.Header(answer.Header["Link"])
		if !slices.ContainsFunc(links, func(l weblink.Link) bool { return l.Has("original") }) {
			t.Errorf("%s: no link to the original: %v", name, answer.Header["Link"])
		}
	}
	want := []string{
		`<` + base + `x.txt>; rel="original"`,
		`<` + base + `resourcesync/timegate/x.txt>; rel="timegate"`,
		`<` + base + `resourcesync/timemap/x.txt>; rel="timemap"; type="application/link-format"`,
		`<` + base + first.Place() + `>; rel="prev first memento"; datetime="Thu, 01 Jan 2026 00:00:00 GMT"`,
		`<` + base + second.Place() + `>; rel="memento"; datetime="Thu, 01 Jan 2026 01:00:00 GMT"`,
		`<` + base + third.Place() + `>; rel="next last memento"; datetime="Thu, 01 Jan 2026 02:00:00 GMT"`,
	}
	answer := ask(t, h, "resourcesync/timegate/x.txt", "Accept-Datetime", "Thu, 01 Jan 2026 01:30:00 GMT")
	if diff := cmp.Diff(want, answer.Header["Link"]); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
}

// TestAVersionSaysWhatItIs: the answer with the file of a version has its datetime and type;
// without the file, and elsewhere, nothing is added.
func TestAVersionSaysWhatItIs(t *testing.T) {
	s, _ := openStore(t)
	st := state(t, "x.txt", "1", start.Add(1500*time.Millisecond))
	keep(t, s, st)
	for _, store := range []*versions.Store{s, nil} {
		h := newHandler(t, s)
		h.Store = store
		answer := ask(t, h, st.Place())
		wantType, links := "text/plain", 3
		if store == nil {
			wantType, links = "application/octet-stream", 1
		}
		if got := answer.Header; got.Get("Memento-Datetime") != "Thu, 01 Jan 2026 00:00:01 GMT" || got.Get("Content-Type") != wantType || len(got["Link"]) != links {
			t.Errorf("headers of a version: %v", got)
		}
		for _, other := range []string{"x.txt", "resourcesync/versions/20260101000001.500000/missing.txt", "resourcesync/versions/x.txt"} {
			if got := ask(t, h, other).Header; got.Get("Memento-Datetime") != "" || len(got["Link"]) > 0 {
				t.Errorf("%s has the headers of a version: %v", other, got)
			}
		}
	}
}
