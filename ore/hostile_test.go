package ore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"instep/fetch"
	"instep/internal/oaipmh"
)

// TestHostile: what isn't what it claims is bounded and reported, and what is good
// beside it is found all the same.
func TestHostile(t *testing.T) {
	s := newSite(t, "testdata/hostile.txtar")
	const self = "/self.atom"
	for _, test := range []struct {
		path           string
		maps, problems []string
		failed, notes  []string // parts of what is told
		err            error
	}{
		{path: "/cycle", problems: []string{"ore-html-link-indirect /cycle"}},
		{path: "/dead-end", problems: []string{"ore-html-link-indirect /nothing"}},
		{
			path: "/chain-1", maps: []string{"html-indirect " + self + " depth 3 from /chain-3"},
			notes: []string{"the Aggregation \"/self\" aggregates itself", "the map \"/self.atom\" aggregates itself"},
		},
		{
			path:     "/claims",
			problems: []string{"ore-uri-r-only-rem /page-as-map", "ore-uri-r-only-rem /claims"},
			failed:   []string{"/page-as-map: read \"/page-as-map\": not a Resource Map", "/cut.atom: read \"/cut.atom\": not a Resource Map: XML syntax error on line 3", "/image: read \"/image\": not a Resource Map", "/gone: get", "/claims: read \"/claims\": not a Resource Map", "/cut.rss: "},
			notes:    []string{"/page-as-feed: "},
			maps:     []string{"rss " + self + " depth 2 from /cut.rss"},
		},
		{path: "/large-head", maps: []string{"html-link " + self + " depth 1 from /large-head"}, notes: []string{"only the first 4 MiB"}},
		{path: "/large-tag", maps: []string{"html-link " + self + " depth 1 from /large-tag"}, failed: []string{"only the part before the error was used"}},
		{path: "/large-map", err: ErrTooLarge},
		{path: "/away", failed: []string{"/redirect: ", "http://127.0.0.1:1/private.atom: ", "http://169.254.169.254/latest/meta-data: "}},
		{path: "/bomb"},
		{
			path: "/feed-as-map", problems: []string{"ore-feed-separate-from-rem /list.atom"},
			maps: []string{"atom " + self + " depth 2 from /list.atom"}, notes: []string{"/cut.atom: "},
		},
		{path: "/gone", err: fetch.NotFound},
	} {
		o := s.find(t, Finder{}, test.path)
		if !errors.Is(o.err, test.err) {
			t.Errorf("%s: got %v, want %v", test.path, o.err, test.err)
		}
		if d := cmp.Diff(o.maps, test.maps); d != "" {
			t.Errorf("%s: maps (-got +want):\n%s", test.path, d)
		}
		if d := cmp.Diff(o.problems, test.problems); d != "" {
			t.Errorf("%s: problems (-got +want):\n%s", test.path, d)
		}
		if int(o.rep.Failed) < len(test.failed) {
			t.Errorf("%s: %d failed, want %d", test.path, o.rep.Failed, len(test.failed))
		}
		tells(t, test.path+": failed", o.failed, test.failed)
		tells(t, test.path+": notes", o.notes, test.notes)
		if len(test.failed) != len(o.failed) {
			t.Errorf("%s: failed: %q", test.path, o.failed)
		}
	}
}

// tells checks that each part is told of.
func tells(t *testing.T, what string, got, parts []string) {
	t.Helper()
	for _, part := range parts {
		if !slices.ContainsFunc(got, func(line string) bool { return strings.Contains(line, part) }) {
			t.Errorf("%s: got %q, want %q in it", what, got, part)
		}
	}
}

