package source

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/blob"
	"instep/resourcesync"
)

func TestFirstPublicationHoldsTheWholeRing(t *testing.T) {
	s := newSite(t)
	s.fill(2)
	pub := s.publish(s.first())
	want := []string{
		".well-known/resourcesync",
		"resourcesync/about.html",
		"resourcesync/capabilitylist.xml",
		"resourcesync/changelist-index.xml",
		"resourcesync/changes/3.xml",
		"resourcesync/description.xml",
		"resourcesync/lists/1/resourcelist.xml",
		"resourcesync/publication.json",
		"resourcesync/resourcelist.xml",
		"resourcesync/set.html",
		"sitemap.xml",
	}
	if diff := cmp.Diff(want, keysOf(t, s.bucket)); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, slices.Sorted(slices.Values(pub.Written))); diff != "" {
		t.Errorf("Written (-want +got):\n%s", diff)
	}
	w := newWalk(s.bucket)
	if err := w.walk(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(hashes(s.truth), w.state); diff != "" {
		t.Errorf("what a reader gets (-want +got):\n%s", diff)
	}
	if got := keysOf(t, s.staging); len(got) != 0 {
		t.Errorf("staging still holds %q", got)
	}
}

func TestUnchangedDocumentsAreNotRewritten(t *testing.T) {
	s := newSite(t)
	s.fill(2)
	s.publish(s.first())
	s.set("item/0.txt", "new")
	pub := s.publish(s.more(false))
	if diff := cmp.Diff([]string{"resourcesync/changes/3.xml", "resourcesync/set.html", "resourcesync/about.html"}, pub.Written); diff != "" {
		t.Errorf("Written (-want +got):\n%s", diff)
	}
}

func TestNamedSetsShareOneDescription(t *testing.T) {
	s := newSite(t)
	s.fill(1)
	s.publish(s.first())
	s.p.Sets = []string{"", "maps", "never-published"}
	u := s.first()
	u.Set = "maps"
	s.publish(u)
	w := newWalk(s.bucket)
	d, err := w.read(testBase + "resourcesync/description.xml")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, en := range d.Entries {
		got = append(got, en.Loc)
	}
	want := []string{testBase + "resourcesync/capabilitylist.xml", testBase + "resourcesync/sets/maps/capabilitylist.xml"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sets (-want +got):\n%s", diff)
	}
}

