package destination_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"instep/destination"
	"instep/fetch"
	"instep/mirror"
	"instep/resourcesync"
)

// aSource is a Source on loopback whose documents and bytes a test sets one by one.
type aSource struct {
	t   testing.TB
	srv *httptest.Server

	mu      sync.Mutex
	bodies  map[string][]byte // by path
	answers map[string]http.HandlerFunc
	hits    map[string]int
	clock   time.Time // by which answers are dated; zero: that of this machine
}

func newSource(t testing.TB) *aSource {
	s := &aSource{t: t, bodies: map[string][]byte{}, answers: map[string]http.HandlerFunc{}, hits: map[string]int{}}
	s.srv = httptest.NewServer(s)
	t.Cleanup(s.srv.Close)
	s.doc("/.well-known/resourcesync", head(resourcesync.CapabilityDescription, nil), resourcesync.Entry{
		Loc: s.uri("/caps.xml"), Metadata: resourcesync.Metadata{Capability: resourcesync.CapabilityCapabilityList},
	})
	s.offer("/list.xml", "/changes.xml")
	return s
}

func (s *aSource) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	body, ok := s.bodies[r.URL.Path]
	answer := s.answers[r.URL.Path]
	s.hits[r.URL.Path]++
	clock := s.clock
	s.mu.Unlock()
	if !clock.IsZero() {
		w.Header().Set("Date", clock.UTC().Format(http.TimeFormat))
	}
	switch {
	case answer != nil:
		answer(w, r)
	case !ok:
		http.NotFound(w, r)
	default:
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write(body)
	}
}

func (s *aSource) uri(path string) string { return s.srv.URL + path }

func (s *aSource) put(path string, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bodies[path] = body
}

func (s *aSource) answer(path string, h http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[path] = h
}

// asked returns how often paths that start with prefix were asked for, and forgets it.
func (s *aSource) asked(prefix string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, hits := range s.hits {
		if strings.HasPrefix(p, prefix) {
			n += hits
			delete(s.hits, p)
		}
	}
	return n
}

// offer writes a Capability List with a Resource List and, if its path is not empty, a Change List.
func (s *aSource) offer(list, changes string) {
	entries := []resourcesync.Entry{{Loc: s.uri(list), Metadata: resourcesync.Metadata{Capability: resourcesync.CapabilityResourceList}}}
	if changes != "" {
		entries = append(entries, resourcesync.Entry{Loc: s.uri(changes), Metadata: resourcesync.Metadata{Capability: resourcesync.CapabilityChangeList}})
	}
	h := head(resourcesync.CapabilityCapabilityList, nil)
	h.Links = []resourcesync.Link{{Rel: "up", Href: s.uri("/.well-known/resourcesync")}}
	s.doc("/caps.xml", h, entries...)
}

func head(c resourcesync.Capability, set func(*resourcesync.Header)) resourcesync.Header {
	h := resourcesync.Header{Metadata: resourcesync.Metadata{Capability: c}}
	if set != nil {
		set(&h)
	}
	return h
}

