package lint

import (
	"slices"
	"testing"
)

// TestQuirks: each habit that one document shows is a finding of its own.
func TestQuirks(t *testing.T) {
	entry := func(inner string) string {
		return `<urlset>` + upAt + `<url><loc>https://museum.example.org/vase</loc>` + inner + `</url></urlset>`
	}
	changes := func(entries string) string { return `<urlset>` + upFrom + entries + `</urlset>` }
	const caps = `<rs:ln rel="up" href="https://museum.example.org/description.xml"/><rs:md capability="capabilitylist"/>`
	tests := []struct {
		rule, doc string
		also      string // another rule that has to be there
	}{
		{rule: "quirk-01-prefixed-root", doc: `<s:urlset xmlns:s="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">` + upAt + `</s:urlset>`},
		{rule: "quirk-02-namespace-no-slash", doc: `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms">` + upAt + `</urlset>`, also: "namespace-rs-terms"},
		{rule: "quirk-03-dialect-dlib", doc: `<urlset` + nsDLib + `><rs:md capability="resourcelist"/></urlset>`, also: "namespace-rs-terms"},
		{rule: "quirk-04-dialect-mid-2013", doc: `<urlset><rs:ln rel="resourcesync" href="https://museum.example.org/caps.xml"/><rs:md capability="resourcelist" modified="2024-05-01T00:00:00Z"/></urlset>`},
		{rule: "quirk-05-index-as-urlset", doc: entry(`<rs:md capability="resourcelist"/>`)},
		{rule: "quirk-06-paging", doc: `<urlset>` + upAt + `<rs:ln rel="next" href="https://museum.example.org/list?page=2"/></urlset>`},
		{rule: "quirk-07-concatenated-documents", doc: `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"></urlset><urlset/>`, also: "xml-well-formed"},
		{rule: "quirk-08-child-order", doc: `<urlset>` + upAt + `<url><rs:md length="1"/><loc>https://museum.example.org/vase</loc></url></urlset>`},
		{rule: "quirk-09-stylesheet-or-schema", doc: `<?xml version="1.0"?><?xml-stylesheet href="a.xsl"?><urlset>` + upAt + `</urlset>`},
		{rule: "quirk-10-other-encoding", doc: `<?xml version="1.0" encoding="ISO-8859-1"?><urlset>` + upAt + `</urlset>`},
		{rule: "quirk-11-space-before-declaration", doc: "\n<?xml version=\"1.0\"?><urlset>" + upAt + `</urlset>`, also: "xml-well-formed"},
		{rule: "quirk-17-capability-case", doc: `<urlset><rs:md capability="ResourceList"/></urlset>`, also: "root-capability-case"},
		{rule: "quirk-18-capability-unknown", doc: `<urlset><rs:md capability="song"/></urlset>`, also: "root-capability-unknown"},
		{rule: "quirk-19-capability-repeated", doc: `<urlset>` + caps + `<url><loc>https://museum.example.org/1</loc><rs:md capability="changelist"/></url><url><loc>https://museum.example.org/2</loc><rs:md capability="changelist"/></url></urlset>`, also: "capabilitylist-one-entry-per-capability"},
		{rule: "quirk-20-entry-without-md", doc: `<urlset>` + caps + `<url><loc>https://museum.example.org/1</loc></url></urlset>`, also: "capabilitylist-entry-md-required"},
		{rule: "quirk-22-changelist-of-packages", doc: changes(`<url><loc>https://museum.example.org/1.tar.xz</loc><rs:md length="1"/></url>`), also: "changelist-change-required"},
		{rule: "quirk-25-link-incomplete", doc: entry(`<rs:ln href="https://museum.example.org/x"/>`), also: "entry-ln-rel-required"},
		{rule: "quirk-26-relation-case", doc: entry(`<rs:ln rel="describedBy" href="https://museum.example.org/x"/>`)},
		{rule: "quirk-27-foreign-attribute", doc: entry(`<rs:md etag="1"/>`), also: "ext-attr-prefix"},
		{rule: "quirk-28-root-times", doc: `<urlset><rs:md capability="resourcelist"/></urlset>`, also: "resourcelist-at-required"},
		{rule: "quirk-30-reduced-date", doc: entry(`<lastmod>2024-05</lastmod>`), also: "lastmod-utc-recommended"},
		{rule: "quirk-31-no-zone", doc: entry(`<lastmod>2024-05-01T00:00:00</lastmod>`), also: "lastmod-w3cdtf"},
		{rule: "quirk-34-newest-first", doc: changes(`<url><loc>https://museum.example.org/1</loc><rs:md change="deleted" datetime="2024-05-03T00:00:00Z"/></url><url><loc>https://museum.example.org/1</loc>` + deletion + `</url>`), also: "changelist-order-datetime"},
		{rule: "quirk-37-deletions-missing", doc: changes(`<url><loc>https://museum.example.org/1</loc><rs:md change="deleted" length="3"/></url>`)},
		{rule: "quirk-39-space-around-loc", doc: `<urlset>` + upAt + "<url><loc>\n https://museum.example.org/vase </loc></url></urlset>"},
		{rule: "quirk-41-uri-not-escaped", doc: `<urlset>` + upAt + "<url><loc>https://museum.example.org/blue vase</loc></url></urlset>"},
		{rule: "quirk-42-relative-uri", doc: `<urlset>` + upAt + "<url><loc>vase</loc></url></urlset>", also: "loc-absolute-uri"},
		{rule: "quirk-44-unsafe-path", doc: `<urlset><rs:ln rel="up" href="https://museum.example.org/caps.xml"/><rs:md capability="resourcedump-manifest" at="2024-05-01T00:00:00Z"/><url><loc>https://museum.example.org/vase</loc><rs:md path="/../vase" type="text/html"/></url></urlset>`, also: "path-no-traversal"},
		{rule: "quirk-45-resource-repeated", doc: `<urlset>` + upAt + aVase + aVase + `</urlset>`},
		{rule: "quirk-46-hash-spelling", doc: entry(`<rs:md hash="SHA256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"/>`)},
		{rule: "quirk-47-hash-base64", doc: entry(`<rs:md hash="md5:1B2M2Y8AsgTpgAmY7PhCfg=="/>`), also: "hash-hex-digest"},
		{rule: "quirk-49-empty-value", doc: entry(`<rs:md length=""/>`)},
		{rule: "quirk-53-path-without-slash", doc: `<urlset><rs:ln rel="up" href="https://museum.example.org/caps.xml"/><rs:md capability="resourcedump-manifest" at="2024-05-01T00:00:00Z"/><url><loc>https://museum.example.org/vase</loc><rs:md path="vase" type="text/html"/></url></urlset>`, also: "path-leading-slash"},
		{rule: "quirk-57-manifest-without-change", doc: `<urlset><rs:ln rel="up" href="https://museum.example.org/caps.xml"/><rs:md capability="changedump-manifest" from="2024-05-01T00:00:00Z"/><url><loc>https://museum.example.org/vase</loc><rs:md path="/vase" type="text/html"/></url></urlset>`, also: "changedump-manifest-change-required"},
		{rule: "quirk-58-file-uri", doc: `<urlset>` + upAt + "<url><loc>file:///srv/vase</loc></url></urlset>"},
	}
	for _, test := range tests {
		_, found := lintText(t, Checker{Derived: true}, test.doc, Info)
		got := ids(found)
		if !slices.Contains(got, test.rule) || test.also != "" && !slices.Contains(got, test.also) {
			t.Errorf("got %q, want %s and %s", got, test.rule, test.also)
		}
		if _, found := lintText(t, Checker{Derived: true, Disabled: map[string]bool{test.rule: true}}, test.doc, Info); slices.Contains(ids(found), test.rule) {
			t.Errorf("%s is found although it is disabled", test.rule)
		}
	}
	if _, found := lintText(t, Checker{Derived: true}, `<urlset>`+upAt+aVase+`</urlset>`, Info); len(found) != 0 {
		t.Errorf("a document without habits has %+v", found)
	}
}

// TestProposalOf2013HasNoOrder: its own figures have the newest change first.
func TestProposalOf2013HasNoOrder(t *testing.T) {
	change := func(lastmod string) string {
		return `<url><loc>https://museum.example.org/vase</loc><lastmod>` + lastmod + `</lastmod><rs:md change="updated"/></url>`
	}
	doc := `<urlset` + nsDLib + `><rs:ln rel="top" href="https://museum.example.org/caps.xml"/><rs:md capability="changelist" modified="2013-01-03T00:00:00Z"/>` +
		change("2013-01-02T00:00:00Z") + change("2013-01-01T00:00:00Z") + `</urlset>`
	if _, found := lintText(t, Checker{Profile: ProfileDLib, Derived: true}, doc, Info); len(found) != 0 {
		t.Errorf("got %+v, want nothing", found)
	}
}
