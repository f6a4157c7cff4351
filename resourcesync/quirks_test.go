package resourcesync

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// quirk is a document that does what existing Sources do, and how it is read.
type quirk struct {
	name  string
	doc   string
	rule  string // of the last note of the quirk; "none" if there is no note
	legal bool   // the standard allows it
	read  string // lines of dump that must be there, without notes
}

// checkQuirk reads the documents, compares what is noted of the quirk n and what is
// read, and checks that the policy Strict refuses what the standard does not allow.
func checkQuirk(t *testing.T, n Quirk, cases ...quirk) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h, entries, notes, err := decode(c.doc)
			if err != nil {
				t.Fatal(err)
			}
			first, got := "", "none"
			for _, note := range notes {
				if note.Quirk == n {
					if got == "none" {
						first = note.Rule
					}
					got = note.Rule
					if note.Legal != c.legal {
						t.Errorf("%s: legal: %v, want %v", note.Msg, note.Legal, c.legal)
					}
				}
			}
			if got != c.rule {
				t.Errorf("rule: got %q, want %q; notes %+v", got, c.rule, notes)
			}
			all := dump(h, entries, nil)
			for line := range strings.Lines(c.read) {
				if !strings.Contains("\n"+all+"\n", "\n"+strings.TrimSpace(line)) && !strings.Contains(all, "  "+strings.TrimSpace(line)) {
					t.Errorf("got\n%s\nwant %s", all, line)
				}
			}
			_, _, _, err = decode(c.doc, WithTolerance(Tolerance(Lenient).Except(n)))
			if noted := c.rule != "none"; errors.Is(err, Refused) != noted {
				t.Errorf("without the quirk: got %v", err)
			} else if e, ok := errors.AsType[*DecodeError](err); ok && (e.Quirk != n || e.Rule != first) {
				t.Errorf("without the quirk: got quirk %d, rule %q, want %d, %q", e.Quirk, e.Rule, n, first)
			}
			_, _, _, err = decode(c.doc, WithTolerance(Strict))
			if errors.Is(err, Refused) != (c.rule != "none" && !c.legal) {
				t.Errorf("strict: got %v", err)
			}
		})
	}
}

// Parts of the documents below.
const (
	changes1 = open1 + `<rs:md capability="changelist" from="2024-05-01T00:00:00Z"/>`
	caps1    = open1 + `<rs:md capability="capabilitylist"/>`
	loc1     = `<loc>https://example.org/a</loc>`
	read1    = "https://example.org/a"
)

// one is a Resource List with one entry that has something after its loc.
func one(content string) string { return list1 + "<url>" + loc1 + content + "</url>" + end1 }

func TestQuirk_01(t *testing.T) {
	doc := `<sm:urlset xmlns:sm="` + nsSitemap + `" xmlns:r="` + nsRS + `"><r:md capability="resourcelist" at="2024-05-01T00:00:00Z"/>` +
		`<sm:url><sm:loc>https://example.org/a</sm:loc><r:md length="7"/></sm:url></sm:urlset>`
	checkQuirk(t, QuirkPrefix,
		quirk{"prefixes", doc, "namespace-sitemap", true, read1 + " length=7"},
		quirk{"none", list1 + url1 + end1, "none", true, read1})
}

func TestQuirk_02(t *testing.T) {
	checkQuirk(t, QuirkNamespace, quirk{"no slash",
		strings.Replace(list1+url1+end1, "/terms/", "/terms", 1), "namespace-rs-terms", false, "1.1 resourcelist"})
}

