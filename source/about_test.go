package source

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/resourcesync"
)

// TestLatestChanges: a page shows the last ten changes whatever Change Lists they are in.
func TestLatestChanges(t *testing.T) {
	begin := time.Date(2024, 5, 1, 10, 0, 0, 0, time.UTC)
	changes := func(from, to int) []resourcesync.Entry {
		var entries []resourcesync.Entry
		for i := from; i < to; i++ {
			en := resourcesync.Entry{Loc: fmt.Sprint("item/", i)}
			en.Change, en.Datetime = resourcesync.Updated, resourcesync.DatetimeOf(begin.Add(time.Duration(i)*time.Second))
			entries = append(entries, en)
		}
		return entries
	}
	var got []LatestChange
	// Each window: the number of its first change, and how many it has when it is written.
	for _, w := range []struct{ from, to int }{{0, 3}, {0, 7}, {7, 7}, {7, 12}, {12, 40}, {40, 41}} {
		list := keepLatest(&got, got, begin.Add(time.Duration(w.from)*time.Second), listed(changes(w.from, w.to)))
		for range 2 { // the copy for the archive reads them again
			for _, err := range list {
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		var want []string
		for i := w.to - 1; i >= max(0, w.to-10); i-- {
			want = append(want, fmt.Sprint("item/", i))
		}
		var uris []string
		for _, c := range got {
			uris = append(uris, c.URI)
		}
		if diff := cmp.Diff(want, uris); diff != "" {
			t.Errorf("after %v (-want +got):\n%s", w, diff)
		}
	}
}

// TestPageOfOneSetShowsWhatItHolds: the page about a Source with one set has its numbers,
// its latest changes and what it offers.
func TestPageOfOneSetShowsWhatItHolds(t *testing.T) {
	s := newSite(t)
	s.fill(2)
	s.p.About = About{Licence: "https://creativecommons.org/licenses/by/4.0/"}
	s.publish(s.first())
	s.set("item/1.txt", "changed")
	s.publish(s.more(false))
	text, links := pageOf(t, s, aboutKey)
	for _, want := range []string{"museum.example.org", "LicenceCC BY 4.0", "Resources2", "updateditem/1.txt", "Resource List: all resources", "The licence says"} {
		if !strings.Contains(text, want) {
			t.Errorf("got %q, want %q in it", text, want)
		}
	}
	if !slices.Contains(links, testBase+"item/1.txt") {
		t.Errorf("links: got %q, want one to the resource that changed", links)
	}
}

// TestPageOfManySetsIsNotMadeEachTime: it would cost each publication a look at all sets.
func TestPageOfManySetsIsNotMadeEachTime(t *testing.T) {
	s := newSite(t)
	s.fill(1)
	s.p.Sets = []string{""}
	for i := range maxCountedSets {
		s.p.Sets = append(s.p.Sets, fmt.Sprintf("set%d", i))
	}
	s.publish(s.first())
	pub := s.publish(s.more(false))
	if slices.ContainsFunc(pub.Documents, func(d Document) bool { return d.Key == aboutKey }) {
		t.Error("the page about the Source was made anew")
	}
}
