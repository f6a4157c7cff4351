package resourcesync

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// parsingRules are the rules that a Decoder shows while it reads: what one element,
// attribute or value must be. They are the static rules of all versions without
//
//   - those about what a kind of document requires, allows or forbids in its root,
//     its links and its entries, and about their order and times among each other:
//     …-required, …-recommended, …-optional, …-may, …-omit, …-scope, …-order,
//     …-capability-value, table3-…, ln-… of one relation. A linter knows them, and an
//     Encoder refuses what they call an error;
//   - those that need a register: ln-rel-registered-or-uri, type-registered;
//   - those about pages, feeds and headers: html-…, http-…, ore-…;
//   - those that other rules check (archives-capability-values, …-minimal-content) and
//     remarks about the standard (schema-validation, dlib-sitemap-xsd-not-extensible).
var parsingRules = []struct {
	id   string
	okay bool // a permission: nothing breaks it
}{
	{id: "xml-well-formed"},
	{id: "root-element-urlset-or-sitemapindex"},
	{id: "namespace-sitemap"},
	{id: "namespace-rs-terms"},
	{id: "dlib-namespace", okay: true},
	{id: "entry-element-matches-root"},
	{id: "limit-50000-items"},
	{id: "limit-50mb"},
	{id: "dlib-limit-50000"},
	{id: "root-md-required"},
	{id: "root-md-single"},
	{id: "root-capability-required"},
	{id: "root-capability-case"},
	{id: "root-capability-unknown"},
	{id: "entry-capability-case"},
	{id: "capabilitylist-entry-capability-defined"},
	{id: "root-ln-href-required"},
	{id: "root-ln-rel-required"},
	{id: "root-ln-optional-repeatable", okay: true},
	{id: "entry-ln-href-required"},
	{id: "entry-ln-rel-required"},
	{id: "entry-ln-optional-repeatable", okay: true},
	{id: "ln-href-absolute-uri"},
	{id: "loc-absolute-uri"},
	{id: "entry-loc-required"},
	{id: "entry-loc-single"},
	{id: "entry-no-attributes"},
	{id: "text-between-elements"},
	{id: "entry-md-not-repeatable"},
	{id: "rs-attr-no-prefix"},
	{id: "ext-attr-namespace"},
	{id: "ext-attr-prefix"},
	{id: "attr-change-datetime-resource-or-representation", okay: true},
	{id: "at-w3cdtf"},
	{id: "at-utc-recommended"},
	{id: "completed-w3cdtf"},
	{id: "completed-utc-recommended"},
	{id: "from-w3cdtf"},
	{id: "from-utc-recommended"},
	{id: "until-w3cdtf"},
	{id: "until-utc-recommended"},
	{id: "lastmod-w3cdtf"},
	{id: "lastmod-utc-recommended"},
	{id: "datetime-w3cdtf"},
	{id: "datetime-utc-recommended"},
	{id: "modified-w3cdtf"},
	{id: "modified-utc-recommended"},
	{id: "archive-lastmod-w3cdtf", okay: true},
	{id: "lastmod-optional", okay: true},
	{id: "changefreq-optional", okay: true},
	{id: "changefreq-values"},
	{id: "change-values"},
	{id: "datetime-optional", okay: true},
	{id: "hash-algorithm-token"},
	{id: "hash-hex-digest"},
	{id: "hash-digest-length"},
	{id: "hash-algorithm-unknown"},
	{id: "length-integer"},
	{id: "path-leading-slash"},
	{id: "path-no-traversal"},
	{id: "type-media-type-syntax"},
	{id: "pri-range"},
	{id: "pri-optional", okay: true},
	{id: "ln-attrs-optional", okay: true},
	{id: "dlib-root-md-capability"},
	{id: "dlib-root-md-modified", okay: true},
	{id: "dlib-loc-required"},
	{id: "dlib-top-link"},
	{id: "dlib-metadata-may", okay: true},
}

// ruleCase is a document and what has to be said of it.
type ruleCase struct {
	name string
	bad  bool
	doc  func() io.Reader
}