// TestBoundsOfASearch: depth and requests end a search that has no end.
func TestBoundsOfASearch(t *testing.T) {
	n := 0
	s := &site{Server: httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n++
		w.Header().Set("Content-Type", "text/html")
		for i := range 3 {
			_, _ = fmt.Fprintf(w, `<link rel="indirectresourcemap" type="text/html" href="%s%d">`, r.URL.Path, i)
		}
	}))}
	defer s.Close()
	o := s.find(t, Finder{Depth: 2}, "/x")
	if o.err != nil || n != 1+3+9 || o.rep.TooFar != 27 || o.rep.Cut {
		t.Errorf("got %+v, %v after %d requests, want 13 and 27 links too far", o.rep, o.err, n)
	}
	n = 0
	o = s.find(t, Finder{Requests: 5}, "/x")
	if o.err != nil || n != 5 || !o.rep.Cut {
		t.Errorf("got %+v, %v after %d requests, want a cut after 5", o.rep, o.err, n)
	}
}

// TestRepositoryWithoutEnd: the answers of a repository count as requests, even if they
// list only deleted records.
func TestRepositoryWithoutEnd(t *testing.T) {
	n := 0
	s := &site{Server: httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n++
		w.Header().Set("Content-Type", "text/xml")
		list := fmt.Sprintf(`<ListIdentifiers><header status="deleted"><identifier>%d</identifier><datestamp>2020-01-01</datestamp></header><resumptionToken>%d</resumptionToken></ListIdentifiers>`, n, n)
		switch r.FormValue("verb") {
		case "ListMetadataFormats":
			list = `<ListMetadataFormats><metadataFormat><metadataPrefix>ore</metadataPrefix></metadataFormat></ListMetadataFormats>`
		case "":
			list = `<error code="badVerb"/>`
		}
		_, _ = fmt.Fprintf(w, `<OAI-PMH xmlns="%s">%s</OAI-PMH>`, nsOAI, list)
	}))}
	defer s.Close()
	if o := s.find(t, Finder{Requests: 20}, "/oai"); o.err != nil || n > 25 || !o.rep.Cut {
		t.Errorf("got %+v, %v after %d requests; want a cut after 20", o.rep, o.err, n)
	}
}

// TestListOfTooManyLinks: a list of which links are skipped may lack maps.
func TestListOfTooManyLinks(t *testing.T) {
	s := &site{Server: httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/x" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/rss+xml")
		_, _ = fmt.Fprintf(w, `<rss><channel>%s</channel></rss>`, strings.Repeat("<item><link>/y</link></item>", maxLeads+1))
	}))}
	defer s.Close()
	if o := s.find(t, Finder{}, "/x"); o.err != nil || !o.rep.Cut {
		t.Errorf("got %+v, %v; want a cut", o.rep, o.err)
	}
}

// TestCancelledSearch: a search ends with its context.
func TestCancelledSearch(t *testing.T) {
	s := newSite(t, "testdata/site.txtar")
	ctx, cancel := context.WithCancel(context.Background())
	f := Finder{Client: s.client(t), Found: func(*Found) error { cancel(); return nil }}
	if rep, err := f.Find(ctx, s.URL+"/"); !errors.Is(err, context.Canceled) || rep.Maps != 1 {
		t.Errorf("got %+v, %v; want %v after one map", rep, err, context.Canceled)
	}
}

// TestShow reads one map, and says of anything else that it is none.
func TestShow(t *testing.T) {
	s := newSite(t, "testdata/site.txtar")
	m, err := Show(context.Background(), s.client(t), s.URL+"/aggregation", Limits{})
	if err != nil || m.Aggregation.URI != s.URL+"/aggregation" || len(m.Resources) != 1 {
		t.Errorf("got %+v, %v", m, err)
	}
	if _, err := Show(context.Background(), s.client(t), s.URL+"/about.html", Limits{}); !errors.Is(err, ErrNotMap) {
		t.Errorf("got %v, want %v", err, ErrNotMap)
	}
}

