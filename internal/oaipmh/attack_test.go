package oaipmh_test

import (
	"context"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"instep/fetch"
	"instep/internal/oaipmh"
	"instep/internal/oaipmh/oaipmhtest"
)

// askFor asks a handler by GET.
func askFor(h http.Handler, path, query string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, &http.Request{Method: http.MethodGet, URL: &url.URL{Path: path, RawQuery: query}, Header: http.Header{}})
	return w
}

// inert reports whether a browser runs nothing of an answer in the name of our host:
// records and maps come from others, and XML may hold scripts of XHTML.
func inert(w *httptest.ResponseRecorder) bool {
	policy := w.Header().Get("Content-Security-Policy")
	return strings.Contains(policy, "sandbox") && strings.Contains(policy, "default-src 'none'") && w.Header().Get("X-Content-Type-Options") == "nosniff"
}

func TestAnswersRunNoScripts(t *testing.T) {
	for _, query := range []string{"verb=ListRecords&metadataPrefix=oai_dc", "verb=x", ""} {
		if w := askFor(handler(&shelf{n: 3}), "/oai", query); !inert(w) {
			t.Errorf("%q: header %v", query, w.Header())
		}
	}
	p := &oaipmhtest.Repository{Records: []oaipmhtest.Record{{Identifier: "a", Datestamp: day,
		Metadata: `<feed xmlns="http://www.w3.org/2005/Atom"><script xmlns="http://www.w3.org/1999/xhtml">alert(1)</script></feed>`}}}
	g, at := gateway(t, p)
	if w := askFor(g, "/pmh2ore", "url="+at+"?verb=GetRecord&metadataPrefix=x&identifier=a"); w.Code != http.StatusOK || !inert(w) {
		t.Errorf("%d, header %v", w.Code, w.Header())
	}
}

