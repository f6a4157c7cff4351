package lint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"instep/ore"
)

// mapSite is an example of rules on the discovery of Resource Maps: a site from whose
// first answer a search begins.
type mapSite struct{ *site }

func mapSites(t testing.TB) []*mapSite {
	t.Helper()
	var all []*mapSite
	for _, s := range sitesIn(t, "ore") {
		all = append(all, &mapSite{s})
	}
	return all
}

func (s *mapSite) profiles() []Profile { return []Profile{ProfileORE} }

// found searches the site and returns the rules that are broken.
func (s *mapSite) found(t testing.TB, p Profile, disabled string) []string {
	t.Helper()
	srv := s.serve(t)
	defer srv.Close()
	set := map[string]bool{}
	c := &Checker{Profile: p, Disabled: map[string]bool{disabled: true}, Report: func(f Finding) {
		if f.Message == "" || f.URI == "" {
			t.Errorf("%s: got %+v", s, f)
		}
		set[f.Rule] = true
	}}
	f := ore.Finder{Client: newLive(t, srv, c).Client}
	if _, err := c.ResourceMaps(context.Background(), f, srv.URL+s.start); err != nil {
		t.Errorf("%s: %v", s, err)
	}
	found := []string{}
	for id := range set {
		found = append(found, id)
	}
	slices.Sort(found)
	return found
}

// TestResourceMapRules: a bad site breaks its rule and a good one does not, and no other
// rule is broken but what is listed.
func TestResourceMapRules(t *testing.T) {
	for _, s := range mapSites(t) {
		if d := cmp.Diff(s.found(t, ProfileORE, ""), append([]string{}, s.want(ProfileORE)...)); d != "" {
			t.Errorf("%s (-got +want):\n%s", s, d)
		}
	}
}

// TestResourceMapRulesHaveExamples: each rule of the profile has a good site, and a bad
// one unless nothing can break it.
func TestResourceMapRulesHaveExamples(t *testing.T) {
	var fixtures []*fixture
	for _, s := range mapSites(t) {
		fixtures = append(fixtures, &s.fixture)
	}
	good, bad := examples(fixtures)
	n := 0
	for _, r := range Rules() {
		if r.Version != string(ProfileORE) {
			continue
		}
		n++
		if good[r.ID] == 0 || bad[r.ID] == 0 && !permits(&r) {
			t.Errorf("%s has %d good examples and %d bad ones", r.ID, good[r.ID], bad[r.ID])
		}
	}
	if n != 31 {
		t.Errorf("%d rules in the profile, want 31", n)
	}
}

// TestResourceMapDocument: of a document that is not fetched, what it shows by itself.
func TestResourceMapDocument(t *testing.T) {
	const sitemap = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>https://museum.example.org/x</loc></url></urlset>`
	for name, test := range map[string]struct{ text, want string }{
		"page":    {`<html><body><a href="/x.pdf" resourcemap="/x.atom">x</a></body></html>`, "ore-html-resourcemap-attribute line 1"},
		"sitemap": {sitemap, "ore-sitemap-path-scope line 1"},
		"feed":    {"<feed xmlns=\"http://www.w3.org/2005/Atom\"><id>urn:x</id>\n<entry><id>https://museum.example.org/x</id><link href=\"https://museum.example.org/x\"/></entry></feed>", "ore-atom-entry-id-not-rem-uri line 2"},
		"cut":     {"<rss version=\"2.0\"><channel>\n<item>", "xml-well-formed line 2"},
		"news":    {`<feed xmlns="http://www.w3.org/2005/Atom"><id>urn:x</id></feed>`, ""},
		"other":   {"hello", ""},
	} {
		got := ""
		c := Checker{Report: func(f Finding) { got += fmt.Sprintf("%s line %d", f.Rule, f.Line) }}
		if err := c.ResourceMapDocument(context.Background(), "https://museum.example.org/a/doc", strings.NewReader(test.text)); err != nil || got != test.want {
			t.Errorf("%s: got %q, %v; want %q", name, got, err, test.want)
		}
	}
	var found []Finding
	c := Checker{Report: func(f Finding) { found = append(found, f) }}
	for _, text := range []string{sitemap, `<p><a href="/x.pdf" resourcemap="x.atom">x</a>`} {
		if err := c.ResourceMapDocument(context.Background(), "dir/file", strings.NewReader(text)); err != nil {
			t.Error(err)
		}
	}
	if len(found) != 1 || found[0].URI != "dir/file" || found[0].Entry != "x.atom" {
		t.Errorf("a file: got %+v, want one finding about x.atom", found)
	}
	broken := errors.New("disk on fire")
	if err := new(Checker).ResourceMapDocument(context.Background(), "x", iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}
