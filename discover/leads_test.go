package discover_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"instep/discover"
	"instep/fetch"
	"instep/resourcesync"
)

const (
	robots = "example.org/robots.txt"
	toCaps = `Link: </a/caps.xml>; rel="resourcesync"` + "\n"
)

// linking is an HTML page with links to what is given.
func linking(hrefs ...string) string {
	var b strings.Builder
	b.WriteString("<!DOCTYPE html>\n<html><head><title>Maps</title>\n")
	for _, h := range hrefs {
		fmt.Fprintf(&b, "<link rel=\"resourcesync\" href=%q>\n", h)
	}
	return b.String() + "</head><body>Maps</body></html>"
}

// archive is a Source with the sets a and b, and no Source Description at a place
// that anybody could guess.
func archive() site {
	s := site{"example.org/a/list.xml": doc("resourcelist", "up http://example.org/a/caps.xml", "> http://example.org/a/1")}
	s.addSet("a")
	s.addSet("b")
	return s
}

func TestEveryLinkLeadsToTheSource(t *testing.T) {
	const page, inDir = "http://example.org/maps/page", "http://example.org/maps/"
	huge := strings.Repeat("x", 4<<20)
	tests := []struct {
		name, given, body string
		way               discover.Way
		sets              []string
		tried, notices    int
	}{
		{"Link header of a page", page, toCaps + html, discover.WayHeader, []string{"a"}, 2, 0},
		{"Link header of a resource", page, "Content-Type: image/tiff\n" + toCaps + "II*" + huge, discover.WayHeader, []string{"a"}, 2, 0},
		{"Link header of a plain Sitemap", page, toCaps + doc("plain", "> http://example.org/1"), discover.WayHeader, []string{"a"}, 2, 0},
		{"Link header of nothing", page, toCaps, discover.WayHeader, []string{"a"}, 2, 0},
		{"several links in a header", page, `Link: <x>; rel="up", <../a/caps.xml>; rel="Next ResourceSync"` + "\nLink: <//example.org/b/caps.xml>;rel=resourcesync\n", discover.WayHeader, []string{"a", "b"}, 2, 0},
		{"links about something else", page, `Link: <gone>; rel="resourcesync"; anchor="/other", </b/caps.xml>; anchor="#top"; rel="resourcesync"` + "\n", discover.WayHeader, []string{"b"}, 2, 0},
		{"the header comes first", page, toCaps + linking("/b/caps.xml"), discover.WayHeader, []string{"a"}, 2, 0},
		{"page", page, linking("http://example.org/a/caps.xml"), discover.WayHTML, []string{"a"}, 3, 0},
		{"page of a directory", inDir, linking("../a/caps.xml"), discover.WayHTML, []string{"a"}, 4, 0},
		{"page of the host", "http://example.org/", linking("a/caps.xml"), discover.WayHTML, []string{"a"}, 4, 0},
		{"several links of a page", page, linking("/b/caps.xml", "/a/caps.xml", "/b/caps.xml#x"), discover.WayHTML, []string{"b", "a"}, 3, 1},
		{"XHTML", page, "Content-Type: application/xhtml+xml; charset=utf-8\n" + `<html xmlns="http://www.w3.org/1999/xhtml"><head><link href="/a/caps.xml" rel="ResourceSync"/></head></html>`, discover.WayHTML, []string{"a"}, 3, 0},
		{"base", page, strings.Replace(linking("caps.xml"), "<title>", `<base href="/b/"><title>`, 1), discover.WayHTML, []string{"b"}, 3, 0},
		{"outside of the head", page, "<html><body><link rel=resourcesync href=/a/caps.xml>", discover.WayHTML, []string{"a"}, 3, 1},
		{"at the end of 512 KiB", page, "<script>" + huge[:500<<10] + "</script>" + linking("/a/caps.xml"), discover.WayHTML, []string{"a"}, 3, 0},
		{"what is gone is left out", page, linking("/gone.xml", "/a/caps.xml"), discover.WayHTML, []string{"a"}, 3, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := archive()
			s[strings.TrimPrefix(tt.given, "http://")] = tt.body
			w := serve(t, s)
			got, err := w.find(t, tt.given)
			if err != nil {
				t.Fatal(err)
			}
			if got.Way != tt.way || len(got.Tried) != tt.tried || len(got.Notices) != tt.notices {
				t.Errorf("way %q after %+v, notices %+v; want %q as attempt %d, %d notices", got.Way, got.Tried, got.Notices, tt.way, tt.tried, tt.notices)
			}
			var want []discover.Set
			for _, dir := range tt.sets {
				want = append(want, aSet(dir))
			}
			wantSets(t, got, want...)
			if n := w.read.Load(); n > 2<<20 {
				t.Errorf("%d bytes were read", n)
			}
		})
	}
}

