package discover_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"instep/discover"
	"instep/fetch"
	"instep/resourcesync"
)

const html = "<!DOCTYPE html><html><head><title>x</title></head><body>Nothing here</body></html>"

// museum is a Source with two sets.
func museum() site {
	return site{
		wellKnown: doc("description", "describedby http://example.org/about.html",
			"capabilitylist> http://example.org/paintings/capabilitylist.xml",
			"capabilitylist> http://example.org/resourcesync/capabilitylist.xml"),
		"example.org/paintings/capabilitylist.xml": doc("capabilitylist", "up http://example.org/.well-known/resourcesync",
			"resourcelist> http://example.org/paintings/resourcelist.xml",
			"changelist> http://example.org/paintings/changelist.xml",
			"resourcedump> http://example.org/paintings/dump.xml"),
		"example.org/resourcesync/capabilitylist.xml": doc("capabilitylist", "up http://example.org/.well-known/resourcesync",
			"resourcelist> http://example.org/resourcesync/resourcelist.xml"),
		"example.org/paintings/resourcelist.xml": doc("resourcelist index", "up http://example.org/paintings/capabilitylist.xml",
			"> http://example.org/paintings/part1.xml"),
		"example.org/paintings/part1.xml": doc("resourcelist", "index http://example.org/paintings/resourcelist.xml",
			"> http://example.org/paintings/1.jpg"),
		"example.org/paintings/changelist.xml": doc("changelist", "up http://example.org/paintings/capabilitylist.xml"),
	}
}

func paintings() discover.Set {
	return discover.Set{
		URI: "http://example.org/paintings/capabilitylist.xml", Name: "paintings",
		ResourceLists: []string{"http://example.org/paintings/resourcelist.xml"},
		ChangeLists:   []string{"http://example.org/paintings/changelist.xml"},
		Other: map[resourcesync.Capability][]string{
			resourcesync.CapabilityResourceDump: {"http://example.org/paintings/dump.xml"},
		},
	}
}

func both() []discover.Set {
	return []discover.Set{paintings(), {
		URI:           "http://example.org/resourcesync/capabilitylist.xml",
		ResourceLists: []string{"http://example.org/resourcesync/resourcelist.xml"},
	}}
}

