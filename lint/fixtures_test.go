package lint

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "write what else fires in the fixtures instead of comparing it")

// fixture is an example of one or several rules, in testdata/rules. Its name there is
//
//	RULE[,RULE]/good.xml   follows the rules; RULE/bad.xml breaks the one
//
// and RULE/also says what else is found, in all profiles or in the one named:
//
//	bad: other-rule another-rule
//	bad 1.0: other-rule
//
// Examples end in .xml, .sitemap (a document checkRobots to search engines), .html or
// .http (the headers of a response). A line "#repeat N TEXT" stands for N times TEXT. A root without xmlns gets the two
// namespaces of the standard. A name other than good or bad that begins so is a
// further example, such as bad2.xml.
type fixture struct {
	file  string // the archive
	rules []string
	name  string // such as "bad"
	ext   string
	text  []byte
	also  map[string][]string // by profile, "" for all others
}

func (f *fixture) good() bool { return strings.HasPrefix(f.name, "good") }

func (f *fixture) String() string { return strings.Join(f.rules, ",") + "/" + f.name }

var allProfiles = []Profile{Profile11, Profile10, ProfileArchives, ProfileDLib}

// profiles are those that have one of the rules.
func (f *fixture) profiles() []Profile {
	return slices.DeleteFunc(slices.Clone(allProfiles), func(p Profile) bool {
		return !slices.ContainsFunc(f.rules, func(id string) bool { r, ok := Lookup(id); return ok && r.In(p) })
	})
}

func readFixtures(t testing.TB) []*fixture {
	t.Helper()
	files, err := filepath.Glob("testdata/rules/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	var all []*fixture
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fixturesOf(t, file, a)...)
	}
	return all
}

func fixturesOf(t testing.TB, file string, a *txtar.Archive) []*fixture {
	t.Helper()
	var all []*fixture
	for _, f := range a.Files {
		rules, base := path.Dir(f.Name), path.Base(f.Name)
		if base == "also" {
			readAlso(t, f, all)
			continue
		}
		ext := path.Ext(base)
		name := strings.TrimSuffix(base, ext)
		if !strings.HasPrefix(name, "good") && !strings.HasPrefix(name, "bad") {
			t.Fatalf("%s: %s: expected good or bad", file, f.Name)
		}
		for id := range strings.SplitSeq(rules, ",") {
			if _, ok := Lookup(id); !ok {
				t.Fatalf("%s: %s: no such rule", file, f.Name)
			}
		}
		all = append(all, &fixture{
			file: file, rules: strings.Split(rules, ","), name: name, ext: ext,
			text: f.Data, also: map[string][]string{},
		})
	}
	return all
}

// readAlso reads what else is found in the examples of a rule that stand before it.
func readAlso(t testing.TB, f txtar.File, all []*fixture) {
	t.Helper()
	for line := range strings.Lines(string(f.Data)) {
		head, ids, ok := strings.Cut(strings.TrimSpace(line), ":")
		name, profile, _ := strings.Cut(head, " ")
		i := slices.IndexFunc(all, func(x *fixture) bool { return x.String() == path.Dir(f.Name)+"/"+name })
		if !ok || i < 0 {
			t.Fatalf("%s: %q belongs to no example before it", f.Name, line)
		}
		all[i].also[profile] = strings.Fields(ids)
	}
}

// want is the set of rules expected in that profile.
func (f *fixture) want(p Profile) []string {
	also, ok := f.also[string(p)]
	if !ok {
		also = f.also[""]
	}
	want := slices.Clone(also)
	if !f.good() {
		want = append(want, f.rules...)
	}
	slices.Sort(want)
	return want
}

// open returns the document, written out.
func (f *fixture) open() io.Reader {
	var b bytes.Buffer
	for line := range bytes.Lines(f.text) {
		n, text, ok := bytes.Cut(bytes.TrimPrefix(line, []byte("#repeat ")), []byte(" "))
		count, err := strconv.Atoi(string(n))
		if !ok || err != nil || !bytes.HasPrefix(line, []byte("#repeat ")) {
			b.Write(line)
			continue
		}
		b.Write(bytes.Repeat(text, count))
	}
	return bytes.NewReader(declareNamespaces(b.Bytes()))
}

// declareNamespaces gives a root without xmlns the namespaces of the standard.
func declareNamespaces(doc []byte) []byte {
	const spaces = ` xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"`
	for _, root := range []string{"<urlset", "<sitemapindex"} {
		i := bytes.Index(doc, []byte(root))
		if i < 0 {
			continue
		}
		end := i + bytes.IndexByte(doc[i:], '>')
		if !bytes.Contains(doc[i:end], []byte("xmlns=")) {
			i += len(root)
			return slices.Concat(doc[:i], []byte(spaces), doc[i:])
		}
	}
	return doc
}

