package oaipmh_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"instep/internal/oaipmh/oaipmhtest"
)

func TestGateway(t *testing.T) {
	const feed = `<feed xmlns="http://www.w3.org/2005/Atom"><id>tag:example.org,2007:a</id></feed>`
	p := &oaipmhtest.Repository{}
	p.Records = []oaipmhtest.Record{
		{Identifier: "atom", Datestamp: day, Metadata: feed},
		{Identifier: "rdf", Datestamp: day, Metadata: `<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#"/>`},
		{Identifier: "dc", Datestamp: day, Title: "x"},
		{Identifier: "gone", Datestamp: day, Deleted: true},
		{Identifier: "broken", Datestamp: day, Metadata: "<feed><x></feed>"},
	}
	g, at := gateway(t, p)
	record := at + "?verb=GetRecord&metadataPrefix=oai_rem&identifier="
	for _, c := range []struct {
		name, query string
		status      int
		media, body string
	}{
		{"escaped", "url=" + url.QueryEscape(record+"atom"), 200, "application/atom+xml", feed},
		{"as it is", "url=" + record + "atom", 200, "application/atom+xml", feed},
		{"RDF/XML", "url=" + record + "rdf", 200, "application/rdf+xml", "<r:RDF"},
		{"no map", "url=" + record + "dc", 502, "", "expected a Resource Map"},
		{"deleted", "url=" + record + "gone", 410, "", ""},
		{"not there", "url=" + record + "none", 404, "", ""},
		{"not well-formed", "url=" + record + "broken", 502, "", ""},
		{"another verb", "url=" + at + "?verb=Identify", 400, "", ""},
		{"another host", "url=https://example.org/oai?verb=GetRecord", 403, "", ""},
		{"a private host", "url=http://127.0.0.1:1/oai?verb=GetRecord", 403, "", ""},
		{"nothing", "", 400, "", ""},
		{"no URL", "url=file:///etc/passwd", 400, "", ""},
	} {
		w := httptest.NewRecorder()
		g.ServeHTTP(w, &http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/pmh2ore", RawQuery: c.query}})
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.body) || c.media != "" && w.Header().Get("Content-Type") != c.media {
			t.Errorf("%s: %d %s %s", c.name, w.Code, w.Header(), w.Body)
		}
		if c.status == 200 && (w.Header().Get("responseDate") != "2026-01-01T00:00:00Z" || w.Header().Get("request") != at || strings.Contains(w.Body.String(), "OAI-PMH")) {
			t.Errorf("%s: header %v, body %s", c.name, w.Header(), w.Body)
		}
	}
}
