package source

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/lint"
	"instep/resourcesync"
)

// siteData makes packages on demand of a site.
type siteData struct{ s *site }

func (d siteData) Resources(ctx context.Context, set string, uris []string) iter.Seq2[Bitstream, error] {
	return func(yield func(Bitstream, error) bool) {
		if set != "" {
			yield(Bitstream{}, ErrNoSet)
			return
		}
		for _, uri := range uris {
			content, ok := d.s.truth[uri]
			if !ok {
				continue
			}
			b := Bitstream{Entry: resourcesync.Entry{Loc: uri}, Open: opens(content)}
			b.Digests, b.Length, b.Type = digestsOf(content), resourcesync.Bytes(int64(len(content))), "text/plain"
			if !yield(b, nil) {
				return
			}
		}
	}
}

func (d siteData) Changes(ctx context.Context, set string, from time.Time) iter.Seq2[Bitstream, error] {
	if from.Before(testStart) {
		return func(yield func(Bitstream, error) bool) { yield(Bitstream{}, ErrForgotten) }
	}
	return func(yield func(Bitstream, error) bool) {
		for b, err := range d.s.fresh(0, len(d.s.changes)) {
			if !b.Datetime.Time().Before(from) && !yield(b, err) {
				return
			}
		}
	}
}

// demand is a server of packages on demand.
type demand struct {
	t   *testing.T
	s   *site
	url string
}

func newDemand(t *testing.T, o OnDemand) *demand {
	s := newSite(t)
	s.fill(4)
	s.set("item/0.txt", "second")
	s.set("item/1.txt", "")
	if o.Data == nil {
		o.Data = siteData{s}
	}
	o.BaseURL, o.Now = testBase, time.Now
	server := httptest.NewServer(NewPackageHandler(o))
	t.Cleanup(server.Close)
	return &demand{t, s, server.URL}
}

