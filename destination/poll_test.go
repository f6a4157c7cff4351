package destination_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"instep/destination"
	"instep/mirror"
	"instep/resourcesync"
)

// newIndexed is a Source of n resources whose Change Lists, a closed one and an open one,
// have an index.
func newIndexed(t *testing.T, n int) *rotating {
	t.Helper()
	s := newRotating(t, n)
	s.change(resourcesync.Updated, 1)
	s.rotate()
	s.change(resourcesync.Updated, 2)
	s.rebase()
	s.publish()
	return s
}

// An idle poll costs three requests behind an index too, in the first run after a
// baseline as well as later, and the next list is found when the one followed is closed.
func TestIdlePollBehindAnIndexAsksForNoIndex(t *testing.T) {
	s := newIndexed(t, 10)
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

// A Source that goes on in another list, and leaves the one that is followed standing for
// open, is found out by its index, which is asked for once a day.
func TestAListThatWasLeftStandingIsLeftWithinADay(t *testing.T) {
	s := newIndexed(t, 10)
	m := newMirror(t, s.aSource)
	m.mustSync(destination.Baseline, 0, 10, 0, 0)
	standing := s.open().path()
	left := s.bodies[standing]
	s.rotate()
	s.change(resourcesync.Updated, 4)
	s.rebase()
	s.lists = slices.Delete(s.lists, 1, 2)
	s.publish()
	s.put(standing, left)
	index := func(want int) {
		t.Helper()
		if got := s.asked("/changes/index.xml"); got != want {
			t.Errorf("the index was asked for %d times, want %d", got, want)
		}
	}
	index(1)
	m.mustSync(destination.Incremental, 0, 0, 0, 0)
	index(0)
	later := time.Now().Add(23 * time.Hour)
	m.clock = func() time.Time { return later }
	m.mustSync(destination.Incremental, 0, 0, 0, 0)
	index(0)
	later = later.Add(2 * time.Hour)
	rep := m.mustSync(destination.Baseline, 9, 0, 1, 0)
	if !strings.HasPrefix(rep.Why, "gap: ") {
		t.Errorf("a baseline because of %q", rep.Why)
	}
	m.wantFiles(s.paths...)
	index(1)
}

// A clock that was put back is no reason to trust a list for longer.
func TestAnIndexThatWasAskedInTheFutureIsAskedAgain(t *testing.T) {
	s := newIndexed(t, 3)
	m := newMirror(t, s.aSource)
	now := time.Now()
	m.clock = func() time.Time { return now }
	m.mustSync(destination.Baseline, 0, 3, 0, 0)
	s.asked("/changes/index.xml")
	for _, c := range []struct {
		by   time.Duration
		want int
	}{{0, 0}, {-time.Hour, 1}, {time.Minute, 0}, {25 * time.Hour, 1}, {0, 0}} {
		now = now.Add(c.by)
		m.mustSync(destination.Incremental, 0, 0, 0, 0)
		if got := s.asked("/changes/index.xml"); got != c.want {
			t.Errorf("%s later the index was asked for %d times, want %d", c.by, got, c.want)
		}
	}
}

// A look into the index alone, whether after a day or at each poll as the list cannot be
// followed without it, is no news: the waits between polls grow on, and the cursor moves
// no more than once a day.
func TestALookIntoTheIndexIsNoNews(t *testing.T) {
	for name, tt := range map[string]struct {
		by    time.Duration       // between two polls
		shape func(string) string // of the open list
		moves int                 // of the cursor
	}{
		"a list that is followed":           {time.Hour, func(s string) string { return s }, 0},
		"once a day":                        {25 * time.Hour, func(s string) string { return s }, 4},
		"a list without from":               {time.Hour, func(s string) string { return strings.Replace(s, ` from="2026-03-01T12:02:00Z"`, "", 1) }, 0},
		"a list that refers to another one": {time.Hour, func(s string) string { return strings.Replace(s, `rel="index"`, `rel="prev"`, 1) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newIndexed(t, 3)
			s.put(s.open().path(), []byte(tt.shape(string(s.bodies[s.open().path()]))))
			m := newMirror(t, s.aSource)
			now := time.Now()
			m.clock = func() time.Time { return now }
			m.mustSync(destination.Baseline, 0, 3, 0, 0)
			m.mustSync(destination.Incremental, 0, 0, 0, 0)
			cursor := func() (c destination.Cursor, news bool) {
				err := m.with(func(ctx context.Context, d *destination.Destination, _ *mirror.Mirror) error {
					plan, err := d.Plan(ctx)
					if err != nil {
						return err
					}
					defer plan.Close()
					news = plan.Pulse().News
					c, _, err = d.Mirror.Cursor(ctx, s.uri("/caps.xml"))
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				return c, news
			}
			before, _ := cursor()
			moves := 0
			for range 4 {
				now = now.Add(tt.by)
				_, news := cursor()
				if news {
					t.Error("told as news")
				}
				m.mustSync(destination.Incremental, 0, 0, 0, 0)
				after, _ := cursor()
				if after != before {
					moves++
				}
				before = after
			}
			if moves != tt.moves {
				t.Errorf("the cursor moved %d times, want %d", moves, tt.moves)
			}
		})
	}
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
		rep, err := m.sync() // the list that was closed may be a copy from before: it is read again
		if err != nil || rep.Mode != destination.Incremental || rep.Updated != 2 || rep.Failed+rep.Deleted != 0 {
			t.Fatalf("got %+v, %v; want 2 updated", rep, err)
		}
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
