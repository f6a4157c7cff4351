package scan

import (
	"strings"
	"testing"

	"instep/resourcesync"
)

// linksOf returns the links of the members, by their paths: relation, target, type and pri.
func linksOf(f *fixture) map[string]string {
	f.t.Helper()
	all := map[string]string{}
	for _, m := range f.members() {
		r, err := resourcesync.ParseRemainder(m.Remainder)
		if err != nil {
			f.t.Fatal(err)
		}
		var links []string
		for _, l := range r.Links {
			link := l.Rel + " " + strings.TrimPrefix(l.Href, f.BaseURL)
			if l.Type != "" {
				link += " " + l.Type
			}
			links = append(links, link+strings.Repeat("!", l.Pri))
		}
		all[m.Path] = strings.Join(links, ", ")
	}
	return all
}

var pairs = []Rule{
	{Match: "*.pdf", Links: []Link{{Rel: "describedby", Href: "{dir}{stem}.xml"}}},
	{Match: "*.xml", Links: []Link{{Rel: "describes", Href: "{dir}{stem}.pdf"}, {Rel: "profile", Href: "http://purl.org/dc/terms/"}}},
	{Match: "**", Links: []Link{{Rel: "duplicate", Href: "https://mirror.example.org/{path}", Pri: 1}}},
}

func TestLinksOfAllRulesAddUp(t *testing.T) {
	f := setUp(t, "a b.pdf", "a b.xml", "d/c.pdf", "d/e.xml")
	f.Rules = pairs
	expect(t, f.scan(), 4, 0, 0, 0)
	want := map[string]string{
		"a b.pdf": "describedby a%20b.xml application/xml, duplicate https://mirror.example.org/a%20b.pdf!",
		"a b.xml": "describes a%20b.pdf application/pdf, profile http://purl.org/dc/terms/, duplicate https://mirror.example.org/a%20b.xml!",
		"d/c.pdf": "duplicate https://mirror.example.org/d/c.pdf!",
		"d/e.xml": "profile http://purl.org/dc/terms/, duplicate https://mirror.example.org/d/e.xml!",
	}
	same(t, "links", linksOf(f), want)
	if ch := changes(f, 0)[0]; !strings.Contains(ch.Remainder, "a%20b.xml") {
		t.Errorf("change %+v, want it to have the links", ch)
	}
	p := f.plan()
	if p.Relabel != 0 || p.work.Len() != 0 {
		t.Errorf("plan %+v; want all at rest", p)
	}
	f.apply(p)
	for _, m := range f.members() {
		if said, err := f.Links(t.Context(), m.Path); err != nil || said != m.Remainder {
			t.Errorf("Links(%q) = %s, %v; want %s", m.Path, said, err, m.Remainder)
		}
	}
}

// A file that comes or goes changes what is said of the one beside it, even in another
// directory: no byte is hashed for that, and nothing is a change of bytes.
func TestPairThatComesAndGoesRelabels(t *testing.T) {
	f := setUp(t, "d/a.pdf")
	f.Rules = []Rule{{Match: "*.pdf", Links: []Link{{Rel: "describedby", Href: "meta/{stem}.xml"}}}}
	f.scan()
	f.scan()
	same(t, "links", linksOf(f), map[string]string{"d/a.pdf": ""})
	f.write("meta/a.xml", "<a/>")
	r := f.scan()
	expect(t, r, 1, 0, 0, 1)
	same(t, "relabelled", r.Relabelled, int64(1))
	same(t, "links", linksOf(f), map[string]string{"d/a.pdf": "describedby meta/a.xml application/xml", "meta/a.xml": ""})
	f.remove("meta/a.xml")
	r = f.scan()
	same(t, "relabelled", r.Relabelled, int64(1))
	same(t, "deleted", r.Deleted, int64(1))
	same(t, "links", linksOf(f), map[string]string{"d/a.pdf": ""})
	same(t, "changes", len(changes(f, 0)), 3)
}

// Names of any bytes are linked, and links below the base URL move with it.
func TestLinksOfOddNamesAndBelowTheBaseURL(t *testing.T) {
	f := setUp(t, "d/ü%.pdf", "ü meta/ü%.xml")
	f.Rules = []Rule{{Match: "*.pdf", Links: []Link{{Rel: "describedby", Href: "ü%20meta/{stem}.xml"}, {Rel: "canonical", Href: "{base}{dir}{stem}"}}}}
	f.scan()
	same(t, "links", linksOf(f), map[string]string{
		"d/ü%.pdf":      "describedby %C3%BC%20meta/%C3%BC%25.xml application/xml, canonical d/%C3%BC%25",
		"ü meta/ü%.xml": "",
	})
	f.Rules[0].Links = f.Rules[0].Links[1:]
	f.scan()
	before := f.rulesDigest()
	if f.BaseURL = "https://other.example.org/"; f.rulesDigest() == before {
		t.Error("the base URL does not count")
	}
}

