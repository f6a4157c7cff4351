package fetch_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"instep/fetch"
)

// client returns a Client that may dial the servers given.
func client(t testing.TB, o fetch.Options, servers ...*httptest.Server) *fetch.Client {
	t.Helper()
	for _, s := range servers {
		o.AllowPrivate = append(o.AllowPrivate, s.Listener.Addr().String())
	}
	c, err := fetch.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func serve(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func TestGetReturnsTheBodyAndWhatIsSaidOfIt(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, "hello")
	})
	c := client(t, fetch.Options{}, s)
	resp, err := c.Get(t.Context(), fetch.Request{URL: s.URL + "/x#part"})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body, resp.Header = nil, nil
	want := &fetch.Response{
		URL: s.URL + "/x", Status: 200, ContentType: "text/plain", ContentLength: 5,
		Validators: fetch.Validators{ETag: `"1"`}, Requests: 1, Total: 5,
	}
	if diff := cmp.Diff(want, resp); diff != "" || string(b) != "hello" {
		t.Errorf("body %q, response (-want +got):\n%s", b, diff)
	}
}

func TestRequestSaysWhoAsksAndNothingElse(t *testing.T) {
	var got http.Header
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { got = r.Header.Clone() })
	c := client(t, fetch.Options{Version: "1.2"}, s)
	if _, err := read(t.Context(), c, s.URL); err != nil {
		t.Fatal(err)
	}
	want := http.Header{
		"User-Agent":      {"instep/1.2 (+ResourceSync)"},
		"Accept":          {"*/*"},
		"Accept-Encoding": {"identity"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
}

func TestProxyOfTheEnvironmentIsIgnored(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "direct") })
	got, err := read(t.Context(), client(t, fetch.Options{}, s), s.URL)
	if err != nil || got != "direct" {
		t.Errorf("got %q, %v; want direct", got, err)
	}
}

func TestConfiguredProxyTakesRequestsButNotToLiteralPrivateAddresses(t *testing.T) {
	proxy := serve(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "proxied ", r.RequestURI) })
	u, err := fetch.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := client(t, fetch.Options{Proxy: u, Resolve: func(context.Context, string) ([]netip.Addr, error) {
		return nil, errors.New("only the proxy knows names")
	}})
	if err := c.TrustSource(t.Context(), "http://example.org/a"); err != nil {
		t.Error(err)
	}
	got, err := read(t.Context(), c, "http://example.org/a")
	if err != nil || got != "proxied http://example.org/a" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := read(t.Context(), c, "http://10.0.0.1/a"); !errors.Is(err, fetch.Refused) {
		t.Errorf("got %v, want it refused", err)
	}
}

func TestConditionalRequestGets304(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("If-None-Match") == `"1"` && r.Header.Get("If-Modified-Since") == "then" {
			w.WriteHeader(http.StatusNotModified)
		}
	})
	c := client(t, fetch.Options{PerHost: 1}, s)
	for range 2 { // the second would wait if the first held its place
		resp, err := c.Document(t.Context(), s.URL, 0, fetch.Validators{ETag: `"1"`, LastModified: "then"})
		if err != nil {
			t.Fatal(err)
		}
		if resp.Status != http.StatusNotModified {
			t.Errorf("status %d, want 304", resp.Status)
		}
	}
}

func TestUnaskedAnswersAreRefused(t *testing.T) {
	for _, code := range []int{201, 202, 204, 206, 300, 304, 400, 418} {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(code) })
		_, err := read(t.Context(), client(t, fetch.Options{}, s), s.URL)
		if !errors.Is(err, fetch.Protocol) || !strings.Contains(fmt.Sprint(err), fmt.Sprint("expected 200, got ", code)) {
			t.Errorf("%d: got %v", code, err)
		}
	}
}