func TestQuirk_03(t *testing.T) {
	dlib := `<urlset xmlns="` + nsSitemap + `" xmlns:rs="` + nsDLib + `">`
	checkQuirk(t, QuirkDialect,
		quirk{
			"namespace", dlib + `<rs:md capability="resourcelist"/><url>` + loc1 + `<rs:md etag="7"/></url>` + end1, "namespace-rs-terms", false,
			"dlib-2013 resourcelist\n" + read1 + " @etag=7",
		},
		quirk{
			"modified", dlib + `<rs:md capability="resourcelist" modified="2012-10-31T09:00:00Z"/>` + end1, "resourcelist-at-required", false,
			"dlib-2013 resourcelist capability=resourcelist at=2012-10-31T09:00:00Z",
		},
		quirk{
			"top", dlib + `<rs:md capability="changelist"/><rs:ln rel="top" href="https://example.org/c"/>` + end1, "", false,
			"up https://example.org/c",
		},
		quirk{
			"up", dlib + `<rs:md capability="changelist"/><rs:ln rel="up" href="https://example.org/i"/>` + end1, "dlib-up-link-to-index", false,
			"index https://example.org/i",
		},
		quirk{
			"up of a Capability List", dlib + `<rs:ln rel="up" href="https://example.org/i"/><rs:md capability="capabilitylist"/>` + end1, "namespace-rs-terms", false,
			"up https://example.org/i",
		},
		quirk{
			"a change without its time", dlib + `<rs:md capability="changelist"/><url>` + loc1 + `<rs:md change="updated"/></url>` + end1,
			"dlib-changelist-lastmod-required", false, read1 + " change=updated",
		},
		quirk{
			"bytes without a path", dlib + `<rs:md capability="resourcedump-manifest"/><url>` + loc1 + `</url>` + end1,
			"dlib-manifest-path-required", false, read1,
		},
	)
	for _, doc := range []string{dlib + `<rs:ln rel="top" href="https://example.org/c"/>` + end1, dlib + "<rs:md/>" + end1} {
		_, _, notes, err := decode(doc)
		if err != nil || notes[len(notes)-2].Rule != "dlib-root-md-capability" && notes[len(notes)-1].Rule != "dlib-root-md-capability" {
			t.Errorf("%s: got %+v, %v", doc, notes, err)
		}
	}
	// A document that is none of those of D-Lib Magazine, though it should be.
	if _, _, notes, _ := decode(list1+end1, AsDialect(DialectDLib)); len(notes) != 1 || notes[0].Rule != "dlib-namespace" {
		t.Errorf("of 1.1: got %+v", notes)
	}
}

func TestQuirk_04(t *testing.T) {
	checkQuirk(t, QuirkMid2013,
		quirk{
			"modified", open1 + `<rs:md capability="changelist" modified="2013-05-01T00:00:00Z"/>` + end1, "table3-root-md", false,
			"mid-2013 changelist capability=changelist @modified=2013-05-01T00:00:00Z",
		},
		quirk{
			"resourcesync for up", open1 + `<rs:ln rel="resourcesync" href="https://example.org/c"/><rs:md capability="changelist"/>` + end1, "ln-rel-registered-or-uri", false,
			"mid-2013 changelist\nup https://example.org/c",
		},
		quirk{
			"resourcesync of a resource", one(`<rs:ln rel="resourcesync" href="https://example.org/c"/>`), "none", false,
			"1.1 resourcelist\nresourcesync https://example.org/c",
		},
	)
}

func TestQuirk_05(t *testing.T) {
	checkQuirk(t, QuirkNested,
		quirk{"lists of lists", one(`<rs:md capability="resourcelist"/>`), "", true, read1 + " capability=resourcelist"},
		quirk{"a Capability List", caps1 + `<url>` + loc1 + `<rs:md capability="resourcelist"/></url>` + end1, "none", true, read1 + " capability=resourcelist"},
	)
}

func TestQuirk_06(t *testing.T) {
	checkQuirk(t, QuirkPages,
		quirk{"next", list1 + `<rs:ln rel="next" href="https://example.org/?page=2"/>` + url1 + end1, "", true, "next https://example.org/?page=2"},
		quirk{"prev", list1 + `<rs:ln rel="prev" href="https://example.org/?page=1"/>` + url1 + end1, "", true, "prev https://example.org/?page=1"},
		quirk{"of a resource", one(`<rs:ln rel="next" href="https://example.org/b"/>`), "none", true, "next https://example.org/b"},
	)
}

// TestQuirk_07 checks that the entries of the first of two documents come before the
// error that says so.
func TestQuirk_07(t *testing.T) {
	first := list1 + url1 + url1 + end1
	for _, second := range []string{first, "\n" + `<?xml version="1.0"?>` + first, "<!-- next -->" + first} {
		n := 0
		var last error
		for _, err := range NewDecoder(strings.NewReader(first + second)).Entries() {
			if last = err; err == nil {
				n++
			}
		}
		e, ok := errors.AsType[*DecodeError](last)
		if n != 2 || !ok || e.Kind != Incomplete || e.Quirk != QuirkConcatenated || e.Rule != "xml-well-formed" {
			t.Errorf("%s: got %d entries, then %+v", second, n, last)
		}
	}
}

func TestQuirk_08(t *testing.T) {
	md, up := `<rs:md capability="resourcelist" at="2024-05-01T00:00:00Z"/>`, `<rs:ln rel="up" href="https://example.org/c"/>`
	want := "1.1 resourcelist capability=resourcelist at=2024-05-01T00:00:00Z\nup https://example.org/c\n" + read1
	checkQuirk(t, QuirkElementOrder,
		quirk{"links first", open1 + up + md + url1 + end1, "none", true, want},
		quirk{"links last", open1 + md + up + url1 + end1, "none", true, want},
		quirk{"after the entries", open1 + url1 + md + up + end1, "", true, want},
		quirk{"before loc", list1 + `<url><rs:md length="7"/>` + loc1 + `</url>` + end1, "", true, read1 + " length=7"},
	)
}