// What serves http by a redirect to https may link to either.
func TestLinksOfAPageThatMovedToHTTPS(t *testing.T) {
	s := site{
		"example.com/page":          "-> https://example.com/page",
		"https://example.com/page":  linking("/1.xml", "http://example.com/2.xml"),
		"https://example.com/1.xml": doc("capabilitylist", "resourcelist> https://example.com/list.xml"),
		"example.com/2.xml":         doc("capabilitylist", "resourcelist> http://example.com/list.xml"),
	}
	got, err := serve(t, s).find(t, "http://example.com/page")
	if err != nil || len(got.Sets) != 2 || got.Origin != "https://example.com" || len(got.Notices) != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// A Source is known by its Source Description, or else by what names its sets.
func TestWhatNamesTheSetsIsTheDescription(t *testing.T) {
	const page, about = "http://example.org/page", "http://example.org/about.xml"
	under := func(up, dir string) string {
		return doc("capabilitylist", "up "+up, "resourcelist> http://example.org/"+dir+"/list.xml")
	}
	for name, tt := range map[string]struct{ a, b, want string }{
		"one for both":  {under(about, "a"), under(about, "b"), about},
		"none":          {doc("capabilitylist"), doc("capabilitylist"), page},
		"one of them":   {under(about, "a"), doc("capabilitylist"), page},
		"two":           {under(about, "a"), under(about+"?2", "b"), page},
		"one is no set": {under(about, "a"), html, about},
	} {
		s := site{"example.org/page": linking("/a", "/b"), "example.org/a": tt.a, "example.org/b": tt.b}
		got, err := serve(t, s).find(t, page)
		if err != nil || got.Description != tt.want {
			t.Errorf("%s: got %+v, %v; want %q", name, got, err, tt.want)
		}
	}
}

// The link of a page leads to another document than a Capability List.
func TestQuirk_15(t *testing.T) {
	for name, to := range map[string]string{
		"Source Description": doc("description", "capabilitylist> http://example.org/a/caps.xml"),
		"its index":          doc("description index", "description> http://example.org/d.xml"),
		"Resource List":      archive()["example.org/a/list.xml"],
		"Change List":        doc("changelist", "up http://example.org/a/caps.xml"),
	} {
		for _, page := range []string{linking("/to"), `Link: </to>; rel="resourcesync"` + "\n"} {
			s := archive()
			s["example.org/to"] = to
			s["example.org/d.xml"] = doc("description", "capabilitylist> http://example.org/a/caps.xml")
			s["example.org/page"] = page
			got := quirky(t, s, "http://example.org/page", resourcesync.QuirkSourceLink)
			wantSets(t, got, aSet("a"))
			if n := got.Notices[0]; n.URI != "http://example.org/page" || (n.Line > 0) != strings.Contains(page, "<html>") {
				t.Errorf("%s: notice at %s line %d", name, n.URI, n.Line)
			}
		}
	}
}

func TestQuirk_16(t *testing.T) {
	const plain = "http://example.org/plain.xml"
	tests := []struct {
		name, robots string
		sets         []discover.Set
		quirk        resourcesync.Quirk
	}{
		{"one", "User-agent: *\nDisallow: /x\nSitemap: http://example.org/a/list.xml\n", []discover.Set{aSet("a")}, 0},
		{"several of one set", "Sitemap: http://example.org/a/list.xml\nSitemap: http://example.org/a/more.xml\n", []discover.Set{aSet("a")}, 0},
		{"several", "Sitemap: http://example.org/b/list.xml\nSitemap: http://example.org/a/list.xml", []discover.Set{aSet("b"), aSet("a")}, 0},
		{"any case", "\ufeffSITEMAP:http://example.org/a/list.xml\r\n\r\nsitemap : http://example.org/b/list.xml # maps", []discover.Set{aSet("a"), aSet("b")}, resourcesync.QuirkRobots},
		{"relative", "Sitemap: /a/list.xml", []discover.Set{aSet("a")}, resourcesync.QuirkRobots},
		{"plain ones among them", "Sitemap: " + plain + "\nSitemap: http://example.org/a/list.xml\nSitemap: " + plain + "?2", []discover.Set{aSet("a")}, resourcesync.QuirkRobots},
		{"Capability List", "Sitemap: http://example.org/a/caps.xml", []discover.Set{aSet("a")}, resourcesync.QuirkRobots},
		{"Source Description", "Sitemap: http://example.org/about.xml", []discover.Set{aSet("b")}, resourcesync.QuirkRobots},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := archive()
			s[robots] = "Content-Type: text/plain\n" + tt.robots
			s["example.org/a/more.xml"] = s["example.org/a/list.xml"]
			s["example.org/b/list.xml"] = doc("resourcelist index", "up http://example.org/b/caps.xml", "> http://example.org/b/1.xml")
			s["example.org/about.xml"] = doc("description", "capabilitylist> http://example.org/b/caps.xml")
			s["example.org/plain.xml"] = doc("plain", "> http://example.org/1")
			got := quirky(t, s, "http://example.org/", tt.quirk)
			wantSets(t, got, tt.sets...)
			if got.Way != discover.WayRobots || tt.quirk == 0 && len(got.Notices) > 0 {
				t.Errorf("way %q, notices %+v", got.Way, got.Notices)
			}
		})
	}
	t.Run("plain ones only", func(t *testing.T) {
		s := site{robots: "Sitemap: " + plain + "\nSitemap: http://example.org/gone.xml", "example.org/plain.xml": doc("plain index", "> http://example.org/1")}
		_, err := serve(t, s).find(t, "http://example.org/")
		if err == nil || !strings.Contains(err.Error(), "(plain Sitemaps: 1, such as "+fmt.Sprintf("%q", plain)) || !errors.Is(err, fetch.NotFound) {
			t.Errorf("got %v", err)
		}
		s[robots] = "Sitemap: " + plain
		if _, err = serve(t, s).find(t, "http://example.org/"); err == nil || !strings.Contains(err.Error(), "names plain Sitemaps only (1, such as ") {
			t.Errorf("got %v", err)
		}
	})
}

