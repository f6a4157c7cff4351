package destination_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"instep/destination"
	"instep/mirror"
	"instep/resourcesync"
)

// A run that has transferred as much as it may keeps what it has, and the next goes on
// from there, until everything is here.
func TestRunsWithALimitOfTransferEndInStep(t *testing.T) {
	for name, length := range map[string]bool{"known lengths": true, "unknown lengths": false} {
		t.Run(name, func(t *testing.T) {
			s := newSource(t)
			s.offer("/list.xml", "")
			var paths, entries []string
			for i := range 30 {
				p := fmt.Sprintf("/r/%d", i)
				s.put(p, []byte(fmt.Sprintf("%04d", i)+strings.Repeat("x", 996)))
				paths = append(paths, p)
				md := ""
				if length {
					md = `<rs:md length="1000"/>`
				}
				entries = append(entries, `<url><loc>`+s.uri(p)+`</loc><lastmod>2026-01-01T00:00:00Z</lastmod>`+md+`</url>`)
			}
			s.raw("/list.xml", `capability="resourcelist" at="`+at(0).String()+`"`, "", entries...)
			m := newMirror(t, s)
			m.set = func(d *destination.Destination) { d.MaxTransfer, d.Workers = 7500, 1 }
			runs, held := 0, int64(0)
			for {
				runs++
				rep, err := m.sync()
				if err == nil {
					held += rep.Created
					break
				}
				if !errors.Is(err, destination.ErrMaxTransfer) || rep.Created < 8 || rep.Created > 10 || rep.Failed != 0 {
					t.Fatalf("run %d: got %+v, %v; want it to end for its limit after 8 resources", runs, rep, err)
				}
				held += rep.Created
				if m.followed() {
					t.Fatalf("run %d: the cursor moved though not everything is here", runs)
				}
			}
			if held != 30 || runs < 3 {
				t.Errorf("%d runs brought %d resources, want 30 in 4", runs, held)
			}
			m.wantFiles(paths...)
		})
	}
}

// When the time is up, what is under way ends well and nothing else begins.
func TestRunEndsWhenItsTimeIsUp(t *testing.T) {
	const most = time.Second
	s := newSource(t)
	paths := s.fill(40)
	s.list(0, paths...)
	s.changes(0)
	m := newMirror(t, s)
	m.set = func(d *destination.Destination) { d.MaxTime, d.Workers = most, 1 }
	for _, p := range paths {
		s.answer(p, func(w http.ResponseWriter, r *http.Request) {
			<-time.After(most) // a transfer that takes all the time there is
			_, _ = w.Write(s.body(r.URL.Path))
		})
	}
	// The second is allowed while the first is under way.
	rep, err := m.sync()
	if !errors.Is(err, destination.ErrMaxTime) || rep.Created < 1 || rep.Created > 2 || rep.Failed != 0 {
		t.Fatalf("got %+v, %v; want one or two resources, and the time named", rep, err)
	}
	if got := int64(len(m.files())); got != rep.Created {
		t.Errorf("%d files are held, %d were reported", got, rep.Created)
	}
	if m.followed() {
		t.Error("the cursor moved though not everything is here")
	}
	m.set = nil
	for _, p := range paths {
		s.answer(p, nil)
	}
	if rep, err := m.sync(); err != nil || rep.Failed != 0 {
		t.Fatalf("without a limit: got %+v, %v", rep, err)
	}
	m.wantFiles(paths...)
}

func (s *aSource) body(path string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bodies[path]
}