func (d *demand) post(kind, body string) (status int, header http.Header, answer string) {
	d.t.Helper()
	resp, err := http.Post(d.url, kind, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(b)
}

// unpack reads a package: what its manifest lists, with the bytes.
func (d *demand) unpack(text string) (resourcesync.Header, []string) {
	d.t.Helper()
	z, err := zip.NewReader(strings.NewReader(text), int64(len(text)))
	if err != nil {
		d.t.Fatal(err)
	}
	members := map[string]string{}
	for _, f := range z.File {
		members["/"+f.Name] = unzipped(d.t, f)
	}
	manifest := members["/manifest.xml"]
	c := lint.Checker{Derived: true, Report: func(f lint.Finding) {
		if f.Level > lint.Info {
			d.t.Errorf("manifest: %+v", f)
		}
	}}
	if _, err := c.Document(d.t.Context(), "manifest.xml", strings.NewReader(manifest)); err != nil {
		d.t.Fatal(err)
	}
	dec := resourcesync.NewDecoder(strings.NewReader(manifest), resourcesync.WithTolerance(resourcesync.Strict))
	var got []string
	for en, err := range dec.Entries() {
		if err != nil {
			d.t.Fatal(err)
		}
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s", en.Change, strings.TrimPrefix(en.Loc, testBase), members[en.Path])))
	}
	h, err := dec.Header()
	if err != nil {
		d.t.Fatal(err)
	}
	return h, got
}

func TestPackageOnDemandHoldsWhatWasAskedFor(t *testing.T) {
	d := newDemand(t, OnDemand{})
	uri := func(name string) string { return testBase + "item/" + name }
	from := d.s.changes[4].Datetime.String()
	for name, c := range map[string]struct {
		kind, body string
		manifest   resourcesync.Capability
		want       []string
	}{
		"URIs": {
			"application/json", fmt.Sprintf(`{"uris":[%q,%q]}`, uri("3.txt"), uri("0.txt")),
			resourcesync.CapabilityResourceDumpManifest,
			[]string{"item/3.txt content 3", "item/0.txt second"},
		},
		"a URI twice": {
			"application/json; charset=utf-8", fmt.Sprintf(`{"set":"","uris":[%q,%q]}`, uri("3.txt"), uri("3.txt")),
			resourcesync.CapabilityResourceDumpManifest,
			[]string{"item/3.txt content 3"},
		},
		"what is not of the set": {
			"application/json", fmt.Sprintf(`{"uris":["file:///etc/passwd","http://127.0.0.1/",%q]}`, uri("1.txt")),
			resourcesync.CapabilityResourceDumpManifest, nil,
		},
		"a moment": {
			"application/json", fmt.Sprintf(`{"set":"","from":%q}`, from),
			resourcesync.CapabilityChangeDumpManifest,
			[]string{"updated item/0.txt second", "deleted item/1.txt"},
		},
		"a form": {
			"application/x-www-form-urlencoded", url.Values{"uris": {uri("3.txt"), uri("2.txt")}}.Encode(),
			resourcesync.CapabilityResourceDumpManifest,
			[]string{"item/3.txt content 3", "item/2.txt content 2"},
		},
		"a form with a moment": {
			"application/x-www-form-urlencoded", url.Values{"set": {""}, "from": {from}}.Encode(),
			resourcesync.CapabilityChangeDumpManifest,
			[]string{"updated item/0.txt second", "deleted item/1.txt"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			status, header, answer := d.post(c.kind, c.body)
			if status != http.StatusOK || header.Get("Content-Type") != "application/zip" || header.Get("Cache-Control") != "no-store" {
				t.Fatalf("got %d %v: %s", status, header, answer)
			}
			h, got := d.unpack(answer)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
			if h.Capability != c.manifest || h.Link("up") != testBase+"resourcesync/capabilitylist.xml" {
				t.Errorf("got a manifest with %+v", h)
			}
		})
	}
}

func TestRequestThatCannotBeAnsweredIsRefused(t *testing.T) {
	d := newDemand(t, OnDemand{Entries: 2, Bytes: 16})
	const kind = "application/json"
	all := func(names ...string) string {
		for i := range names {
			names[i] = fmt.Sprintf("%q", testBase+"item/"+names[i])
		}
		return `{"uris":[` + strings.Join(names, ",") + `]}`
	}
	for name, c := range map[string]struct {
		kind, body string
		status     int
		says       string
	}{
		"nothing":            {kind, `{}`, 400, "either uris or from"},
		"both":               {kind, `{"uris":["a"],"from":"2024-01-01T00:00:00Z"}`, 400, "either uris or from"},
		"no JSON":            {kind, `uris`, 400, "invalid"},
		"unknown field":      {kind, `{"uri":["a"]}`, 400, "unknown field"},
		"more JSON":          {kind, `{"uris":["a"]}{}`, 400, "nothing after"},
		"another type":       {"text/plain", `{}`, 415, "application/json"},
		"no type":            {"", `{}`, 415, "application/json"},
		"bad moment":         {kind, `{"from":"yesterday"}`, 400, "from"},
		"bad set":            {kind, `{"set":"../x","uris":["a"]}`, 400, "set"},
		"unknown set":        {kind, `{"set":"maps","uris":["a"]}`, 404, "maps"},
		"long ago":           {kind, `{"from":"1970-01-01T00:00:00Z"}`, 410, "Resource List"},
		"too many URIs":      {kind, all("1", "2", "3"), 413, "at most 2 URIs, got 3"},
		"too many changes":   {kind, `{"from":"2024-05-01T10:00:04Z"}`, 413, "at most 2 entries"},
		"too many bytes":     {kind, all("2.txt", "3.txt"), 413, "at most 16 bytes"},
		"too long":           {kind, all(strings.Repeat("long", 1_000)), 413, "bytes"},
		"form without field": {"application/x-www-form-urlencoded", "uri=a", 400, "uri"},
		"form, field twice":  {"application/x-www-form-urlencoded", "from=a&from=b", 400, "from"},
	} {
		t.Run(name, func(t *testing.T) {
			status, header, answer := d.post(c.kind, c.body)
			if status != c.status || !strings.Contains(answer, c.says) {
				t.Errorf("got %d %q, want %d and %q", status, answer, c.status, c.says)
			}
			if !strings.HasPrefix(header.Get("Content-Type"), "text/plain") {
				t.Errorf("got a %q", header.Get("Content-Type"))
			}
		})
	}
}

func TestOnlyPostIsAnswered(t *testing.T) {
	d := newDemand(t, OnDemand{})
	resp, err := http.Get(d.url)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") != "POST" {
		t.Errorf("got %s, allowed %q", resp.Status, resp.Header.Get("Allow"))
	}
}