// found checks the fixture and returns the rules that it breaks.
func (f *fixture) found(t testing.TB, p Profile, disabled string) []string {
	t.Helper()
	set := map[string]bool{}
	c := Checker{
		Profile: p, Derived: true, Disabled: map[string]bool{disabled: true},
		Report: func(f Finding) { set[f.Rule] = true },
	}
	var err error
	switch f.ext {
	case ".html":
		err = c.HTML(context.Background(), "https://data.example.org/page", f.open())
	case ".http":
		c.LinkHeader("https://data.example.org/page", headerLines(f.text))
	default:
		var opts []Option
		if f.ext == ".sitemap" {
			opts = []Option{WithKind(KindSitemap)}
		}
		_, err = c.Document(context.Background(), "https://data.example.org/a/doc.xml", f.open(), opts...)
	}
	if err != nil {
		t.Fatalf("%s: %v", f, err)
	}
	var ids []string
	for id := range set {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// headerLines are the values of the Link headers of a response.
func headerLines(text []byte) []string {
	var values []string
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.EqualFold(name, "link") {
			values = append(values, strings.TrimSpace(value))
		}
	}
	return values
}

// TestRules: a bad example breaks its rule and a good one does not, in each profile
// that has the rule; and nothing else is found but what is listed.
func TestRules(t *testing.T) {
	fixtures := readFixtures(t)
	if *update {
		updateFixtures(t, fixtures)
		return
	}
	for _, f := range fixtures {
		for _, p := range f.profiles() {
			if d := cmp.Diff(f.found(t, p, ""), f.want(p), cmp.Transformer("set", func(s []string) []string { return append([]string{}, s...) })); d != "" {
				t.Errorf("%s in profile %s (-got +want):\n%s", f, p, d)
			}
		}
	}
}

// updateFixtures writes the lists of what else is found anew.
func updateFixtures(t *testing.T, fixtures []*fixture) {
	byFile := map[string][]*fixture{}
	for _, f := range fixtures {
		byFile[f.file] = append(byFile[f.file], f)
	}
	for file, list := range byFile {
		var b bytes.Buffer
		if a, err := txtar.ParseFile(file); err == nil {
			b.Write(a.Comment)
		}
		for i, f := range list {
			fmt.Fprintf(&b, "-- %s%s --\n%s", f, f.ext, f.text)
			if i+1 == len(list) || !slices.Equal(list[i+1].rules, f.rules) {
				writeAlso(t, &b, f, list[:i+1])
			}
		}
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func writeAlso(t *testing.T, w io.Writer, last *fixture, list []*fixture) {
	buf := bufio.NewWriter(w)
	defer buf.Flush()
	var lines []string
	for _, f := range list {
		if slices.Equal(f.rules, last.rules) {
			lines = append(lines, alsoLines(t, f)...)
		}
	}
	if len(lines) > 0 {
		fmt.Fprintf(buf, "-- %s/also --\n%s\n", strings.Join(last.rules, ","), strings.Join(lines, "\n"))
	}
}

func alsoLines(t *testing.T, f *fixture) []string {
	var lines []string
	var common string
	for i, p := range f.profiles() {
		also := slices.DeleteFunc(f.found(t, p, ""), func(id string) bool { return !f.good() && slices.Contains(f.rules, id) })
		ids := strings.Join(also, " ")
		switch {
		case i == 0:
			common = ids
			if ids != "" {
				lines = append(lines, f.name+": "+ids)
			}
		case ids != common:
			lines = append(lines, strings.TrimSpace(f.name+" "+string(p)+": "+ids))
		}
	}
	return lines
}

// TestStaticRulesHaveExamples: each rule that one document shows has a bad example,
// or a good one if nothing can break it.
func TestStaticRulesHaveExamples(t *testing.T) {
	good, bad := examples(readFixtures(t))
	for _, r := range Rules() {
		if r.Checkable != "static" || r.Version == "ore-alpha" || r.Family == "quirk" {
			continue
		}
		switch name := checkName(r.Family); {
		case good[r.ID] == 0:
			t.Errorf("%s has no good example", r.ID)
		case bad[r.ID] == 0 && name != "permitted" && name != "covered":
			t.Errorf("%s has no bad example", r.ID)
		}
	}
}

// examples counts the good and bad examples of each rule.
func examples(fixtures []*fixture) (good, bad map[string]int) {
	good, bad = map[string]int{}, map[string]int{}
	for _, f := range fixtures {
		for _, id := range f.rules {
			if f.good() {
				good[id]++
			} else {
				bad[id]++
			}
		}
	}
	return good, bad
}

// TestWhatIsPermittedGetsNoWarning: a document that uses what is allowed.
func TestWhatIsPermittedGetsNoWarning(t *testing.T) {
	for _, f := range readFixtures(t) {
		if !f.good() || filepath.Base(f.file) != "allowed.txtar" {
			continue
		}
		for _, p := range f.profiles() {
			for _, id := range f.found(t, p, "") {
				if r, _ := Lookup(id); r.Level > Info && r.Family != "quirk" {
					t.Errorf("%s in profile %s: %s", f, p, id)
				}
			}
		}
	}
}