func TestQuirk_09(t *testing.T) {
	checkQuirk(t, QuirkBrowser,
		quirk{"style sheet", `<?xml version="1.0"?><?xml-stylesheet type="text/xsl" href="a.xsl"?>` + list1 + url1 + end1, "xml-well-formed", true, read1},
		quirk{"another instruction", `<?xml version="1.0"?><?robots index="no"?>` + list1 + url1 + end1, "none", true, read1},
		quirk{
			"schema", strings.Replace(list1+url1+end1, "<urlset", `<urlset xmlns:xsi="`+nsXSI+`" xsi:schemaLocation="a b"`, 1),
			"schema-validation", true, read1,
		},
	)
	h, _, _, err := decode(`<urlset xmlns="` + nsSitemap + `" xmlns:xsi="` + nsXSI + `" xsi:schemaLocation="a b"/>`)
	if diff := cmp.Diff(h.RootAttrs, []Attr{{nsXSI, "schemaLocation", "a b"}}); err != nil || diff != "" {
		t.Errorf("%v, attributes of the root (-got +want):\n%s", err, diff)
	}
}

func TestQuirk_10(t *testing.T) {
	checkQuirk(t, QuirkEncoding,
		quirk{"US-ASCII", `<?xml version="1.0" encoding="US-ASCII"?>` + list1 + url1 + end1, "xml-well-formed", true, read1},
		quirk{"ISO-8859-1", `<?xml version="1.0" encoding="ISO-8859-1"?>` + one(`<x xmlns="urn:x">`+"\xe9"+`</x>`), "xml-well-formed", true, `foreign: <x xmlns="urn:x">é</x>`},
		quirk{"UTF-8", `<?xml version="1.0" encoding="UTF-8"?>` + list1 + url1 + end1, "none", true, read1},
	)
}

func TestQuirk_11(t *testing.T) {
	checkQuirk(t, QuirkSpaceFirst,
		quirk{"newline", "\n" + `<?xml version="1.0"?>` + list1 + url1 + end1, "xml-well-formed", false, read1},
		quirk{"no declaration", "\n" + list1 + url1 + end1, "none", false, read1},
	)
}

func TestQuirk_12(t *testing.T) {
	checkQuirk(t, QuirkGzip, quirk{"gzip", zip(t, list1+url1+end1), "", true, read1})
}

func TestQuirk_17(t *testing.T) {
	checkQuirk(t, QuirkCapabilityCase,
		quirk{"of the document", strings.Replace(list1, "resourcelist", "resourceList", 1) + url1 + end1, "root-capability-case", false, "1.1 resourcelist"},
		quirk{"of an entry", caps1 + `<url>` + loc1 + `<rs:md capability="CHANGELIST"/></url>` + end1, "entry-capability-case", false, read1 + " capability=changelist"},
	)
}

func TestQuirk_18(t *testing.T) {
	checkQuirk(t, QuirkCapabilityNew,
		quirk{"of the document", open1 + `<rs:md capability="changelist-notification"/>` + url1 + end1, "root-capability-unknown", true, "1.1  capability=changelist-notification"},
		quirk{"of an entry", caps1 + `<url>` + loc1 + `<rs:md capability="capability"/></url>` + end1, "capabilitylist-entry-capability-defined", true, read1 + " capability=capability"},
		quirk{"archives", open1 + `<rs:md capability="changelist-archive"/>` + url1 + end1, "none", true, "1.1 changelist-archive"},
	)
}