func TestEveryWayLeadsToTheSource(t *testing.T) {
	const description = "http://" + wellKnown
	tests := []struct {
		name, given string
		change      func(site)
		way         discover.Way
		description string
		sets        []discover.Set
		requests    int
	}{
		{"host", "http://example.org", nil, discover.WayWellKnown, description, both(), 3},
		{"host with slash", "http://example.org/", nil, discover.WayWellKnown, description, both(), 3},
		{"directory", "http://example.org/paintings/", nil, discover.WayWellKnown, description, both(), 5},
		{"resource", "http://example.org/paintings/1.jpg", nil, discover.WayWellKnown, description, both(), 5},
		{"page", "http://example.org/about", func(s site) { s["example.org/about"] = html }, discover.WayWellKnown, description, both(), 5},
		{"below the path", "http://example.org/repo/", func(s site) {
			s["example.org/repo/.well-known/resourcesync"] = s[wellKnown]
		}, discover.WayBelow, "http://example.org/repo/.well-known/resourcesync", both(), 3},
		{"below the path without slash", "http://example.org/repo", func(s site) {
			s["example.org/repo/.well-known/resourcesync"] = s[wellKnown]
		}, discover.WayBelow, "http://example.org/repo/.well-known/resourcesync", both(), 4},
		{"description", description, nil, discover.WayDocument, description, both(), 3},
		{"description elsewhere", "http://example.org/sourcedescription.xml?x=1", func(s site) {
			s["example.org/sourcedescription.xml?x=1"] = s[wellKnown]
		}, discover.WayDocument, "http://example.org/sourcedescription.xml?x=1", both(), 3},
		{"description index", "http://example.org/all.xml", func(s site) {
			s["example.org/all.xml"] = doc("description index", "description> "+description)
		}, discover.WayDocument, "http://example.org/all.xml", both(), 4},
		{"capability list", "http://example.org/paintings/capabilitylist.xml", nil, discover.WayDocument, description, []discover.Set{paintings()}, 1},
		{"resource list index", "http://example.org/paintings/resourcelist.xml", nil, discover.WayDocument, description, []discover.Set{paintings()}, 2},
		{"part of a resource list", "http://example.org/paintings/part1.xml", nil, discover.WayDocument, description, []discover.Set{paintings()}, 3},
		{"change list", "http://example.org/paintings/changelist.xml", nil, discover.WayDocument, description, []discover.Set{paintings()}, 2},
		{"up to the description", "http://example.org/paintings/changelist.xml", func(s site) {
			s["example.org/paintings/changelist.xml"] = doc("changelist", "up "+description)
		}, discover.WayDocument, description, both(), 4},
		{"entries without capability", description, func(s site) {
			s[wellKnown] = strings.ReplaceAll(s[wellKnown], `<rs:md capability="capabilitylist"/></url>`, "</url>")
		}, discover.WayDocument, description, both(), 3},
		{"redirect", "http://example.org/", func(s site) {
			s["example.org/moved"] = s[wellKnown]
			s[wellKnown] = "-> /moved"
		}, discover.WayWellKnown, "http://example.org/moved", both(), 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := museum()
			if tt.change != nil {
				tt.change(s)
			}
			w := serve(t, s)
			got, err := w.find(t, tt.given)
			if err != nil {
				t.Fatal(err)
			}
			if got.Way != tt.way || got.Description != tt.description || got.Origin != "http://example.org" || got.Given != tt.given {
				t.Errorf("got %+v", got)
			}
			if got.Requests != tt.requests || len(w.asked) != tt.requests {
				t.Errorf("%d requests (%q), want %d", got.Requests, w.asked, tt.requests)
			}
			if diff := cmp.Diff(tt.sets, got.Sets); diff != "" {
				t.Errorf("sets (-want +got):\n%s", diff)
			}
		})
	}
}

func TestListWithoutCapabilityListIsASetOfItsOwn(t *testing.T) {
	const uri = "http://example.org/data/list.xml"
	for _, list := range []string{
		doc("resourcelist", "> http://example.org/1"),
		doc("resourcelist", "up http://example.org/gone.xml"),
		doc("resourcelist", "up http://other.example.com/capabilitylist.xml"),
		doc("resourcelist", "up http://example.org/page.html"),
	} {
		w := serve(t, site{"example.org/data/list.xml": list, "example.org/page.html": html})
		got, err := w.find(t, uri)
		if err != nil {
			t.Fatal(err)
		}
		want := []discover.Set{{URI: uri, Name: "data", ResourceLists: []string{uri}}}
		if diff := cmp.Diff(want, got.Sets); diff != "" || len(got.Notices) != 1 || got.Description != "" {
			t.Errorf("notices %+v, sets (-want +got):\n%s", got.Notices, diff)
		}
	}
}

func TestNothingFoundListsEveryWay(t *testing.T) {
	w := serve(t, site{"example.org/a/b": html, wellKnown: doc("plain", "> http://example.org/1")})
	_, err := w.find(t, "http://example.org/a/b")
	var e *discover.Error
	if !errors.As(err, &e) || len(e.Tried) != 6 || e.Requests != 4 {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{
		"document http://example.org/a/b: ", "HTML", "link-header http://example.org/a/b: no link", "html-link http://example.org/a/b: no link",
		"robots-txt http://example.org/robots.txt: get", "well-known-path http://example.org/a/b/.well-known/resourcesync: ", "404",
		"well-known http://" + wellKnown, "a plain sitemap without a capability",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in %v", want, err)
		}
	}
	if !errors.Is(err, fetch.NotFound) || !errors.Is(err, resourcesync.NotResourceSync) {
		t.Errorf("%v does not wrap its causes", err)
	}
}

