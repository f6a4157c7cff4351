package ore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"instep/fetch"
)

// site is a server whose answers are the files of an archive: a file
//
//	/PATH[?QUERY] [page]
//
// is the answer to a request for it: header fields, an empty line and the body. With
// "page" it is the answer to a request that likes text/html best. The field Status is for
// the server, "#fill N TEXT" in a body stands for N bytes of TEXT again and again, or of blanks, and {{base}} for the origin.
type site struct {
	*httptest.Server
	files map[string][]byte

	mu    sync.Mutex
	asked []string
}

func newSite(t testing.TB, archive string) *site {
	t.Helper()
	s := &site{files: map[string][]byte{}}
	for _, f := range readArchive(t, archive).Files {
		s.files[f.Name] = f.Data
	}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.URL.RequestURI())
	s.mu.Unlock()
	text, ok := s.files[r.URL.RequestURI()]
	if page, has := s.files[r.URL.RequestURI()+" page"]; has && strings.HasPrefix(r.Header.Get("Accept"), "text/html") {
		text, ok = page, true
	}
	if !ok {
		http.NotFound(w, r)
		return
	}
	head, body, _ := bytes.Cut(append([]byte("\n"), bytes.ReplaceAll(text, []byte("{{base}}"), []byte(s.URL))...), []byte("\n\n"))
	status := http.StatusOK
	for line := range strings.Lines(string(head)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
		switch {
		case !ok:
		case name == "Status":
			_, _ = fmt.Sscan(value, &status)
		default:
			w.Header().Add(name, value)
		}
	}
	w.WriteHeader(status)
	before, rest, filled := bytes.Cut(body, []byte("#fill "))
	_, _ = w.Write(before) // who asked tells
	if filled {
		n := 0
		_, _ = fmt.Sscan(string(rest), &n)
		line, after, _ := bytes.Cut(rest, []byte("\n"))
		_, unit, _ := bytes.Cut(line, []byte(" "))
		if len(unit) == 0 {
			unit = []byte(" ")
		}
		_, _ = w.Write(bytes.Repeat(unit, n/len(unit)))
		_, _ = w.Write(after)
	}
}

// client makes a client that may ask the server.
func (s *site) client(t testing.TB) *fetch.Client {
	t.Helper()
	c, err := fetch.New(fetch.Options{AllowPrivate: []string{s.Listener.Addr().String()}, MaxRetries: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// search is what one search reported, a line each.
type outcome struct {
	maps, problems, notes, failed []string
	rep                           Report
	err                           error
}

// find searches from a path and writes down what is reported.
func (s *site) find(t testing.TB, f Finder, path string) outcome {
	t.Helper()
	var o outcome
	short := func(text string) string { return strings.ReplaceAll(text, s.URL, "") }
	f.Client = s.client(t)
	f.Found = func(m *Found) error {
		line := fmt.Sprintf("%s %s depth %d", m.Way, m.URI, m.Depth)
		if m.Page != "" {
			line += " from " + m.Page
		}
		if m.Record != "" {
			line += " record " + m.Record
		}
		o.maps = append(o.maps, short(line))
		return nil
	}
	f.Problem = func(p Problem) { o.problems = append(o.problems, short(p.Rule+" "+p.Entry)) }
	f.Note = func(uri, text string) { o.notes = append(o.notes, short(uri+": "+text)) }
	f.Failed = func(uri string, err error) { o.failed = append(o.failed, short(uri+": "+err.Error())) }
	o.rep, o.err = f.Find(context.Background(), s.URL+path)
	return o
}

// TestEveryWay: a site with every way of the text and the two that it advises against.
// Each map is listed once, with the way by which it was found.
func TestEveryWay(t *testing.T) {
	s := newSite(t, "testdata/site.txtar")
	o := s.find(t, Finder{}, "/")
	want := []string{
		"link-header /maps/header.atom depth 1 from /",
		"html-link /maps/link.rdf depth 1 from /",
		"html-attribute /maps/attribute.atom depth 1 from /",
		"html-attribute /maps/image.atom depth 1 from /",
		"html-rel /maps/rel.atom depth 1 from /",
		"html-text /maps/shown.atom depth 1 from /",
		"html-text /maps/copied.atom depth 1 from /",
		"simple-file /maps/simple.atom depth 1 from /",
		"atom /maps/fed.atom depth 2 from /maps.atom",
		"atom /pmh2ore?url=http%3A%2F%2Fmuseum.example.org%2Foai%3Fverb%3DGetRecord%26metadataPrefix%3Doai_rem%26identifier%3Doai%3A2 depth 2 from /maps.atom record http://museum.example.org/oai?verb=GetRecord&metadataPrefix=oai_rem&identifier=oai:2",
		"rss /maps/item.atom depth 2 from /maps.rss",
		"conflated-uri /data/conflated depth 1 from /",
		"conflated-uri /negotiated depth 1 from /",
		"aggregation /maps/aggregation.rdf depth 1 from /",
		"oai-pmh /oai?identifier=oai%3Amuseum.example.org%3A1&metadataPrefix=oai_rem&verb=GetRecord depth 2 from /oai",
		"sitemap /maps/listed.atom depth 3 from /sitemap-1.xml",
		"html-indirect /maps/indirect.jsonld depth 3 from /contents.html",
		"resource-map /maps/nested.atom depth 4 from /maps/indirect.jsonld",
	}
	if o.err != nil || len(o.failed) > 0 {
		t.Errorf("got %v, failed %q", o.err, o.failed)
	}
	slices.Sort(want)
	slices.Sort(o.maps)
	if d := cmp.Diff(o.maps, want); d != "" {
		t.Errorf("maps (-got +want):\n%s", d)
	}
	if o.rep.Maps != int64(len(want)) {
		t.Errorf("got %d maps, want %d", o.rep.Maps, len(want))
	}
	wantProblems := []string{
		"ore-html-rel-resourcemap-uri /maps/rel.atom",
		"ore-html-resourcemap-attribute /maps/attribute.atom",
		"ore-html-resourcemap-attribute /maps/image.atom",
		"ore-no-303-conflation /resource/conflated",
		"ore-no-conneg-conflation /negotiated",
		"ore-simple-files-not-recommended /maps/simple.atom",
		"ore-uri-r-only-rem /negotiated",
	}
	slices.Sort(o.problems)
	if d := cmp.Diff(o.problems, wantProblems); d != "" {
		t.Errorf("problems (-got +want):\n%s", d)
	}
}

var errStop = errors.New("enough")

// TestFoundEndsTheSearch: the error of Found is that of Find.
func TestFoundEndsTheSearch(t *testing.T) {
	s := newSite(t, "testdata/site.txtar")
	n := 0
	f := Finder{Client: s.client(t), Found: func(*Found) error { n++; return errStop }}
	if _, err := f.Find(context.Background(), s.URL+"/"); !errors.Is(err, errStop) || n != 1 {
		t.Errorf("got %v after %d maps, want %v after 1", err, n, errStop)
	}
	if _, err := f.Find(context.Background(), s.URL+"/maps/header.atom"); !errors.Is(err, errStop) {
		t.Errorf("the map given: got %v, want %v", err, errStop)
	}
}