func TestQuirk_22(t *testing.T) {
	manifest := open1 + `<rs:md capability="changedump-manifest" from="2024-05-01T00:00:00Z"/>`
	dlib := strings.Replace(strings.Replace(changes1, nsRS, nsDLib, 1), "<rs:md", `<rs:ln rel="top" href="https://example.org/c"/><rs:md`, 1)
	checkQuirk(t, QuirkNoChange,
		quirk{"packages in a Change List", changes1 + `<url>` + loc1 + `<rs:md type="application/x-xz"/></url>` + end1, "changelist-change-required", false, read1 + " type=application/x-xz"},
		quirk{"no rs:md", changes1 + url1 + end1, "changelist-entry-md-required", false, read1},
		quirk{"manifest", manifest + `<url>` + loc1 + `<rs:md path="/a"/></url>` + end1, "changedump-manifest-change-required", false, read1 + " path=/a"},
		quirk{"of D-Lib Magazine", dlib + `<url>` + loc1 + `<lastmod>2012-10-31T09:00:00Z</lastmod></url>` + end1, "dlib-changelist-change-required", false, read1 + " lastmod=2012-10-31T09:00:00Z"},
		quirk{
			"resync", `<resync xmlns="` + nsDLib + `" rstype="changelist"><item href="https://example.org/a" modified="2012-10-31T09:00:00Z"/></resync>`,
			"dlib-changelist-change-required", false, "dlib-2013-resync changelist\n" + read1 + " lastmod=2012-10-31T09:00:00Z datetime=2012-10-31T09:00:00Z",
		},
		quirk{"a Change List Index", strings.ReplaceAll(strings.ReplaceAll(changes1+url1+end1, "urlset", "sitemapindex"), "url>", "sitemap>"), "none", false, read1},
	)
	// What can't be read is not missing too.
	_, _, notes, err := decode(changes1 + `<url>` + loc1 + `<rs:md change="moved"/></url>` + end1)
	if err != nil || len(notes) != 1 || notes[0].Rule != "change-values" {
		t.Errorf("an unknown change: got %+v, %v", notes, err)
	}
	// That is so for this entry, and the next one is missing it.
	_, _, notes, err = decode(changes1 + `<url>` + loc1 + `<rs:md change="moved"/></url>` + url1 + end1)
	if err != nil || len(notes) != 2 || notes[1].Quirk != QuirkNoChange {
		t.Errorf("no change after an unknown one: got %+v, %v", notes, err)
	}
}

func TestQuirk_25(t *testing.T) {
	checkQuirk(t, QuirkLinkIncomplete,
		quirk{"hash for rel", list1 + `<rs:ln href="https://example.org/about" hash="describedby"/>` + url1 + end1, "root-ln-rel-required", false, read1},
		quirk{"no rel", one(`<rs:ln href="https://example.org/b"/>`), "entry-ln-rel-required", false, read1},
		quirk{"no href", one(`<rs:ln rel="alternate"/>`), "entry-ln-href-required", false, read1},
	)
	h, _, _, err := decode(list1 + `<rs:ln href="https://example.org/about" hash="describedby"/>` + url1 + end1)
	if err != nil || len(h.Links) != 0 {
		t.Errorf("got links %v, %v", h.Links, err)
	}
}

func TestQuirk_26(t *testing.T) {
	checkQuirk(t, QuirkRelationCase,
		quirk{"camel case", one(`<rs:ln rel="describedBy" href="https://example.org/b"/>`), "ln-rel-registered-or-uri", true, "describedby https://example.org/b"},
		quirk{"a URI", one(`<rs:ln rel="https://example.org/Rel" href="https://example.org/b"/>`), "none", true, "https://example.org/Rel https://example.org/b"},
	)
}

func TestQuirk_27(t *testing.T) {
	checkQuirk(t, QuirkForeignAttr,
		quirk{"no prefix", one(`<rs:md etag="7"/>`), "ext-attr-prefix", false, read1 + " @etag=7"},
		quirk{"our prefix", one(`<rs:md rs:etag="7"/>`), "ext-attr-namespace", false, read1 + " @" + nsRS + ":etag=7"},
		quirk{"our attribute with our prefix", one(`<rs:md rs:length="7"/>`), "rs-attr-no-prefix", false, read1 + " @" + nsRS + ":length=7"},
		quirk{"an attribute of rs:ln", one(`<rs:md pri="7"/>`), "table3-entry-md", false, read1 + " @pri=7"},
		quirk{"an attribute of rs:md", one(`<rs:ln rel="alternate" href="https://example.org/b" change="updated"/>`), "table3-entry-ln", false, "alternate https://example.org/b @change=updated"},
		quirk{
			"another vocabulary", one(`<rs:ln rel="alternate" href="https://example.org/b" xmlns:d="urn:d" d:conformsTo="urn:x"/>`), "none", true,
			"alternate https://example.org/b @urn:d:conformsTo=urn:x",
		},
		quirk{"more relations", one(`<rs:ln rel="self" href="https://example.org/b"/>`), "none", true, "self https://example.org/b"},
	)
}