// Among several causes errors.As finds the one that ended the search.
func TestErrorLeadsToWhatEndedTheSearch(t *testing.T) {
	w := serve(t, site{wellKnown: "503\n"})
	_, err := w.find(t, "http://example.org/a")
	var fe *fetch.Error
	if !errors.As(err, &fe) || fe.Status != 503 {
		t.Errorf("got %v, found %v", err, fe)
	}
}

// A document that is there but can't be used ends the search: another one must not
// take its place.
func TestBrokenDocumentIsNotPassedOver(t *testing.T) {
	whole := museum()[wellKnown]
	tests := []struct {
		name, body string
		is         error
		requests   int
	}{
		{"cut", whole[:len(whole)-20], resourcesync.Incomplete, 1},
		{"cut in the header", whole[:60], resourcesync.Incomplete, 1},
		{"cut on the wire", "cut " + whole[:len(whole)-20], fetch.Temporary, 1},
		{"two documents", whole + whole, resourcesync.Incomplete, 1},
		{"not well-formed", strings.Replace(whole, "</loc>", "</lok>", 1), resourcesync.NotWellFormed, 1},
		{"busy", "503\n", fetch.Temporary, 1},
		{"no sets", doc("description"), nil, 1},
		{"names itself", doc("description", "capabilitylist> http://"+wellKnown), nil, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := museum()
			s[wellKnown] = tt.body
			s["example.org/"] = doc("resourcelist", "> http://example.org/1")
			w := serve(t, s)
			_, err := w.find(t, "http://example.org/")
			var e *discover.Error
			if !errors.As(err, &e) || (tt.is != nil && !errors.Is(err, tt.is)) {
				t.Errorf("got %v, want %v", err, tt.is)
			}
			if len(w.asked) != tt.requests {
				t.Errorf("asked %q", w.asked)
			}
		})
	}
}

// Each document in the slot of each other: only the right one is taken.
func TestDocumentOfAnotherKindIsRefusedInItsSlot(t *testing.T) {
	for _, c := range []string{
		"description", "resourcelist", "changelist", "resourcedump", "changedump", "resourcedump-manifest",
		"changedump-manifest", "capabilitylist index", "capabilitylists", "plain",
	} {
		s := museum()
		s["example.org/paintings/capabilitylist.xml"] = doc(c, "resourcelist> http://example.org/paintings/resourcelist.xml")
		got, err := serve(t, s).find(t, "http://example.org/")
		if err != nil {
			t.Fatalf("%s: %v", c, err)
		}
		var ce *discover.CapabilityError
		if bad := got.Sets[0]; !errors.As(bad.Err, &ce) || len(bad.ResourceLists) > 0 {
			t.Errorf("%s: taken for a Capability List: %+v", c, bad)
		}
		if diff := cmp.Diff(both()[1], got.Sets[1]); diff != "" {
			t.Errorf("%s: the other set (-want +got):\n%s", c, diff)
		}
	}
}