func TestErrorSaysWhatKindOfFailureItIs(t *testing.T) {
	tests := []struct {
		code int
		typ  string
		kind fetch.Kind
		says string
	}{
		{404, "", fetch.NotFound, "expected 200, got 404 Not Found"},
		{410, "", fetch.NotFound, "410 Gone"},
		{401, "", fetch.Denied, "may be missing or wrong"},
		{403, "text/plain", fetch.Denied, "may be missing or wrong"},
		{403, "text/html; charset=utf-8", fetch.Denied, "the server sent an HTML page instead of the resource"},
		{451, "", fetch.Denied, "451"},
		{500, "", fetch.Temporary, "500"},
		{502, "", fetch.Temporary, "502"},
		{503, "text/html", fetch.Temporary, "the server sent an HTML page instead of the resource"},
		{501, "", fetch.Protocol, "501"},
		{522, "", fetch.Temporary, "522"},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.code, tt.typ), func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", tt.typ)
				w.WriteHeader(tt.code)
			})
			_, err := read(t.Context(), client(t, fetch.Options{MaxRetries: -1}, s), s.URL+"/r")
			var e *fetch.Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v, want an *Error", err)
			}
			if e.Kind != tt.kind || e.Status != tt.code || e.URL != s.URL+"/r" || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v (%v), want %v with %q", err, e.Kind, tt.kind, tt.says)
			}
		})
	}
}

func TestBodyLargerThanAllowedEndsWithAnError(t *testing.T) {
	tests := []struct {
		size, limit int64
		chunked, ok bool
	}{
		{10, 10, false, true},
		{10, 10, true, true},
		{11, 10, false, false},
		{11, 10, true, false},
		{100_000, 10, true, false},
		{0, 1, true, true},
		{100_000, math.MaxInt64, true, true},
	}
	for _, tt := range tests {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if !tt.chunked {
				w.Header().Set("Content-Length", fmt.Sprint(tt.size))
			} else {
				w.(http.Flusher).Flush()
			}
			w.Write(make([]byte, tt.size))
		})
		c := client(t, fetch.Options{}, s)
		resp, err := c.Get(t.Context(), fetch.Request{URL: s.URL, MaxBytes: tt.limit})
		n := int64(0)
		if err == nil {
			n, err = io.Copy(io.Discard, resp.Body)
		}
		if tt.ok && (err != nil || n != tt.size) {
			t.Errorf("%+v: got %d bytes, %v", tt, n, err)
		}
		if !tt.ok && (!errors.Is(err, fetch.TooLarge) || n > tt.limit) {
			t.Errorf("%+v: got %d bytes, %v; want too large", tt, n, err)
		}
	}
}

func TestURIsThatAreNotFetched(t *testing.T) {
	c := client(t, fetch.Options{Dial: func(context.Context, string, string) (net.Conn, error) {
		t.Error("dialled")
		return nil, errors.New("no")
	}})
	for _, uri := range []string{
		"", "x", "/x", "//example.org/", "file:///etc/passwd", "ftp://example.org/", "gsiftp://example.org/x",
		"javascript:alert(1)", "http://", "http:///x", "http:example.org", "http://user:pw@example.org/",
		"http://user@example.org/", "http://example.org/\r\nX: y", "http://example.org/\x00", "http://example.org:x/",
		"http://example.org:0/", "http://example.org:65536/", "http://example.org:99999999999999999999/",
		"http://exa mple.org/", "http://%zz.example.org/", "http://example.org/" + strings.Repeat("a", 8<<10), "data:,x",
		"http://user:pw%zz@example.org/", "http://user:pw/x@example.org/", "http://user:p?pw@example.org/", "ftp://user:pw@example.org/",
		"user:pw@example.org", "http://user:pw@example.org/" + strings.Repeat("a", 8<<10), "http://[fe80::1%25lo]/", "http://\xa3.example.org/", "http://" + strings.Repeat("a", 300) + "/",
	} {
		_, err := read(t.Context(), c, uri)
		var e *fetch.Error
		if !errors.As(err, &e) || e.Kind != fetch.Refused {
			t.Errorf("%.40q: got %v, want it refused", uri, err)
		}
		if len(fmt.Sprint(err)) > 500 || strings.Contains(fmt.Sprint(err), "pw") {
			t.Errorf("%.40q: the error says too much: %v", uri, err)
		}
	}
}

func TestURIsAreAskedForAsWritten(t *testing.T) {
	var got string
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { got = r.RequestURI })
	c := client(t, fetch.Options{}, s)
	for _, tt := range []struct{ path, want string }{
		{"/a%2Fb", "/a%2Fb"},
		{"/a%253Db?q=%20+&&x", "/a%253Db?q=%20+&&x"},
		{"/../x", "/../x"},
		{"/ä b", "/%C3%A4%20b"},
		{"?q", "/?q"},
		{"/?q=ä b", "/?q=%C3%A4%20b"},
		{"//x", "//x"},
		{"/x?", "/x?"},
	} {
		if _, err := read(t.Context(), c, s.URL+tt.path); err != nil {
			t.Fatal(err)
		}
		if got != tt.want {
			t.Errorf("%q asked for %q, want %q", tt.path, got, tt.want)
		}
	}
}

