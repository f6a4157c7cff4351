package source

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"instep/blob"
)

// publishSet publishes a set for the first time.
func (s *site) publishSet(name string) Publication {
	u := s.first()
	u.Set = name
	return s.publish(u)
}

func TestManySetsHaveAnIndexOfSourceDescriptions(t *testing.T) {
	s := newSite(t)
	s.fill(1)
	var want []string
	for i := range 7 {
		name := fmt.Sprintf("set-%d", i)
		s.p.Sets = append(s.p.Sets, name)
		s.publishSet(name)
		want = append(want, testBase+"resourcesync/sets/"+name+"/capabilitylist.xml")
		if got := describedSetsOf(t, s); !slices.Equal(got, want) {
			t.Fatalf("with %d sets: got %q", i+1, got)
		}
	}
	if _, ours, _ := s.log.Document(t.Context(), "resourcesync/description-00003.xml"); !ours {
		t.Error("seven sets, three in a document: there is no third part")
	}
	s.p.Sets = []string{"set-1", "set-3"}
	u := s.first()
	u.Set = "set-3"
	last, _, _ := s.log.Last(t.Context(), "set-3")
	u.Changes = []Window{s.window(int(last.ChangesNumber)-1, 0, len(s.changes), last.ChangesFrom)}
	pub := s.publish(u)
	if got, want := describedSetsOf(t, s), []string{want[1], want[3]}; !slices.Equal(got, want) {
		t.Errorf("five were taken away: got %q, want %q", got, want)
	}
	if got := pub.Retired; !slices.Contains(got, "resourcesync/description-00001.xml") || !slices.Contains(got, "resourcesync/description-00003.xml") {
		t.Errorf("Retired: got %q, want the parts of the Source Description too", got)
	}
}

// describedSetsOf are the Capability Lists that can be reached.
func describedSetsOf(t *testing.T, s *site) (uris []string) {
	t.Helper()
	w := newWalk(s.bucket)
	for _, start := range []string{testBase + descriptionKey, testBase + wellKnownKey} {
		entries, err := w.list(start, "description")
		if err != nil {
			t.Fatal(err)
		}
		uris = nil
		for _, en := range entries {
			uris = append(uris, en.Loc)
			if err := w.set(en.Loc); err != nil {
				t.Fatal(err)
			}
		}
	}
	return uris
}

// TestPublicationsOfOneSetDoNotPayForAll: the Source Description and its page are only
// made again when they say something else, or are gone.
func TestPublicationsOfOneSetDoNotPayForAll(t *testing.T) {
	s := newSite(t)
	s.fill(1)
	s.p.Sets = []string{"", "maps"}
	s.publish(s.first())
	makes := func(u Update) bool {
		pub := s.publish(u)
		return slices.ContainsFunc(pub.Documents, func(d Document) bool { return d.Key == descriptionKey })
	}
	if makes(s.more(true)) {
		t.Error("made anew though nothing changed")
	}
	s.publishSet("maps")
	if makes(s.more(true)) {
		t.Error("made anew though the other set did that")
	}
	s.p.About.Title = "The museum"
	if !makes(s.more(false)) {
		t.Error("not made anew with another title")
	}
	if err := blob.Remove(t.Context(), s.bucket, []string{aboutKey}); err != nil {
		t.Fatal(err)
	}
	if !makes(s.more(false)) {
		t.Error("not made anew though the page was gone")
	}
}