func TestOtherOriginsNeedConsent(t *testing.T) {
	const foreign = "http://lists.example.net:8080"
	moved := func() site {
		s := museum()
		for uri, body := range s {
			s[uri] = strings.ReplaceAll(body, "http://example.org/paintings/capabilitylist.xml", foreign+"/cl.xml")
		}
		s["lists.example.net:8080/cl.xml"] = s["example.org/paintings/capabilitylist.xml"]
		return s
	}
	w := serve(t, moved())
	got, err := w.find(t, "http://example.org/")
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Sets) != 1 || len(got.Notices) != 1 || got.Notices[0].AllowOrigin != foreign || got.Notices[0].Line == 0 ||
		!strings.Contains(got.Notices[0].Msg, "--allow-origin "+foreign) {
		t.Errorf("got %+v", got)
	}
	if got, err = w.find(t, "http://example.org/", foreign+"/"); err != nil || len(got.Sets) != 2 || len(got.Notices) != 0 {
		t.Errorf("allowed: got %+v, %v", got, err)
	}

	only := serve(t, site{wellKnown: doc("description", "capabilitylist> "+foreign+"/cl.xml")})
	_, err = only.find(t, "http://example.org/")
	var fe *discover.ForeignError
	if !errors.As(err, &fe) || fe.Origin != foreign || len(only.asked) != 1 {
		t.Errorf("got %v, asked %q; want the origin to allow", err, only.asked)
	}

	s := museum()
	s["example.org/paintings/capabilitylist.xml"] = doc("capabilitylist",
		"resourcelist> http://elsewhere.example.net/list.xml", "changelist> http://example.org/changes.xml")
	if got, err = serve(t, s).find(t, "http://example.org/"); err != nil || len(got.Sets[0].ResourceLists) != 0 || len(got.Sets[0].ChangeLists) != 1 ||
		len(got.Notices) != 1 || got.Notices[0].AllowOrigin != "http://elsewhere.example.net" {
		t.Errorf("got %+v, %v", got, err)
	}
}

// A Source that answers http with a redirect to https is one Source under both.
func TestUpgradeToHTTPSKeepsBothOrigins(t *testing.T) {
	const wk = "example.com/.well-known/resourcesync"
	s := site{
		wk:                          "-> https://" + wk,
		"https://" + wk:             doc("description", "capabilitylist> https://example.com/1.xml", "capabilitylist> http://example.com/2.xml"),
		"https://example.com/1.xml": doc("capabilitylist", "resourcelist> http://example.com/list.xml"),
		"example.com/2.xml":         doc("capabilitylist", "resourcelist> https://example.com/list.xml"),
	}
	got, err := serve(t, s).find(t, "http://example.com")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"https://example.com", "http://example.com"}, got.Origins); diff != "" || got.Origin != "https://example.com" || len(got.Notices) > 0 {
		t.Errorf("origin %q, notices %+v, origins (-want +got):\n%s", got.Origin, got.Notices, diff)
	}
	for _, set := range got.Sets {
		if set.Err != nil || len(set.ResourceLists) != 1 {
			t.Errorf("got %+v", set)
		}
	}
}

func TestWhatSourcesWriteDifferently(t *testing.T) {
	s := site{
		wellKnown: doc("description", "capabilitylist> /caps.xml", "resourcelist> http://example.org/list.xml", "capabilitylist> http://example.org/caps.xml"),
		"example.org/caps.xml": doc("capabilityList",
			"resourcelist> lists/1.xml", "resourceList> lists/2.xml", "changelistindex> lists/x.xml", "changelist> ftp://example.org/c.xml",
			"> lists/3.xml", "> lists/gone.xml", "capabilitylist> caps.xml", "changelist-archive> archive.xml"),
		"example.org/lists/3.xml": doc("changelist"),
	}
	got, err := serve(t, s).find(t, "http://example.org/")
	if err != nil {
		t.Fatal(err)
	}
	want := []discover.Set{{
		URI:           "http://example.org/caps.xml",
		ResourceLists: []string{"http://example.org/lists/1.xml", "http://example.org/lists/2.xml"},
		ChangeLists:   []string{"http://example.org/lists/3.xml"},
		Other:         map[resourcesync.Capability][]string{"changelist-archive": {"http://example.org/archive.xml"}},
	}}
	if diff := cmp.Diff(want, got.Sets); diff != "" {
		t.Errorf("sets (-want +got):\n%s", diff)
	}
	all := fmt.Sprint(got.Notices)
	for _, say := range []string{
		`relative URI "/caps.xml"`, `"resourcelist" has no place in a Source Description`, "named more than once", `"changelistindex"`,
		"ftp://example.org", `the document says "changelist"`, "can't be read", "names 1 Capability Lists",
	} {
		if !strings.Contains(all, say) {
			t.Errorf("no notice of %q in %s", say, all)
		}
	}
}

