package sim

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/blob"
	"instep/resourcesync"
)

// site is a Source that is served, in memory.
type site struct {
	t *testing.T
	*Source
	url string // ends in "/"
	res Resource
}

// newSite serves a Source of 60 resources with some fifty changes in small lists.
func newSite(t *testing.T, on ...Switched) *site {
	t.Helper()
	m := newModel(t, Config{Seed: 5, Resources: 60, Rate: 5, Mix: Mix{1, 2, 1}, Size: Size{Kind: Uniform, Low: 500, High: 3000}})
	return serve(t, Options{
		Model: m, Bucket: blob.NewMem(), Staging: blob.NewMem(), ChangeListMax: 20, MaxEntries: 25, Dumps: true,
		Keep: time.Minute, Generator: "sim test", Switches: on,
	})
}

func serve(t *testing.T, o Options) *site {
	t.Helper()
	srv := httptest.NewUnstartedServer(nil)
	o.BaseURL = "http://" + srv.Listener.Addr().String() + "/"
	s, err := NewSource(o)
	if err != nil {
		t.Fatal(err)
	}
	srv.Config.Handler = s
	srv.Start()
	t.Cleanup(srv.Close)
	for _, d := range []time.Duration{0, 10 * time.Second} {
		if _, err := s.Round(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	site := &site{t: t, Source: s, url: o.BaseURL}
	for site.res = range o.Model.Resources(0) {
		if site.res.Version == 1 { // it is as the first Resource List has it
			break
		}
	}
	return site
}

var client = &http.Client{
	Transport:     &http.Transport{DisableCompression: true, DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// ask asks for a path with headers, name and value in turn.
func (s *site) ask(path string, headers ...string) *http.Response {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// get returns an answer as text: status, headers, body.
func (s *site) get(path string, headers ...string) string {
	s.t.Helper()
	resp := s.ask(path, headers...)
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatalf("GET %s: %v", path, err)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n", resp.Status)
	_ = resp.Header.Write(&text)
	return strings.ReplaceAll(text.String(), "\r\n", "\n") + "\n" + string(body)
}

func (s *site) body(path string, headers ...string) string {
	_, body, _ := strings.Cut(s.get(path, headers...), "\n\n")
	return body
}

// entries reads a document and returns its entries.
func (s *site) entries(path string) (all []resourcesync.Entry) {
	s.t.Helper()
	for en, err := range resourcesync.NewDecoder(strings.NewReader(s.body(path))).Entries() {
		if err != nil {
			s.t.Fatalf("%s: %v", path, err)
		}
		all = append(all, en)
	}
	return all
}

// listed is what the entries of a list say of resources.
func listed(entries []resourcesync.Entry, base string) map[string]string {
	all := map[string]string{}
	for _, en := range entries {
		all[strings.TrimPrefix(en.Loc, base)] = fmt.Sprintf("%d %s", en.Length.Int64(), strings.TrimPrefix(en.Digests.String(), "sha-256:"))
	}
	return all
}

func TestAResourceListIsTheTruthOfItsMoment(t *testing.T) {
	m := newModel(t, Config{Seed: 5, Resources: 60, Rate: 5})
	s := serve(t, Options{Model: m, Bucket: blob.NewMem(), Staging: blob.NewMem()})
	got := listed(s.entries("resourcesync/resourcelist.xml"), s.url)
	if diff := cmp.Diff(truthAt(t, m, start), got); diff != "" {
		t.Errorf("Resource List (-want +got):\n%s", diff)
	}
	changes := s.entries("resourcesync/changes/1.xml")
	if int64(len(changes)) != m.Last(0) || len(changes) < 20 {
		t.Errorf("Change List: got %d changes, want %d", len(changes), m.Last(0))
	}
	if n := s.journal.publications(); n != 2 {
		t.Errorf("publications: got %d, want 2", n)
	}
	if err := s.Publish(t.Context()); err != nil || s.journal.publications() != 2 {
		t.Errorf("publishing when nothing is new: got %v and %d publications", err, s.journal.publications())
	}
}

func TestChangesAreDividedIntoListsWithoutGap(t *testing.T) {
	s := newSite(t)
	var total int64
	until := ""
	for number := int64(1); number <= s.o.Model.Last(0); number += 20 {
		d := resourcesync.NewDecoder(strings.NewReader(s.body(fmt.Sprintf("resourcesync/changes/%d.xml", number))))
		h, err := d.Header()
		if err != nil {
			t.Fatal(err)
		}
		if until != "" && h.From.String() != until {
			t.Errorf("list %d: from %s, the list before ends at %s", number, h.From, until)
		}
		until = h.Until.String()
		for _, err := range d.Entries() {
			if err != nil {
				t.Fatal(err)
			}
			total++
		}
	}
	if total != s.o.Model.Last(0) || until != "" {
		t.Errorf("got %d changes in all and a last list until %q, want %d and an open one", total, until, s.o.Model.Last(0))
	}
}

func TestResourcesAreServedWhole(t *testing.T) {
	s := newSite(t)
	resp := s.ask(s.res.Path)
	body, err := io.ReadAll(resp.Body)
	if err != nil || sha256.Sum256(body) != s.res.SHA256 {
		t.Fatalf("got %d bytes, %v: not those of the digest", len(body), err)
	}
	for name, want := range map[string]string{"Content-Type": s.res.Type, "Content-Length": fmt.Sprint(s.res.Length), "Accept-Ranges": "bytes"} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if got := s.body(s.res.Path, "Range", "bytes=100-199"); got != string(body[100:200]) {
		t.Errorf("a range: got %q", got)
	}
	if got := s.ask(s.res.Path, "If-None-Match", resp.Header.Get("ETag")).StatusCode; got != http.StatusNotModified {
		t.Errorf("on a condition: got %d, want 304", got)
	}
	if got := s.ask("r/0000/99999999.txt").StatusCode; got != http.StatusNotFound {
		t.Errorf("a resource that is none: got %d, want 404", got)
	}
	if got := s.ask("resourcesync/../resourcesync/about.html").StatusCode; got != http.StatusNotFound {
		t.Errorf("a path that climbs: got %d, want 404", got)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url, strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	post, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer post.Body.Close()
	if post.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: got %d, want 405", post.StatusCode)
	}
}

func TestDocumentsHaveTheirValidator(t *testing.T) {
	s := newSite(t)
	const changes = "resourcesync/changes/1.xml"
	tag := s.ask("resourcesync/capabilitylist.xml").Header.Get("ETag")
	if got := s.ask("resourcesync/capabilitylist.xml", "If-None-Match", tag).StatusCode; tag == "" || got != http.StatusNotModified {
		t.Errorf("with ETag %q: got %d, want 304", tag, got)
	}
	if got, want := s.body(changes, "Range", "bytes=5-20"), s.body(changes)[5:21]; got != want {
		t.Errorf("a range: got %q, want %q", got, want)
	}
}

func TestTheTruthIsServed(t *testing.T) {
	s := newSite(t)
	path := strings.TrimPrefix(TruthPath, "/")
	for query, want := range map[string]map[string]string{
		"":                         present(s.o.Model),
		"?at=2026-03-01T12:00:05Z": truthAt(t, s.o.Model, start.Add(5*time.Second)),
	} {
		rows, err := csv.NewReader(strings.NewReader(s.body(path + query))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, row := range rows[1:] {
			got[strings.TrimPrefix(row[0], s.url)] = row[1] + " " + row[2]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("truth%s (-want +got):\n%s", query, diff)
		}
	}
	if got := s.ask(path + "?at=noon").StatusCode; got != http.StatusBadRequest {
		t.Errorf("at noon: got %d, want 400", got)
	}
	req := httptest.NewRequest(http.MethodGet, TruthPath, nil)
	req.RemoteAddr = "192.0.2.7:1234"
	answer := httptest.NewRecorder()
	s.ServeHTTP(answer, req)
	if answer.Code != http.StatusForbidden {
		t.Errorf("from elsewhere: got %d, want 403", answer.Code)
	}
}

func TestSeveralSetsShareTheResources(t *testing.T) {
	m := newModel(t, Config{Seed: 5, Resources: 60, Rate: 5, Sets: 3})
	s := serve(t, Options{Model: m, Bucket: blob.NewMem(), Staging: blob.NewMem()})
	all := map[string]string{}
	for _, set := range []string{"set-0001", "set-0002", "set-0003"} {
		for path, what := range listed(s.entries("resourcesync/sets/"+set+"/resourcelist.xml"), s.url) {
			if all[path] != "" {
				t.Errorf("%q is in two sets", path)
			}
			all[path] = what
		}
	}
	if diff := cmp.Diff(truthAt(t, m, start), all); diff != "" {
		t.Errorf("all sets (-want +got):\n%s", diff)
	}
	for _, page := range []string{"", "robots.txt"} {
		if got := strings.Count(s.body(page), s.url+"resourcesync/sets/set-000"); got != 3 {
			t.Errorf("sets that %q leads to: got %d, want 3", page, got)
		}
	}
	if got := len(s.entries("resourcesync/description.xml")); got != 3 {
		t.Errorf("sets described: got %d, want 3", got)
	}
}

func TestTheSameCallsGiveTheSameDocuments(t *testing.T) {
	keys := func() map[string]string {
		m := newModel(t, Config{Seed: 9, Resources: 50, Rate: 5})
		o := Options{Model: m, BaseURL: "http://sim.example.org/", Bucket: blob.NewMem(), Staging: blob.NewMem(), ChangeListMax: 10}
		s, err := NewSource(o)
		if err != nil {
			t.Fatal(err)
		}
		for range 4 {
			if _, err := s.Round(t.Context(), 5*time.Second); err != nil {
				t.Fatal(err)
			}
		}
		all := map[string]string{}
		for info, err := range o.Bucket.List(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			r, _, err := o.Bucket.Get(t.Context(), info.Key, 0, -1)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(r)
			all[info.Key] = string(text)
		}
		return all
	}
	if diff := cmp.Diff(keys(), keys()); diff != "" {
		t.Errorf("documents (-first +second):\n%s", diff)
	}
}

func TestOptionsOutOfBoundsAreRefused(t *testing.T) {
	m := newModel(t, Config{Resources: 1})
	good := Options{Model: m, BaseURL: "http://sim.example.org/", Bucket: blob.NewMem(), Staging: blob.NewMem()}
	for name, spoil := range map[string]func(*Options){
		"no model":      func(o *Options) { o.Model = nil },
		"another URL":   func(o *Options) { o.BaseURL = "http://SIM.example.org" },
		"no URL":        func(o *Options) { o.BaseURL = "sim" },
		"too long list": func(o *Options) { o.ChangeListMax = 50_001 },
	} {
		o := good
		spoil(&o)
		if _, err := NewSource(o); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}

func TestWhatIsReplacedGoes(t *testing.T) {
	m := newModel(t, Config{Seed: 2, Resources: 30, Rate: 20, Size: Size{Kind: Fixed, Low: 10}})
	bucket := blob.NewMem()
	s, err := NewSource(Options{
		Model: m, BaseURL: "http://sim.example.org/", Bucket: bucket, Staging: blob.NewMem(),
		ChangeListMax: 50, RebaseEvery: time.Minute, Keep: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	var counts []int
	for range 60 {
		if _, err := s.Round(t.Context(), 10*time.Second); err != nil {
			t.Fatal(err)
		}
		n := 0
		for range bucket.List(t.Context(), "") {
			n++
		}
		counts = append(counts, n)
	}
	early, late := slices.Max(counts[:30]), slices.Max(counts[30:])
	if late > early+2 {
		t.Errorf("objects: at most %d in 30 rounds, then %d: they pile up (%v)", early, late, counts)
	}
	if len(s.journal.made) > late {
		t.Errorf("the journal remembers %d documents, of which %d are there", len(s.journal.made), late)
	}
}

func TestObjectsAreReadFromAnyPlace(t *testing.T) {
	bucket := blob.NewMem()
	want := bytes.Repeat([]byte("0123456789"), 500)
	b, err := bucket.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o, err := b.Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, _ = o.Write(want)
	_ = o.Close()
	b.Put(o, blob.Put{Key: "x"})
	if err := b.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	in := &object{ctx: t.Context(), bucket: bucket, key: "x", size: int64(len(want))}
	for _, off := range []int64{0, 4990, 7, 5000, 0} {
		if _, err := in.Seek(off, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(in)
		if err != nil || !bytes.Equal(got, want[off:]) {
			t.Errorf("from %d: got %d bytes, %v", off, len(got), err)
		}
	}
	if _, err := in.Seek(-1, io.SeekStart); err == nil {
		t.Error("a place before the beginning is accepted")
	}
}