// ruleCases are the cases of each rule: of testdata/rules.txtar, and those that are
// too large for a file.
func ruleCases(t *testing.T) map[string][]ruleCase {
	t.Helper()
	a, err := txtar.ParseFile("testdata/rules.txtar")
	if err != nil {
		t.Fatal(err)
	}
	cases := largeCases()
	declare := strings.NewReplacer("<urlset>", open1, "<sitemapindex>", strings.Replace(open1, "urlset", "sitemapindex", 1))
	for _, f := range a.Files {
		id, name, _ := strings.Cut(strings.TrimSuffix(f.Name, ".xml"), "/")
		bad := strings.HasPrefix(name, "bad")
		if !bad && !strings.HasPrefix(name, "ok") {
			t.Errorf("%s: expected a rule and ok… or bad…", f.Name)
		}
		doc := declare.Replace(string(f.Data))
		cases[id] = append(cases[id], ruleCase{name, bad, func() io.Reader { return strings.NewReader(doc) }})
	}
	return cases
}

// largeCases are the documents that a limit allows and those that are one larger.
func largeCases() map[string][]ruleCase {
	const (
		up    = `<rs:ln rel="up" href="https://museum.example.org/capabilitylist.xml"/>`
		dlib  = `<urlset xmlns="` + nsSitemap + `" xmlns:rs="http://www.openarchives.org/rs/"><rs:ln rel="top" href="https://museum.example.org/capabilitylist.xml"/><rs:md capability="resourcelist" modified="2013-01-03T09:00:00Z"/>`
		bytes = 52_428_800
	)
	entries := func(begin string, n int) func() io.Reader {
		return func() io.Reader { return strings.NewReader(begin + strings.Repeat(url1, n) + end1) }
	}
	padded := func(size int) func() io.Reader {
		return func() io.Reader {
			padding := &repeater{text: strings.Repeat(" ", 1023) + "\n", left: size - len(list1) - len(up) - len(end1)}
			return io.MultiReader(strings.NewReader(list1+up), io.LimitReader(padding, int64(padding.left)), strings.NewReader(end1))
		}
	}
	return map[string][]ruleCase{
		"limit-50000-items": {{"ok", false, entries(list1+up, MaxEntries)}, {"bad", true, entries(list1+up, MaxEntries+1)}},
		"dlib-limit-50000":  {{"ok", false, entries(dlib, MaxEntries)}, {"bad", true, entries(dlib, MaxEntries+1)}},
		"limit-50mb":        {{"ok", false, padded(bytes)}, {"bad", true, padded(bytes + 1)}},
	}
}

func TestRules(t *testing.T) {
	cases := ruleCases(t)
	for _, rule := range parsingRules {
		t.Run(rule.id, func(t *testing.T) {
			ok, bad := 0, 0
			for _, c := range cases[rule.id] {
				got := read(c.doc())
				if !c.bad {
					ok++
					checkKept(t, rule.id, c.name, got)
					continue
				}
				bad++
				if diff := cmp.Diff(brokenRules(got), []string{rule.id}); diff != "" {
					t.Errorf("%s: rules (-got +want):\n%s%v %v", c.name, diff, got.err, got.notes)
				}
				if strict := read(c.doc(), WithTolerance(Strict)); got.illegal() != errors.Is(strict.err, Refused) && got.err == nil {
					t.Errorf("%s: strict: got %v", c.name, strict.err)
				}
			}
			if ok == 0 || bad == 0 && !rule.okay {
				t.Errorf("%d cases that keep the rule and %d that break it", ok, bad)
			}
		})
		delete(cases, rule.id)
	}
	for id := range cases {
		t.Errorf("testdata/rules.txtar has cases of %s, which is not in the list", id)
	}
}

// checkKept checks that a document is read without the rule being named, unless for a
// habit that it allows. One of 1.1 has nothing that is not allowed.
func checkKept(t *testing.T, id, name string, got reading) {
	t.Helper()
	got.notes = slices.DeleteFunc(got.notes, func(n Note) bool { return n.Legal && n.Quirk != 0 })
	if got.err != nil || len(got.bad) > 0 || slices.Contains(brokenRules(got), id) {
		t.Errorf("%s: got %v, %v, notes %v", name, got.err, got.bad, got.notes)
	}
	if got.header.Dialect == Dialect11 && got.illegal() {
		t.Errorf("%s: more than the case is about: %v", name, got.notes)
	}
}

// brokenRules are the rules that a reading names, in order and once.
func brokenRules(got reading) []string {
	var rules []string
	for _, n := range got.notes {
		if n.Rule != "" && n.Quirk != QuirkDialect { // that one names what it translates
			rules = append(rules, n.Rule)
		}
	}
	for _, e := range got.bad {
		rules = append(rules, e.Rule)
	}
	if e, ok := errors.AsType[*DecodeError](got.err); ok {
		rules = append(rules, e.Rule)
	}
	slices.Sort(rules)
	return slices.Compact(rules)
}