// TestPagesOfOthersCannotAsk: a browser says where the page is from that has it ask.
func TestPagesOfOthersCannotAsk(t *testing.T) {
	d := newDemand(t, OnDemand{})
	req, err := http.NewRequest(http.MethodPost, d.url, strings.NewReader("uris=a"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Sec-Fetch-Site", "cross-site")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("got %s, want 403", resp.Status)
	}
}

// madeData yields what a test made up.
type madeData struct {
	siteData
	resources iter.Seq2[Bitstream, error]
}

func (d madeData) Resources(context.Context, string, []string) iter.Seq2[Bitstream, error] {
	return d.resources
}

// waiting is one bitstream of n bytes that opens when it may.
func waiting(n int, opened chan<- struct{}, may <-chan struct{}) iter.Seq2[Bitstream, error] {
	return func(yield func(Bitstream, error) bool) {
		b := Bitstream{Entry: resourcesync.Entry{Loc: testBase + "slow"}}
		b.Length, b.Type = resourcesync.Bytes(int64(n)), "text/plain"
		b.Open = func(ctx context.Context) (io.ReadCloser, error) {
			opened <- struct{}{}
			select {
			case <-may:
				return io.NopCloser(strings.NewReader(strings.Repeat("x", n))), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		yield(b, nil)
	}
}

const anyURIs = `{"uris":["http://museum.example.org/slow"]}`

func TestNoMoreRequestsAtOnceThanAllowed(t *testing.T) {
	opened, may := make(chan struct{}, 2), make(chan struct{})
	d := newDemand(t, OnDemand{Requests: 1, Data: madeData{resources: waiting(5, opened, may)}})
	first := make(chan int)
	go func() {
		resp, err := http.Post(d.url, "application/json", strings.NewReader(anyURIs))
		if err != nil {
			first <- 0
			return
		}
		resp.Body.Close()
		first <- resp.StatusCode
	}()
	<-opened
	status, header, answer := d.post("application/json", anyURIs)
	if status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
		t.Errorf("a second request: got %d %q, want 503 with Retry-After", status, answer)
	}
	close(may)
	if got := <-first; got != http.StatusOK {
		t.Errorf("the first request: got %d, want 200", got)
	}
	if status, _, answer := d.post("application/json", anyURIs); status != http.StatusOK {
		t.Errorf("a request after it: got %d %q, want 200", status, answer)
	}
}

func TestAnswerEndsWithItsTime(t *testing.T) {
	reported := make(chan error, 1)
	d := newDemand(t, OnDemand{
		Time: time.Millisecond, Report: func(err error) { reported <- err },
		Data: madeData{resources: waiting(5, make(chan struct{}, 1), nil)},
	})
	if status, _, answer := d.post("application/json", anyURIs); status != http.StatusServiceUnavailable {
		t.Errorf("got %d %q, want 503", status, answer)
	}
	if err := <-reported; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v reported, want that the time is over", err)
	}
}

// TestClientThatLeavesEndsTheWork: nothing is read for nobody.
func TestClientThatLeavesEndsTheWork(t *testing.T) {
	opened, reported := make(chan struct{}, 1), make(chan error, 1)
	d := newDemand(t, OnDemand{
		Report: func(err error) { reported <- err },
		Data:   madeData{resources: waiting(5, opened, nil)},
	})
	conn, err := net.Dial("tcp", strings.TrimPrefix(d.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: example.org\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(anyURIs), anyURIs)
	<-opened
	conn.Close()
	if err := <-reported; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v reported, want that it was cancelled", err)
	}
}

// TestPackageThatFailsOnItsWayIsCutOff: what came is not to be taken for whole.
func TestPackageThatFailsOnItsWayIsCutOff(t *testing.T) {
	const n = 1 << 20
	resources := func(yield func(Bitstream, error) bool) {
		for i, content := range []string{strings.Repeat("x", n), "changed"} {
			b := Bitstream{Entry: resourcesync.Entry{Loc: fmt.Sprint(testBase, i)}, Open: opens(content)}
			b.Length, b.Type = resourcesync.Bytes(int64(len(content))), "image/png"
			b.Digests = digestsOf(strings.Repeat("x", n))
			if !yield(b, nil) {
				return
			}
		}
	}
	d := newDemand(t, OnDemand{Data: madeData{resources: resources}})
	resp, err := http.Post(d.url, "application/json", strings.NewReader(anyURIs))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v after %d bytes, want that the answer was cut", err, b.Len())
	}
}

// TestChangedResourceIsToldBeforeAnythingIsSent: while nothing is out, the answer can
// still be another.
func TestChangedResourceIsToldBeforeAnythingIsSent(t *testing.T) {
	d := newDemand(t, OnDemand{Data: madeData{resources: func(yield func(Bitstream, error) bool) {
		b := Bitstream{Entry: resourcesync.Entry{Loc: testBase + "a"}, Open: opens("changed")}
		b.Length, b.Type = resourcesync.Bytes(3), "text/plain"
		yield(b, nil)
	}}})
	status, header, answer := d.post("application/json", anyURIs)
	if status != http.StatusServiceUnavailable || header.Get("Content-Disposition") != "" {
		t.Errorf("got %d %v %q, want 503 in plain text", status, header, answer)
	}
}

func TestResourceWithoutLengthIsNotSent(t *testing.T) {
	d := newDemand(t, OnDemand{Data: madeData{resources: func(yield func(Bitstream, error) bool) {
		yield(Bitstream{Entry: resourcesync.Entry{Loc: testBase + "endless"}, Open: opens("x")}, nil)
	}}})
	if status, _, answer := d.post("application/json", anyURIs); status != http.StatusServiceUnavailable {
		t.Errorf("got %d %q, want 503: nobody knows how much it would be", status, answer)
	}
}