func TestCat_NAV_01(t *testing.T) {
	t.Run("cycles", func(t *testing.T) {
		list := func(up string) string { return doc("resourcelist", "up http://example.org/"+up) }
		w := serve(t, site{"example.org/1": list("2"), "example.org/2": list("3"), "example.org/3": list("1")})
		_, err := w.find(t, "http://example.org/1")
		if err == nil || !strings.Contains(err.Error(), "http://example.org/1 → http://example.org/2 → http://example.org/3 → http://example.org/1") || len(w.asked) != 3 {
			t.Errorf("got %v after %q", err, w.asked)
		}
		w = serve(t, site{"example.org/1": list("1")})
		if _, err := w.find(t, "http://example.org/1"); err == nil || len(w.asked) != 1 {
			t.Errorf("lists itself: got %v after %q", err, w.asked)
		}
	})
	t.Run("too far up", func(t *testing.T) {
		s := site{}
		for i := range 100 {
			s[fmt.Sprint("example.org/", i)] = doc("resourcelist", fmt.Sprint("up http://example.org/", i+1))
		}
		w := serve(t, s)
		if _, err := w.find(t, "http://example.org/0"); err == nil || len(w.asked) != 9 {
			t.Errorf("got %v after %d requests", err, len(w.asked))
		}
	})
	t.Run("index in index", func(t *testing.T) {
		w := serve(t, site{wellKnown: doc("description index", "> http://"+wellKnown, "> http://example.org/d.xml")})
		_, err := w.find(t, "http://example.org/")
		var ce *discover.CapabilityError
		if !errors.As(err, &ce) || len(w.asked) != 2 {
			t.Errorf("got %v after %q", err, w.asked)
		}
	})
	t.Run("random graphs", func(t *testing.T) {
		rnd := rand.New(rand.NewSource(1))
		for range 1000 {
			checkTerminates(t, rnd)
		}
	})
}

// checkTerminates makes documents of any kind that link to each other in any way,
// and looks for the Source from one of them.
func checkTerminates(t *testing.T, rnd *rand.Rand) {
	t.Helper()
	kinds := []string{"description", "description index", "capabilitylist", "resourcelist", "resourcelist index", "changelist", "plain"}
	n := 2 + rnd.Intn(8)
	uri := func() string { return fmt.Sprint("http://example.org/", rnd.Intn(n)) }
	s := site{}
	for i := range n {
		var lines []string
		for range rnd.Intn(3) {
			lines = append(lines, []string{"up ", "index "}[rnd.Intn(2)]+uri())
		}
		for range rnd.Intn(4) {
			lines = append(lines, []string{"> ", "capabilitylist> ", "description> ", "resourcelist> ", "changelist> "}[rnd.Intn(5)]+uri())
		}
		s[fmt.Sprint("example.org/", i)] = doc(kinds[rnd.Intn(len(kinds))], lines...)
	}
	w := serve(t, s)
	src, err := w.find(t, "http://example.org/0")
	if most := 4*n + 20; len(w.asked) > most {
		t.Errorf("%d requests for %d documents: %q", len(w.asked), n, w.asked)
	}
	if (err == nil) != (src != nil && len(src.Sets) > 0) {
		t.Errorf("got %+v, %v", src, err)
	}
}

