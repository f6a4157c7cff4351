package lint

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"instep/fetch"
)

// site is an example of one or several live rules: what a server answers. In
// testdata/live the file
//
//	RULE[,RULE]/bad PATH [VARIANT]
//
// is the answer to a request for PATH: header fields, an empty line and the body. The
// first one of an example is checked. VARIANT is "again" for the answer from the second
// request on, or "page" for that to a request for text/html. The fields Status and
// Compress are for the server: the latter compresses the body with gzip. {{base}} is the
// origin of the server; {{hash PATH}} and {{length PATH}} describe a body as it is
// written. Unless the example says otherwise, there is a Source Description.
// RULE[,RULE]/also is as in testdata/rules.
type site struct {
	fixture
	start   string
	answers map[string]answer
}

type answer struct {
	header textproto.MIMEHeader
	body   []byte
}

func readSites(t testing.TB) []*site { return sitesIn(t, "live") }

// sitesIn reads the sites of the archives in a directory of testdata.
func sitesIn(t testing.TB, dir string) []*site {
	t.Helper()
	files, err := filepath.Glob("testdata/" + dir + "/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no sites: %v", err)
	}
	var all []*site
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range a.Files {
			all = addAnswer(t, all, file, f)
		}
	}
	return all
}

// addAnswer adds a file of an archive to the example that it belongs to.
func addAnswer(t testing.TB, all []*site, file string, f txtar.File) []*site {
	t.Helper()
	name, request, ok := strings.Cut(f.Name, " ")
	if strings.HasSuffix(name, "/also") {
		fixtures := make([]*fixture, len(all))
		for i := range all {
			fixtures[i] = &all[i].fixture
		}
		readAlso(t, f, fixtures)
		return all
	}
	rules, name, _ := strings.Cut(name, "/")
	if !ok || !strings.HasPrefix(name, "good") && !strings.HasPrefix(name, "bad") {
		t.Fatalf("%s: %s: expected good or bad, and a path", file, f.Name)
	}
	if n := len(all); n == 0 || all[n-1].String() != rules+"/"+name {
		all = append(all, &site{
			fixture: fixture{file: file, rules: strings.Split(rules, ","), name: name, also: map[string][]string{}},
			start:   strings.Fields(request)[0],
			answers: map[string]answer{"/.well-known/resourcesync": {
				textproto.MIMEHeader{"Content-Type": {"application/xml"}},
				declareNamespaces([]byte(`<urlset><rs:md capability="description"/></urlset>`)),
			}},
		})
	}
	all[len(all)-1].answers[request] = parseAnswer(t, f)
	return all
}

func parseAnswer(t testing.TB, f txtar.File) answer {
	t.Helper()
	a := answer{header: textproto.MIMEHeader{}}
	head, body, ok := bytes.Cut(append([]byte("\n"), f.Data...), []byte("\n\n"))
	if !ok {
		t.Fatalf("%s: expected an empty line after the header", f.Name)
	}
	for line := range strings.Lines(string(head)) {
		if name, value, ok := strings.Cut(line, ":"); ok {
			a.header.Add(name, strings.TrimSpace(value))
		}
	}
	a.body = declareNamespaces(body)
	return a
}

var placeholder = regexp.MustCompile(`\{\{(\w+)(?: ([^}]+))?\}\}`)

// profiles are those that have one of the rules; the proposal of 2013, in which a Source
// is found otherwise, only if no other has them.
func (s *site) profiles() []Profile {
	all := s.fixture.profiles()
	if len(all) > 1 {
		all = slices.DeleteFunc(all, func(p Profile) bool { return p == ProfileDLib })
	}
	return all
}

// serve starts a server for the example.
func (s *site) serve(t testing.TB) *httptest.Server {
	var mu sync.Mutex
	count := map[string]int{}
	srv := httptest.NewUnstartedServer(nil)
	srv.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		at := r.URL.RequestURI()
		count[at]++
		again := count[at] > 1
		mu.Unlock()
		a, ok := s.answers[at]
		if v, has := s.answers[at+" again"]; has && again {
			a = v
		}
		if v, has := s.answers[at+" page"]; has && strings.HasPrefix(r.Header.Get("Accept"), "text/html") {
			a = v
		}
		if !ok {
			http.NotFound(w, r)
			return
		}
		s.write(t, w, a, srv.URL)
	})
	srv.Start()
	return srv
}

