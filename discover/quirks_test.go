package discover_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"instep/discover"
	"instep/resourcesync"
)

const atNow = "2026-03-01T12:00:00Z"

// quirky finds the Source of a site and checks that a quirk was noticed, if there is
// something to notice.
func quirky(t *testing.T, s site, given string, quirk resourcesync.Quirk) *discover.Source {
	t.Helper()
	got, err := serve(t, s).find(t, given)
	if err != nil {
		t.Fatal(err)
	}
	if quirk != 0 && !noticed(got, quirk) {
		t.Errorf("quirk %d is not noticed in %v", quirk, got.Notices)
	}
	return got
}

func noticed(src *discover.Source, quirk resourcesync.Quirk) bool {
	for _, n := range src.Notices {
		if n.Quirk == quirk {
			return true
		}
	}
	return false
}

func wantSets(t *testing.T, got *discover.Source, want ...discover.Set) {
	t.Helper()
	if diff := cmp.Diff(want, got.Sets); diff != "" {
		t.Errorf("sets (-want +got):\n%s", diff)
	}
}

// aSet is a set with one Resource List.
func aSet(dir string) discover.Set {
	at := "http://example.org/" + dir + "/"
	return discover.Set{URI: at + "caps.xml", Name: dir, ResourceLists: []string{at + "list.xml"}}
}

func (s site) addSet(dir string) {
	s["example.org/"+dir+"/caps.xml"] = doc("capabilitylist", "resourcelist> http://example.org/"+dir+"/list.xml")
}

// Documents in the form of 2013: a Capability List Index stands where a Source
// Description would.
func TestQuirk_03(t *testing.T) {
	dlib := func(root, capability, links string, entries ...string) string {
		entry := map[string]string{"urlset": "url", "sitemapindex": "sitemap"}[root]
		var b strings.Builder
		fmt.Fprintf(&b, `<%s xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/"><rs:md capability=%q modified=%q/>%s`, root, capability, atNow, links)
		for _, e := range entries {
			c, uri, _ := strings.Cut(e, " ")
			fmt.Fprintf(&b, `<%s><loc>%s</loc><rs:md capability=%q/></%s>`, entry, uri, c, entry)
		}
		return b.String() + "</" + root + ">"
	}
	s := site{
		"example.org/index.xml": dlib("sitemapindex", "capabilitylist", "", "capabilitylist http://example.org/a/caps.xml", "capabilitylist http://example.org/b/caps.xml"),
	}
	for _, dir := range []string{"a", "b"} {
		s["example.org/"+dir+"/caps.xml"] = dlib("urlset", "capabilitylist", `<rs:ln rel="up" href="http://example.org/index.xml"/>`, "resourcelist http://example.org/"+dir+"/list.xml")
		s["example.org/"+dir+"/list.xml"] = dlib("urlset", "resourcelist", `<rs:ln rel="top" href="http://example.org/`+dir+`/caps.xml"/>`)
	}
	got := quirky(t, s, "http://example.org/index.xml", resourcesync.QuirkDialect)
	wantSets(t, got, aSet("a"), aSet("b"))
	for _, given := range []string{"http://example.org/b/caps.xml", "http://example.org/b/list.xml"} {
		got = quirky(t, s, given, resourcesync.QuirkDialect)
		wantSets(t, got, aSet("b"))
		if got.Description != "http://example.org/index.xml" {
			t.Errorf("description: got %q", got.Description)
		}
	}
}

func TestQuirk_05(t *testing.T) {
	t.Run("Capability Lists in a Capability List", func(t *testing.T) {
		s := site{
			wellKnown: doc("description", "capabilitylist> http://example.org/all.xml"),
			"example.org/all.xml": doc("capabilitylist", "capabilitylist> http://example.org/a/caps.xml", "capabilitylist> http://example.org/more.xml",
				"resourcelist> http://example.org/all/list.xml"),
			"example.org/more.xml": doc("capabilitylist", "capabilitylist> http://example.org/b/caps.xml", "capabilitylist> http://example.org/all.xml",
				"capabilitylist> http://example.org/a/caps.xml", "capabilitylist> http://example.org/gone.xml"),
		}
		s.addSet("a")
		s.addSet("b")
		got := quirky(t, s, "http://example.org/", resourcesync.QuirkNested)
		if n := len(got.Sets); n != 4 || got.Sets[3].Err == nil || got.Sets[3].URI != "http://example.org/gone.xml" {
			t.Fatalf("got %+v, want 4 sets and no use of the last", got.Sets)
		}
		got.Sets = got.Sets[:3]
		wantSets(t, got, discover.Set{URI: "http://example.org/all.xml", ResourceLists: []string{"http://example.org/all/list.xml"}}, aSet("a"), aSet("b"))
	})
	t.Run("Source Descriptions in a Source Description", func(t *testing.T) {
		s := site{
			wellKnown:            doc("description", "description> http://example.org/d1.xml", "capabilitylist> http://example.org/a/caps.xml"),
			"example.org/d1.xml": doc("description", "description> http://"+wellKnown, "capabilitylist> http://example.org/b/caps.xml"),
		}
		s.addSet("a")
		s.addSet("b")
		wantSets(t, quirky(t, s, "http://example.org/", resourcesync.QuirkNested), aSet("a"), aSet("b"))
	})
	t.Run("nothing else", func(t *testing.T) {
		s := site{
			wellKnown:       doc("description", "capabilitylist> http://example.org/1"),
			"example.org/1": doc("capabilitylist", "capabilitylist> http://example.org/2"),
			"example.org/2": doc("capabilitylist", "capabilitylist> http://example.org/1"),
		}
		w := serve(t, s)
		if got, err := w.find(t, "http://example.org/"); err == nil || len(w.asked) != 3 {
			t.Errorf("got %+v, %v after %q; want an error after 3 requests", got, err, w.asked)
		}
	})
}

