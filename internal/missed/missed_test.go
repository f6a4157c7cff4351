package missed_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/blob"
	"instep/fetch"
	"instep/harvest"
	"instep/internal/memento"
	"instep/internal/missed"
	"instep/internal/versions"
	"instep/resourcesync"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// world is a Source that keeps versions, and a mirror's store of them.
type world struct {
	t        *testing.T
	server   *httptest.Server
	mux      map[string]http.HandlerFunc // by path
	requests atomic.Int64
	store    *versions.Store
	log      *missed.Log
	held     string // text of the present state in the mirror
	allow    []string
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, mux: map[string]http.HandlerFunc{}}
	w.server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.requests.Add(1)
		if h := w.mux[r.URL.Path]; h != nil {
			h(rw, r)
			return
		}
		http.NotFound(rw, r)
	}))
	t.Cleanup(w.server.Close)
	var err error
	if w.store, err = versions.Open(t.Context(), t.TempDir(), blob.NewMem()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.store.Close() })
	w.log = missed.NewLog(t.TempDir())
	t.Cleanup(func() { _ = w.log.Close() })
	return w
}

// at makes the server answer a path with a text.
func (w *world) at(path, text string) string {
	w.mux[path] = func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte(text)) }
	return w.server.URL + path
}

func digestsOf(t *testing.T, text string) resourcesync.Digests {
	t.Helper()
	sum := sha256.Sum256([]byte(text))
	d, err := resourcesync.NewDigest(resourcesync.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return resourcesync.Digests{d}
}

// change is that of a resource to a text at a moment; "" is its deletion.
func (w *world) change(uri, text string, at time.Time, links ...resourcesync.Link) *harvest.ChangeEntry {
	w.t.Helper()
	c := &harvest.ChangeEntry{Resource: harvest.Resource{URI: uri, Changed: at}, Change: resourcesync.Updated, From: at, To: at}
	if text == "" {
		c.Change = resourcesync.Deleted
		return c
	}
	c.Digests, c.Length, c.Type = digestsOf(w.t, text), resourcesync.Bytes(int64(len(text))), "text/plain"
	said, err := (&resourcesync.Remainder{Links: links}).Text()
	if err != nil {
		w.t.Fatal(err)
	}
	c.Remainder = harvest.NewRemainder(said)
	return c
}

func (w *world) bringer() *missed.Bringer {
	w.t.Helper()
	u, err := url.Parse(w.server.URL)
	if err != nil {
		w.t.Fatal(err)
	}
	client, err := fetch.New(fetch.Options{AllowPrivate: []string{u.Host}, MaxRetries: -1, AllowOrigins: w.allow})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(client.Close)
	return &missed.Bringer{Client: client, Store: w.store, AllowOrigins: w.allow,
		Held: func(_ context.Context, _ string, sum resourcesync.Digest) (bool, error) {
			return w.held != "" && sum == digestsOf(w.t, w.held)[0], nil
		}}
}

// bring does what a run does, with the present state fetched in between.
func (w *world) bring() missed.Report {
	w.t.Helper()
	b, rep := w.bringer(), missed.Report{}
	if err := b.Before(w.t.Context(), w.log, &rep); err != nil {
		w.t.Fatal(err)
	}
	if err := b.After(w.t.Context(), w.log, &rep); err != nil {
		w.t.Fatal(err)
	}
	return rep
}

// kept are the lengths of the versions of a resource, -1 for a deletion, in their order.
func (w *world) kept(uri string) (lengths []int64) {
	w.t.Helper()
	for v, err := range w.store.List(w.t.Context(), uri) {
		if err != nil {
			w.t.Fatal(err)
		}
		if v.Deleted {
			v.Length = -1
		}
		lengths = append(lengths, v.Length)
	}
	return lengths
}

func link(rel, href string) resourcesync.Link { return resourcesync.Link{Rel: rel, Href: href} }

// TestEveryMissedStateIsBrought: after 50 changes of one resource and 50 of another, all but the
// present states, which the mirror fetches by itself, are fetched once each.
func TestEveryMissedStateIsBrought(t *testing.T) {
	w := newWorld(t)
	w.held = strings.Repeat("x", 50)
	var want []int64
	for i := 1; i <= 50; i++ {
		for _, name := range []string{"/one", "/one/two"} {
			text := strings.Repeat("x", i)
			version := w.at(fmt.Sprintf("/versions/%d%s", i, name), text)
			w.log.Add(w.change(w.server.URL+name, text, start.Add(time.Duration(i)*time.Minute), link("memento", version)))
		}
		if i < 50 {
			want = append(want, int64(i))
		}
	}
	rep := w.bring()
	if rep.Fetched != 98 || rep.Failed != 0 {
		t.Errorf("fetched %d, failed %d: %+v", rep.Fetched, rep.Failed, rep.Failures)
	}
	if got := w.requests.Load(); got != 49 { // the other resource has the same bytes
		t.Errorf("%d requests, want 49", got)
	}
	for _, name := range []string{"/one", "/one/two"} {
		if diff := cmp.Diff(want, w.kept(w.server.URL+name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if rep := w.bring(); rep.Fetched != 0 || w.requests.Load() != 49 {
		t.Errorf("again: fetched %d, %d requests in all", rep.Fetched, w.requests.Load())
	}
}

// TestAPresentStateThatTheMirrorCouldNotFetchIsBrought: it was overtaken before the mirror asked.
func TestAPresentStateThatTheMirrorCouldNotFetchIsBrought(t *testing.T) {
	w := newWorld(t)
	uri := w.server.URL + "/one"
	w.held = "something newer"
	w.log.Add(w.change(uri, "a", start, link("memento", w.at("/v/1", "a"))))
	w.log.Add(w.change(uri, "", start.Add(time.Hour)))
	w.log.Add(w.change(uri, "bb", start.Add(2*time.Hour), link("memento", w.at("/v/2", "bb"))))
	if rep := w.bring(); rep.Fetched != 2 || rep.Failed != 0 {
		t.Errorf("fetched %d, failed %d", rep.Fetched, rep.Failed)
	}
	if diff := cmp.Diff([]int64{1, -1, 2}, w.kept(uri)); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
}

// TestStatesOfOneMomentAreAllKept: a Source with times in whole seconds tells several changes of
// a resource at one moment, in one run or in two.
func TestStatesOfOneMomentAreAllKept(t *testing.T) {
	w := newWorld(t)
	uri := w.server.URL + "/one"
	w.held = "something newer"
	add := func(text string) { w.log.Add(w.change(uri, text, start, link("memento", w.at("/v/"+text, text)))) }
	for _, text := range []string{"a", "bb", "ccc"} {
		add(text)
	}
	if rep := w.bring(); rep.Fetched != 3 || rep.Failed != 0 {
		t.Errorf("fetched %d, failed %d", rep.Fetched, rep.Failed)
	}
	add("dddd")
	if rep := w.bring(); rep.Fetched != 1 || rep.Failed != 0 {
		t.Errorf("later: fetched %d, failed %d", rep.Fetched, rep.Failed)
	}
	if diff := cmp.Diff([]int64{1, 2, 3, 4}, w.kept(uri)); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
}

// TestALimitOfTheRunEndsTheFetchingOfVersions: what was fetched until then is kept, and another
// run goes on from there.
func TestALimitOfTheRunEndsTheFetchingOfVersions(t *testing.T) {
	w := newWorld(t)
	uri, enough := w.server.URL+"/one", errors.New("enough")
	w.held = "something newer"
	for i := 1; i <= 5; i++ {
		text := strings.Repeat("x", i)
		w.log.Add(w.change(uri, text, start.Add(time.Duration(i)*time.Hour), link("memento", w.at("/v/"+text, text))))
	}
	b, rep := w.bringer(), missed.Report{}
	begun := int64(0)
	b.Stop = func(n int64) error {
		if begun >= 5 {
			return enough
		}
		begun += n
		return nil
	}
	if err := b.Before(t.Context(), w.log, &rep); !errors.Is(err, enough) || rep.Fetched != 3 || rep.Bytes != 6 {
		t.Errorf("fetched %d with %d bytes, %v", rep.Fetched, rep.Bytes, err)
	}
	b.Stop = nil
	if err := b.Before(t.Context(), w.log, &rep); err != nil || rep.Fetched != 4 || w.requests.Load() != 4 {
		t.Errorf("again: fetched %d in %d requests, %v", rep.Fetched, w.requests.Load(), err)
	}
}

// TestChangesThatAreReadLaterAreBroughtToo: those that a run meets while it fetches.
func TestChangesThatAreReadLaterAreBroughtToo(t *testing.T) {
	w := newWorld(t)
	uri := w.server.URL + "/one"
	w.held = "cccc"
	add := func(text string, n int) {
		w.log.Add(w.change(uri, text, start.Add(time.Duration(n)*time.Hour), link("memento", w.at(fmt.Sprintf("/v/%d", n), text))))
	}
	add("a", 1)
	add("bb", 2)
	b, rep := w.bringer(), missed.Report{}
	if err := b.Before(t.Context(), w.log, &rep); err != nil || rep.Fetched != 1 {
		t.Fatalf("fetched %d, %v", rep.Fetched, err)
	}
	add("ccc", 3)
	add("cccc", 4)
	if err := b.After(t.Context(), w.log, &rep); err != nil || rep.Fetched != 3 || w.requests.Load() != 3 {
		t.Errorf("fetched %d in %d requests, %v", rep.Fetched, w.requests.Load(), err)
	}
	if diff := cmp.Diff([]int64{1, 2, 3}, w.kept(uri)); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
}

// timeMap writes a TimeMap with Mementos at these hours.
func (w *world) timeMap(original string, hours ...int) string {
	var all strings.Builder
	fmt.Fprintf(&all, `<%s>; rel="original"`, original)
	for _, h := range hours {
		fmt.Fprintf(&all, ",\n<%s/v/%d>; rel=\"memento\"; datetime=\"%s\"", w.server.URL, h, memento.FormatDatetime(start.Add(time.Duration(h)*time.Hour)))
	}
	return all.String()
}

// TestVersionsAreFoundByTimeMapAndTimeGate: where an entry does not link to the version itself.
func TestVersionsAreFoundByTimeMapAndTimeGate(t *testing.T) {
	w := newWorld(t)
	uri := w.server.URL + "/one"
	texts := []string{"a", "bb", "ccc"}
	for i, text := range texts {
		w.at(fmt.Sprintf("/v/%d", i), text)
	}
	w.at("/timemap/one", w.timeMap(uri, 0, 1, 2))
	w.mux["/timegate/one"] = func(rw http.ResponseWriter, r *http.Request) {
		at, err := memento.ParseDatetime(r.Header.Get("Accept-Datetime"))
		if err != nil {
			t.Error(err)
		}
		http.Redirect(rw, r, fmt.Sprintf("/v/%d", int(at.Sub(start).Hours())), http.StatusFound)
	}
	for name, l := range map[string]resourcesync.Link{
		"/one":    link("timemap", w.server.URL+"/timemap/one"),
		"/second": link("timegate", w.server.URL+"/timegate/one"),
	} {
		for i, text := range texts {
			at := start.Add(time.Duration(i)*time.Hour + 300*time.Millisecond)
			w.log.Add(w.change(w.server.URL+name, text, at, l))
		}
	}
	if rep := w.bring(); rep.Fetched != 6 || rep.Failed != 0 {
		t.Errorf("fetched %d, failed %d: %v", rep.Fetched, rep.Failed, rep.Failures)
	}
	for _, name := range []string{"/one", "/second"} {
		if diff := cmp.Diff([]int64{1, 2, 3}, w.kept(w.server.URL+name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestNothingWrongIsKept: servers that lie, and links to elsewhere; each is said.
func TestNothingWrongIsKept(t *testing.T) {
	const text = "right"
	for name, test := range map[string]struct {
		link func(w *world, uri string) resourcesync.Link
		says string
	}{
		"other bytes": {func(w *world, _ string) resourcesync.Link { return link("memento", w.at("/v", "wrong")) }, "other bytes"},
		"more bytes":  {func(w *world, _ string) resourcesync.Link { return link("memento", w.at("/v", text+"er")) }, "expected at most"},
		"fewer bytes": {func(w *world, _ string) resourcesync.Link { return link("memento", w.at("/v", "r")) }, "other bytes"},
		"endless bytes": {func(w *world, _ string) resourcesync.Link {
			w.mux["/v"] = func(rw http.ResponseWriter, r *http.Request) {
				for r.Context().Err() == nil {
					_, _ = rw.Write(make([]byte, 64<<10))
				}
			}
			return link("memento", w.server.URL+"/v")
		}, "expected at most"},
		"gone": {func(w *world, _ string) resourcesync.Link { return link("memento", w.server.URL+"/v") }, "404"},
		"another origin": {func(_ *world, _ string) resourcesync.Link { return link("memento", "http://other.example.org/v") },
			"--allow-origin http://other.example.org"},
		"no URI of a version": {func(_ *world, _ string) resourcesync.Link { return link("memento", "file:///etc/passwd") }, "is not a URI"},
		"a TimeMap with other bytes": {func(w *world, uri string) resourcesync.Link {
			w.at("/v/0", "wrong")
			return link("timemap", w.at("/timemap", w.timeMap(uri, 0)))
		}, "other bytes"},
		"a TimeMap of another origin": {func(w *world, uri string) resourcesync.Link {
			return link("timemap", w.at("/timemap", strings.ReplaceAll(w.timeMap(uri, 0), w.server.URL+"/v", "http://other.example.org/v")))
		}, "--allow-origin http://other.example.org"},
		"a TimeMap of another resource": {func(w *world, _ string) resourcesync.Link {
			w.at("/v/0", text)
			return link("timemap", w.at("/timemap", w.timeMap("http://other.example.org/x", 0)))
		}, "another resource"},
		"a TimeMap without the version": {func(w *world, uri string) resourcesync.Link {
			return link("timemap", w.at("/timemap", w.timeMap(uri, 5, 6)))
		}, "lists no version from"},
		"a TimeMap that is a page": {func(w *world, _ string) resourcesync.Link {
			return link("timemap", w.at("/timemap", "<html><body>log in</body></html>"))
		}, "no TimeMap"},
		"an endless TimeMap": {func(w *world, _ string) resourcesync.Link {
			w.mux["/timemap"] = func(rw http.ResponseWriter, r *http.Request) {
				one := []byte(strings.Repeat(`</v/0>; rel="memento"; datetime="Thu, 01 Jan 2026 00:00:00 GMT",`, 1000))
				for r.Context().Err() == nil {
					_, _ = rw.Write(one)
				}
			}
			return link("timemap", w.server.URL+"/timemap")
		}, "expected at most"},
		"a TimeGate with other bytes": {func(w *world, _ string) resourcesync.Link { return link("timegate", w.at("/timegate", "wrong")) }, "other bytes"},
		"a TimeGate that leads elsewhere": {func(w *world, _ string) resourcesync.Link {
			w.mux["/timegate"] = func(rw http.ResponseWriter, r *http.Request) {
				http.Redirect(rw, r, "http://other.example.org/v", http.StatusFound)
			}
			return link("timegate", w.server.URL+"/timegate")
		}, "other.example.org"},
		"a TimeGate that leads to itself": {func(w *world, _ string) resourcesync.Link {
			w.mux["/timegate"] = func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, "/timegate", http.StatusFound) }
			return link("timegate", w.server.URL+"/timegate")
		}, "redirect"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			uri := w.server.URL + "/one"
			w.held = "present"
			w.log.Add(w.change(uri, text, start, test.link(w, uri)))
			w.log.Add(w.change(uri, "present", start.Add(time.Hour), link("memento", w.server.URL+"/never")))
			rep := w.bring()
			if rep.Fetched != 0 || rep.Failed != 1 || len(w.kept(uri)) != 0 {
				t.Errorf("fetched %d, failed %d, kept %v", rep.Fetched, rep.Failed, w.kept(uri))
			}
			if len(rep.Failures) != 1 || !strings.Contains(rep.Failures[0].Err.Error(), test.says) {
				t.Errorf("failures %v, want %q", rep.Failures, test.says)
			}
		})
	}
}

// TestWhatNothingProvesIsNotFetched: no SHA-256 or no length.
func TestWhatNothingProvesIsNotFetched(t *testing.T) {
	w := newWorld(t)
	uri := w.server.URL + "/one"
	c := w.change(uri, "a", start, link("memento", w.at("/v", "a")))
	c.Digests = nil
	w.log.Add(c)
	w.log.Add(w.change(uri, "", start.Add(time.Hour)))
	if rep := w.bring(); rep.Failed != 1 || w.requests.Load() != 0 || len(w.kept(uri)) != 0 {
		t.Errorf("failed %d, %d requests, kept %v", rep.Failed, w.requests.Load(), w.kept(uri))
	}
}

// TestAnInterruptionIsNoLoss: what was not fetched when the run was interrupted is no failure,
// and is fetched by the next run.
func TestAnInterruptionIsNoLoss(t *testing.T) {
	w := newWorld(t)
	uri := w.server.URL + "/one"
	ctx, cancel := context.WithCancel(t.Context())
	w.mux["/v"] = func(rw http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}
	w.log.Add(w.change(uri, "a", start, link("memento", w.server.URL+"/v")))
	w.log.Add(w.change(uri, "", start.Add(time.Hour)))
	var rep missed.Report
	if err := w.bringer().Before(ctx, w.log, &rep); err == nil || rep.Failed != 0 {
		t.Errorf("error %v, failed %d", err, rep.Failed)
	}
	w.at("/v", "a")
	if rep := w.bring(); rep.Fetched != 1 {
		t.Errorf("the next run fetched %d: %v", rep.Fetched, rep.Failures)
	}
}