func TestBadOptionsAreRefused(t *testing.T) {
	for _, o := range []fetch.Options{
		{AllowPrivate: []string{"localhost"}},
		{AllowPrivate: []string{":80"}},
		{AllowOrigins: []string{"example.org"}},
		{AllowOrigins: []string{"https://example.org/path"}},
		{Credentials: []fetch.Credential{{Origin: "https://u:p@example.org"}}},
		{Credentials: []fetch.Credential{{Origin: ""}}},
	} {
		if _, err := fetch.New(o); err == nil {
			t.Errorf("%+v: accepted", o)
		}
	}
}

// Connections are used again after bodies read to the end, errors, redirects and
// bodies closed early with little left.
func TestConnectionIsUsedAgain(t *testing.T) {
	var conns atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/to":
			http.Redirect(w, r, "/", http.StatusFound)
		case "/404":
			http.NotFound(w, r)
		default:
			w.Write(make([]byte, 8<<10))
		}
	}))
	s.Config.ConnState = func(_ net.Conn, st http.ConnState) {
		if st == http.StateNew {
			conns.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	c := client(t, fetch.Options{}, s)
	for range 20 {
		for _, path := range []string{"/", "/to", "/404"} {
			if _, err := read(t.Context(), c, s.URL+path); err != nil && !errors.Is(err, fetch.NotFound) {
				t.Fatal(err)
			}
		}
		resp, err := c.Get(t.Context(), fetch.Request{URL: s.URL})
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	// On a machine that is busy a rest may not come in time to be read.
	if n := conns.Load(); n > 3 {
		t.Errorf("%d connections for 120 requests, want 1", n)
	}
}

func TestHTTP2IsSpokenOverTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) }))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	roots := s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	got, err := read(t.Context(), client(t, fetch.Options{RootCAs: roots}, s), s.URL)
	if err != nil || got != "HTTP/2.0" {
		t.Errorf("got %q, %v; want HTTP/2.0", got, err)
	}
}

func TestCertificateThatIsNotTrustedIsRefusedOnce(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	var sent atomic.Int32
	c := client(t, fetch.Options{Observe: func(fetch.Event) { sent.Add(1) }}, s)
	if _, err := read(t.Context(), c, s.URL); !errors.Is(err, fetch.Refused) || sent.Load() != 1 {
		t.Errorf("got %v after %d requests, want it refused after 1", err, sent.Load())
	}
}

func TestCancellationEndsEveryWait(t *testing.T) {
	arrived, never := make(chan bool, 8), make(chan bool)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" {
			w.(http.Flusher).Flush()
		}
		arrived <- true
		select {
		case <-r.Context().Done():
		case <-never:
		}
	})
	c := client(t, fetch.Options{PerHost: 1}, s)
	for _, path := range []string{"/header", "/body"} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := read(ctx, c, s.URL+path)
			done <- err
		}()
		<-arrived
		// A second request waits for the only place.
		waiting, stop := context.WithCancel(t.Context())
		stop()
		if _, err := read(waiting, c, s.URL); !errors.Is(err, context.Canceled) {
			t.Errorf("waiting: got %v, want canceled", err)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) || errors.Is(err, fetch.Temporary) {
			t.Errorf("%s: got %v, want canceled", path, err)
		}
	}
}

func TestObserveCountsEveryRequest(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/a" {
			http.Redirect(w, r, "/b", http.StatusFound)
		}
	})
	var got []string
	c := client(t, fetch.Options{Observe: func(e fetch.Event) { got = append(got, fmt.Sprint(e.URL, " ", e.Status)) }}, s)
	resp, err := c.Get(t.Context(), fetch.Request{URL: s.URL + "/a"})
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if diff := cmp.Diff([]string{s.URL + "/a 302", s.URL + "/b 200"}, got); diff != "" || resp.Requests != 2 {
		t.Errorf("%d requests, events (-want +got):\n%s", resp.Requests, diff)
	}
}