// What a document is served as says nothing: here all is text/html.
func TestQuirk_13(t *testing.T) {
	wantSets(t, quirky(t, museum(), "http://example.org/", 0), both()...)
}

func TestQuirk_14(t *testing.T) {
	for _, where := range []string{"sourcedescription.xml", "sourceDescription.xml", "repo/.well-known/resourcesync", "x?verb=description"} {
		for _, given := range []string{where, strings.TrimSuffix(where, ".well-known/resourcesync")} {
			s := site{"example.org/" + where: doc("description", "capabilitylist> http://example.org/a/caps.xml")}
			s.addSet("a")
			got := quirky(t, s, "http://example.org/"+given, 0)
			wantSets(t, got, aSet("a"))
			if got.Description != "http://example.org/"+where {
				t.Errorf("description: got %q", got.Description)
			}
		}
	}
	t.Run("a Capability List below .well-known", func(t *testing.T) {
		s := site{"example.org/.well-known/resourcesync/capabilitylist": doc("capabilitylist", "resourcelist> http://example.org/list.xml")}
		got := quirky(t, s, "http://example.org/.well-known/resourcesync/capabilitylist", 0)
		wantSets(t, got, discover.Set{URI: "http://example.org/.well-known/resourcesync/capabilitylist", ResourceLists: []string{"http://example.org/list.xml"}})
	})
}

func TestQuirk_18(t *testing.T) {
	s := site{"example.org/caps.xml": doc("capabilitylist", "capability> http://example.org/1", "changelistindex> http://example.org/2",
		"changelist-notification> http://example.org/3", "changelist-archive> http://example.org/4", "resourcelist> http://example.org/5")}
	wantSets(t, quirky(t, s, "http://example.org/caps.xml", resourcesync.QuirkCapabilityNew), discover.Set{
		URI: "http://example.org/caps.xml", ResourceLists: []string{"http://example.org/5"},
		Other: map[resourcesync.Capability][]string{resourcesync.CapabilityChangeListArchive: {"http://example.org/4"}},
	})
}

// So it is in a Capability List: its Change List is not lost by the name that it is given.
func TestQuirk_18_capabilityList(t *testing.T) {
	s := site{
		"example.org/caps.xml": doc("capabilitylist", "changes> http://example.org/1", "feed> http://example.org/2", "resourcelist> http://example.org/3"),
		"example.org/1":        doc("changelist"),
		"example.org/2":        "<feed/>",
	}
	wantSets(t, quirky(t, s, "http://example.org/caps.xml", resourcesync.QuirkCapabilityNew), discover.Set{
		URI: "http://example.org/caps.xml", ResourceLists: []string{"http://example.org/3"}, ChangeLists: []string{"http://example.org/1"},
	})
}

// A Source Description that calls itself a Resource List is not mirrored as one, whatever it calls
// its Capability Lists (WEKO: "capability").
func TestDescriptionThatSaysItIsAList(t *testing.T) {
	for _, called := range []string{"capabilitylist", "capability"} {
		s := site{wellKnown: doc("resourcelist", called+"> http://example.org/a/caps.xml")}
		s.addSet("a")
		_, err := serve(t, s).find(t, "http://example.org/")
		if err == nil || !strings.Contains(err.Error(), "links other documents like a Source Description") {
			t.Errorf("%s: got %v", called, err)
		}
	}
}

// What a Source Description calls by a name that nobody knows is read to see what it is:
// WEKO calls its Capability List "capability".
func TestQuirk_18_description(t *testing.T) {
	s := site{
		wellKnown:              doc("description", "capability> http://example.org/a/caps.xml", "feed> http://example.org/feed", "news> http://example.org/news.xml", "changelist> http://example.org/never-asked"),
		"example.org/feed":     "<feed/>",
		"example.org/news.xml": doc("changelist"),
	}
	s.addSet("a")
	got := quirky(t, s, "http://example.org/", resourcesync.QuirkCapabilityNew)
	wantSets(t, got, aSet("a"))
	if got.Requests != 4 {
		t.Errorf("requests: got %d, want those for the description and for the three that may be Capability Lists", got.Requests)
	}
}

