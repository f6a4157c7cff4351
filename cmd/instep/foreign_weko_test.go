//go:build unix

package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// wekoSite is a Source as WEKO offers it, that takes down what it is asked for.
type wekoSite struct {
	*foreignSite

	mu    sync.Mutex // guards the rest
	asked []string
	other map[string]string // documents that are others by now, by path
}

func newWEKO(t *testing.T, indexes, records int) *wekoSite {
	s := &wekoSite{foreignSite: &foreignSite{shape: &wekoShape, at: foreignStart}, other: map[string]string{}}
	some := wekoShape.first()
	for n := range records {
		r := some[n%len(some)]
		r.path = fmt.Sprintf("/resync/%d/records/%d", 1+n%indexes, n+1)
		s.resources = append(s.resources, r)
	}
	s.Server = httptest.NewUnstartedServer(s) // which it reads its URL from
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func (s *wekoSite) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.URL.Path)
	other := s.other[r.URL.Path]
	s.mu.Unlock()
	if other == "" {
		s.foreignSite.ServeHTTP(out, r)
		return
	}
	out.Header().Set("Date", s.at.Format(http.TimeFormat))
	send(out, "application/xml", other)
}

// answer makes a document another one.
func (s *wekoSite) answer(path, doc string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.other[path] = doc
}

// requests are what was asked for since they were last looked at, in the order of their paths.
func (s *wekoSite) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	slices.Sort(asked)
	return asked
}

// documents are those that an idle run reads, as they are now.
func (s *wekoSite) documents() map[string]string {
	all := map[string]string{}
	for _, path := range wekoIdle(1) {
		rec := httptest.NewRecorder()
		s.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
		all[path] = rec.Body.String()
	}
	return all
}

// wekoIdle are the requests of a run in which nothing has changed.
func wekoIdle(indexes int) []string {
	idle := []string{"/.well-known/resourcesync", "/resync/capability.xml"}
	for n := range indexes {
		for _, name := range []string{"20260220/changelist.xml", "changelist.xml", "resourcelist.xml"} {
			idle = append(idle, fmt.Sprintf("/resync/%d/%s", n+1, name))
		}
	}
	slices.Sort(idle)
	return idle
}

// A WEKO of a thousand records names a package for each of them, in the two dumps of each index: none
// is asked for, and neither is said of each. Its Resource Lists have no at and are read in each run, but
// are no reason to request a record again. With the root index alone an idle run has five requests;
// each further index has three documents of which none can be left out (TestWEKOEachRequestTells).
func TestWEKOOfAThousandRecords(t *testing.T) {
	const records = 1000
	for _, tt := range []struct{ indexes, first, idle int }{{1, 1100, 6}, {2, 1100, 8}} {
		t.Run(fmt.Sprintf("indexes=%d", tt.indexes), func(t *testing.T) {
			s := newWEKO(t, tt.indexes, records)
			dir := filepath.Join(t.TempDir(), "mirror")
			for run, most := range []int{tt.first, tt.idle, tt.idle} {
				cmd := command(t, "sync", s.URL+s.shape.start, dir)
				out, err := cmd.CombinedOutput()
				code, lines, asked := cmd.ProcessState.ExitCode(), bytes.Count(out, []byte("\n")), s.requests()
				t.Logf("run %d: exit %d, %d requests, %d lines", run, code, len(asked), lines)
				if code != 0 || len(asked) > most || lines > 20 {
					t.Errorf("run %d: exit %d, %d requests (at most %d), %d lines (at most 20):\n%v\n%s", run, code, len(asked), most, lines, err, out)
				}
				if want := wekoIdle(tt.indexes); run > 0 && !slices.Equal(asked, want) {
					t.Errorf("run %d: asked for\n%s, want\n%s", run, strings.Join(asked, "\n"), strings.Join(want, "\n"))
				}
			}
			if got, want := s.files(t, dir), fmt.Sprintf("%d of %[1]d, 0 more", records); got != want {
				t.Errorf("files: got %s, want %s", got, want)
			}
		})
	}
}

