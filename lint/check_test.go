package lint

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"instep/resourcesync"
)

const (
	nsDLib   = ` xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/"`
	upAt     = `<rs:ln rel="up" href="https://museum.example.org/caps.xml"/><rs:md capability="resourcelist" at="2024-05-01T00:00:00Z"/>`
	upFrom   = `<rs:ln rel="up" href="https://museum.example.org/caps.xml"/><rs:md capability="changelist" from="2024-05-01T00:00:00Z"/>`
	aVase    = `<url><loc>https://museum.example.org/vase</loc><rs:md length="1"/></url>`
	deletion = `<rs:md change="deleted" datetime="2024-05-02T00:00:00Z"/>`
)

// lintText returns the document and the findings of levels from least on.
func lintText(t testing.TB, c Checker, doc string, least Level, opts ...Option) (Document, []Finding) {
	t.Helper()
	var found []Finding
	c.Report = func(f Finding) {
		if f.Level >= least {
			found = append(found, f)
		}
	}
	d, err := c.Document(context.Background(), "doc.xml", bytes.NewReader(declareNamespaces([]byte(doc))), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return d, found
}

func ids(found []Finding) []string {
	all := []string{}
	for _, f := range found {
		all = append(all, f.Rule)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func TestFindingsTellPlaceAndEntry(t *testing.T) {
	_, found := lintText(t, Checker{}, `<urlset>
 `+upAt+`
 <rs:ln rel="my-page" href="https://museum.example.org/x"/>
 <url><loc>https://museum.example.org/vase</loc><lastmod>yesterday</lastmod></url>
 <url>
  <rs:md change="created"/><loc>https://museum.example.org/bowl</loc></url>
</urlset>`, Warning)
	for i := range found {
		found[i].Message = ""
	}
	want := []Finding{
		{Rule: "lastmod-w3cdtf", Level: Error, URI: "doc.xml", Line: 4, Column: 49, Entry: "https://museum.example.org/vase"},
		{Rule: "change-scope", Level: Warning, URI: "doc.xml", Line: 5, Column: 2, Entry: "https://museum.example.org/bowl"},
		{Rule: "ln-rel-registered-or-uri", Level: Error, URI: "doc.xml", Line: 1, Column: 1},
	}
	found = slices.DeleteFunc(found, func(f Finding) bool { return strings.HasPrefix(f.Rule, "quirk") })
	if d := cmp.Diff(found, want); d != "" {
		t.Errorf("(-got +want):\n%s", d)
	}
}

func TestDocumentTellsWhatItIs(t *testing.T) {
	got, _ := lintText(t, Checker{}, `<sitemapindex><rs:ln rel="up" href="https://museum.example.org/caps.xml"/><rs:ln rel="index" href="https://museum.example.org/i.xml"/>
<rs:md capability="changelist" from="2024-05-01T00:00:00Z" until="2024-05-02"/><sitemap><loc>https://museum.example.org/1.xml</loc></sitemap></sitemapindex>`, Info)
	from, _ := resourcesync.ParseDatetime("2024-05-01T00:00:00Z")
	until, _ := resourcesync.ParseDatetime("2024-05-02")
	want := Document{
		URI: "doc.xml", Kind: "changelist-index", Root: resourcesync.SitemapIndex, Capability: "changelist", Entries: 1, From: from, Until: until,
		Up: "https://museum.example.org/caps.xml", Index: "https://museum.example.org/i.xml", Profile: Profile11, Complete: true,
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// TestWhatIsNoDocumentIsNamed: one finding says what it is instead.
func TestWhatIsNoDocumentIsNamed(t *testing.T) {
	tests := []struct{ name, doc, rule, message string }{
		{"HTML page", "<!DOCTYPE html>\n<html><head></head></html>", "root-element-urlset-or-sitemapindex", "this is an HTML page;"},
		{"bot wall", "<!DOCTYPE html><html><head><title>Just a moment...</title></head></html>", "root-element-urlset-or-sitemapindex", "keeps programs out"},
		{"XHTML page", `<html xmlns="http://www.w3.org/1999/xhtml"><head/></html>`, "root-element-urlset-or-sitemapindex", "this is an HTML page"},
		{"JSON", `{"resources": []}`, "xml-well-formed", "this is JSON"},
		{"empty", "", "xml-well-formed", "the document is empty"},
		{"blank", " \n", "xml-well-formed", "the document is empty"},
		{"text", "404 page not found\n", "xml-well-formed", `"404 page not found"`},
		{"ZIP file", "PK\x03\x04\x14\x00", "xml-well-formed", "this is a ZIP file"},
		{"feed", `<rss version="2.0"><channel/></rss>`, "root-element-urlset-or-sitemapindex", "RSS feed"},
		{"other XML", "<records/>", "root-element-urlset-or-sitemapindex", "<records>"},
		{"other sitemap", `<urlset xmlns="http://www.google.com/schemas/sitemap/0.84"/>`, "namespace-sitemap", "http://www.google.com/schemas/sitemap/0.84"},
		{"cut", `<urlset>` + upAt + `<url><loc>https://museum.exam`, "xml-well-formed", "end"},
		{"two documents", `<urlset>` + upAt + `</urlset><urlset/>`, "xml-well-formed", ""},
	}
	for _, test := range tests {
		d, found := lintText(t, Checker{}, test.doc, Error)
		if len(found) != 1 || found[0].Rule != test.rule || !strings.Contains(found[0].Message, test.message) {
			t.Errorf("%s: got %+v, want one finding of %s with %q", test.name, found, test.rule, test.message)
		}
		if d.Complete {
			t.Errorf("%s: is called complete", test.name)
		}
	}
}

// TestCascade: what is wrong with the root holds back what depends on it.
func TestCascade(t *testing.T) {
	tests := []struct {
		name, doc string
		profile   Profile
		want      []string
	}{
		{"no rs:md", `<urlset><url path="/x"><loc>vase</loc><rs:md change="created" path="/x"/></url></urlset>`, "",
			[]string{"entry-no-attributes", "loc-absolute-uri", "root-md-required"}},
		{"no capability", `<urlset><rs:md at="2024-05-01T00:00:00Z"/>` + aVase + `</urlset>`, "", []string{"root-capability-required"}},
		{"unknown capability", `<urlset><rs:md capability="song"/>` + aVase + `</urlset>`, "", []string{"root-capability-unknown"}},
		{"folded capability", `<urlset><rs:md capability="ResourceList"/></urlset>`, "",
			[]string{"resourcelist-at-required", "resourcelist-capability-value", "resourcelist-up-required", "root-capability-case"}},
		{"invalid values are not missed as well", `<urlset><rs:ln rel="up" href="https://museum.example.org/caps.xml"/><rs:md capability="changelist" from="soon"/>` +
			`<url><loc>https://museum.example.org/vase</loc><rs:md change="painted"/></url></urlset>`, "", []string{"change-values", "from-w3cdtf"}},
		{"entry without rs:md", `<urlset>` + upFrom + `<url><loc>https://museum.example.org/vase</loc></url></urlset>`, "", []string{"changelist-entry-md-required"}},
		{"proposal of 2013", `<urlset` + nsDLib + `><rs:ln rel="top" href="x"/><rs:md capability="resourcelist" modified="2024" hash="?"/>` +
			`<url><loc>vase</loc><rs:md hash="x" length="y"/></url><url><loc>https://museum.example.org/vase</loc><rs:md/></url></urlset>`, "",
			[]string{"loc-absolute-uri", "namespace-rs-terms", "root-md-required"}},
		{"proposal of 2013 in Atom", `<feed xmlns="http://www.w3.org/2005/Atom" xmlns:rs="http://www.openarchives.org/rs/" rs:type="http://www.openarchives.org/rs/resourcelist">` +
			`<entry><link rel="canonical alternate" href="vase"/></entry></feed>`, "", []string{"root-element-urlset-or-sitemapindex"}},
		{"1.1 as the proposal of 2013", `<urlset>` + upAt + aVase + `</urlset>`, ProfileDLib, []string{"dlib-namespace"}},
		{"draft of 2013", `<urlset><rs:ln rel="resourcesync" href="https://museum.example.org/caps.xml"/><rs:md capability="resourcelist" modified="2024-05-01T00:00:00Z"/></urlset>`, "",
			[]string{"ln-rel-registered-or-uri", "resourcelist-at-required"}},
		{"draft of 2013, modified alone", `<urlset><rs:ln rel="up" href="https://museum.example.org/caps.xml"/><rs:md capability="changelist" modified="2024-05-01T00:00:00Z"/></urlset>`, "",
			[]string{"changelist-from-required", "table3-root-md"}},
		{"proposal of 2013, patch", `<urlset` + nsDLib + `><rs:md capability="changedump-manifest" modified="2024-05-01T00:00:00Z"/><url><loc>https://museum.example.org/vase</loc>` +
			`<rs:md change="updated" path="/vase.diff" type="text/x-diff"/></url></urlset>`, "", []string{"namespace-rs-terms", "root-md-required"}},
		{"manifests have no index", `<sitemapindex><rs:md capability="changedump-manifest"/></sitemapindex>`, "", []string{"changedump-manifest-root-urlset"}},
	}
	for _, test := range tests {
		_, found := lintText(t, Checker{Profile: test.profile, Derived: true}, test.doc, Warning)
		found = slices.DeleteFunc(found, func(f Finding) bool { return strings.HasPrefix(f.Rule, "quirk") })
		if d := cmp.Diff(ids(found), test.want); d != "" {
			t.Errorf("%s (-got +want):\n%s", test.name, d)
		}
	}
}

// TestKindOfThePlace: who knows what a document has to be is told if it is not.
func TestKindOfThePlace(t *testing.T) {
	tests := []struct {
		doc   string
		kinds []string
		kind  string
		want  []string
	}{
		{`<urlset>` + upAt + `</urlset>`, []string{"resourcelist"}, "resourcelist", []string{}},
		{`<urlset>` + upAt + `</urlset>`, []string{"resourcelist-index"}, "resourcelist", []string{}},
		{`<sitemapindex>` + upAt + `</sitemapindex>`, []string{"resourcelist"}, "resourcelist-index", []string{}},
		{`<urlset>` + upAt + `</urlset>`, []string{"changelist", "resourcelist"}, "resourcelist", []string{}},
		{`<urlset>` + upFrom + `</urlset>`, []string{"changedump"}, "changedump", []string{"changedump-capability-value"}},
		{`<urlset><rs:md capability="song"/></urlset>`, []string{"description"}, "description", []string{"description-capability-value"}},
	}
	for _, test := range tests {
		d, found := lintText(t, Checker{}, test.doc, Error, WithKind(test.kinds...))
		if diff := cmp.Diff(ids(found), test.want); diff != "" || d.Kind != test.kind {
			t.Errorf("%s in the place of %q: kind %q, want %q (-got +want):\n%s", test.doc, test.kinds, d.Kind, test.kind, diff)
		}
	}
}

// TestAutoFollowsTheDocument: the edition is the one that the document shows.
func TestAutoFollowsTheDocument(t *testing.T) {
	change := func(loc, lastmod, datetime string) string {
		return fmt.Sprintf(`<url><loc>https://museum.example.org/%s</loc>%s<rs:md change="updated" %s/></url>`, loc, lastmod, datetime)
	}
	const may, june = "<lastmod>2024-05-05T00:00:00Z</lastmod>", "<lastmod>2024-06-06T00:00:00Z</lastmod>"
	tests := []struct {
		name, doc string
		profile   Profile
		want      []string
	}{
		{"lastmod everywhere, disordered", `<urlset>` + upFrom + change("1", june, "") + change("2", may, "") + `</urlset>`, Profile11, []string{"changelist-order-lastmod"}},
		{"lastmod and one datetime", `<urlset>` + upFrom + change("1", june, `datetime="2024-05-05T00:00:00Z"`) + change("2", may, "") + `</urlset>`, Profile11, []string{}},
		{"not everywhere", `<urlset>` + upFrom + change("1", june, "") + change("2", may, "") + change("3", "", "") + `</urlset>`, Profile11, []string{}},
		{"the same change twice", `<urlset>` + upFrom + change("1", may, "") + change("1", may, "") + `</urlset>`, Profile11, []string{"change-uri-datetime-unique"}},
		{"proposal of 2013", `<urlset` + nsDLib + `><rs:md capability="changelist" modified="2024-05-01T00:00:00Z"/><url><loc>https://museum.example.org/vase</loc></url></urlset>`, ProfileDLib,
			[]string{"dlib-changelist-change-required", "dlib-changelist-lastmod-required", "dlib-top-link"}},
		{"draft of 2013", `<urlset><rs:ln rel="resourcesync" href="https://museum.example.org/caps.xml"/><rs:md capability="resourcelist" modified="2024-05-01T00:00:00Z"/></urlset>`, ProfileMid2013,
			[]string{}},
		// The tutorial pages of 2013 and resync 0.5 wrote Change Lists so.
		{"draft of 2013, Change List", `<urlset><rs:ln rel="resourcesync" href="https://museum.example.org/caps.xml"/><rs:md capability="changelist" modified="2013-05-01T00:00:00Z"/>` +
			`<url><loc>https://museum.example.org/vase</loc><lastmod>2013-04-30T00:00:00Z</lastmod><rs:md change="updated"/></url></urlset>`, ProfileMid2013, []string{}},
		{"draft of 2013, broken", `<urlset><rs:ln rel="resourcesync" href="https://museum.example.org/caps.xml"/><rs:md capability="changelist" modified="2013-05-01T00:00:00Z"/>` +
			`<url><loc>https://museum.example.org/vase</loc><rs:md change="painted"/></url></urlset>`, ProfileMid2013, []string{"change-values", "changelist-lastmod-required"}},
		{"snapshot", `<urlset>` + upAt + aVase + `</urlset>`, Profile11, []string{}},
	}
	for _, test := range tests {
		d, found := lintText(t, Checker{Profile: ProfileAuto}, test.doc, Warning)
		found = slices.DeleteFunc(found, func(f Finding) bool { return strings.HasPrefix(f.Rule, "quirk") })
		if diff := cmp.Diff(ids(found), test.want); diff != "" || d.Profile != test.profile {
			t.Errorf("%s: profile %q, want %q (-got +want):\n%s", test.name, d.Profile, test.profile, diff)
		}
	}
}

func TestAutoBoundsWhatWaits(t *testing.T) {
	var b strings.Builder
	b.WriteString(`<urlset>` + upFrom)
	for i := range mostUndecided + 100 {
		fmt.Fprintf(&b, `<url><loc>https://museum.example.org/%d</loc><lastmod>%d-01-01T00:00:00Z</lastmod><rs:md change="updated"/></url>`, i, 9000-i)
	}
	b.WriteString(`</urlset>`)
	_, found := lintText(t, Checker{Profile: ProfileAuto}, b.String(), Error)
	if last := found[len(found)-1]; len(found) != mostUndecided+1 || !strings.HasPrefix(last.Message, "99 more findings") {
		t.Errorf("%d findings, the last is %+v; want %d and one that counts 99", len(found), last, mostUndecided)
	}
}

// TestPartialDatetimes: something is wrong only if it is for all moments of a value.
func TestPartialDatetimes(t *testing.T) {
	tests := []struct {
		from, until, datetime string
		want                  []string
	}{
		{"2024-05-02T00:00:00Z", "", "2024-05", []string{}},
		{"2024-05-02T00:00:00Z", "", "2024-04", []string{"datetime-within-interval"}},
		{"2024-05", "2024-05", "2024-05-31T23:59:59Z", []string{}},
		{"2024-05", "2024-05", "2024-06-01T00:00:00Z", []string{"datetime-within-interval"}},
		{"2024-05-02T00:00:00Z", "2024-05-01", "", []string{"until-not-before-from"}},
		{"2024-05-02T00:00:00Z", "2024-05-02", "2024-05-02T02:00:00+02:00", []string{}},
	}
	for _, test := range tests {
		until, datetime := "", ""
		if test.until != "" {
			until = fmt.Sprintf(`until=%q`, test.until)
		}
		if test.datetime != "" {
			datetime = fmt.Sprintf(`datetime=%q`, test.datetime)
		}
		doc := fmt.Sprintf(`<urlset><rs:ln rel="up" href="https://museum.example.org/caps.xml"/><rs:md capability="changelist" from=%q %s/>`+
			`<url><loc>https://museum.example.org/vase</loc><rs:md change="deleted" %s/></url></urlset>`, test.from, until, datetime)
		_, found := lintText(t, Checker{Derived: true}, doc, Error)
		if d := cmp.Diff(ids(found), test.want); d != "" {
			t.Errorf("%+v (-got +want):\n%s", test, d)
		}
	}
}

func TestDerivedRulesAreASwitch(t *testing.T) {
	const doc = `<urlset><rs:ln rel="up" href="https://museum.example.org/a.xml"/>` + upAt + `</urlset>`
	if _, found := lintText(t, Checker{}, doc, Warning); len(found) != 0 {
		t.Errorf("without derived rules: %+v", found)
	}
	if _, found := lintText(t, Checker{Derived: true}, doc, Warning); !slices.Equal(ids(found), []string{"up-single"}) {
		t.Errorf("with derived rules: %+v, want up-single", found)
	}
	if _, found := lintText(t, Checker{Derived: true, Disabled: map[string]bool{"up-single": true}}, doc, Warning); len(found) != 0 {
		t.Errorf("with the rule disabled: %+v", found)
	}
	const wrong = `<urlset>` + upAt + `<url><loc>https://museum.example.org/vase</loc><rs:md length="43 bytes"/></url></urlset>`
	if _, found := lintText(t, Checker{}, wrong, Error); !slices.Equal(ids(found), []string{"length-integer"}) {
		t.Errorf("what is wrong by any reading: %+v, want length-integer", found)
	}
}

func TestCompressedDocumentIsRead(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(declareNamespaces([]byte(`<urlset>` + upAt + aVase + `</urlset>`))); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	d, found := lintText(t, Checker{}, b.String(), Info)
	if !d.Complete || len(found) != 0 {
		t.Errorf("%+v, %+v", d, found)
	}
}

// TestReadingTroubleIsAnError: it is no finding about the document.
func TestReadingTroubleIsAnError(t *testing.T) {
	var c Checker
	trouble := errors.New("disk on fire")
	doc := string(declareNamespaces([]byte(`<urlset>` + upAt + strings.Repeat(aVase, 1000))))
	if d, err := c.Document(context.Background(), "doc.xml", io.MultiReader(strings.NewReader(doc), iotest.ErrReader(trouble))); !errors.Is(err, trouble) || d.Complete {
		t.Errorf("got %+v, %v; want the error of the reader", d, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.Document(ctx, "doc.xml", strings.NewReader(doc)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	if err := c.HTML(ctx, "page", strings.NewReader("<p>")); !errors.Is(err, context.Canceled) {
		t.Errorf("HTML: got %v, want %v", err, context.Canceled)
	}
	if _, err := c.Robots(ctx, "robots.txt", strings.NewReader("")); !errors.Is(err, context.Canceled) {
		t.Errorf("Robots: got %v, want %v", err, context.Canceled)
	}
}

func TestRobots(t *testing.T) {
	var found []Finding
	c := Checker{Report: func(f Finding) { found = append(found, f) }}
	got, err := c.Robots(context.Background(), "https://museum.example.org/robots.txt", strings.NewReader("\ufeffSitemap: https://museum.example.org/1.xml\r\n"+
		"User-agent: *\nSITEMAP :https://museum.example.org/2.xml # two\nSitemap: /3.xml\n#Sitemap: x\nSitemap:\n"))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(got, []string{"https://museum.example.org/1.xml", "https://museum.example.org/2.xml", "/3.xml"}); d != "" {
		t.Errorf("(-got +want):\n%s", d)
	}
	if len(found) != 2 || found[0].Line != 3 || found[1].Line != 4 || found[0].Rule != "quirk-16-robots-sitemap-case" {
		t.Errorf("%+v, want quirk 16 in lines 3 and 4", found)
	}
}

// TestMetadataAfterTheEntries: the order of children means nothing, so a document
// whose rs:md comes last is checked as what it is.
func TestMetadataAfterTheEntries(t *testing.T) {
	const doc = `<urlset><url><loc>https://museum.example.org/vase</loc><rs:md change="created" length="1"/></url>` + upAt + `</urlset>`
	d, found := lintText(t, Checker{}, doc, Warning)
	if want := []string{"change-scope"}; d.Kind != "resourcelist" || d.Entries != 1 || !slices.Equal(ids(found), want) {
		t.Errorf("%+v, %+v; want a resourcelist with %q", d, found, want)
	}
	// What can be read only once is told of as far as that goes.
	var rules []string
	c := Checker{Report: func(f Finding) { rules = append(rules, f.Rule) }}
	once := io.MultiReader(bytes.NewReader(declareNamespaces([]byte(doc))))
	if d, err := c.Document(context.Background(), "doc.xml", once); err != nil || d.Kind != "resourcelist" || !d.Complete || slices.Contains(rules, "change-scope") {
		t.Errorf("%+v, %v, %q; want a resourcelist whose entries are checked as those of any kind", d, err, rules)
	}
}