func TestPagesTellPeopleWhatThereIs(t *testing.T) {
	s := newSite(t)
	s.fill(3)
	s.offerAll()
	s.p.Sets = []string{"", "maps"}
	s.p.About = About{Title: "The <museum>", Description: "All we have.", Contact: "mailto:desk@museum.example.org", Licence: "https://museum.example.org/licence"}
	s.publishSet("maps")
	s.publish(s.first())
	s.set("item/1.txt", "changed")
	s.publish(s.more(true))
	for key, want := range map[string][]string{
		aboutKey: {"The <museum>", "All we have.", "Contactdesk@museum.example.org", "https://museum.example.org/licence", "Paintings & drawings325 B1 May 2024, 10:00 UTC", "instep sync http://museum.example.org/ ./museum.example.org\n"},
		"resourcesync/set.html": {
			"The <museum>", "Paintings & drawings", "desk@museum.example.org", "Licencenot stated", "Resources3", "Size25 B", "Last change1 May 2024",
			"instep sync http://museum.example.org/resourcesync/capabilitylist.xml ./museum.example.org\n", "1 May 2024, 10:00 UTCupdateditem/1.txt",
			"Resource List: all resources", "Resource List Archive: earlier Resource Lists", "Sitemap", "Resource List as of 1 May 2024, 10:00:07 UTC",
		},
		"resourcesync/sets/maps/set.html": {"Set maps of The <museum>", "Paintings & drawings", "./museum.example.org-maps\n"},
	} {
		text, links := pageOf(t, s, key)
		for _, want := range want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: got %q, want %q in it", key, text, want)
			}
		}
		for _, want := range []string{"anybody may copy", "ZgotmplZ"} {
			if strings.Contains(text, want) || slices.Contains(links, want) {
				t.Errorf("%s: got %q in %q", key, want, text)
			}
		}
		for _, uri := range links {
			if _, document := strings.CutPrefix(uri, testBase+"resourcesync/"); !document {
				continue
			}
			if _, err := newWalk(s.bucket).bytes(uri); err != nil {
				t.Errorf("%s: %v", key, err)
			}
		}
	}
}

// pageOf returns the text of a page, and where its links lead.
func pageOf(t *testing.T, s *site, key string) (text string, links []string) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(read(t, s.bucket, key)))
	if err != nil {
		t.Fatal(err)
	}
	for n := range doc.Descendants() {
		switch {
		case n.Type == html.TextNode && n.Parent.Data != "style":
			text += n.Data
		case n.Data == "script" || n.Data == "img" || n.Data == "link":
			t.Errorf("%s has a %s element", key, n.Data)
		case n.Data == "a":
			links = append(links, n.Attr[0].Val)
		}
	}
	return text, links
}

func TestCapabilityListLeadsToPackagesOnDemand(t *testing.T) {
	s := newSite(t)
	s.offerAll()
	s.fill(1)
	s.publish(s.first())
	c, err := newWalk(s.bucket).read(testBase + "resourcesync/capabilitylist.xml")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(c.Links, ln{Rel: RelOnDemand, Href: testBase + "packages"}) {
		t.Errorf("links: got %v", c.Links)
	}
}

// TestWhatIsOfferedIsMissed: each document that readers are led to first.
func TestWhatIsOfferedIsMissed(t *testing.T) {
	s := newSite(t)
	s.offerAll()
	s.fill(4)
	s.publish(s.first())
	s.publish(s.more(true))
	s.now = s.now.Add(time.Hour)
	s.set("item/1.txt", "changed")
	pub := s.publish(s.rotate(len(s.changes), s.now.Add(time.Microsecond), true))
	if missing, err := s.p.Missing(t.Context(), pub); err != nil || len(missing) > 0 {
		t.Fatalf("nothing is gone: got %q, %v", missing, err)
	}
	for _, key := range keysOf(t, s.bucket) {
		old := strings.HasPrefix(key, "resourcesync/archives/changelists/") || strings.HasPrefix(key, "resourcesync/archives/changedumps/") ||
			key == "resourcesync/changes/5.xml" || strings.HasPrefix(key, "resourcesync/changedumps/") ||
			strings.Contains(key, "s/1/") || strings.Contains(key, "s/2/") ||
			strings.HasPrefix(key, "sitemap-1-") || strings.HasPrefix(key, "sitemap-2-")
		data := string(bytesOf(t, s.bucket, key))
		if err := blob.Remove(t.Context(), s.bucket, []string{key}); err != nil {
			t.Fatal(err)
		}
		missing, err := s.p.Missing(t.Context(), pub)
		want := []string{key}
		if old {
			want = nil
		}
		if diff := cmp.Diff(want, missing); err != nil || diff != "" {
			t.Errorf("%s is gone (-want +got), %v:\n%s", key, err, diff)
		}
		put(t, s.bucket, key, data)
	}
}