func TestQuirk_28(t *testing.T) {
	root := func(attrs string) string { return open1 + "<rs:md " + attrs + "/>" + url1 + end1 }
	archive := root(`capability="changelist-archive" at="2024-05-01T00:00:00Z"`)
	checkQuirk(t, QuirkMoment,
		quirk{"no at", root(`capability="resourcelist"`), "resourcelist-at-required", false, read1},
		quirk{"no at, index", strings.ReplaceAll(strings.ReplaceAll(root(`capability="resourcedump"`), "urlset", "sitemapindex"), "url>", "sitemap>"), "resourcedump-index-at-required", false, read1},
		quirk{"no from", open1 + `<rs:md capability="changedump"/>` + end1, "changedump-from-required", false, "1.1 changedump"},
		quirk{"from of a list", root(`capability="resourcelist" at="2024-05-01T00:00:00Z" from="2024-05-01T00:00:00Z"`), "root-from-scope", false, "1.1 resourcelist capability=resourcelist at=2024-05-01T00:00:00Z from="},
		quirk{"until of a list", root(`capability="resourcelist" at="2024-05-01T00:00:00Z" until="2024-05-01T00:00:00Z"`), "root-until-scope", false, read1},
		quirk{"at of changes", open1 + `<rs:md capability="changelist" from="2024-05-01T00:00:00Z" at="2024-05-01T00:00:00Z"/>` + end1, "root-at-scope", false, "1.1 changelist"},
		quirk{"completed of changes", open1 + `<rs:md capability="changelist" from="2024-05-01T00:00:00Z" completed="2024-05-01T00:00:00Z"/>` + end1, "root-completed-scope", false, "1.1 changelist"},
		quirk{"at of a Capability List", open1 + `<rs:md capability="capabilitylist" at="2024-05-01T00:00:00Z"/>` + end1, "root-time-attrs-undefined", true, "1.1 capabilitylist capability=capabilitylist at="},
		quirk{"at of an archive", archive, "root-time-attrs-undefined", true, "1.1 changelist-archive"},
		quirk{"a capability of a community", root(`capability="x" at="2024-05-01T00:00:00Z" from="2024-05-01T00:00:00Z"`), "none", true, "1.1  capability=x"},
	)
	for attrs, want := range map[string]string{`at="soon"`: "at-w3cdtf", `at=""`: "at-w3cdtf"} {
		_, _, notes, err := decode(root(`capability="resourcelist" ` + attrs))
		if err != nil || len(notes) != 1 || notes[0].Rule != want {
			t.Errorf("%s: got %+v, %v; what can't be read is not missing too", attrs, notes, err)
		}
	}
}

func TestQuirk_30(t *testing.T) {
	lastmod := func(s string) string { return one("<lastmod>" + s + "</lastmod>") }
	checkQuirk(t, QuirkDatePartial,
		quirk{"a year", lastmod("2017"), "lastmod-utc-recommended", true, read1 + " lastmod=2017"},
		quirk{"a month", lastmod("2017-03"), "lastmod-utc-recommended", true, read1 + " lastmod=2017-03"},
		quirk{"a day", lastmod("2017-03-04"), "lastmod-utc-recommended", true, read1 + " lastmod=2017-03-04"},
		quirk{"a minute", lastmod("2017-03-04T05:06Z"), "lastmod-utc-recommended", true, read1 + " lastmod=2017-03-04T05:06Z"},
		quirk{"a second", lastmod("2017-03-04T05:06:07Z"), "none", true, read1 + " lastmod=2017-03-04T05:06:07Z"},
		quirk{"elsewhere", strings.Replace(list1, "T00:00:00Z", "", 1) + end1, "at-utc-recommended", true, "1.1 resourcelist capability=resourcelist at=2024-05-01"},
	)
}

func TestQuirk_31(t *testing.T) {
	lastmod := func(s string) string { return one("<lastmod>" + s + "</lastmod>") }
	checkQuirk(t, QuirkDatetimeZone,
		quirk{"no zone", lastmod("2017-03-04T05:06:07"), "lastmod-w3cdtf", false, read1 + " lastmod=2017-03-04T05:06:07Z"},
		quirk{"microseconds", lastmod("2017-03-04T05:06:07.123456"), "lastmod-w3cdtf", false, read1 + " lastmod=2017-03-04T05:06:07.123456Z"},
		quirk{"a blank for T", lastmod("2017-03-04 05:06:07"), "lastmod-w3cdtf", false, read1 + " lastmod=2017-03-04T05:06:07Z"},
		quirk{"+00:00", lastmod("2017-03-04T05:06:07+00:00"), "lastmod-utc-recommended", true, read1 + " lastmod=2017-03-04T05:06:07+00:00"},
		quirk{"+01:00", lastmod("2017-03-04T05:06:07+01:00"), "lastmod-utc-recommended", true, read1 + " lastmod=2017-03-04T05:06:07+01:00"},
		quirk{"of a link", one(`<rs:ln rel="alternate" href="https://example.org/b" modified="2017-03-04T05:06:07"/>`), "modified-w3cdtf", false, "alternate https://example.org/b modified=2017-03-04T05:06:07Z"},
	)
}