func TestGetRecord(t *testing.T) {
	const record = "http://museum.example.org/oai?verb=GetRecord&metadataPrefix=oai_rem&identifier=oai:1"
	for uri, want := range map[string]string{
		"https://gateway.example.org/pmh2ore?=" + record:                                                                            record, // as the text has it, unescaped
		"https://gateway.example.org/util?getRecordURL=" + record:                                                                   record,
		"https://gateway.example.org/pmh2ore?a=b&url=http%3A%2F%2Fmuseum.example.org%2Foai%3Fverb%3DGetRecord%26identifier%3D1&c=d": "http://museum.example.org/oai?verb=GetRecord&identifier=1",
		record: "",
		"https://gateway.example.org/?url=http://museum.example.org/": "",
		"https://museum.example.org/":                                 "",
	} {
		if got := getRecord(uri); got != want {
			t.Errorf("%s: got %q, want %q", uri, got, want)
		}
	}
}

func TestInScope(t *testing.T) {
	for _, test := range []struct {
		base, uri string
		want      bool
	}{
		{"https://museum.example.org/a/b/sitemap.xml", "https://museum.example.org/a/b/c/x.atom", true},
		{"https://museum.example.org/a/b/sitemap.xml", "https://museum.example.org/a/bar.atom", false},
		{"https://museum.example.org/a/b/sitemap.xml", "https://other.example.org/a/b/x.atom", false},
		{"https://museum.example.org/sitemap.xml", "https://museum.example.org", true},
		{"https://museum.example.org", "https://museum.example.org/x", true},
		{"sitemap.xml", "https://museum.example.org/x", true}, // a file is in no place of the web
	} {
		if got := inScope(test.base, test.uri); got != test.want {
			t.Errorf("%s lists %s: got %v, want %v", test.base, test.uri, got, test.want)
		}
	}
}

func TestRepositoryOf(t *testing.T) {
	for uri, want := range map[string]string{
		"https://museum.example.org/oai":                                     "https://museum.example.org/oai",
		"https://museum.example.org/oai?verb=Identify":                       "https://museum.example.org/oai",
		"https://museum.example.org/oai?db=1&verb=ListRecords&from=2026&x=y": "https://museum.example.org/oai?db=1&x=y",
	} {
		if got := repositoryOf(uri); got != want {
			t.Errorf("%s: got %q, want %q", uri, got, want)
		}
	}
	if got, want := recordURI("https://museum.example.org/oai?db=1", "ore", "oai:1"), "https://museum.example.org/oai?db=1&identifier=oai%3A1&metadataPrefix=ore&verb=GetRecord"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for format, want := range map[oaipmh.Format]bool{
		{Prefix: "oai_dc", Namespace: "http://www.openarchives.org/OAI/2.0/oai_dc/"}: false,
		{Prefix: "ore"}: true, {Prefix: "x", Namespace: nsAtom}: true, {Prefix: "REM_rdf"}: true, {Prefix: "more"}: false,
	} {
		if got := isMapFormat(format); got != want {
			t.Errorf("%+v: got %v, want %v", format, got, want)
		}
	}
}

// TestLargePageThatMayBeAMap: a link that may lead to a map leads to a page whose links are not
// followed, so the search lacks nothing if the page is not read whole.
func TestLargePageThatMayBeAMap(t *testing.T) {
	for name, page := range map[string]string{
		"page":  "<a rel='resourcemap=/m'>x</a>" + strings.Repeat("<p>large</p>", 1<<20),
		"image": "<a rel='resourcemap=/m'>x</a><img src='data:image/png;base64," + strings.Repeat("A", 2<<20) + "'>",
	} {
		t.Run(name, func(t *testing.T) {
			s := &site{Server: httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				if r.URL.Path == "/large" {
					_, _ = io.WriteString(w, page)
					return
				}
				_, _ = fmt.Fprintf(w, `<p>See http://%s/large`, r.Host)
			}))}
			defer s.Close()
			if o := s.find(t, Finder{}, "/x"); o.err != nil || o.rep.Cut || o.rep.Failed > 0 || len(o.failed) > 0 {
				t.Errorf("got %+v, %v, failed %q; want a whole search", o.rep, o.err, o.failed)
			}
		})
	}
}
