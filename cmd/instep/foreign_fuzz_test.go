//go:build unix

package main

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"instep/blob"
	"instep/internal/sim"
)

// fuzzSeed is that of the short form; the long one draws one and prints it.
const fuzzSeed, fuzzShort = 22, 60

// One thing that real Sources do is done to one document of a Source, in the first run or
// in the second or in both. No run that ends with 0, and no audit that says in-sync, leaves
// another set of files than the documents name, by digest, as foreign_fuzz_words_test.go
// reads them. Where they contradict themselves, either is right. A resource that was dated by
// a wrong clock before is open until it is dated later than that (judge.misdated); the table
// counts where that was needed.
//
//	INSTEP_FOREIGN_FUZZ=20000 the long form; INSTEP_FOREIGN_SEED=n and INSTEP_FOREIGN_RUN=i take one run again
func TestForeignFuzz(t *testing.T) {
	runs := fuzzNumber(t, "INSTEP_FOREIGN_FUZZ", fuzzShort)
	seed := uint64(fuzzSeed)
	if runs != fuzzShort {
		seed = uint64(time.Now().UnixNano())
	}
	seed = uint64(fuzzNumber(t, "INSTEP_FOREIGN_SEED", int(seed)))
	first := fuzzNumber(t, "INSTEP_FOREIGN_RUN", -1)
	if first >= 0 {
		runs = first + 1
	} else {
		first = 0
	}
	t.Logf("seed %d, runs %d to %d", seed, first, runs-1)
	t.Setenv("INSTEP_BEARER", podShape.token)
	dir := fuzzDir(t)
	t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state"))
	var mu sync.Mutex // guards tallies
	tallies := map[string]*fuzzTally{}
	var group errgroup.Group
	group.SetLimit(4 * runtime.GOMAXPROCS(0)) // most of the time they wait before they ask again
	for i := first; i < runs; i++ {
		group.Go(func() error {
			h := newFuzzHistory(i, seed, filepath.Join(dir, strconv.Itoa(i)))
			err := h.run()
			if err != nil {
				t.Errorf("seed %d, run %d (INSTEP_FOREIGN_SEED=%d INSTEP_FOREIGN_RUN=%d): %s: %v\n%s", seed, i, seed, i, h, err, h.log.String())
			}
			for _, text := range h.misdated {
				t.Logf("of a wrong date: run %d: %s: %s", i, h, text)
			}
			mu.Lock()
			defer mu.Unlock()
			h.count(tallies, err)
			return os.RemoveAll(h.dir)
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	t.Log("\n" + fuzzTable(tallies))
}

// fuzzDir is a directory in memory where there is one: each run makes a mirror.
func fuzzDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "instep-fuzz")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func fuzzNumber(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// fuzzVersion is what a Source had at a path from a moment on.
type fuzzVersion struct {
	body string
	when time.Time
	gone bool
}

// fuzzSource is a Source that can be in the fuzz.
type fuzzSource interface {
	http.Handler
	change() error
	now() time.Time                     // by its clock
	versions() map[string][]fuzzVersion // by path, in their order
}

// fuzzFixture makes a Source that is served at base.
type fuzzFixture struct {
	name, start, token string
	page               bool // resources are pages around the record
	make               func(base string) (fuzzSource, error)
}

func fuzzFixtures() []fuzzFixture {
	var all []fuzzFixture
	for _, sh := range foreignShapes {
		all = append(all, fuzzFixture{name: sh.name, start: sh.start, token: sh.token, page: strings.HasPrefix(sh.media, "text/html"), make: func(base string) (fuzzSource, error) {
			s := &foreignSite{shape: &sh, at: foreignStart, resources: sh.first()}
			s.Server = &httptest.Server{URL: base}
			return fuzzShape{s}, nil
		}})
	}
	for _, dumps := range []bool{false, true} {
		name := map[bool]string{false: "instep", true: "instep with dumps"}[dumps]
		all = append(all, fuzzFixture{name: name, start: "/", make: func(base string) (fuzzSource, error) { return newFuzzSim(base, dumps) }})
	}
	return all
}

type fuzzShape struct{ *foreignSite }

func (s fuzzShape) change() error { s.foreignSite.change(); return nil }

func (s fuzzShape) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at
}

func (s fuzzShape) versions() map[string][]fuzzVersion {
	all := map[string][]fuzzVersion{}
	for _, r := range append(s.shape.first(), s.changes...) {
		all[r.path] = append(all[r.path], fuzzVersion{r.body, r.when, r.change == "deleted"})
	}
	return all
}

// fuzzSim is the simulated Source, which writes its documents as we do.
type fuzzSim struct {
	*sim.Source
	model *sim.Model
	had   map[string][]fuzzVersion
}

func newFuzzSim(base string, dumps bool) (*fuzzSim, error) {
	model, err := sim.NewModel(context.Background(), sim.Config{Seed: 7, Resources: 12, Rate: 1, Sets: 1, Start: foreignStart, Size: sim.Size{Kind: sim.Uniform, Low: 1, High: 300}})
	if err != nil {
		return nil, err
	}
	s := &fuzzSim{model: model, had: map[string][]fuzzVersion{}}
	s.Source, err = sim.NewSource(sim.Options{Model: model, BaseURL: base + "/", Bucket: blob.NewMem(), Staging: blob.NewMem(), Generator: "fuzz", Dumps: dumps})
	if err != nil {
		return nil, err
	}
	return s, s.round(0)
}

func (s *fuzzSim) change() error { return s.round(6 * time.Second) }

func (s *fuzzSim) now() time.Time { return s.model.Now() }

// round lets time pass and remembers what is there then.
func (s *fuzzSim) round(d time.Duration) error {
	if _, err := s.Round(context.Background(), d); err != nil {
		return err
	}
	here := map[string]bool{}
	for r := range s.model.Resources(0) {
		body := make([]byte, r.Length)
		if _, err := r.Open().ReadAt(body, 0); err != nil && r.Length > 0 {
			return err
		}
		path := "/" + r.Path
		here[path] = true
		if had := s.had[path]; len(had) == 0 || had[len(had)-1].body != string(body) || had[len(had)-1].gone {
			s.had[path] = append(had, fuzzVersion{body: string(body), when: r.Changed})
		}
	}
	for path, had := range s.had {
		if !here[path] && !had[len(had)-1].gone {
			s.had[path] = append(had, fuzzVersion{when: s.model.Now(), gone: true})
		}
	}
	return nil
}

func (s *fuzzSim) versions() map[string][]fuzzVersion { return s.had }

// fuzzHistory is one Source, one thing that is done to it, and one mirror.
type fuzzHistory struct {
	fixture fuzzFixture
	quirk   fuzzQuirk
	when    string // "first", "second", "both"
	path    string // of the document it is done to
	seed    uint64
	rng     *rand.Rand
	dir     string
	log     strings.Builder

	srv    *httptest.Server
	base   string
	source fuzzSource
	first  map[string][]byte // documents as they were at first
	before []word
	codes  []string // how the runs ended
	right  int      // runs and audits that ended with 0

	misdated []string // what was left open because of a wrong date

	mu sync.Mutex // guards on
	on bool       // the thing is done now
}

func newFuzzHistory(n int, seed uint64, dir string) *fuzzHistory {
	h := &fuzzHistory{seed: seed + uint64(n)*0x9e3779b97f4a7c15, dir: dir}
	h.rng = rand.New(rand.NewPCG(h.seed, 1))
	fixtures := fuzzFixtures()
	h.fixture = fixtures[h.rng.IntN(len(fixtures))]
	h.when = []string{"first", "second", "both"}[h.rng.IntN(3)]
	return h
}

func (h *fuzzHistory) String() string {
	return fmt.Sprintf("%s: %s of %s, in the run: %s; ended %s", h.fixture.name, h.quirk.name, h.path, h.when, strings.Join(h.codes, " "))
}

// run takes the steps: mirrored, changed, followed, audited; and once more without the
// thing that was done.
func (h *fuzzHistory) run() error {
	h.srv = httptest.NewUnstartedServer(h)
	h.base = "http://" + h.srv.Listener.Addr().String()
	var err error
	if h.source, err = h.fixture.make(h.base); err != nil {
		return err
	}
	h.srv.Start()
	defer h.srv.Close()
	if h.when != "second" {
		h.choose()
	}
	h.first = h.documents()
	h.turn(h.when != "second")
	if err := h.step("sync"); err != nil {
		return err
	}
	h.turn(false)
	if err := h.source.change(); err != nil {
		return err
	}
	if h.when == "second" {
		h.choose()
	}
	h.turn(h.when != "first")
	for _, command := range []string{"sync", "audit"} {
		if err := h.step(command); err != nil {
			return err
		}
	}
	h.turn(false)
	for _, command := range []string{"sync", "audit"} {
		if err := h.step(command); err != nil {
			return err
		}
	}
	return nil
}

func (h *fuzzHistory) turn(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.on = on
}

// choose draws what is done to which document: each kind is as likely as another, if
// there is a document that it changes.
func (h *fuzzHistory) choose() {
	docs := h.documents()
	for {
		h.quirk = fuzzQuirks[h.rng.IntN(len(fuzzQuirks))]
		paths := slices.Sorted(maps.Keys(docs))
		h.rng.Shuffle(len(paths), func(i, k int) { paths[i], paths[k] = paths[k], paths[i] })
		for _, h.path = range paths {
			if a := h.changed(docs[h.path]); a != nil && (a.status != http.StatusOK || a.media != "" || !bytes.Equal(a.body, docs[h.path])) {
				return
			}
		}
	}
}

// changed is the document after the thing was done to it; nil: it cannot be.
func (h *fuzzHistory) changed(doc []byte) *fuzzAnswer {
	a := &fuzzAnswer{status: http.StatusOK, body: doc, was: h.first[h.path], now: h.source.now(), rng: rand.New(rand.NewPCG(h.seed, 2)), base: h.base}
	if !h.quirk.do(a) {
		return nil
	}
	return a
}

func (h *fuzzHistory) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	hit := h.on && r.URL.RequestURI() == h.path
	h.mu.Unlock()
	if !hit {
		h.source.ServeHTTP(out, r)
		return
	}
	r = r.Clone(r.Context())
	for _, name := range []string{"If-None-Match", "If-Modified-Since", "Range", "If-Range"} {
		r.Header.Del(name)
	}
	method := r.Method
	r.Method = http.MethodGet
	rec := httptest.NewRecorder()
	h.source.ServeHTTP(rec, r)
	a := &fuzzAnswer{status: rec.Code, body: rec.Body.Bytes()}
	if rec.Code == http.StatusOK {
		a = cmp.Or(h.changed(rec.Body.Bytes()), a)
	}
	header := out.Header()
	maps.Copy(header, rec.Header())
	header.Del("ETag")
	if a.media != "" {
		header.Set("Content-Type", a.media)
	}
	header.Set("Content-Length", strconv.Itoa(len(a.body)))
	out.WriteHeader(a.status)
	if method != http.MethodHead {
		_, _ = out.Write(a.body)
	}
}

// ask asks the Source without the network.
func (h *fuzzHistory) ask(handler http.Handler, uri string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	if !strings.HasPrefix(uri, h.base+"/") {
		rec.Code = http.StatusNotFound
		return rec
	}
	r := httptest.NewRequest(http.MethodGet, uri, nil)
	if h.fixture.token != "" {
		r.Header.Set("Authorization", "Bearer "+h.fixture.token)
	}
	handler.ServeHTTP(rec, r)
	return rec
}

// documents are those that the Source has, as it writes them, by path.
func (h *fuzzHistory) documents() map[string][]byte {
	all := map[string][]byte{}
	h.crawl(func(uri string) *saying {
		rec := h.ask(h.source, uri)
		w, err := readSaying(rec.Body.Bytes(), uri)
		if rec.Code != http.StatusOK || err != nil {
			return nil
		}
		all[strings.TrimPrefix(uri, h.base)] = bytes.Clone(rec.Body.Bytes())
		return w
	})
	return all
}

// crawl reads from the start all that is linked downwards. Of two capabilities that a
// document is called by, one is doubted.
func (h *fuzzHistory) crawl(read func(uri string) *saying) word {
	start := h.fixture.start
	if start == "/" {
		start = "/.well-known/resourcesync"
	}
	var all word
	queue, seen, called := []string{h.base + start}, map[string]bool{}, map[string]string{}
	doubted := map[string]bool{}      // by what led there
	moments := map[string]time.Time{} // of what has a next page
	if strings.HasSuffix(start, "/.well-known/resourcesync") {
		called[queue[0]] = "description"
	}
	for ; len(queue) > 0; queue = queue[1:] {
		uri := queue[0]
		if seen[uri] {
			continue
		}
		seen[uri] = true
		w := read(uri)
		if w == nil {
			w = h.manifest(uri)
		}
		if w == nil {
			continue
		}
		if slot := called[uri]; fuzzKnown[slot] && fuzzKnown[w.capability] && slot != w.capability {
			w.doubt = true
		}
		w.doubt = w.doubt || doubted[uri]
		at, page := moments[uri]
		w.shifts = page && !at.Equal(w.at)
		for _, next := range w.next {
			called[next], moments[next] = w.capability, w.at
			queue = append(queue, next)
		}
		for _, named := range slices.Sorted(maps.Keys(w.slots)) {
			link := w.links[named]
			if called[link] == "" {
				called[link] = cmp.Or(w.slots[named], w.capability)
			}
			doubted[link] = doubted[link] || w.doubt
			all.partly = all.partly || fuzzKnown[w.slots[named]] && !strings.HasPrefix(link, h.base+"/")
			queue = append(queue, link)
		}
		all.add(w, called[uri])
	}
	return all
}

// manifest is what a package says of itself; nil: it is none.
func (h *fuzzHistory) manifest(uri string) *saying {
	body := h.ask(h.source, uri).Body.Bytes()
	if !bytes.HasPrefix(body, []byte("PK")) {
		return nil
	}
	z, err := zip.NewReader(bytes.NewReader(body), int64(len(body)))
	if err != nil {
		return nil
	}
	text, err := fs.ReadFile(z, "manifest.xml")
	if err != nil {
		return nil
	}
	w, err := readSaying(text, uri)
	if err != nil {
		return nil
	}
	return w
}

var fuzzKnown = map[string]bool{
	"resourcedump-manifest": true, "changedump-manifest": true,
	"description": true, "capabilitylist": true, "resourcelist": true, "changelist": true, "resourcedump": true, "changedump": true,
}

// add sorts a document by what it says it is, else by what it is called.
func (all *word) add(w *saying, called string) {
	capability := cmp.Or(w.capability, called)
	changes := slices.ContainsFunc(w.all, func(s statement) bool { return s.change != "" })
	switch {
	case capability == "changelist" || capability == "changedump" && changes || capability == "changedump-manifest":
		all.changes = append(all.changes, w)
	case capability == "resourcelist" || capability == "resourcedump-manifest":
		w.capability = capability
		all.lists = append(all.lists, w)
	case !fuzzKnown[capability] || w.doubt: // nobody can say what it is
		w.doubt = true
		all.lists = append(all.lists, w)
	}
}

// words is what the documents say now, as they are served. One that cannot be read says
// what it would have statement, had nothing been done to it.
func (h *fuzzHistory) words() word {
	documents := map[string]bool{} // and packages
	all := h.crawl(func(uri string) *saying {
		for _, handler := range []http.Handler{h, h.source} {
			rec := h.ask(handler, uri)
			w, err := readSaying(rec.Body.Bytes(), uri)
			if rec.Code == http.StatusOK && err == nil {
				if u, err := url.Parse(uri); err == nil {
					documents[fuzzURI(u)] = true
				}
				return w
			}
		}
		return nil
	})
	// What is a document is no resource, and neither is what a Change List has without a
	// kind of change (QUIRKS 22), unless something else names it.
	for _, w := range slices.Concat(all.lists, all.changes) {
		if w.doubt { // nobody can say what its entries are
			continue
		}
		w.all = slices.DeleteFunc(w.all, func(s statement) bool { return documents[s.uri] })
	}
	return all
}

// step runs a command and judges what it left, if it says that all is well.
func (h *fuzzHistory) step(command string) error {
	var stdout, stderr bytes.Buffer
	code := run([]string{command, h.base + h.fixture.start, h.dir, "--json"}, &stdout, &stderr)
	h.codes = append(h.codes, fmt.Sprintf("%s:%d", command, code))
	fmt.Fprintf(&h.log, "-- %s: exit %d\n%s%s", command, code, strings.ReplaceAll(stdout.String(), h.base, "BASE"), strings.ReplaceAll(stderr.String(), h.base, "BASE"))
	whole, err := fuzzWhole(stdout.Bytes())
	if err != nil {
		return err
	}
	now := h.words()
	now.clock = h.source.now()
	if code == 0 {
		h.right++
		j := &judge{now: now, before: h.before, whole: whole || command == "audit", answers: func(uri string) bool { return h.ask(h.source, uri).Code == http.StatusOK }}
		if err := h.judge(j, command == "audit"); err != nil {
			return fmt.Errorf("%s: %w", h.codes[len(h.codes)-1], err)
		}
	}
	if command == "sync" {
		h.before = append(h.before, now)
	}
	return nil
}

// fuzzWhole reports whether all sets were compared with their Resource Lists.
func fuzzWhole(stdout []byte) (bool, error) {
	whole := true
	for line := range bytes.Lines(stdout) {
		var r struct{ Mode string }
		if err := json.Unmarshal(line, &r); err != nil {
			return false, fmt.Errorf("%w in %q", err, line)
		}
		whole = whole && (r.Mode == "" || r.Mode == "baseline")
	}
	return whole, nil
}

// judge compares the mirror with what the documents name.
func (h *fuzzHistory) judge(j *judge, audit bool) error {
	held, err := h.held()
	if err != nil {
		return err
	}
	for _, uri := range j.uris(held) {
		err := h.obeys(uri, held[uri], j.ruling(uri), audit)
		switch {
		case err != nil && j.misdated(uri) && h.obeys(uri, held[uri], ruling{}, audit) == nil:
			h.misdated = append(h.misdated, err.Error())
		case err != nil:
			return err
		}
	}
	return nil
}

// obeys compares what is held of a URI with a ruling.
func (h *fuzzHistory) obeys(uri string, bodies []string, r ruling, audit bool) error {
	versions, name := h.source.versions(), strings.TrimPrefix(uri, h.base)
	if len(bodies) == 0 && r.must {
		return fmt.Errorf("%s is not held: %s", name, r.why)
	}
	for _, body := range bodies {
		had := versions[name]
		if len(had) == 0 { // copied, by the digest that was told
			had = slices.Concat(slices.Collect(maps.Values(versions))...)
		}
		switch {
		case r.mustNot:
			return fmt.Errorf("%s is held: %s", name, r.why)
		case !slices.ContainsFunc(had, func(v fuzzVersion) bool { return h.same(body, v) }):
			return fmt.Errorf("%s holds %.20q, which the Source never had", name, body)
		case r.must && !slices.ContainsFunc(r.by, func(s statement) bool { return h.proves(s, body, had, audit) }):
			return fmt.Errorf("%s holds %.20q, %d bytes, which is not what is told of: %s, %+v", name, body, len(body), r.why, r.by)
		}
	}
	return nil
}

// uris are all that anything was ever said of, and all that is held.
func (j *judge) uris(held map[string][]string) []string {
	all := map[string]bool{}
	for _, w := range append(j.before, j.now) {
		for _, list := range slices.Concat(w.lists, w.changes) {
			for _, s := range list.all {
				all[s.uri] = true
			}
		}
	}
	for uri := range held {
		all[uri] = true
	}
	return slices.Sorted(maps.Keys(all))
}

func (h *fuzzHistory) same(body string, v fuzzVersion) bool {
	return !v.gone && (body == v.body || h.fixture.page && strings.Contains(body, v.body))
}

// proves reports whether bytes are those that an entry tells of: by length and digest, and
// where it has neither, by a version that the Source had at or after its time. Only an
// audit cannot know that, and says so.
func (h *fuzzHistory) proves(s statement, body string, had []fuzzVersion, audit bool) bool {
	if s.length >= 0 && s.length != int64(len(body)) {
		return false
	}
	for _, digest := range s.digests {
		if digest != fmt.Sprintf("md5:%x", md5.Sum([]byte(body))) && digest != fmt.Sprintf("sha-256:%x", sha256.Sum256([]byte(body))) {
			return false
		}
	}
	if len(s.digests) > 0 || s.when.IsZero() || audit {
		return true
	}
	for i, v := range had { // until the next one came
		if h.same(body, v) && (i+1 == len(had) || had[i+1].gone || had[i+1].when.After(s.when)) {
			return true
		}
	}
	return false
}

// clash is what a mirror adds to a name that another URI has already.
var clash = regexp.MustCompile(`~[0-9a-f]{8}(\.[^./]*)?$`)

// held are the files of the mirror by URI, as fuzzURI spells it: several where the URI was
// spelled in several ways.
func (h *fuzzHistory) held() (map[string][]string, error) {
	held := map[string][]string{}
	return held, heldFiles(h.dir, func(name, body string) {
		if plain, err := url.PathUnescape(name); err == nil {
			name = plain
		}
		name = strings.ReplaceAll(name, "%index", "") // of a directory
		uri := fuzzURI(&url.URL{Scheme: "http", Host: strings.TrimPrefix(h.base, "http://"), Path: clash.ReplaceAllString(name, "$1")})
		held[uri] = append(held[uri], body)
	})
}

// fuzzTally is how the histories of one kind ended.
type fuzzTally struct{ runs, steps, right, misdated, broken int }

func (h *fuzzHistory) count(all map[string]*fuzzTally, err error) {
	for _, name := range []string{"~ " + h.quirk.name, "of " + h.fixture.name} {
		if all[name] == nil {
			all[name] = &fuzzTally{}
		}
		c := all[name]
		c.runs, c.steps, c.right = c.runs+1, c.steps+len(h.codes), c.right+h.right
		c.misdated += len(h.misdated)
		if err != nil {
			c.broken++
		}
	}
}

func fuzzTable(all map[string]*fuzzTally) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-40s %7s %7s %7s %8s %7s\n", "", "runs", "steps", "exit 0", "misdated", "broken")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		c := all[name]
		fmt.Fprintf(&b, "%-40s %7d %7d %7d %8d %7d\n", name, c.runs, c.steps, c.right, c.misdated, c.broken)
	}
	return b.String()
}