// followed reports whether the only set has a cursor.
func (m *aMirror) followed() (ok bool) {
	m.t.Helper()
	err := m.with(func(ctx context.Context, d *destination.Destination, _ *mirror.Mirror) (err error) {
		_, ok, err = d.Mirror.Cursor(ctx, m.src.uri("/caps.xml"))
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return ok
}

// No more resources are in transfer at a time than Workers says, and as many are.
func TestNoMoreResourcesAreInTransferThanThereAreWorkers(t *testing.T) {
	const workers = 2
	s := newSource(t)
	paths := s.fill(40)
	s.list(0, paths...)
	var now, most, n atomic.Int64
	var together sync.WaitGroup // the first ones meet
	together.Add(workers)
	for _, p := range paths {
		body := s.body(p)
		s.answer(p, func(w http.ResponseWriter, _ *http.Request) {
			at := now.Add(1)
			for before := most.Load(); at > before && !most.CompareAndSwap(before, at); {
				before = most.Load()
			}
			if n.Add(1) <= workers {
				together.Done()
				together.Wait()
			}
			now.Add(-1)
			_, _ = w.Write(body)
		})
	}
	m := newMirror(t, s)
	m.set = func(d *destination.Destination) { d.Workers = workers }
	m.mustSync(destination.Baseline, 0, 40, 0, 0)
	if got := most.Load(); got != workers {
		t.Errorf("got %d requests at a time, want %d", got, workers)
	}
}

// What is wrong a thousand times is told a few times.
func TestFloodOfNotesIsBounded(t *testing.T) {
	const n = 1000
	for _, tt := range []struct {
		name   string
		source func(s *aSource)
		note   string
	}{
		{"entries of a list", func(s *aSource) {
			s.put("/list.xml", bytes.Replace(s.served("/list.xml"), []byte("</urlset>"), []byte(strings.Repeat("<url></url>", n)+"</urlset>"), 1))
		}, "has 1000 entries that cannot be used"},
		{"parts of an index", func(s *aSource) {
			parts := []resourcesync.Entry{{Loc: s.uri("/part.xml")}}
			for i := range n {
				parts = append(parts, resourcesync.Entry{Loc: fmt.Sprintf("http://elsewhere.example.org/%d.xml", i)})
			}
			s.put("/part.xml", s.served("/list.xml"))
			s.doc("/list.xml", head(resourcesync.CapabilityResourceList, func(h *resourcesync.Header) { h.At, h.Root = at(0), resourcesync.SitemapIndex }), parts...)
		}, "names more than 20 documents that cannot be used"},
		{"changes", func(s *aSource) {
			s.changes(0)
			s.put("/changes.xml", bytes.Replace(s.served("/changes.xml"), []byte("</urlset>"), []byte(strings.Repeat("<url><loc>http://x.example.org/</loc></url>", n)+
				"<url><loc>"+s.uri("/r/0")+`</loc><rs:md change="deleted" datetime="2020-01-01T00:00:00Z"/></url></urlset>`), 1))
			s.offers("resourcelist", "/list.xml", "changelist", "/changes.xml")
		}, "980 more entries have no usable change"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSource(t)
			s.list(0, s.fill(5)...)
			s.offers("resourcelist", "/list.xml")
			tt.source(s)
			m := newMirror(t, s)
			if rep, err := m.sync(); err != nil || rep.Created < 4 {
				t.Fatalf("got %+v, %v; want all that can be used", rep, err)
			}
			m.wantNote(tt.note)
			if len(m.notes) > 30 {
				t.Errorf("got %d notes, want a few; the last: %q", len(m.notes), m.notes[len(m.notes)-1])
			}
		})
	}
}

// A time whose offset moves it out of the years 0 to 9999 cannot be recorded as written,
// and does not end the run.
func TestTimesAtTheEndsOfTheYears(t *testing.T) {
	for _, when := range []string{"0000-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "9999-12-31", "0000"} {
		for name, header := range map[string][2]string{
			"at and from": {`at="` + when + `"`, `from="` + when + `"`},
			"until":       {`at="2026-03-01T12:00:00Z"`, `from="2026-03-01T00:00:00Z" until="` + when + `"`},
		} {
			t.Run(when+" as "+name, func(t *testing.T) {
				s := newSource(t)
				paths := s.fill(5)
				s.offer("/list.xml", "/changes.xml")
				url := func(path, md string) string {
					return `<url><loc>` + s.uri(path) + `</loc><lastmod>` + when + `</lastmod>` + md + `</url>`
				}
				s.raw("/list.xml", `capability="resourcelist" `+header[0], "", url(paths[0], ""), url(paths[1], `<rs:md at="`+when+`"/>`))
				s.raw("/changes.xml", `capability="changelist" `+header[1], "", url(paths[2], `<rs:md change="updated" datetime="`+when+`"/>`),
					url(paths[3], `<rs:md change="created"/>`), url(paths[4], `<rs:md change="deleted" datetime="2020-01-01T00:00:00Z"/>`))
				m := newMirror(t, s)
				for run := range 2 {
					if rep, err := m.sync(); err != nil || rep.Failed > 0 || run == 0 && rep.Created < 2 {
						t.Fatalf("got %+v, %v", rep, err)
					}
				}
			})
		}
	}
}
