package lint

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

// checkName is the name of what checks the rules of a family, "" if nothing does.
func checkName(family string) string {
	c, ok := checks[family]
	var names []string
	if c.noted {
		names = append(names, "noted")
	}
	if c.run != nil {
		full := runtime.FuncForPC(reflect.ValueOf(c.run).Pointer()).Name()
		names = append(names, full[strings.LastIndexByte(full, '.')+1:])
	}
	if c.by != "" {
		names = append(names, c.by)
	}
	if !ok {
		return ""
	}
	return strings.Join(names, ", ")
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
