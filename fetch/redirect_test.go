package fetch_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"instep/fetch"
)

var redirectCodes = []int{301, 302, 303, 307, 308}

// web is servers for several origins on loopback that a client reaches under
// public names and any port.
type web struct {
	mu     sync.Mutex
	seen   map[string][]http.Header // by origin
	roots  *x509.CertPool
	plain  *httptest.Server
	secure *httptest.Server
	handle http.HandlerFunc
}

func newWeb(t *testing.T, handle http.HandlerFunc) *web {
	w := &web{seen: map[string][]http.Header{}, handle: handle}
	record := func(scheme string) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			w.mu.Lock()
			sent := r.Header.Clone()
			if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
				sent.Set("(certificate)", r.TLS.PeerCertificates[0].Subject.CommonName)
			}
			w.seen[scheme+"://"+r.Host] = append(w.seen[scheme+"://"+r.Host], sent)
			w.mu.Unlock()
			w.handle(rw, r)
		})
	}
	w.plain = httptest.NewServer(record("http"))
	t.Cleanup(w.plain.Close)
	w.secure = httptest.NewUnstartedServer(record("https"))
	w.secure.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	w.secure.StartTLS()
	t.Cleanup(w.secure.Close)
	w.roots = w.secure.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	return w
}

// options makes every name a public address whose https ports (443 and those that
// end in 43) lead to the secure server. Names below example.com match its certificate.
func (w *web) options() fetch.Options {
	return fetch.Options{
		RootCAs: w.roots,
		Resolve: func(_ context.Context, host string) ([]netip.Addr, error) {
			if strings.HasPrefix(host, "private.") {
				return []netip.Addr{netip.MustParseAddr("10.1.2.3")}, nil
			}
			return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
		},
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			to := w.plain
			if strings.HasSuffix(addr, "43") {
				to = w.secure
			}
			return (&net.Dialer{}).DialContext(ctx, network, to.Listener.Addr().String())
		},
	}
}

func (w *web) at(origin string) []http.Header {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[origin]
}

func TestCat_FET_04(t *testing.T) {
	const from = "http://example.com"
	tests := []struct {
		name, start, to string
		kind            fetch.Kind // 0: the redirect is followed
		asked           string     // the origin that must not be asked
		says            string
	}{
		{name: "same origin", to: "/end"},
		{name: "allowed origin", to: "http://allowed.example.com/end"},
		{name: "upgrade", to: "https://example.com/end"},
		{name: "loop", to: "/loop", kind: fetch.Protocol, says: "more than 5 redirects"},
		{name: "too many", to: "/6", kind: fetch.Protocol, says: "more than 5 redirects"},
		{name: "downgrade", start: "https://example.com/go", to: "http://example.com/end", kind: fetch.Refused, asked: "http://example.com", says: "from https"},
		{name: "cross-origin host", to: "http://other.example.com/end", kind: fetch.Refused, asked: "http://other.example.com", says: "--allow-origin http://other.example.com"},
		{name: "cross-origin port", to: "http://example.com:8080/end", kind: fetch.Refused, asked: "http://example.com:8080", says: "--allow-origin http://example.com:8080"},
		{name: "private", start: "http://private.example.com/go", to: "/end", kind: fetch.Refused, asked: "http://private.example.com", says: "no public address"},
		{name: "to private", to: "http://10.0.0.1/end", kind: fetch.Refused, asked: "http://10.0.0.1", says: "no public address"},
		{name: "metadata", to: "http://169.254.169.254/end", kind: fetch.Refused, asked: "http://169.254.169.254", says: "metadata"},
		{name: "file", to: "file:///etc/passwd", kind: fetch.Refused, says: "the redirect leads to"},
		{name: "credentials", to: "http://u:p@example.com/end", kind: fetch.Refused, says: "the redirect leads to"},
		{name: "no location", to: "", kind: fetch.Protocol, says: "has no Location"},
		{name: "garbage", to: "http://[", kind: fetch.Protocol, says: "not a URI"},
	}
	for _, tt := range tests {
		for _, code := range redirectCodes {
			t.Run(fmt.Sprint(tt.name, "/", code), func(t *testing.T) {
				w := newWeb(t, redirecting(tt.to, code))
				o := w.options()
				o.AllowOrigins = []string{"http://allowed.example.com", "http://10.0.0.1", "http://169.254.169.254"}
				c := client(t, o)
				start := tt.start
				if start == "" {
					start = from + "/go"
				}
				got, err := read(t.Context(), c, start)
				if tt.kind == 0 {
					if err != nil || got != "end" {
						t.Errorf("got %q, %v; want it followed", got, err)
					}
					return
				}
				if !errors.Is(err, tt.kind) || !strings.Contains(fmt.Sprint(err), tt.says) {
					t.Errorf("got %v, want %v: %q", err, tt.kind, tt.says)
				}
				if tt.asked != "" && len(w.at(tt.asked)) > 0 {
					t.Errorf("%s was asked", tt.asked)
				}
			})
		}
	}
}

// redirecting answers /go with a redirect to to, /loop with one to itself, a number
// with the next smaller one, and /end with its name.
func redirecting(to string, code int) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		var n int
		switch _, err := fmt.Sscanf(r.URL.Path, "/%d", &n); {
		case r.URL.Path == "/go":
			if to != "" {
				rw.Header().Set("Location", to)
			}
		case r.URL.Path == "/loop":
			rw.Header().Set("Location", "/loop")
		case err == nil && n > 1:
			rw.Header().Set("Location", fmt.Sprintf("/%d", n-1))
		default:
			io.WriteString(rw, "end")
			return
		}
		rw.WriteHeader(code)
	}
}

