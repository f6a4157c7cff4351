package sim

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"instep/blob"
	"instep/resourcesync"
)

// busySite serves a Source that has published ten times, so that documents of all kinds
// have earlier generations.
func busySite(t *testing.T, entries int) *site {
	t.Helper()
	m := newModel(t, Config{Seed: 5, Resources: 40, Rate: 2})
	s := serve(t, Options{
		Model: m, Bucket: blob.NewMem(), Staging: blob.NewMem(), ChangeListMax: 15, MaxEntries: entries, Dumps: true,
		RebaseEvery: 20 * time.Second, Keep: time.Minute,
	})
	for range 8 {
		if _, err := s.Round(t.Context(), 5*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// document asks for a document and returns the answer with its text.
func (s *site) document(path string, headers ...string) (*http.Response, []byte) {
	s.t.Helper()
	resp := s.ask(path, headers...)
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp, text
}

// aged returns a document of a kind that has at least three generations.
func (s *site) aged(kinds ...string) string {
	s.t.Helper()
	all := s.Documents()
	i := slices.IndexFunc(all, func(d Document) bool { return slices.Contains(kinds, d.Kind) && d.Generations > 2 })
	if i < 0 {
		s.t.Fatalf("no document of %v has three generations: %v", kinds, all)
	}
	return all[i].Path
}

// A cache answers as the Source did: the bytes, ETag, Date and Last-Modified of then.
func TestACacheAnswersWithAnEarlierGeneration(t *testing.T) {
	s := busySite(t, 100)
	for _, kind := range []string{"capabilitylist", "resourcelist", "changelist", "changelist-index"} {
		path := s.aged(kind)
		past := s.past.of(path)
		_, present := s.document(path)
		s.Override(map[string]Override{path: {Cached: true, Back: 2}})
		then := past[len(past)-3]
		resp, text := s.document(path)
		date := then.published.Format(http.TimeFormat)
		if !bytes.Equal(text, then.text) || resp.Header.Get("Date") != date || resp.Header.Get("Last-Modified") != date ||
			resp.Header.Get("ETag") != fmt.Sprintf(`"%x"`, then.sum[:12]) || resp.Header.Get("Age") == "" {
			t.Errorf("%s: got %d bytes of %v, want the %d of %s", kind, len(text), resp.Header, len(then.text), date)
		}
		if resp, _ := s.document(path, "If-None-Match", resp.Header.Get("ETag")); resp.StatusCode != http.StatusNotModified {
			t.Errorf("%s: asked on a condition: got %s", kind, resp.Status)
		}
		if _, text := s.document(path, "Cache-Control", "no-cache"); !bytes.Equal(text, present) {
			t.Errorf("%s: no-cache does not reach the Source", kind)
		}
		s.Override(map[string]Override{path: {Cached: true, Back: 2, Hard: true}})
		if _, text := s.document(path, "Cache-Control", "no-cache"); !bytes.Equal(text, then.text) {
			t.Errorf("%s: no-cache reaches the Source", kind)
		}
		s.Override(nil)
		if resp, text := s.document(path); !bytes.Equal(text, present) || resp.Header.Get("Age") != "" {
			t.Errorf("%s: without a cache: got %d bytes, %v", kind, len(text), resp.Header)
		}
	}
}

func TestCachesAreOfTheirKindOfDocument(t *testing.T) {
	for name, kinds := range map[string][]string{
		"cached-capabilities": {"capabilitylist"}, "cached-indexes": {"changelist-index"}, "cached-lists": {"resourcelist"},
		"cached-changes": {"changelist"}, "cached-dumps": {"changedump"},
	} {
		s := busySite(t, 100)
		path := s.aged(kinds...)
		s.Switch(one(t, name))
		for _, d := range s.Documents() {
			resp, _ := s.document(d.Path)
			if old := resp.Header.Get("Age") != ""; old && !slices.Contains(one(t, name).kinds, d.Kind) {
				t.Errorf("%s: %s, a %s, comes from a cache", name, d.Path, d.Kind)
			}
		}
		if resp, _ := s.document(path); resp.Header.Get("Age") == "" {
			t.Errorf("%s: %s comes from the Source", name, path)
		}
		if resp, _ := s.document(path, "Cache-Control", "no-cache"); resp.Header.Get("Age") != "" {
			t.Errorf("%s: no-cache does not reach the Source", name)
		}
		s.Switch(one(t, name), one(t, "hard-caches"))
		if resp, _ := s.document(path, "Cache-Control", "no-cache"); resp.Header.Get("Age") == "" {
			t.Errorf("%s: no-cache reaches the Source in spite of hard-caches", name)
		}
	}
}

// A cache has what the Source has removed.
func TestACacheKeepsWhatIsGone(t *testing.T) {
	s := busySite(t, 10)
	old := s.place(aPart)
	_, before := s.document(old)
	for range 3 {
		if _, err := s.Round(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	if resp, _ := s.document(old); resp.StatusCode != http.StatusNotFound {
		t.Fatalf("the list of the beginning: got %s, want 404", resp.Status)
	}
	s.Override(map[string]Override{old: {Cached: true}})
	if _, text := s.document(old); !bytes.Equal(text, before) {
		t.Errorf("got %d bytes, want the %d of then", len(text), len(before))
	}
}

func TestADocumentIsWithdrawnAndRestored(t *testing.T) {
	s := busySite(t, 10)
	for _, status := range []int{http.StatusNotFound, http.StatusInternalServerError} {
		s.Override(map[string]Override{firstChanges: {Status: status}})
		if resp, _ := s.document(firstChanges); resp.StatusCode != status {
			t.Errorf("withdrawn: got %s, want %d", resp.Status, status)
		}
		if resp, _ := s.document(changeIndex); resp.StatusCode != http.StatusOK {
			t.Errorf("its index: got %s", resp.Status)
		}
	}
	s.Override(nil)
	if resp, _ := s.document(firstChanges); resp.StatusCode != http.StatusOK {
		t.Errorf("restored: got %s", resp.Status)
	}
}

func TestGenerationsAreKeptWithinBounds(t *testing.T) {
	g := generations{byKey: map[string][]*generation{}}
	for i := range 40 {
		text := bytes.Repeat([]byte{byte(i)}, maxGeneration)
		g.keep(&generation{key: fmt.Sprint("k", i%2), text: text, sum: [32]byte{byte(i)}})
		g.keep(&generation{key: fmt.Sprint("k", i%2), text: text, sum: [32]byte{byte(i)}})
	}
	if n := len(g.all); n != 16 || g.bytes != maxGenerations || len(g.of("k0"))+len(g.of("k1")) != n {
		t.Errorf("got %d generations of %d bytes, %d and %d of the documents", n, g.bytes, len(g.of("k0")), len(g.of("k1")))
	}
}

func TestAClockIsWrongForAWhile(t *testing.T) {
	for name, ahead := range map[string]time.Duration{
		"clock-seconds-behind": -3 * time.Second, "clock-hour-behind": -time.Hour, "clock-year-behind": -365 * 24 * time.Hour,
		"clock-seconds-ahead": 3 * time.Second, "clock-hour-ahead": time.Hour, "clock-year-ahead": 365 * 24 * time.Hour,
	} {
		s := busySite(t, 100)
		right := s.o.Model.Now()
		s.Switch(one(t, name))
		if _, err := s.Round(t.Context(), 30*time.Second); err != nil {
			t.Fatal(err)
		}
		wrong := s.o.Model.Now()
		s.mustSay(name, wrong.Add(ahead), right, ahead)
		s.Switch()
		if _, err := s.Round(t.Context(), 30*time.Second); err != nil {
			t.Fatal(err)
		}
		s.mustSay(name+", right again", s.o.Model.Now(), right, ahead)
	}
	s := busySite(t, 100)
	s.Switch(one(t, "clock-9999"))
	if resp, _ := s.document(resourceIndex); !strings.Contains(resp.Header.Get("Date"), " 9999 ") {
		t.Errorf("clock-9999: the Date is %s", resp.Header.Get("Date"))
	}
}

// mustSay checks the Date, and that the changes of the 30 s after right have times that
// are wrong by ahead, those before and after them right ones.
func (s *site) mustSay(name string, date, right time.Time, ahead time.Duration) {
	s.t.Helper()
	resp, _ := s.document(changeIndex)
	if got := resp.Header.Get("Date"); got != date.Format(http.TimeFormat) {
		s.t.Errorf("%s: Date: got %s, want %s", name, got, date)
	}
	until, seen := right.Add(30*time.Second), 0
	for _, list := range s.entries(changeIndex) {
		for _, en := range s.entries(strings.TrimPrefix(list.Loc, s.url)) {
			seen++
			ch, err := s.o.Model.change(0, int64(seen))
			if err != nil {
				s.t.Fatal(err)
			}
			want := ch.Datetime
			if want.After(right) && !want.After(until) {
				want = want.Add(ahead)
			}
			if en.Datetime != resourcesync.DatetimeOf(want) {
				s.t.Errorf("%s: change %d: got %s, want %s", name, seen, en.Datetime, want)
			}
		}
	}
	if int64(seen) != s.o.Model.Last(0) {
		s.t.Errorf("%s: got %d changes, want %d", name, seen, s.o.Model.Last(0))
	}
}

func TestListsAreShort(t *testing.T) {
	clean := newSite(t)
	n, m := len(clean.entries(clean.place(aPart))), len(clean.entries(aManifest))
	s := newSite(t, one(t, "half-list"))
	if got := len(s.entries(s.place(aPart))); got != (n+1)/2 {
		t.Errorf("half-list: got %d of %d entries", got, n)
	}
	s = newSite(t, one(t, "lacks-next"))
	if text := s.body(s.place(aPart)); strings.Contains(text, `rel="next"`) || len(s.entries(s.place(aPart))) != n/3 {
		t.Errorf("lacks-next: got %d of %d entries, or a next", len(s.entries(s.place(aPart))), n)
	}
	s = newSite(t, one(t, "short-manifest"))
	members, err := unpack([]byte(s.body(strings.Replace(aManifest, "-manifest.xml", ".zip", 1))))
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(members, func(m member) bool { return m.name == manifestName })
	inside, err := parseDocument(bytes.NewReader(members[i].data))
	if got := len(s.entries(aManifest)); err != nil || got != (m+1)/2 || len(inside.entries) != got {
		t.Errorf("short-manifest: got %d of %d entries, inside the package %d (%v)", got, m, len(inside.entries), err)
	}
}

func TestAnOrderWithoutMeaningStaysAsItIs(t *testing.T) {
	s := newSite(t, one(t, "shuffled"))
	if first := s.body(firstChanges); s.body(firstChanges) != first {
		t.Error("shuffled: the order changed between two looks")
	}
	order := func(s *site) (paths []string) {
		for _, e := range s.entries(firstChanges) {
			paths = append(paths, strings.TrimPrefix(e.Loc, s.url))
		}
		return paths
	}
	other := newSite(t, one(t, "shuffled"))
	if got, want := order(other), order(s); len(want) < 2 || !slices.Equal(got, want) {
		t.Errorf("shuffled: at another address the order is another one: got %v, want %v", got, want)
	}
}