// A plain Sitemap of any size costs its header.
func TestPlainSitemapsOfRobotsAreNotReadToTheirEnd(t *testing.T) {
	s := archive()
	big := doc("plain", strings.Repeat("> http://example.org/1 ", 1<<20))
	var lines strings.Builder
	for i := range 5 {
		fmt.Fprintf(&lines, "Sitemap: http://example.org/%d.xml\n", i)
		s[fmt.Sprintf("example.org/%d.xml", i)] = big
	}
	s[robots] = lines.String() + "Sitemap: http://example.org/a/list.xml\n"
	w := serve(t, s)
	got, err := w.find(t, "http://example.org/")
	if err != nil {
		t.Fatal(err)
	}
	wantSets(t, got, aSet("a"))
	if n := w.read.Load(); n > 8<<20 {
		t.Errorf("%d bytes were read", n)
	}
}

// A document that a link leads to and that can't be used ends the search, as it does
// elsewhere: another one must not take its place.
func TestBrokenDocumentOfALinkIsNotPassedOver(t *testing.T) {
	whole := archive()["example.org/a/caps.xml"]
	for body, is := range map[string]error{
		"503\n":               fetch.Temporary,
		"cut " + whole[:100]:  fetch.Temporary,
		whole[:len(whole)-20]: resourcesync.Incomplete,
		strings.Replace(whole, "</loc>", "</lok>", 1): resourcesync.NotWellFormed,
	} {
		s := archive()
		s["example.org/page"] = linking("/to", "/b/caps.xml")
		s["example.org/to"] = body
		got, err := serve(t, s).find(t, "http://example.org/page")
		if !errors.Is(err, is) {
			t.Errorf("%.40q: got %+v, %v; want %v", body, got, err, is)
		}
	}
}

func TestHostileLinks(t *testing.T) {
	tests := []struct {
		name, body, want string
		asked            int // of page, two well-known URIs, robots.txt, and what is linked
	}{
		{"to itself", linking("", "#x", "http://example.org/page"), "looked at before", 4},
		{"to itself by header", `Link: <>; rel="resourcesync", </page>; rel="resourcesync"` + "\n", "looked at before", 4},
		{"to a page that links back", linking("/back"), "HTML page", 5},
		{"to a file", linking("file:///etc/passwd"), "file:///etc/passwd", 4},
		{"to a script", linking("javascript:alert(1)"), "javascript:alert(1)", 4},
		{"to a password", linking("http://u:p@example.org/a/caps.xml"), "user name", 4},
		{"to a private address", linking("http://10.0.0.1/caps.xml"), "--allow-origin http://10.0.0.1", 4},
		{"to a metadata service", `Link: <http://169.254.169.254/latest>; rel="resourcesync"` + "\n", "--allow-origin http://169.254.169.254", 4},
		{"to another host", linking("http://files.example.net/caps.xml"), "--allow-origin http://files.example.net", 4},
		{"to another host by base", strings.Replace(linking("caps.xml"), "<title>", `<base href="//files.example.net/"><title>`, 1), "--allow-origin http://files.example.net", 4},
		{"to another host by redirect", linking("/away"), "redirect leads to another origin", 5},
		{"no URI", linking("http://[::1"), "resolve", 4},
		{"a giant page", "<html><head>" + strings.Repeat("<p>nothing</p>", 8<<20) + linking("/a/caps.xml"), "no link", 4},
		{"a giant tag", "<html><head><link " + strings.Repeat("x", 16<<20), "no link", 4},
		{"text that looks like a page", "Content-Type: text/plain\n" + linking("/a/caps.xml"), "not an HTML page", 4},
		{"another relation", strings.ReplaceAll(linking("/a/caps.xml"), "resourcesync", "resource-sync"), "no link", 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := archive()
			s["example.org/page"] = tt.body
			s["example.org/back"] = linking("/page")
			s["example.org/away"] = "-> http://files.example.net/caps.xml"
			s["files.example.net/caps.xml"] = doc("capabilitylist", "resourcelist> http://files.example.net/list.xml")
			w := serve(t, s)
			_, err := w.find(t, "http://example.org/page")
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if len(w.asked) != tt.asked {
				t.Errorf("asked %q, want %d requests", w.asked, tt.asked)
			}
			if n := w.read.Load(); n > 2<<20 {
				t.Errorf("%d bytes were read", n)
			}
		})
	}
}