func TestRedirectsUpToTheBoundAreFollowed(t *testing.T) {
	w := newWeb(t, redirecting("/4", 302))
	resp, err := client(t, w.options()).Get(t.Context(), fetch.Request{URL: "http://example.com/go"})
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.Requests != 5 || resp.URL != "http://example.com/1" {
		t.Errorf("got %s after %d requests", resp.URL, resp.Requests)
	}
}

// Credentials go to the origin they are bound to and nowhere else: 7 kinds of
// secret, 10 other places, reached by redirect and directly.
func TestCat_FET_05(t *testing.T) {
	const home = "https://example.com:8443"
	netrc, err := fetch.ReadNetrc(strings.NewReader("machine example.com login secret password secret"))
	if err != nil {
		t.Fatal(err)
	}
	cert := newAuthority(t).issue(t, func(c *x509.Certificate) { c.Subject.CommonName = "secret" })
	secrets := []fetch.Credential{
		{Header: http.Header{"Authorization": {"Bearer secret"}}},
		{Header: netrc.Header("example.com", false)},
		{Header: http.Header{"Cookie": {"session=secret"}}},
		{Header: http.Header{"X-Api-Key": {"secret"}}},
		{Header: http.Header{"Proxy-Authorization": {"secret"}}},
		{Header: http.Header{"X-Amz-Security-Token": {"secret"}}},
		{Certificate: &cert},
	}
	places := []string{
		"https://example.com", "https://example.com:9443", "https://sub.example.com:8443", "https://sub.example.com", "https://mirror.example.com:443",
		"http://example.com", "http://example.com:8080", "http://sub.example.com", "http://mirror.example.org", "http://93.184.216.35",
	}
	for i, secret := range secrets {
		for _, place := range places {
			t.Run(fmt.Sprint(i, " ", place), func(t *testing.T) {
				w := newWeb(t, func(rw http.ResponseWriter, r *http.Request) {
					http.SetCookie(rw, &http.Cookie{Name: "tracked", Value: "secret"})
					if r.URL.Path == "/go" {
						http.Redirect(rw, r, place+"/end", http.StatusFound)
					}
				})
				o := w.options()
				o.MaxRetries = -1
				o.AllowOrigins = places
				secret.Origin = home
				o.Credentials = []fetch.Credential{secret}
				c := client(t, o)
				_, redirected := read(t.Context(), c, home+"/go")
				if down := strings.HasPrefix(place, "http:"); down != (redirected != nil) {
					t.Errorf("the redirect ended with %v", redirected)
				}
				if _, err := read(t.Context(), c, place+"/end"); err != nil {
					t.Errorf("asked directly: %v", err)
				}
				checkNoLeak(t, w, place)
				if got := w.at(home); len(got) != 1 || !carries(got[0]) {
					t.Errorf("the credential did not reach its own origin: %v", got)
				}
			})
		}
	}
}

func checkNoLeak(t *testing.T, w *web, place string) {
	t.Helper()
	got := w.at(place)
	if len(got) == 0 {
		t.Errorf("%s was never asked", place)
	}
	for _, h := range got {
		if carries(h) || h.Get("Referer") != "" {
			t.Errorf("%s was sent %v", place, h)
		}
	}
}

func carries(h http.Header) bool {
	s := fmt.Sprint(h)
	return strings.Contains(s, "secret") || strings.Contains(s, "c2VjcmV0") // in Base64
}

func TestCredentialIsLookedUpAgainAtEachHop(t *testing.T) {
	w := newWeb(t, redirecting("https://sub.example.com/end", 302))
	o := w.options()
	o.AllowOrigins = []string{"https://sub.example.com"}
	o.Credentials = []fetch.Credential{
		{Origin: "https://example.com", Header: http.Header{"Authorization": {"one"}}},
		{Origin: "https://sub.example.com:443", Header: http.Header{"authorization": {"two"}}},
	}
	if _, err := read(t.Context(), client(t, o), "https://EXAMPLE.com/go"); err != nil {
		t.Fatal(err)
	}
	for origin, want := range map[string]string{"https://EXAMPLE.com": "one", "https://sub.example.com": "two"} {
		if got := w.at(origin); len(got) != 1 || got[0].Get("Authorization") != want {
			t.Errorf("%s: got %v, want %q", origin, got, want)
		}
	}
}

func TestOriginIsCanonical(t *testing.T) {
	for in, want := range map[string]string{
		"http://Example.ORG/x":         "http://example.org",
		"http://example.org:80/":       "http://example.org",
		"https://example.org:443":      "https://example.org",
		"https://example.org:80":       "https://example.org:80",
		"http://example.org:":          "http://example.org",
		"http://[::1]:80/":             "http://[::1]",
		"http://[::1]:8080/":           "http://[::1]:8080",
		"http://bücher.example/":       "http://xn--bcher-kva.example",
		"HTTP://xn--bcher-kva.example": "http://xn--bcher-kva.example",
	} {
		u, err := fetch.Parse(in)
		if err != nil {
			t.Errorf("%q: %v", in, err)
			continue
		}
		if got := fetch.Origin(u); got != want {
			t.Errorf("Origin(%q) = %q, want %q", in, got, want)
		}
	}
}