func TestQuirk_39(t *testing.T) {
	checkQuirk(t, QuirkSpaceAround,
		quirk{"newline", list1 + "<url><loc>\n  https://example.org/a\t</loc></url>" + end1, "loc-absolute-uri", true, read1},
		quirk{"by reference", list1 + "<url><loc>&#32;https://example.org/a&#10;</loc></url>" + end1, "loc-absolute-uri", true, read1},
	)
}

func TestQuirk_41(t *testing.T) {
	for _, loc := range []string{"https://example.org/é", "https://bücher.example/", "https://example.org/a b", "https://example.org/100%", "https://example.org/{id}"} {
		checkQuirk(t, QuirkIRI, quirk{loc, list1 + "<url><loc>" + loc + "</loc></url>" + end1, "loc-absolute-uri", false, loc})
	}
	checkQuirk(t, QuirkIRI,
		quirk{"escaped twice", list1 + "<url><loc>https://example.org/%253D?a=%2F</loc></url>" + end1, "none", true, "https://example.org/%253D?a=%2F"},
		quirk{"of a link", one(`<rs:ln rel="alternate" href="https://example.org/é"/>`), "ln-href-absolute-uri", false, "alternate https://example.org/é"},
	)
}

func TestQuirk_42(t *testing.T) {
	for _, uri := range []string{"resourcelist.xml", "/resourcelist.xml", "//example.org/resourcelist.xml", "?page=2", "a/b:c"} {
		checkQuirk(t, QuirkRelativeURI,
			quirk{"loc " + uri, caps1 + "<url><loc>" + uri + `</loc><rs:md capability="resourcelist"/></url>` + end1, "loc-absolute-uri", false, uri + " capability=resourcelist"},
			quirk{"href " + uri, list1 + `<rs:ln rel="up" href="` + uri + `"/>` + end1, "ln-href-absolute-uri", false, "up " + uri},
		)
	}
}

func TestQuirk_46(t *testing.T) {
	sha, want := abc[3].hex, read1+" hash=sha-256:"+abc[3].hex
	checkQuirk(t, QuirkHashSpelling,
		quirk{"SHA256", one(`<rs:md hash="SHA256:` + strings.ToUpper(sha) + `"/>`), "hash-algorithm-unknown", true, want},
		quirk{"sha256", one(`<rs:md hash="sha256:` + sha + `"/>`), "hash-algorithm-unknown", true, want},
		quirk{"MD5", one(`<rs:md hash="MD5:` + strings.ToUpper(abc[0].hex) + `"/>`), "", true, read1 + " hash=md5:" + abc[0].hex},
		quirk{"capital digits", one(`<rs:md hash="sha-256:` + strings.ToUpper(sha) + `"/>`), "none", true, want},
	)
}

func TestQuirk_47(t *testing.T) {
	want := read1 + " hash=sha-256:" + abc[3].hex
	checkQuirk(t, QuirkHashBase64,
		quirk{"base64", one(`<rs:md hash="sha-256:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="/>`), "hash-hex-digest", false, want},
		quirk{"base64url", one(`<rs:md hash="sha-256:ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0"/>`), "hash-hex-digest", false, want},
	)
}

func TestQuirk_48(t *testing.T) {
	both := func(space string) string {
		return one(`<rs:md hash="md5:` + abc[0].hex + space + "sha-256:" + abc[3].hex + `"/>`)
	}
	want := read1 + " hash=md5:" + abc[0].hex + " sha-256:" + abc[3].hex
	checkQuirk(t, QuirkHashSpace,
		quirk{"blank", both(" "), "none", true, want},
		quirk{"newline", both("\n      "), "none", true, want}, // a blank to XML
		quirk{"by reference", both("&#10;"), "hash-algorithm-token", true, want},
	)
}

func TestQuirk_49(t *testing.T) {
	checkQuirk(t, QuirkEmptyValue,
		quirk{"hash", one(`<rs:md hash=""/>`), "hash-algorithm-token", false, read1},
		quirk{"length", one(`<rs:md length=" "/>`), "length-integer", false, read1},
		quirk{"capability", open1 + `<rs:md capability=""/>` + url1 + end1, "root-capability-required", false, read1},
		quirk{"capability of an entry", caps1 + `<url>` + loc1 + `<rs:md capability=""/></url>` + end1, "capabilitylist-entry-capability-required", false, read1},
		quirk{"change", changes1 + `<url>` + loc1 + `<rs:md change=""/></url>` + end1, "change-values", false, read1},
		quirk{"another vocabulary", one(`<rs:md xmlns:x="urn:x" x:a=""/>`), "none", true, read1},
	)
}