func (s *site) write(t testing.TB, w http.ResponseWriter, a answer, base string) {
	status := http.StatusOK
	fill := func(text []byte) []byte { return s.fill(text, base) }
	body := fill(a.body)
	for name, values := range a.header {
		switch name {
		case "Status":
			if _, err := fmt.Sscan(values[0], &status); err != nil {
				t.Errorf("%s: Status: %v", s, err)
			}
		case "Compress":
			body = packed(t, body)
		default:
			for _, v := range values {
				w.Header().Add(name, string(fill([]byte(v))))
			}
		}
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // who asked tells
}

func (s *site) fill(text []byte, base string) []byte {
	return placeholder.ReplaceAllFunc(text, func(p []byte) []byte {
		m := placeholder.FindSubmatch(p)
		body := s.answers[string(m[2])].body
		switch string(m[1]) {
		case "base":
			return []byte(base)
		case "hash":
			sum := md5.Sum(body)
			return []byte("md5:" + hex.EncodeToString(sum[:]))
		case "length":
			return fmt.Append(nil, len(body))
		}
		return p
	})
}

func packed(t testing.TB, body []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(body); err != nil {
		t.Error(err)
	}
	if err := z.Close(); err != nil {
		t.Error(err)
	}
	return b.Bytes()
}

var liveNow = time.Date(2024, 6, 1, 0, 0, 0, 0, time.UTC)

// newLive makes a Live for a server of this machine.
func newLive(t testing.TB, srv *httptest.Server, c *Checker) *Live {
	t.Helper()
	client, err := fetch.New(fetch.Options{AllowPrivate: []string{srv.Listener.Addr().String()}, MaxRetries: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &Live{
		Checker: c, Client: client, Now: func() time.Time { return liveNow },
		Unchecked: func(uri string, err error) { t.Errorf("not checked: %s: %v", uri, err) },
	}
}

// checkURL does with a URI what a command does with it.
func checkURL(t testing.TB, l *Live, uri string) {
	t.Helper()
	ctx := context.Background()
	resp, err := l.Client.Document(ctx, uri, 0, fetch.Validators{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := Answer{resp.URL, resp.Header}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }
	if _, err := l.LinkHeader(ctx, uri, a); err != nil {
		t.Fatal(err)
	}
	switch Recognise(uri, text) {
	case FormHTML:
		if _, err := l.HTML(ctx, uri, a.URL, bytes.NewReader(text)); err != nil {
			t.Fatal(err)
		}
		return
	case FormRobots:
		if _, err := l.Checker.Robots(ctx, uri, bytes.NewReader(text)); err != nil {
			t.Fatal(err)
		}
		return
	}
	d, err := l.Checker.Document(ctx, uri, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Document(ctx, &d, a, open); err != nil {
		t.Fatal(err)
	}
	if err := l.Source(ctx, a, d); err != nil {
		t.Fatal(err)
	}
}

// found checks the site and returns the live rules that it breaks.
func (s *site) found(t testing.TB, p Profile, disabled string) []string {
	t.Helper()
	srv := s.serve(t)
	defer srv.Close()
	set := map[string]bool{}
	c := &Checker{Profile: p, Derived: true, Disabled: map[string]bool{disabled: true}, Report: func(f Finding) {
		if r, ok := Lookup(f.Rule); ok && r.Checkable == "live" {
			set[f.Rule] = true
		}
	}}
	checkURL(t, newLive(t, srv, c), srv.URL+s.start)
	found := []string{}
	for id := range set {
		found = append(found, id)
	}
	slices.Sort(found)
	return found
}

// TestLiveRules: a bad site breaks its rule and a good one does not, in each profile
// that has the rule; and no other live rule is broken but what is listed.
func TestLiveRules(t *testing.T) {
	for _, s := range readSites(t) {
		for _, p := range s.profiles() {
			got, want := s.found(t, p, ""), s.want(p)
			if d := gocmp.Diff(got, append([]string{}, want...)); d != "" {
				t.Errorf("%s in profile %s (-got +want):\n%s", s, p, d)
			}
		}
	}
}

// liveCheck is the name of what checks a live rule.
func liveCheck(r *Rule) string {
	if permits(r) {
		return "permitted"
	}
	return cmp.Or(liveChecks[r.ID], "Live.Document")
}

func permits(r *Rule) bool { return checkName(r.Family) == "permitted" }

// liveChecks are the checks of live rules that Live.Document does not have.
var liveChecks = map[string]string{
	"source-description-published":      "Live.Source",
	"source-description-well-known":     "Live.Source",
	"quirk-14-description-elsewhere":    "Live.Source",
	"dlib-discovery":                    "Live.Source",
	"html-link-target-capabilitylist":   "Live.HTML",
	"quirk-15-html-link-to-description": "Live.HTML",
	"http-link-target-capabilitylist":   "Live.LinkHeader",
}

// TestLiveRulesHaveExamples: each live rule has a bad site, or a good one if nothing can
// break it.
func TestLiveRulesHaveExamples(t *testing.T) {
	var fixtures []*fixture
	for _, s := range readSites(t) {
		fixtures = append(fixtures, &s.fixture)
	}
	good, bad := examples(fixtures)
	for _, r := range Rules() {
		if r.Checkable != "live" || r.Version == "ore-alpha" {
			continue
		}
		if good[r.ID] == 0 || bad[r.ID] == 0 && !permits(&r) {
			t.Errorf("%s has %d good examples and %d bad ones", r.ID, good[r.ID], bad[r.ID])
		}
	}
}