// A Source Description that leads to nothing but what nobody knows is broken, as ever.
func TestQuirk_18_nothing(t *testing.T) {
	s := site{wellKnown: doc("description", "feed> http://example.org/feed"), "example.org/feed": "<feed/>"}
	_, err := serve(t, s).find(t, "http://example.org/")
	if err == nil || !strings.Contains(err.Error(), `capability "feed" is unknown`) {
		t.Errorf("got %v", err)
	}
}

func TestQuirk_19(t *testing.T) {
	s := site{"example.org/caps.xml": doc("capabilitylist", "resourcelist> http://example.org/1", "changelist> http://example.org/2",
		"resourcelist> http://example.org/3", "changelist> http://example.org/4")}
	wantSets(t, quirky(t, s, "http://example.org/caps.xml", 0), discover.Set{
		URI: "http://example.org/caps.xml", ResourceLists: []string{"http://example.org/1", "http://example.org/3"},
		ChangeLists: []string{"http://example.org/2", "http://example.org/4"},
	})
}

func TestQuirk_20(t *testing.T) {
	s := site{
		"example.org/caps.xml": doc("capabilitylist", "> http://example.org/1", "> http://example.org/2", "> http://example.org/gone"),
		"example.org/1":        doc("resourcelist"),
		"example.org/2":        doc("changelist"),
	}
	wantSets(t, quirky(t, s, "http://example.org/caps.xml", resourcesync.QuirkNoCapability), discover.Set{
		URI: "http://example.org/caps.xml", ResourceLists: []string{"http://example.org/1"}, ChangeLists: []string{"http://example.org/2"},
	})
}

// A package in the place of a Resource Dump is kept for what it is said to be, and
// hinders nothing.
func TestQuirk_21(t *testing.T) {
	s := site{
		"example.org/caps.xml": doc("capabilitylist", "resourcedump> http://example.org/all.zip", "resourcelist> http://example.org/list.xml", "> http://example.org/all.zip"),
		"example.org/all.zip":  "PK\x03\x04 and so on",
	}
	wantSets(t, quirky(t, s, "http://example.org/caps.xml", resourcesync.QuirkNoCapability), discover.Set{
		URI: "http://example.org/caps.xml", ResourceLists: []string{"http://example.org/list.xml"},
		Other: map[resourcesync.Capability][]string{resourcesync.CapabilityResourceDump: {"http://example.org/all.zip"}},
	})
}

func TestQuirk_24(t *testing.T) {
	caps := func(up string) string {
		return doc("capabilitylist", up, "resourcelist> http://example.org/a/list.xml")
	}
	for name, tt := range map[string]struct {
		list, caps string
		quirk      resourcesync.Quirk
		want       discover.Set
	}{
		"missing": {
			doc("resourcelist"), caps("up http://" + wellKnown), resourcesync.QuirkUp,
			discover.Set{URI: "http://example.org/a/list.xml", Name: "a", ResourceLists: []string{"http://example.org/a/list.xml"}},
		},
		"wrong": {
			doc("resourcelist", "up http://example.org/a/dump.xml"), caps("up http://example.org/a/list.xml"), 0, aSet("a"),
		},
		"a circle of description and Capability List": {
			doc("resourcelist", "up http://example.org/a/caps.xml"), caps("up http://" + wellKnown), 0, aSet("a"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := site{
				wellKnown:                doc("description", "up http://example.org/a/caps.xml", "capabilitylist> http://example.org/a/caps.xml"),
				"example.org/a/list.xml": tt.list,
				"example.org/a/dump.xml": doc("resourcedump", "up http://example.org/a/caps.xml"),
				"example.org/a/caps.xml": tt.caps,
			}
			wantSets(t, quirky(t, s, "http://example.org/a/list.xml", tt.quirk), tt.want)
		})
	}
}

func TestQuirk_42(t *testing.T) {
	s := site{
		wellKnown:                doc("description", "capabilitylist> /a/caps.xml"),
		"example.org/a/caps.xml": doc("capabilitylist", "resourcelist> list.xml"),
	}
	wantSets(t, quirky(t, s, "http://example.org/", resourcesync.QuirkRelativeURI), aSet("a"))
}

// Documents on the unsafe side of the same host are read with consent only, and the
// origin to allow is named.
func TestQuirk_43(t *testing.T) {
	s := site{
		"https://example.com/caps.xml": doc("capabilitylist", "resourcelist> http://example.com/list.xml", "resourcelist> https://example.com/list.xml"),
	}
	got := quirky(t, s, "https://example.com/caps.xml", 0)
	wantSets(t, got, discover.Set{URI: "https://example.com/caps.xml", ResourceLists: []string{"https://example.com/list.xml"}})
	if len(got.Notices) != 1 || got.Notices[0].AllowOrigin != "http://example.com" {
		t.Errorf("notices: got %+v, want the other origin named", got.Notices)
	}
}