// TestNotesOfMistakes checks what is noted of documents and elements that are no habit
// of existing Sources.
func TestNotesOfMistakes(t *testing.T) {
	up := `<rs:ln rel="up" href="https://example.org/c"/>`
	for _, c := range []struct{ doc, rule string }{
		{open1 + up + url1 + end1, "root-md-required"},
		{open1 + "<url>" + loc1 + `<rs:md length="1"/></url>` + end1, "root-md-required"},
		{open1 + up + `<rs:md at="2024-05-01T00:00:00Z"/>` + url1 + end1, "root-capability-required"},
		{list1 + `<rs:md capability="changelist"/>` + url1 + end1, "root-md-single"},
		{one("<lastmod/>"), "lastmod-w3cdtf"},
		{one("<lastmod>2024-05-01T00:00:00Z</lastmod><lastmod>2025-05-01T00:00:00Z</lastmod>"), "namespace-sitemap"},
		{one("<lastmod><b>2024</b></lastmod>"), "namespace-sitemap"},
		{one("<changefreq>often</changefreq>"), "changefreq-values"},
		{one(`<rs:md type="html"/>`), "type-media-type-syntax"},
		{one(`<rs:md path="/../a"/>`), "path-no-traversal"},
		{one(`<rs:md path="/a\b"/>`), "path-no-traversal"},
		{one(`<rs:md path="/a/"/>`), "path-no-traversal"},
		{one(`<rs:ln rel="duplicate" href="https://example.org/b" pri="0"/>`), "pri-range"},
		{list1 + `<sitemap>` + loc1 + `</sitemap>` + end1, "entry-element-matches-root"},
		{list1 + `<url a="b">` + loc1 + `</url>` + end1, "entry-no-attributes"},
		// Pages that PHP or a template renders, as Pinakes and Heratio do, have its warnings in them.
		{list1 + "Notice: Undefined index" + url1 + end1, "text-between-elements"},
		{list1 + url1 + "&amp;" + end1, "text-between-elements"},
		{list1 + url1 + "<![CDATA[ x ]]>" + end1, "text-between-elements"},
		{one("text"), "text-between-elements"},
		{one("<changefreq>daily</changefreq>,"), "text-between-elements"},
	} {
		_, _, notes, err := decode(c.doc)
		if err != nil || len(notes) != 1 || notes[0].Rule != c.rule || notes[0].Legal || notes[0].Line != 1 {
			t.Errorf("%s: got %+v, %v, want %s", c.doc, notes, err, c.rule)
		}
		if _, _, _, err := decode(c.doc, WithTolerance(Strict)); !errors.Is(err, Refused) {
			t.Errorf("%s: strict: got %v", c.doc, err)
		}
	}
	if _, _, notes, err := decode(open1 + url1 + end1); err != nil || len(notes) != 0 {
		t.Errorf("a plain sitemap: got %+v, %v", notes, err)
	}
	_, entries, _, err := decode(one(`<rs:md type="html" path="/../a"/>`))
	if err != nil || entries[0].Type != "" || entries[0].Path != "/../a" {
		t.Errorf("got %+v, %v; want no type and the path as it is", entries, err)
	}
}

// TestErrorsNameTheirRule checks the rule of documents and entries that can't be used.
func TestErrorsNameTheirRule(t *testing.T) {
	entry := func(content string) string { return list1 + "<url>" + content + "</url>" + end1 }
	for _, c := range []struct {
		doc  string
		kind Kind
		rule string
	}{
		{list1 + "<a></b>" + end1, NotWellFormed, "xml-well-formed"},
		{list1, Incomplete, "xml-well-formed"},
		{"", NotResourceSync, "xml-well-formed"},
		{"{}", NotResourceSync, "xml-well-formed"},
		{"<!DOCTYPE html><html/>", NotResourceSync, ruleRoot},
		{"<html/>", NotResourceSync, ruleRoot},
		{"<rss/>", NotResourceSync, ruleRoot},
		{`<feed xmlns="` + nsAtom + `"/>`, NotResourceSync, ruleRoot},
		{"<urlset/>", NotResourceSync, "namespace-sitemap"},
		{open1 + `<md xmlns="` + nsDLib + `0.5/" capability="resourcelist"/>` + end1, NotResourceSync, "namespace-rs-terms"},
		{entry(""), BadEntry, "entry-loc-required"},
		{entry("<loc/>"), BadEntry, "entry-loc-required"},
		{strings.Replace(entry(`<rs:md length="1"/>`), nsRS, nsDLib, 1), BadEntry, "dlib-loc-required"},
		{entry(loc1 + loc1), BadEntry, "entry-loc-single"},
		{entry(loc1 + `<rs:md length="1"/><rs:md length="2"/>`), BadEntry, "entry-md-not-repeatable"},
		{entry("<loc><b>https://example.org/</b></loc>"), BadEntry, "loc-absolute-uri"},
		{entry("<loc>https://example.org/&#10;x</loc>"), BadEntry, "loc-absolute-uri"},
	} {
		_, _, _, err := decode(c.doc)
		if e, ok := errors.AsType[*DecodeError](err); !ok || e.Kind != c.kind || e.Rule != c.rule {
			t.Errorf("%s: got %+v, want %v, %s", c.doc, err, c.kind, c.rule)
		}
	}
}

