package lint

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// checkName is the name of what checks the rules of a family, "" if nothing does.
func checkName(family string) string {
	var names []string
	if noted[family] {
		names = append(names, "noted")
	}
	c := reflect.ValueOf(checks[family])
	for i := range c.NumField() {
		if f := c.Field(i); !f.IsNil() {
			full := runtime.FuncForPC(f.Pointer()).Name()
			names = append(names, full[strings.LastIndexByte(full, '.')+1:])
		}
	}
	switch {
	case slices.Contains(permitted, family):
		names = append(names, "permitted")
	case family == "minimal-content": // other rules are reported instead
		names = append(names, "covered")
	case plain[family] != "":
		names = append(names, plain[family])
	}
	return strings.Join(names, ", ")
}

// permitted are the families of rules that only allow something, which no document can
// break.
var permitted = []string{
	"schema-validation", "completed-optional", "until-optional", "root-ln-optional-repeatable",
	"archives-link-may", "entry-ln-optional-repeatable", "entry-metadata-optional", "lastmod-optional",
	"lastmod-optional-except-change-docs", "changefreq-optional", "resourcedump-entry-time-and-hash-may",
	"resourcedump-contents-link-optional", "resourcedump-index-entry-at-optional",
	"resourcedump-manifest-metadata-may", "changelist-entry-metadata-may",
	"changelist-index-entry-lastmod-optional", "changedump-entry-from-until-may",
	"changedump-contents-link-optional", "changedump-manifest-metadata-may",
	"attr-change-datetime-resource-or-representation", "ln-attrs-optional", "pri-optional", "datetime-optional",
	"completed-until-optional-where-at-from", "ln-duplicate-may", "ln-alternate-may", "ln-canonical-may",
	"ln-patch-may", "ln-metadata-own-entry", "ln-memento-may", "ln-memento-modified", "memento-lastmod-may",
	"ln-timemap-attrs", "ln-collection-may", "ln-via-may", "dlib-metadata-may",
	"ore-sitemap-may", "ore-html-multiple-rems", "ore-stylesheet-may",
	"dlib-sitemap-xsd-not-extensible", "robots-sitemap-directive-may", "robots-one-directive-per-set-may",
}

// plain names the methods that check files other than ResourceSync documents.
var plain = map[string]string{
	"html-link-rel-resourcesync": "Checker.HTML",
	"html-link-in-head":          "Checker.HTML",
	"http-link-rel-resourcesync": "Checker.LinkHeader",
}

// TestRulesTable keeps docs/rules.md: rule, check, test.
func TestRulesTable(t *testing.T) {
	const file = "../docs/rules.md"
	want := rulesTable(readFixtures(t), readSites(t), mapSites(t))
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what it is generated from; write it anew with: make rules", file)
	}
}

func rulesTable(fixtures []*fixture, sites []*site, maps []*mapSite) []byte {
	where := map[string]string{}
	for _, f := range fixtures {
		for _, id := range f.rules {
			where[id] = strings.TrimSuffix(filepath.Base(f.file), ".txtar")
		}
	}
	for _, s := range sites {
		for _, id := range s.rules {
			where[id] = "live/" + strings.TrimSuffix(filepath.Base(s.file), ".txtar")
		}
	}
	ofMaps := map[string]string{}
	for _, s := range maps {
		for _, id := range s.rules {
			ofMaps[id] = "ore/" + strings.TrimSuffix(filepath.Base(s.file), ".txtar")
		}
	}
	var body bytes.Buffer
	done, total := 0, 0
	for _, r := range Rules() {
		archive := where[r.ID]
		if r.Version == string(ProfileORE) {
			archive = ofMaps[r.ID]
		}
		check, test := rowOf(&r, archive)
		total++
		if !strings.HasPrefix(check, "pending") {
			done++
		}
		fmt.Fprintf(&body, "| <a id=%q></a>`%s` | %s | %s | %s | %s | %s | %s |\n", r.ID, r.ID, r.Level, editions(&r), r.Section, r.Text, check, test)
	}
	head := fmt.Sprintf(`# Rules and their checks

What %s holds documents against, the function of package lint that checks it and
the test that shows what it finds. %s are rules that the Decoder decides, %s what
no document can break, %s what other rules report. A test is the archive in
lint/testdata/rules that has the examples, or the one in lint/testdata/live or
lint/testdata/ore that has what a server answers. Written by %s from lint/rules.json and the tests; not to be
edited.

%d of %d rules have a check.

| rule | level | edition | section | what it says | check | test |
|---|---|---|---|---|---|---|
`, "`instep lint`", "`noted`", "`permitted`", "`covered`", "`make rules`", done, total)
	return append([]byte(head), body.Bytes()...)
}

func editions(r *Rule) string {
	if r.Version == "both" {
		return "1.0, 1.1"
	}
	return r.Version
}

// rowOf is the check and the test of a rule, or what they wait for.
func rowOf(r *Rule, archive string) (check, test string) {
	switch {
	case r.Version == string(ProfileORE) && permits(r):
		return "`permitted`", "`" + archive + "`"
	case r.Version == string(ProfileORE):
		return "`Checker.ResourceMaps`", "`" + archive + "`"
	case r.Checkable == "live":
		return "`" + liveCheck(r) + "`", "`" + archive + "`"
	case r.Checkable == "crosslink":
		return "pending: crawl", ""
	case r.Checkable == "behaviour":
		return "pending: behaviour", ""
	}
	test = "`" + archive + "`"
	if archive == "" {
		test = "`TestQuirks`"
	}
	return "`" + checkName(r.Family) + "`", test
}
