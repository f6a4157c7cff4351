package destination_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"instep/destination"
	"instep/resourcesync"
)

// An idle poll costs three requests behind an index too, in the first run after a
// baseline as well as later, and the next list is found when the one followed is closed.
func TestIdlePollBehindAnIndexAsksForNoIndex(t *testing.T) {
	s := newRotating(t, 10)
	s.change(resourcesync.Updated, 1)
	s.rotate()
	s.change(resourcesync.Updated, 2)
	s.rebase()
	s.publish()
	m := newMirror(t, s.aSource)
	m.mustSync(destination.Baseline, 0, 10, 0, 0)
	idle := func() {
		t.Helper()
		s.asked("/")
		m.mustSync(destination.Incremental, 0, 0, 0, 0)
		if got := s.asked("/"); got != 3 {
			t.Errorf("requests of an idle sync: got %d, want 3 (description, Capability List, open list)", got)
		}
	}
	idle()
	s.change(resourcesync.Updated, 4)
	s.publish()
	m.mustSync(destination.Incremental, 0, 0, 1, 0)
	idle()
	s.change(resourcesync.Updated, 5)
	s.rotate()
	s.change(resourcesync.Created, 0)
	s.publish()
	m.mustSync(destination.Incremental, 0, 1, 1, 0)
	m.wantFiles(s.paths...)
	idle()
}

// A Source that tells only in its index where lists end is asked for its index each
// time: its lists stay open for ever.
func TestListsThatAreClosedInTheIndexOnlyAreLeft(t *testing.T) {
	s := newRotating(t, 10)
	publish := func() {
		s.publish()
		for _, l := range s.lists {
			s.doc(l.path(), head(resourcesync.CapabilityChangeList, func(h *resourcesync.Header) { h.From = at(l.from) }), l.entries...)
		}
		s.offer("/list.xml", "/changes/index.xml")
	}
	publish()
	m := newMirror(t, s.aSource)
	m.mustSync(destination.Baseline, 0, 10, 0, 0)
	for i := range 3 {
		s.change(resourcesync.Updated, i)
		s.rotate()
		s.change(resourcesync.Updated, i+5)
		publish()
		m.mustSync(destination.Incremental, 0, 0, 2, 0)
		m.wantFiles(s.paths...)
	}
}

// What the Source says is unchanged is not transferred again; what has changed, or is
// damaged here, is.
func TestUnchangedDocumentsAreNotTransferred(t *testing.T) {
	s := newSource(t)
	var full, same int
	for _, path := range []string{"/.well-known/resourcesync", "/caps.xml", "/list.xml", "/changes.xml"} {
		s.answer(path, func(w http.ResponseWriter, r *http.Request) {
			s.mu.Lock()
			defer s.mu.Unlock()
			etag := fmt.Sprintf("%q", hexSum(s.bodies[path]))
			w.Header().Set("ETag", etag)
			if r.Header.Get("If-None-Match") == etag {
				same++
				w.WriteHeader(http.StatusNotModified)
				return
			}
			full++
			_, _ = w.Write(s.bodies[path])
		})
	}
	transferred := func(wantFull, wantSame int) {
		t.Helper()
		s.mu.Lock()
		defer s.mu.Unlock()
		if full != wantFull || same != wantSame {
			t.Errorf("got %d documents transferred and %d unchanged, want %d and %d", full, same, wantFull, wantSame)
		}
		full, same = 0, 0
	}
	paths := s.fill(3)
	s.list(0, paths...)
	s.changes(0)
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 3, 0, 0)
	transferred(4, 0)
	m.mustSync(destination.Incremental, 0, 0, 0, 0)
	transferred(0, 3)
	s.put("/r/1", []byte("new"))
	s.changes(0, s.change(1, resourcesync.Updated, "/r/1"))
	m.mustSync(destination.Incremental, 0, 0, 1, 0)
	transferred(1, 2)
	m.wantFiles(paths...)
	if err := os.RemoveAll(filepath.Join(m.dir, ".instep", "documents")); err != nil {
		t.Fatal(err)
	}
	m.mustSync(destination.Incremental, 0, 0, 0, 0)
	transferred(3, 0)
}

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