// TestLargeDocumentsAreNoted checks the limits of the standard, which are below those
// of a Decoder.
func TestLargeDocumentsAreNoted(t *testing.T) {
	dlib := strings.Replace(list1, nsRS, nsDLib, 1)
	full := strings.Repeat(url1, MaxEntries)
	for _, c := range []struct {
		name, doc, rule string
	}{
		{"50,000", list1 + full + end1, ""},
		{"50,002", list1 + full + url1 + url1 + end1, "limit-50000-items"},
		{"50,001 of D-Lib Magazine", dlib + full + url1 + end1, "dlib-limit-50000"},
		{"50 MiB", list1 + strings.Repeat(" ", maxSize-len(list1+end1)) + end1, ""},
		{"a byte more", list1 + strings.Repeat(" ", maxSize-len(list1+end1)+1) + end1, "limit-50mb"},
	} {
		n := 0
		dec := NewDecoder(strings.NewReader(c.doc), WithNotes(func(note Note) {
			if strings.Contains(note.Rule, "limit") {
				n++
				if note.Rule != c.rule || note.Legal {
					t.Errorf("%s: got %+v, want %s", c.name, note, c.rule)
				}
			}
		}))
		for _, err := range dec.Entries() {
			if err != nil {
				t.Fatal(err)
			}
		}
		if (n == 1) != (c.rule != "") {
			t.Errorf("%s: noted %d times", c.name, n)
		}
	}
}

// TestRefusalsNameTheirPlace checks that what is refused at the end of a document or
// of an entry is told with the line where it stands.
func TestRefusalsNameTheirPlace(t *testing.T) {
	for doc, line := range map[string]int{
		"\n" + open1 + "\n<rs:md capability='resourcelist'/>\n" + url1 + "\n" + end1:                      2,
		"\n" + changes1 + "\n\n<url>\n" + loc1 + "\n<lastmod>2024-05-01T00:00:00Z</lastmod></url>" + end1: 4,
	} {
		_, _, _, err := decode(doc, WithTolerance(Strict))
		if e, ok := errors.AsType[*DecodeError](err); !ok || e.Kind != Refused || e.Line != line || e.Column != 1 {
			t.Errorf("%s: got %v, want line %d", doc, err, line)
		}
	}
}

func TestQuirk_61(t *testing.T) {
	entry := func(body string) string {
		return list1 + "<url><loc>https://example.org/a</loc>" + body + "</url>" + end1
	}
	checkQuirk(t, QuirkTwoMetadata,
		quirk{"digest and type apart", entry(`<rs:md length="4"/><rs:md type="text/plain"/>`), "entry-md-not-repeatable", false, "1.1 resourcelist"},
		quirk{"the same once more", entry(`<rs:md hash="md5:b1946ac92492d2347c6235b4d2611184" length="4"/><rs:md hash="md5:b1946ac92492d2347c6235b4d2611184" length="4"/>`), "entry-md-not-repeatable", false, "1.1 resourcelist"},
		quirk{"nothing in the second", entry(`<rs:md length="4"/><rs:md/>`), "entry-md-not-repeatable", false, "1.1 resourcelist"},
	)
	_, entries, _, err := decode(entry(`<rs:md change="created" length="4"/><rs:md type="text/plain" datetime="2026-01-01T00:00:00Z"/><rs:md xmlns:x="urn:x" x:a="1"/>`))
	if err != nil || len(entries) != 1 || entries[0].Change != Created || entries[0].Length != Bytes(4) || entries[0].Type != "text/plain" ||
		entries[0].Datetime.IsZero() || len(entries[0].Attrs) != 1 {
		t.Errorf("got %+v, %v, want what all three say", entries, err)
	}
}