func TestListsAreSplitAtTheLimit(t *testing.T) {
	for _, n := range []int{0, 1, 3, 4, 6, 7, 31} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			s := newSite(t)
			s.fill(n)
			pub := s.publish(s.first())
			wantParts := (n + 2) / 3
			if n <= 3 {
				wantParts = 0
			}
			if got := len(pub.ListKeys) - 1; got != wantParts || len(pub.SitemapKeys) != len(pub.ListKeys) {
				t.Errorf("got %d parts of the list and %d keys of the sitemap, want %d parts", got, len(pub.SitemapKeys), wantParts)
			}
			if pub.Resources != int64(n) {
				t.Errorf("Resources: got %d, want %d", pub.Resources, n)
			}
			w := newWalk(s.bucket)
			if err := w.walk(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(hashes(s.truth), w.state); diff != "" {
				t.Errorf("what a reader gets (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(slices.Sorted(maps.Keys(s.truth)), w.sitemap); diff != "" {
				t.Errorf("sitemap (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRetiredGenerationsGoAfterTheirTime(t *testing.T) {
	s := newSite(t)
	s.fill(4)
	s.publish(s.first())
	lists := func() (ids []string) {
		for _, key := range keysOf(t, s.bucket) {
			if rest, ok := strings.CutPrefix(key, "resourcesync/lists/"); ok && strings.HasSuffix(rest, "/resourcelist.xml") {
				ids = append(ids, strings.TrimSuffix(rest, "/resourcelist.xml"))
			}
		}
		return ids
	}
	republish := func(step time.Duration) {
		s.now = s.now.Add(step)
		s.set("item/0.txt", s.now.String())
		s.publish(s.more(true))
	}
	republish(time.Minute)
	republish(time.Minute)
	if diff := cmp.Diff([]string{"1", "2", "3"}, lists()); diff != "" {
		t.Errorf("within the hour (-want +got):\n%s", diff)
	}
	republish(25 * time.Hour)
	if diff := cmp.Diff([]string{"3", "4"}, lists()); diff != "" {
		t.Errorf("a day later, two generations stay (-want +got):\n%s", diff)
	}
	for _, key := range keysOf(t, s.bucket) {
		if strings.HasPrefix(key, "sitemap-1-") || strings.HasPrefix(key, "sitemap-2-") {
			t.Errorf("part %q of a retired sitemap is still there", key)
		}
	}
	if _, known, _ := s.log.Document(t.Context(), "resourcesync/lists/1/resourcelist.xml"); known {
		t.Error("a removed document is still remembered")
	}
}

func TestClosedChangeListStaysThenGoes(t *testing.T) {
	s := newSite(t)
	s.fill(2)
	s.publish(s.first())
	s.set("item/0.txt", "second")
	s.publish(s.more(false))
	before, at := len(s.changes), s.now.Add(time.Microsecond)
	s.set("item/0.txt", "third")
	s.publish(s.rotate(before, at, true))
	w := newWalk(s.bucket)
	old, err := w.read(testBase + "resourcesync/changes/3.xml")
	if err != nil {
		t.Fatal(err)
	}
	next, err := w.read(testBase + "resourcesync/changes/4.xml")
	if err != nil {
		t.Fatal(err)
	}
	if old.MD.Until == "" || old.MD.Until != next.MD.From || len(old.Entries) != 1 || len(next.Entries) != 1 {
		t.Errorf("until %q with %d entries, from %q with %d: want equal moments and one entry each",
			old.MD.Until, len(old.Entries), next.MD.From, len(next.Entries))
	}
	for day := range 34 {
		_, err := s.bucket.Stat(t.Context(), "resourcesync/changes/3.xml")
		if day < 30 && err != nil || day > 32 && !errors.Is(err, blob.ErrNotExist) {
			t.Errorf("closed Change List after %d days: got %v", day, err)
		}
		s.now = s.now.Add(24 * time.Hour)
		s.set("item/1.txt", s.now.String())
		s.publish(s.more(true))
	}
}

func TestForeignFilesAreNeverReplaced(t *testing.T) {
	for _, key := range []string{
		"resourcesync/description.xml", "resourcesync/capabilitylist.xml", "resourcesync/about.html",
		"resourcesync/lists/1/resourcelist.xml", "resourcesync/resourcelist.xml", ".well-known/resourcesync",
		"resourcesync/changes/3.xml", "resourcesync/publication.json",
	} {
		t.Run(key, func(t *testing.T) {
			s := newSite(t)
			s.fill(2)
			put(t, s.bucket, key, "somebody's")
			_, err := s.p.Publish(t.Context(), s.first())
			var foreign *NotOursError
			if !errors.As(err, &foreign) || foreign.Key != key {
				t.Fatalf("got %v, want *NotOursError of %q", err, key)
			}
			if diff := cmp.Diff([]string{key}, keysOf(t, s.bucket)); diff != "" {
				t.Errorf("bucket (-want +got):\n%s", diff)
			}
			if last, _, _ := s.log.Last(t.Context(), ""); last.ID != 0 {
				t.Errorf("publication %d was committed", last.ID)
			}
			if got := keysOf(t, s.staging); len(got) != 0 {
				t.Errorf("staging still holds %q", got)
			}
		})
	}
}

func TestEditedDocumentIsNotReplaced(t *testing.T) {
	s := newSite(t)
	s.fill(1)
	s.publish(s.first())
	put(t, s.bucket, "resourcesync/changes/2.xml", "<edited/>")
	s.set("item/0.txt", "new")
	_, err := s.p.Publish(t.Context(), s.more(false))
	var foreign *NotOursError
	if !errors.As(err, &foreign) {
		t.Fatalf("got %v, want *NotOursError", err)
	}
}

func TestForeignSitemapStaysAndOursGoesElsewhere(t *testing.T) {
	s := newSite(t)
	s.fill(5)
	put(t, s.bucket, "sitemap.xml", "<urlset/>")
	pub := s.publish(s.first())
	if got := read(t, s.bucket, "sitemap.xml"); got != "<urlset/>" {
		t.Errorf("the foreign sitemap became %q", got)
	}
	want := []string{"resourcesync/sitemap-1-00001.xml", "resourcesync/sitemap-1-00002.xml", "resourcesync/sitemap.xml"}
	if diff := cmp.Diff(want, pub.SitemapKeys); diff != "" {
		t.Errorf("SitemapKeys (-want +got):\n%s", diff)
	}
	if len(pub.Notes) != 1 || !strings.Contains(pub.Notes[0], "resourcesync/sitemap.xml") {
		t.Errorf("Notes: got %q, want one that names the other place", pub.Notes)
	}
	blob.Remove(t.Context(), s.bucket, []string{"sitemap.xml"})
	s.set("item/0.txt", "new")
	pub = s.publish(s.more(true))
	if got := pub.SitemapKeys[len(pub.SitemapKeys)-1]; got != "sitemap.xml" || !slices.Contains(pub.Retired, "resourcesync/sitemap.xml") {
		t.Errorf("with the way free: sitemap at %q, retired %q", got, pub.Retired)
	}
}

func TestBucketOfAnotherStateIsRefused(t *testing.T) {
	s := newSite(t)
	s.fill(1)
	s.publish(s.first())
	before := keysOf(t, s.bucket)
	other := newSite(t)
	other.bucket = s.bucket
	other.reopen()
	other.p.UUID = "22222222-2222-4222-8222-222222222222"
	other.fill(1)
	_, err := other.p.Publish(t.Context(), other.first())
	var wrong *WrongStateError
	if !errors.As(err, &wrong) || wrong.Found != s.p.UUID || !strings.Contains(err.Error(), s.p.UUID) {
		t.Fatalf("got %v, want *WrongStateError that names the state found", err)
	}
	if diff := cmp.Diff(before, keysOf(t, s.bucket)); diff != "" {
		t.Errorf("bucket (-want +got):\n%s", diff)
	}
}

func TestUnwritableEntryCommitsNothing(t *testing.T) {
	s := newSite(t)
	u := s.first()
	broken := errors.New("the store is gone")
	cases := map[string]struct {
		entries iter.Seq2[resourcesync.Entry, error]
		want    string
	}{
		"entry that is no XML": {func(yield func(resourcesync.Entry, error) bool) {
			yield(resourcesync.Entry{Loc: "http://museum.example.org/\x01"}, nil)
		}, `http://museum.example.org/\x01`},
		"iterator that fails": {func(yield func(resourcesync.Entry, error) bool) {
			yield(resourcesync.Entry{}, broken)
		}, broken.Error()},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			u.Snapshot.Resources = c.entries
			_, err := s.p.Publish(t.Context(), u)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
			if got := keysOf(t, s.bucket); len(got) != 0 {
				t.Errorf("bucket holds %q", got)
			}
			if last, _, _ := s.log.Last(t.Context(), ""); last.ID != 0 {
				t.Errorf("publication %d was committed", last.ID)
			}
		})
	}
}

func TestUpdateThatSaysNothingIsAnError(t *testing.T) {
	s := newSite(t)
	for name, u := range map[string]Update{
		"nothing":                 {},
		"window without a moment": {Changes: []Window{{Number: 1}}},
		"name of a set with path": {Set: "a/b", Snapshot: s.snapshot()},
	} {
		if _, err := s.p.Publish(t.Context(), u); err == nil {
			t.Errorf("%s: published", name)
		}
	}
}

func TestChangesBeyondOneListAreRefused(t *testing.T) {
	s := newSite(t)
	s.publish(s.first())
	u := s.more(false)
	u.Changes[0].Changes = func(yield func(resourcesync.Entry, error) bool) {
		en := resourcesync.Entry{Loc: testBase + "x"}
		en.Change, en.Datetime = resourcesync.Deleted, resourcesync.DatetimeOf(s.now)
		for range resourcesync.MaxEntries + 1 {
			if !yield(en, nil) {
				return
			}
		}
	}
	if _, err := s.p.Publish(t.Context(), u); !errors.Is(err, ErrChangesFull) {
		t.Fatalf("got %v, want ErrChangesFull", err)
	}
}

// TestChangesThatDoNotGoOnAreRefused: nobody ever finds a gap, or a change twice.
func TestChangesThatDoNotGoOnAreRefused(t *testing.T) {
	s := newSite(t)
	s.fill(2)
	s.publish(s.first())
	s.set("item/0.txt", "second")
	late := s.now.Add(time.Hour)
	from := s.last().ChangesFrom
	window := func(number int64, from, until time.Time) Window {
		w := s.window(int(number)-1, 0, len(s.changes), from)
		w.Until = until
		return w
	}
	refused := func(name string, windows ...Window) {
		t.Helper()
		before := keysOf(t, s.bucket)
		if pub, err := s.p.Publish(t.Context(), Update{Changes: windows}); err == nil || pub.ID != 0 {
			t.Errorf("%s: published as %d, %v", name, pub.ID, err)
		}
		if diff := cmp.Diff(before, keysOf(t, s.bucket)); diff != "" {
			t.Errorf("%s (-before +after):\n%s", name, diff)
		}
	}
	refused("another list while one is open", window(4, late, time.Time{}))
	refused("the open one from later on", window(3, late, time.Time{}))
	refused("a gap between two", window(3, from, late), window(4, late.Add(1), time.Time{}))
	refused("two that are open", window(3, from, time.Time{}), window(4, late, time.Time{}))
	s.publish(Update{Changes: []Window{window(3, from, late)}})
	refused("a closed one again", window(3, from, time.Time{}))
	refused("a gap after the closed one", window(4, late.Add(1), time.Time{}))
	s.publish(Update{Changes: []Window{window(4, late, time.Time{})}})
}

func TestChangeListsMayBeginLater(t *testing.T) {
	s := newSite(t)
	s.fill(1)
	snap := s.snapshot()
	s.publish(Update{Snapshot: snap})
	s.set("item/0.txt", "second")
	s.publish(Update{Changes: []Window{s.window(1, 1, 2, snap.At)}})
	w := newWalk(s.bucket)
	if err := w.walk(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(hashes(s.truth), w.state); diff != "" {
		t.Errorf("what a reader gets (-want +got):\n%s", diff)
	}
}

func TestWhatRulesSayOfResourcesIsListed(t *testing.T) {
	s := newSite(t)
	s.fill(1)
	u := s.first()
	all := u.Snapshot.Resources
	u.Snapshot.Resources = func(yield func(resourcesync.Entry, error) bool) {
		for en, err := range all {
			en.Encoding, en.ChangeFreq = "gzip", resourcesync.Never
			if !yield(en, err) {
				return
			}
		}
	}
	s.publish(u)
	_, entries := documentAt(t, s.bucket, "resourcesync/resourcelist.xml")
	if len(entries) != 1 || entries[0].Encoding != "gzip" || entries[0].ChangeFreq != resourcesync.Never {
		t.Errorf("got %+v, want encoding and changefreq", entries)
	}
	if strings.Contains(read(t, s.bucket, "sitemap.xml"), "gzip") {
		t.Error("the sitemap for search engines has an encoding")
	}
}

// TestSmallSetIsReadOnceForBothLists: also if a list of its resources has several parts.
func TestSmallSetIsReadOnceForBothLists(t *testing.T) {
	for max, want := range map[int]int{0: 1, 2: 2} { // once more when one document was not enough
		s := newSite(t)
		s.p.MaxEntries = max
		s.fill(5)
		u := s.first()
		all, times := u.Snapshot.Resources, 0
		u.Snapshot.Resources = func(yield func(resourcesync.Entry, error) bool) {
			times++
			all(yield)
		}
		pub := s.publish(u)
		if times != want || len(pub.SitemapKeys) != len(pub.ListKeys) {
			t.Errorf("MaxEntries %d: read %d times, want %d; sitemap %q, Resource List %q", max, times, want, pub.SitemapKeys, pub.ListKeys)
		}
		w := newWalk(s.bucket)
		if err := w.walk(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(slices.Sorted(maps.Keys(s.truth)), w.sitemap); diff != "" {
			t.Errorf("MaxEntries %d: sitemap (-want +got):\n%s", max, diff)
		}
	}
}

// TestDumpsThatEndAreTakenBack: neither they nor their packages stay, but for the time
// of slow readers.
func TestDumpsThatEndAreTakenBack(t *testing.T) {
	s := newSite(t)
	s.fill(3)
	s.dumps = true
	s.publish(s.first())
	s.set("item/0.txt", "second")
	s.publish(s.more(true))
	s.dumps = false
	s.set("item/0.txt", "third")
	pub := s.publish(s.more(true))
	for _, c := range []resourcesync.Capability{resourcesync.CapabilityResourceDump, resourcesync.CapabilityChangeDump} {
		if uri := pub.Offer(c); uri != "" {
			t.Errorf("%s is still offered at %s", c, uri)
		}
	}
	dumps := func() (keys []string) {
		for _, key := range keysOf(t, s.bucket) {
			if strings.Contains(key, "dump") {
				keys = append(keys, key)
			}
		}
		return keys
	}
	if len(dumps()) == 0 {
		t.Error("a slow reader finds none of what it was led to")
	}
	for range 2 {
		s.now = s.now.Add(25 * time.Hour)
		s.set("item/0.txt", s.now.String())
		s.publish(s.more(true))
	}
	if left := dumps(); len(left) > 0 {
		t.Errorf("two days later there is still %q", left)
	}
}

func TestRemovalReversesPublication(t *testing.T) {
	got := []string{"d/1/00001.zip", "d/1/00001-manifest.xml", "l/resourcelist-00001.xml", "l/resourcelist.xml", "d/1/resourcedump.xml", "d/1/resourcedump-00001.xml", "changedumps/7.xml", "changedumps/3/00001.zip"}
	slices.SortFunc(got, compareRemoval)
	want := []string{"l/resourcelist.xml", "l/resourcelist-00001.xml", "d/1/resourcedump.xml", "d/1/resourcedump-00001.xml", "changedumps/7.xml", "d/1/00001.zip", "changedumps/3/00001.zip", "d/1/00001-manifest.xml"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPreviewWritesNothing(t *testing.T) {
	s := newSite(t)
	s.fill(4)
	pub, err := s.p.Preview(t.Context(), s.first())
	if err != nil {
		t.Fatal(err)
	}
	if len(keysOf(t, s.bucket)) != 0 || len(keysOf(t, s.staging)) != 0 || len(keysOf(t, s.records)) != 0 {
		t.Error("Preview left something behind")
	}
	real := s.publish(s.first())
	if diff := cmp.Diff(real.Written, pub.Written); diff != "" {
		t.Errorf("Written (-published +previewed):\n%s", diff)
	}
}

func TestParseBaseURL(t *testing.T) {
	for in, want := range map[string]string{
		"http://h.example.org":             "http://h.example.org/",
		"HTTPS://H.example.org/Museum":     "https://h.example.org/Museum/",
		"http://h.example.org:8080/a%20b/": "http://h.example.org:8080/a%20b/",
		"":                                 "",
		"museum":                           "",
		"ftp://h.example.org/":             "",
		"http:///x":                        "",
		"http://u:p@h.example.org/":        "",
		"http://h.example.org/?q":          "",
		"http://h.example.org/?":           "",
		"http://h.example.org/#":           "",
		"http://h.example.org/a/../b/":     "",
		"http://h.example.org/%zz":         "",
	} {
		got, err := ParseBaseURL(in)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("ParseBaseURL(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
}