func TestLinksToOtherOriginsNeedConsent(t *testing.T) {
	s := archive()
	s["example.org/page"] = linking("http://files.example.net/caps.xml", "/a/caps.xml")
	s["files.example.net/caps.xml"] = doc("capabilitylist", "resourcelist> http://files.example.net/list.xml")
	w := serve(t, s)
	got, err := w.find(t, "http://example.org/page")
	if err != nil || len(got.Notices) != 1 || got.Notices[0].AllowOrigin != "http://files.example.net" || got.Notices[0].Line != 3 {
		t.Fatalf("got %+v, %v", got, err)
	}
	wantSets(t, got, aSet("a"))
	got, err = w.find(t, "http://example.org/page", "http://files.example.net")
	if err != nil || len(got.Sets) != 2 || len(got.Notices) != 0 {
		t.Errorf("allowed: got %+v, %v", got, err)
	}

	// What is allowed by name still has to have a public address.
	s["example.org/page"] = linking("http://127.0.0.1/caps.xml")
	_, err = w.find(t, "http://example.org/page", "http://127.0.0.1")
	var fe *fetch.Error
	if !errors.As(err, &fe) || fe.AllowPrivate != "127.0.0.1:80" {
		t.Errorf("got %v, want the refusal of a private address", err)
	}
}

func TestFollowedLinksAreBounded(t *testing.T) {
	var lines []string
	for i := range 10_000 {
		lines = append(lines, fmt.Sprintf("Sitemap: http://example.org/%d.xml", i))
	}
	s := archive()
	s[robots] = strings.Join(append(lines[:99:99], "Sitemap: http://example.org/a/list.xml", strings.Join(lines[99:], "\n")), "\n")
	w := serve(t, s)
	got, err := w.find(t, "http://example.org/")
	if err != nil {
		t.Fatal(err)
	}
	wantSets(t, got, aSet("a"))
	if len(w.asked) != 3+100+1 || got.Notices[0].Line != 101 || !strings.Contains(got.Notices[0].Msg, "10001 references") {
		t.Errorf("%d requests, first notice %+v", len(w.asked), got.Notices[0])
	}

	for name, body := range map[string]string{
		"robots.txt without lines": "Sitemap: http://example.org/a/" + strings.Repeat("x", 64<<20),
		"robots.txt of comments":   strings.Repeat("# nothing\n", 4<<20) + "Sitemap: http://example.org/a/list.xml\n",
	} {
		s[robots] = body
		w := serve(t, s)
		if _, err := w.find(t, "http://example.org/"); err == nil || !strings.Contains(err.Error(), "robots-txt http://"+robots+": no Sitemap line") || w.read.Load() > 2<<20 {
			t.Errorf("%s: got %v after %d bytes", name, err, w.read.Load())
		}
	}
}

// A way that a link has taken already is not taken again, and the report has every
// way in its order.
func TestWaysAreTriedOnceAndInOrder(t *testing.T) {
	s := site{"example.org/maps/": linking("/.well-known/resourcesync"), robots: "User-agent: *\n"}
	w := serve(t, s)
	_, err := w.find(t, "http://example.org/maps/")
	var e *discover.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v", err)
	}
	var ways []discover.Way
	for _, a := range e.Tried {
		ways = append(ways, a.Way)
	}
	want := []discover.Way{discover.WayBelow, discover.WayDocument, discover.WayHeader, discover.WayHTML, discover.WayRobots}
	if d := cmp.Diff(ways, want); d != "" || len(w.asked) != 4 {
		t.Errorf("asked %q, ways (-got +want):\n%s", w.asked, d)
	}
}
