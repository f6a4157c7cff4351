package destination_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"instep/destination"
	"instep/resourcesync"
	"instep/transfer"
)

// A resource that cannot be had is taken from a duplicate of the Source's own origins,
// if a digest proves that it is one; and when it changes between list and fetch, the
// bytes of neither version are taken for those of the other.
func TestCat_FET_11(t *testing.T) {
	right, wrong := []byte("the right bytes"), []byte("the wrong bytes")
	broken := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	tests := []struct {
		name   string
		loc    http.HandlerFunc
		links  []resourcesync.Link // {} stands for the Source
		weak   bool                // no digest
		served map[string][]byte
		want   bool
		asked  []string // of /d/, in this order
		when   transfer.Duplicates
		self   int // how often the resource itself is asked for; 0: not compared
	}{
		{"loc is good", nil, dups("/d/1"), false, map[string][]byte{"/d/1": right}, true, nil, "", 0},
		{"loc is gone", broken(404), dups("/d/1"), false, map[string][]byte{"/d/1": right}, true, []string{"/d/1"}, "", 0},
		{"loc is busy", broken(503), dups("/d/1"), false, map[string][]byte{"/d/1": right}, true, []string{"/d/1"}, "", 0},
		{"loc has other bytes", serving(wrong), dups("/d/1"), false, map[string][]byte{"/d/1": right}, true, []string{"/d/1"}, "", 0},
		{"the duplicate has other bytes", broken(404), dups("/d/1"), false, map[string][]byte{"/d/1": wrong}, false, []string{"/d/1"}, "", 0},
		{"the second is good", broken(404), dups("/d/1", "/d/2"), false, map[string][]byte{"/d/1": wrong, "/d/2": right}, true, []string{"/d/1", "/d/2"}, "", 0},
		{
			"by priority", broken(404),
			[]resourcesync.Link{{Href: "/d/0"}, {Href: "/d/9", Pri: 9}, {Href: "/d/1", Pri: 1}, {Href: "/d/5", Pri: 5}}, false,
			map[string][]byte{"/d/0": right}, false, []string{"/d/1", "/d/5", "/d/9"}, "", 1,
		},
		{"without a digest", broken(404), dups("/d/1"), true, map[string][]byte{"/d/1": right}, false, nil, "", 0},
		{"of another origin", broken(404), dups("http://127.0.0.1:1/d/1"), false, nil, false, nil, "", 0},
		{"of another scheme", broken(404), dups("gsiftp://example.org/d/1", "file:///etc/hosts", "http://[/"), false, nil, false, nil, "", 0},
		{"other relations", broken(404), []resourcesync.Link{{Rel: "alternate", Href: "/d/1"}}, false, map[string][]byte{"/d/1": right}, false, nil, "", 0},
		{"a pri asks to be first", nil, []resourcesync.Link{{Href: "/d/2"}, {Href: "/d/1", Pri: 3}}, false, map[string][]byte{"/d/1": right}, true, []string{"/d/1"}, "", -1},
		{"a pri and other bytes", nil, []resourcesync.Link{{Href: "/d/1", Pri: 1}, {Href: "/d/2", Pri: 2}}, false, map[string][]byte{"/d/1": wrong, "/d/2": right}, true, []string{"/d/1", "/d/2"}, "", -1},
		{"a pri and all are wrong", nil, []resourcesync.Link{{Href: "/d/1", Pri: 1}, {Href: "/d/2"}}, false, map[string][]byte{"/d/1": wrong, "/d/2": right}, true, []string{"/d/1"}, "", 1},
		{"a pri without a digest", nil, []resourcesync.Link{{Href: "/d/1", Pri: 1}}, true, map[string][]byte{"/d/1": wrong}, true, nil, "", 1},
		{"first", nil, dups("/d/1"), false, map[string][]byte{"/d/1": right}, true, []string{"/d/1"}, transfer.DuplicatesFirst, -1},
		{"last", nil, []resourcesync.Link{{Href: "/d/1", Pri: 1}}, false, map[string][]byte{"/d/1": right}, true, nil, transfer.DuplicatesLast, 1},
		{"never", broken(404), []resourcesync.Link{{Href: "/d/1", Pri: 1}}, false, map[string][]byte{"/d/1": right}, false, nil, transfer.DuplicatesNever, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSource(t)
			s.offer("/list.xml", "")
			s.put("/r", right)
			e := s.entry("/r")
			if tt.weak {
				e.Digests = nil
			}
			for _, l := range tt.links {
				if l.Rel == "" {
					l.Rel = resourcesync.RelDuplicate
				}
				if strings.HasPrefix(l.Href, "/") {
					l.Href = s.uri(l.Href)
				}
				e.Links = append(e.Links, l)
			}
			s.doc("/list.xml", head(resourcesync.CapabilityResourceList, func(h *resourcesync.Header) { h.At = at(0) }), e)
			if tt.loc != nil {
				s.answer("/r", tt.loc)
			}
			var asked []string
			for i := range 10 {
				path := fmt.Sprint("/d/", i)
				s.answer(path, func(w http.ResponseWriter, _ *http.Request) {
					asked = append(asked, path)
					if body, ok := tt.served[path]; ok {
						_, _ = w.Write(body)
						return
					}
					w.WriteHeader(http.StatusNotFound)
				})
			}
			m := newMirror(t, s)
			m.set = func(d *destination.Destination) { d.Duplicates = tt.when }
			rep, err := m.sync()
			if err != nil || (rep.Created == 1) != tt.want || (rep.Failed == 1) == tt.want {
				t.Errorf("got %+v, %v; want it to be had: %v", rep, err, tt.want)
			}
			if got, held := m.files()["/r"]; held != tt.want || held && got != string(right) {
				t.Errorf("held: %q, %v", got, held)
			}
			if !slices.Equal(asked, tt.asked) {
				t.Errorf("asked for %q, want %q", asked, tt.asked)
			}
			if got := s.asked("/r"); tt.self != 0 && got != max(tt.self, 0) {
				t.Errorf("the resource itself was asked for %d times, want %d", got, max(tt.self, 0))
			}
			if len(tt.asked) > 0 && tt.self == 0 && tt.want != slices.ContainsFunc(m.notes, func(n string) bool { return strings.Contains(n, "fetched from its duplicate") }) {
				t.Errorf("notes: %q", m.notes)
			}
		})
	}
	t.Run("changes between list and fetch", func(t *testing.T) {
		s, paths, m := inStep(t, 10)
		s.put("/r/1", []byte("a state in between"))
		change := s.change(1, resourcesync.Updated, "/r/1")
		s.changes(0, change)
		s.put("/r/1", []byte("a later state")) // the list says nothing of it yet
		if rep, err := m.sync(); err != nil || rep.Failed != 1 {
			t.Fatalf("got %+v, %v; want one failure", rep, err)
		}
		if got := m.files()["/r/1"]; got == "a later state" {
			t.Errorf("bytes that nothing proves are held: %q", got)
		}
		s.changes(0, change, s.change(2, resourcesync.Updated, "/r/1"))
		if rep := m.mustSync(destination.Incremental, 0, 0, 1, 0); rep.Failed != 0 {
			t.Errorf("got %+v", rep)
		}
		m.wantFiles(paths...)
	})
}

func dups(hrefs ...string) (links []resourcesync.Link) {
	for _, h := range hrefs {
		links = append(links, resourcesync.Link{Href: h})
	}
	return links
}

func serving(body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) }
}