// Each document that an idle run reads can say alone what no other says, so none can be left out: for
// each of them something happens at a WEKO of which the other documents tell nothing.
func TestWEKOEachRequestTells(t *testing.T) {
	const base, added = "/resync/1/", "/resync/9/records/99"
	named := func(s *wekoSite, path, attributes string) string { return entryXML(s.URL+path, rsMD(attributes)) }
	listed := func(s *wekoSite) string { return entryXML(s.URL+added, lastmodXML("2026-02-01T00:00:00Z")) }
	gone := func(s *wekoSite) string {
		when := w3c(s.at.Add(-time.Hour))
		return entryXML(s.URL+s.resources[0].path, lastmodXML(when), rsMD(fmt.Sprintf(`at=%q change="deleted"`, when)))
	}
	for _, tt := range []struct {
		path, what string // the document, and what happens
		// change makes documents that nobody knew, and returns what the document says besides
		change  func(s *wekoSite) string
		created bool // a record is; else one is deleted
	}{
		{"/.well-known/resourcesync", "there is a second Capability List", func(s *wekoSite) string {
			s.answer("/two/capability.xml", foreignDoc("urlset", rsLN("up", s.URL+"/.well-known/resourcesync"), rsMD(`capability="capabilitylist"`), named(s, "/two/list.xml", `capability="resourcelist"`)))
			s.answer("/two/list.xml", foreignDoc("urlset", rsMD(`capability="resourcelist"`), listed(s)))
			return named(s, "/two/capability.xml", `capability="capabilitylist"`)
		}, true},
		{"/resync/capability.xml", "an administrator adds an index (api.py:437)", func(s *wekoSite) string {
			s.answer("/resync/9/resourcelist.xml", foreignDoc("urlset", rsMD(`capability="resourcelist"`), listed(s)))
			return named(s, "/resync/9/resourcelist.xml", `capability="resourcelist"`)
		}, true},
		{base + "resourcelist.xml", "the day comes on which a record is published, long after it was changed (query.py:109)", listed, true},
		{base + "changelist.xml", "the next period begins (api.py:793), in which a record is deleted", func(s *wekoSite) string {
			s.answer(base+"20260301/changelist.xml", foreignDoc("urlset", rsLN("index", s.URL+base+"changelist.xml"), rsMD(`capability="changelist"`), gone(s)))
			return named(s, base+"20260301/changelist.xml", fmt.Sprintf(`capability="changelist" from=%q until=%q`, w3c(s.at.Add(-2*time.Hour)), w3c(s.at)))
		}, false},
		{base + "20260220/changelist.xml", "a record is deleted", gone, false},
	} {
		t.Run(strings.Trim(tt.path, "/"), func(t *testing.T) {
			s := newWEKO(t, 1, 20)
			dir := filepath.Join(t.TempDir(), "mirror")
			for range 2 {
				mustDo(t, "sync", s.URL+s.shape.start, dir)
			}
			before := s.documents()
			s.answer(tt.path, strings.Replace(before[tt.path], "</urlset>", tt.change(s)+"</urlset>", 1))
			for path, doc := range s.documents() {
				if changed := doc != before[path]; changed != (path == tt.path) {
					t.Fatalf("%s: changed %t", path, changed)
				}
			}
			s.foreignSite.mu.Lock()
			if tt.created {
				s.resources = append(s.resources, foreignResource{path: added, body: "<record>99</record>\n"})
			} else {
				s.resources = s.resources[1:]
			}
			s.foreignSite.mu.Unlock()
			o := instep(t, "sync", s.URL+s.shape.start, dir)
			if got, want := s.files(t, dir), fmt.Sprintf("%d of %[1]d, 0 more", len(s.resources)); o.code != 0 || got != want {
				t.Errorf("%s: exit %d, files: got %s, want %s\n%s", tt.what, o.code, got, want, o.stderr)
			}
		})
	}
}