// gateway returns one to a repository, and where that is.
func gateway(t *testing.T, repository http.Handler) (*oaipmh.Gateway, string) {
	t.Helper()
	s := httptest.NewServer(repository)
	t.Cleanup(s.Close)
	f, err := fetch.New(fetch.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := oaipmh.NewGateway(f, []string{s.URL})
	if err == nil {
		err = g.Trust(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return g, s.URL + "/oai"
}

// TestArgumentsCannotBreakTheAnswer: whatever bytes arguments have, the answer is XML.
func TestArgumentsCannotBreakTheAnswer(t *testing.T) {
	h := handler(&shelf{n: 3})
	for _, value := range []string{
		"%EF%BF%BD%FF", "%FF", "%ED%A0%80", "%00", "%0B", "%EF%BF%BE", `"/><x y="`, "%3C/request%3E", "]]>", "%26%23x0;", "%0D%0ASet-Cookie:a=b", strings.Repeat("%3C", 20_000),
	} {
		for _, query := range []string{
			"verb=GetRecord&metadataPrefix=oai_dc&identifier=" + value, "verb=" + value, "verb=ListRecords&metadataPrefix=" + value,
			"verb=ListRecords&resumptionToken=" + value, "verb=Identify&" + value + "=x", "verb=ListRecords&metadataPrefix=oai_dc&set=" + value,
		} {
			w := askFor(h, "/oai", query)
			text := w.Body.String()
			if !utf8.ValidString(text) || w.Header().Get("Set-Cookie") != "" {
				t.Errorf("%.60s: not UTF-8, or a header of its own", query)
			}
			for d := xml.NewDecoder(strings.NewReader(text)); ; {
				if _, err := d.Token(); err == io.EOF {
					break
				} else if err != nil {
					t.Errorf("%.60s: %v in\n%.400s", query, err, text)
					break
				}
			}
		}
	}
}

// TestForgedTokens are refused, or lead to records that anybody may have.
func TestForgedTokens(t *testing.T) {
	h := handler(&shelf{n: 20})
	for _, text := range []string{
		`{"p":"oai_dc","a":"9223372036854775807","c":9223372036854775807}`, `{"p":"oai_dc","a":"7","c":9223372036854775807}`, `{"p":"oai_dc","a":"-1","c":0}`,
		`{"p":"oai_dc","s":"' OR 1=1 --","a":"7","c":7}`, `{"p":"../../etc/passwd","a":"7","c":7}`, `{"p":"oai_dc","a":"7","c":7,"c":8}`,
		`{"p":"oai_dc","f":"9999-12-31T23:59:59Z","a":"7","c":7}`, "[]", "null", strings.Repeat("[", 40_000),
	} {
		w := askFor(h, "/oai", "verb=ListRecords&resumptionToken="+base64.RawURLEncoding.EncodeToString([]byte(text)))
		if w.Code != http.StatusOK {
			t.Errorf("%.60s: %d %s", text, w.Code, w.Body)
		}
		if strings.Contains(w.Body.String(), `cursor="-`) {
			t.Errorf("%.60s: %s", text, w.Body)
		}
	}
}

// TestGatewayKeepsFieldsShort: what a repository says of itself makes neither other fields
// nor long ones.
func TestGatewayKeepsFieldsShort(t *testing.T) {
	p := &oaipmhtest.Repository{Records: []oaipmhtest.Record{{Identifier: "a", Datestamp: day, Metadata: `<feed xmlns="http://www.w3.org/2005/Atom"/>`}}}
	p.Change = func(_ *http.Request, text string) string {
		begin, end := strings.Index(text, "<request"), strings.Index(text, "</request>")
		return text[:begin] + "<request>http://example.org/\r\nSet-Cookie: a=b\n" + strings.Repeat("x", 60<<10) + text[end:]
	}
	g, at := gateway(t, p)
	w := askFor(g, "/pmh2ore", "url="+at+"?verb=GetRecord&metadataPrefix=x&identifier=a")
	for name, values := range w.Header() {
		for _, v := range values {
			if len(v) > 8<<10 || strings.ContainsAny(v, "\r\n") {
				t.Errorf("%s has %d bytes", name, len(v))
			}
		}
	}
	if w.Code != http.StatusOK || w.Header().Get("Set-Cookie") != "" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}

// TestGatewayAsksOnlyWhatItMay: the repositories that it was given, by their paths if they
// have some, and no others by another spelling.
func TestGatewayAsksOnlyWhatItMay(t *testing.T) {
	f, err := fetch.New(fetch.Options{Dial: func(context.Context, string, string) (net.Conn, error) {
		t.Error("something was dialled")
		return nil, errors.New("no network")
	}, Resolve: func(context.Context, string) ([]netip.Addr, error) {
		t.Error("a name was asked for")
		return nil, errors.New("no names")
	}})
	if err != nil {
		t.Fatal(err)
	}
	g, err := oaipmh.NewGateway(f, []string{"https://repo.example.org/oai", "https://127.0.0.1:8443/oai"})
	if err != nil {
		t.Fatal(err)
	}
	const q = "?verb=GetRecord&metadataPrefix=x&identifier=a"
	for _, target := range []string{
		"https://repo.example.org/admin/delete" + q, "https://repo.example.org/oai/../admin" + q, "https://repo.example.org/oai/%2e%2e/admin" + q, "https://repo.example.org/oai/" + q,
		"https://repo.example.org/" + q, "https://repo.example.org:444/oai" + q, "http://repo.example.org/oai" + q, "https://repo.example.org@evil.example.org/oai" + q,
		"https://evil.example.org#@repo.example.org/oai" + q, "https://a:b@repo.example.org/oai" + q, "https://repo.example.org.evil.example.org/oai" + q,
		"https://[::ffff:127.0.0.1]:8443/oai" + q, "https://[::ffff:7f00:1]:8443/oai" + q, "https://127.1:8443/oai" + q, "https://2130706433:8443/oai" + q, "https://0177.0.0.1:8443/oai" + q,
		"https://localhost:8443/oai" + q, "https://169.254.169.254/oai" + q, "file:///oai" + q, "gopher://repo.example.org/oai" + q, "//repo.example.org/oai" + q, `https:\\repo.example.org/oai` + q,
		"https://repo.example.org/oai?verb=Identify", "https://repo.example.org/oai?verb=Identify&verb=GetRecord", "https://repo.example.org/oai?verb=GetRecord&verb=Identify",
	} {
		for _, query := range []string{"url=" + target, "url=" + url.QueryEscape(target)} {
			if w := askFor(g, "/pmh2ore", query); w.Code != http.StatusForbidden && w.Code != http.StatusBadRequest {
				t.Errorf("%s: %d %s", query, w.Code, w.Body)
			}
		}
	}
}

// TestGatewayIsNotRebound: a repository whose name leads to this machine after the start is
// not asked, neither at once nor later.
func TestGatewayIsNotRebound(t *testing.T) {
	addr := "93.184.215.14"
	dialled := ""
	f, err := fetch.New(fetch.Options{
		Resolve: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr(addr)}, nil
		},
		Dial: func(_ context.Context, _, to string) (net.Conn, error) {
			dialled = to
			return nil, errors.New("no network")
		},
		MaxRetries: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	g, err := oaipmh.NewGateway(f, []string{"http://repo.example.org"})
	if err == nil {
		err = g.Trust(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, addr = range []string{"127.0.0.1", "::1", "::ffff:127.0.0.1", "10.0.0.1", "169.254.169.254", "fd00::1", "0.0.0.0"} {
		for range 2 {
			w := askFor(g, "/pmh2ore", "url=http://repo.example.org/oai?verb=GetRecord&identifier=a&metadataPrefix=x")
			if w.Code != http.StatusBadGateway || dialled != "" {
				t.Errorf("%s: %d, dialled %q: %s", addr, w.Code, dialled, w.Body)
			}
		}
	}
}

// TestTooManyAtOnce: beyond the number of answers that are made at a time a client is sent
// away for a while, so that memory is bounded.
func TestTooManyAtOnce(t *testing.T) {
	h := handler(&shelf{n: 3})
	h.Parallel = 2
	begun, end := make(chan bool), make(chan bool)
	done := make(chan bool)
	for range h.Parallel {
		go func() {
			h.ServeHTTP(&held{ResponseRecorder: httptest.NewRecorder(), begun: begun, end: end}, httptest.NewRequest(http.MethodGet, "/oai?verb=Identify", nil))
			done <- true
		}()
		<-begun
	}
	if w := askFor(h, "/oai", "verb=Identify"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	close(end)
	for range h.Parallel {
		<-done
	}
	if w := askFor(h, "/oai", "verb=Identify"); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// held is a client that takes nothing until it is told to.
type held struct {
	*httptest.ResponseRecorder
	begun, end chan bool
	once       bool
}

func (h *held) Write(p []byte) (int, error) {
	if !h.once {
		h.once = true
		h.begun <- true
		<-h.end
	}
	return h.ResponseRecorder.Write(p)
}