// What is not published is linked from nowhere.
func TestLinksLeadToFilesOfTheSetOnly(t *testing.T) {
	f := setUp(t, "a.pdf", ".hidden/a.xml", "b.xml", "none")
	f.Exclude = []string{"b.xml"}
	f.Rules = []Rule{{Match: "**", Links: []Link{
		{Rel: "describedby", Href: ".hidden/{stem}.xml"}, {Rel: "describedby", Href: "b.xml"}, {Rel: "describedby", Href: "{path}"},
		{Rel: "alternate", Href: "none"},
	}}}
	f.scan()
	same(t, "links", linksOf(f), map[string]string{"a.pdf": "alternate none application/octet-stream", "none": ""})
}

func TestEntryHasOneLinkOfItsKind(t *testing.T) {
	f := setUp(t, "a")
	f.Rules = []Rule{
		{Match: "a", Links: []Link{{Rel: "via", Href: "http://first.example.org/{path}"}, {Rel: "collection", Href: "http://example.org/c"}}},
		{Match: "**", Links: []Link{{Rel: "via", Href: "http://second.example.org/{path}"}, {Rel: "collection", Href: "http://example.org/c"}, {Rel: "collection", Href: "http://example.org/d"}}},
	}
	f.scan()
	same(t, "links", linksOf(f), map[string]string{"a": "via http://first.example.org/a, collection http://example.org/c, collection http://example.org/d"})
}

func TestListedResourcesHaveTheLinksOfTheirRules(t *testing.T) {
	all := []Listed{{URI: base + "c/d", Length: resourcesync.Bytes(1)}}
	f := newList(t, told(&all))
	f.Rules = []Rule{{Match: "**", Links: []Link{{Rel: "duplicate", Href: "https://mirror.example.org/{path}", Pri: 2}, {Rel: "describedby", Href: "{stem}.xml"}}}}
	f.scan()
	link := func() string {
		m, err := f.Facts.Lookup(t.Context(), f.Set, []string{base + "c/d"})
		if err != nil {
			t.Fatal(err)
		}
		return m[0].Remainder
	}
	same(t, "links", link(), `{"links":[{"rel":"duplicate","href":"https://mirror.example.org/c/d","pri":2}]}`)
	f.Rules[0].Links[0].Pri = 1
	r := f.scan()
	same(t, "relabelled", r.Relabelled, int64(1))
	same(t, "links", link(), `{"links":[{"rel":"duplicate","href":"https://mirror.example.org/c/d","pri":1}]}`)
}

func TestLinkThatNoEntryCanHaveIsRefused(t *testing.T) {
	for want, l := range map[string]Link{
		"with rel and href":         {Rel: "via"},
		"links one document":        {Rel: "up", Href: "http://example.org/"},
		"about one change":          {Rel: resourcesync.RelPatch, Href: "http://example.org/{path}"},
		"pri from 1 to 999999":      {Rel: "duplicate", Href: "http://example.org/{path}", Pri: 1_000_000},
		"expected no type":          {Rel: "duplicate", Href: "http://example.org/{path}", Type: "text/plain"},
		"between braces":            {Rel: "via", Href: "http://example.org/{file}"},
		"path of a file below":      {Rel: "via", Href: "../{path}"},
		"path of a file":            {Rel: "via", Href: "//example.org/{path}"},
		"href \"http://exa mple/\"": {Rel: "via", Href: "http://exa mple/"},
		"every reader would see":    {Rel: "via", Href: "http://me:secret@example.org/"},
		"at most 1024 bytes":        {Rel: "via", Href: "http://example.org/" + strings.Repeat("a", 1024)},
		"expected a type":           {Rel: "alternate", Href: "http://example.org/{stem}"},
	} {
		if err := l.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; want an error that says %q", l, err, want)
		}
	}
	for _, l := range []Link{
		{Rel: "duplicate", Href: "gsiftp://grid.example.org/{path}", Pri: 3},
		{Rel: "alternate", Href: "http://example.org/{stem}.html"},
		{Rel: "canonical", Href: "{dir}{stem}"},
		{Rel: "http://example.org/terms/part", Href: "urn:x:{stem}"},
		{Rel: "collection", Href: "info:example/{dir}"},
		{Rel: "collection", Href: "{base}all"},
		{Rel: "describedby", Href: "über uns/{stem}.xml"},
	} {
		if err := l.Check(); err != nil {
			t.Errorf("%+v: %v", l, err)
		}
	}
}

func TestPlanRefusesTooManyLinks(t *testing.T) {
	f := setUp(t, "a")
	for range maxRuleLinks + 1 {
		f.Rules = append(f.Rules, Rule{Match: "*", Links: []Link{{Rel: "via", Href: "http://example.org/"}}})
	}
	if _, err := f.Plan(t.Context()); err == nil || !strings.Contains(err.Error(), "at most 32 links") {
		t.Errorf("Plan: %v; want too many links refused", err)
	}
}