// doc writes a document. Without a link up, lists get one to the Capability List
// in their directory.
func (s *aSource) doc(path string, h resourcesync.Header, entries ...resourcesync.Entry) {
	s.t.Helper()
	if h.Capability != resourcesync.CapabilityDescription && h.Link("up") == "" {
		up := resourcesync.Link{Rel: "up", Href: s.uri(path[:strings.LastIndex(path, "/")] + "/caps.xml")}
		h.Links = append(h.Links, up)
	}
	var b bytes.Buffer
	enc, err := resourcesync.NewEncoder(&b, h)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range entries {
		if err := enc.Encode(e); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := enc.Close(); err != nil {
		s.t.Fatal(err)
	}
	s.put(path, b.Bytes())
}

// T0 is the moment at which the Sources of these tests begin.
var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// at is the moment n minutes after t0.
func at(n int) resourcesync.Datetime {
	return resourcesync.DatetimeOf(t0.Add(time.Duration(n) * time.Minute))
}

// list writes the Resource List of moment n: paths with the bytes served there now.
func (s *aSource) list(n int, paths ...string) {
	h := head(resourcesync.CapabilityResourceList, func(h *resourcesync.Header) { h.At = at(n) })
	s.doc("/list.xml", h, s.entries(paths...)...)
}

func (s *aSource) entries(paths ...string) []resourcesync.Entry {
	var entries []resourcesync.Entry
	for _, p := range paths {
		entries = append(entries, s.entry(p))
	}
	return entries
}

// entry describes the bytes at path as they are now.
func (s *aSource) entry(path string) resourcesync.Entry {
	s.mu.Lock()
	body := s.bodies[path]
	s.mu.Unlock()
	sum, weak := sha256.Sum256(body), md5.Sum(body)
	ds, err := resourcesync.ParseDigests("md5:" + hex.EncodeToString(weak[:]) + " sha-256:" + hex.EncodeToString(sum[:]))
	if err != nil {
		s.t.Fatal(err)
	}
	return resourcesync.Entry{Loc: s.uri((&url.URL{Path: path}).EscapedPath()), Metadata: resourcesync.Metadata{Digests: ds, Length: resourcesync.Bytes(int64(len(body)))}}
}

// change is an entry of a Change List at moment n.
func (s *aSource) change(n int, c resourcesync.Change, path string) resourcesync.Entry {
	e := resourcesync.Entry{Loc: s.uri(path)}
	if c != resourcesync.Deleted {
		e = s.entry(path)
	}
	e.Change, e.Datetime = c, at(n)
	return e
}

// changes writes the open Change List that begins at moment from.
func (s *aSource) changes(from int, entries ...resourcesync.Entry) {
	s.doc("/changes.xml", head(resourcesync.CapabilityChangeList, func(h *resourcesync.Header) { h.From = at(from) }), entries...)
}

// fill serves n resources /r/0 … and returns their paths.
func (s *aSource) fill(n int) []string {
	paths := make([]string, n)
	for i := range paths {
		paths[i] = fmt.Sprintf("/r/%d", i)
		s.put(paths[i], []byte(strings.Repeat(fmt.Sprintf("body %d. ", i), i%7+1)))
	}
	return paths
}

// aMirror is a mirror in a directory of the test.
type aMirror struct {
	t     *testing.T
	dir   string
	now   time.Time
	clock func() time.Time // of the client; nil: the true one
	dial  func(ctx context.Context, network, addr string) (net.Conn, error)
	notes []string
	src   *aSource
	set   func(*destination.Destination)
}

// inStep is a Source of n resources and a mirror that holds them.
func inStep(t *testing.T, n int) (s *aSource, paths []string, m *aMirror) {
	t.Helper()
	s = newSource(t)
	paths = s.fill(n)
	s.list(0, paths...)
	s.changes(0)
	m = newMirror(t, s)
	m.mustSync(destination.Baseline, 0, int64(n), 0, 0)
	return s, paths, m
}

func newMirror(t *testing.T, src *aSource) *aMirror {
	return &aMirror{t: t, dir: filepath.Join(t.TempDir(), "mirror"), now: t0, src: src}
}

// with opens the mirror as one command does.
func (m *aMirror) with(do func(context.Context, *destination.Destination, *mirror.Mirror) error) error {
	m.t.Helper()
	ctx := m.t.Context()
	c, err := fetch.New(fetch.Options{MaxRetries: -1, Now: m.clock, Dial: m.dial})
	if err != nil {
		m.t.Fatal(err)
	}
	defer c.Close()
	if err := c.TrustSource(ctx, m.src.srv.URL); err != nil {
		m.t.Fatal(err)
	}
	mm, err := mirror.Open(ctx, mirror.Options{Dir: m.dir, Create: true, Now: func() time.Time { return m.now }})
	if err != nil {
		m.t.Fatal(err)
	}
	defer mm.Close()
	m.notes = nil
	var mu sync.Mutex
	d := &destination.Destination{Source: m.src.uri("/"), Mirror: mm, Client: c, Spool: m.t.TempDir(), Observe: func(e destination.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Kind == destination.EventNote {
			m.notes = append(m.notes, e.Text)
		}
	}}
	if m.set != nil {
		m.set(d)
	}
	return do(ctx, d, mm)
}

// sync runs one synchronisation and returns its report for the only set.
func (m *aMirror) sync() (rep *destination.SetReport, err error) {
	m.t.Helper()
	err = m.with(func(ctx context.Context, d *destination.Destination, mm *mirror.Mirror) error {
		plan, err := d.Plan(ctx)
		if err != nil {
			return err
		}
		defer plan.Close()
		if err := mm.Bind(ctx, plan.Source, plan.Origin); err != nil {
			return err
		}
		r, err := d.Apply(ctx, plan)
		rep = r.Sets[0]
		return err
	})
	return rep, err
}

// mustSync is sync that has to end well, with this outcome.
func (m *aMirror) mustSync(mode destination.Mode, same, created, updated, deleted int64) *destination.SetReport {
	m.t.Helper()
	rep, err := m.sync()
	if err != nil {
		m.t.Fatalf("sync: %v", err)
	}
	got := fmt.Sprintf("%s same=%d created=%d updated=%d deleted=%d failed=%d", rep.Mode, rep.Same, rep.Created, rep.Updated, rep.Deleted, rep.Failed)
	want := fmt.Sprintf("%s same=%d created=%d updated=%d deleted=%d failed=0", mode, same, created, updated, deleted)
	if got != want {
		m.t.Fatalf("sync:\n got %s (%s)\nwant %s\nfailures %v", got, rep.Why, want, rep.Failures)
	}
	return rep
}

// audit returns the verdicts of the only set.
func (m *aMirror) audit() map[destination.Verdict]int64 {
	m.t.Helper()
	var verdicts map[destination.Verdict]int64
	err := m.with(func(ctx context.Context, d *destination.Destination, _ *mirror.Mirror) error {
		a, err := d.Audit(ctx)
		if err == nil {
			verdicts = a.Sets[0].Verdicts
		}
		return err
	})
	if err != nil {
		m.t.Fatalf("audit: %v", err)
	}
	return verdicts
}

// files returns the files of the mirror by path, without what is the mirror's own.
func (m *aMirror) files() map[string]string {
	m.t.Helper()
	files := map[string]string{}
	root := os.DirFS(m.dir)
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == ".instep":
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		b, err := fs.ReadFile(root, path)
		files["/"+path] = string(b)
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return files
}

// wantFiles checks that the mirror holds exactly these paths with the bytes the Source serves.
func (m *aMirror) wantFiles(paths ...string) {
	m.t.Helper()
	files := m.files()
	if got, want := slices.Sorted(maps.Keys(files)), slices.Sorted(slices.Values(paths)); !slices.Equal(got, want) {
		m.t.Fatalf("files in the mirror:\n got %v\nwant %v", got, want)
	}
	for p, got := range files {
		if want := string(m.src.bodies[p]); got != want {
			m.t.Errorf("%s: got %q, want %q", p, got, want)
		}
	}
}