func TestCat_NAV_03(t *testing.T) {
	big := strings.Repeat("<p>nothing</p>", 1<<20)
	tests := map[string]string{
		"page":            html,
		"xhtml":           `<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><body/></html>`,
		"page bomb":       "<html><body>" + big,
		"bomb of spaces":  strings.Repeat(" ", 16<<20),
		"bomb of text":    strings.Repeat("x", 16<<20),
		"comment bomb":    "<!--" + big + "-->",
		"json":            `{"error": "not found"}`,
		"empty":           "",
		"text":            "not found",
		"robots":          "User-agent: *\nDisallow: /\n",
		"feed":            `<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom"/>`,
		"plain sitemap":   doc("plain", "> http://example.org/1"),
		"doctype":         `<!DOCTYPE urlset [<!ENTITY a "b">]><urlset/>`,
		"other namespace": `<urlset xmlns="http://example.org/ns"/>`,
		"image":           "\x89PNG\r\n\x1a\n",
		"404":             "404\n",
		"403":             "403\n",
	}
	for name, body := range tests {
		t.Run(name, func(t *testing.T) {
			s := museum()
			s["example.org/site/.well-known/resourcesync"] = body
			w := serve(t, s)
			got, err := w.find(t, "http://example.org/site/")
			if err != nil {
				t.Fatal(err)
			}
			if got.Way != discover.WayWellKnown || len(got.Tried) != 3 || got.Tried[0].Err == nil || got.Tried[2].Outcome != "found" {
				t.Errorf("got %+v", got)
			}
			if n := w.read.Load(); n > 1<<20 {
				t.Errorf("%d bytes were read", n)
			}
		})
	}
}

// A set that has vanished from the Source Description is just not there; one whose
// Capability List can't be read is there and says so; one that moved to another host
// needs consent.
func TestCat_NAV_08(t *testing.T) {
	for body, is := range map[string]error{
		"404\n": fetch.NotFound,
		"503\n": fetch.Temporary,
		"-> http://moved.example.net/capabilitylist.xml":         fetch.Refused,
		strings.TrimSuffix(doc("capabilitylist"), "</urlset>\n"): resourcesync.Incomplete,
	} {
		s := museum()
		s["example.org/paintings/capabilitylist.xml"] = body
		s["moved.example.net/capabilitylist.xml"] = doc("capabilitylist")
		w := serve(t, s)
		got, err := w.find(t, "http://example.org/")
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Sets) != 2 || !errors.Is(got.Sets[0].Err, is) || got.Sets[0].URI != "http://example.org/paintings/capabilitylist.xml" || got.Sets[1].Err != nil {
			t.Errorf("%.20q: got %+v", body, got.Sets)
		}
		var fe *fetch.Error
		if is == fetch.Refused && (!errors.As(got.Sets[0].Err, &fe) || fe.AllowOrigin != "http://moved.example.net") {
			t.Errorf("the origin to allow is missing: %v", got.Sets[0].Err)
		}
	}
}

func TestTheEndOfTheContextEndsTheSearch(t *testing.T) {
	w := serve(t, museum())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := discover.Find(ctx, discover.Finder{Client: w.Client}, "http://example.org/")
	if !errors.Is(err, context.Canceled) || len(w.asked) != 0 {
		t.Errorf("got %v, asked %q", err, w.asked)
	}
}

func TestTooManyDocumentsEndTheSearch(t *testing.T) {
	var lines []string
	for i := range 30 {
		lines = append(lines, fmt.Sprint("capabilitylist> http://example.org/", i))
	}
	w := serve(t, site{wellKnown: doc("description", lines...)})
	_, err := discover.Find(t.Context(), discover.Finder{Client: w.Client, MaxDocuments: 10}, "http://example.org/")
	if err == nil || !strings.Contains(err.Error(), "30 documents, more than the 10 allowed") || len(w.asked) != 1 {
		t.Errorf("got %v, asked %q", err, w.asked)
	}
}

func TestWhatIsNoURIIsRefused(t *testing.T) {
	w := serve(t, nil)
	for _, given := range []string{"", "museum", "file:///x", "http://u:p@example.org/"} {
		if _, err := w.find(t, given); !errors.Is(err, fetch.Refused) {
			t.Errorf("%q: got %v", given, err)
		}
	}
	if _, err := w.find(t, "http://example.org/", "no origin"); !errors.Is(err, fetch.Refused) {
		t.Errorf("bad origin: got %v", err)
	}
}
