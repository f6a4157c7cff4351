package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDurationsAreReadAndWritten(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "24h": 24 * time.Hour, "1h30m": 90 * time.Minute, "0s": 0, "30d": 30 * 24 * time.Hour, "2w": 14 * day, "5y": 5 * 365 * day,
	} {
		var d duration
		if err := d.set(text); err != nil || time.Duration(d) != want {
			t.Errorf("%q: got %v, %v, want %v", text, time.Duration(d), err, want)
		}
		var again duration
		if err := again.set(d.String()); err != nil || again != d {
			t.Errorf("%q: written as %q, which is read as %v, %v", text, d, again, err)
		}
	}
	for _, text := range []string{"", "d", "5", "-1h", "-1d", "1d2", "99999999d", "9999999999d", "1 d", "1m2d", "400y"} {
		var d duration
		if err := d.set(text); err == nil {
			t.Errorf("%q is read as %v", text, d)
		}
	}
}

func TestSizesAreReadAndWritten(t *testing.T) {
	for text, want := range map[string]size{"0": 0, "1000": 1000, "500MB": 500_000_000, "1GiB": 1 << 30, "1.5GiB": 3 << 29, "1025MiB": 1025 << 20, "1GB": 1_000_000_000} {
		var s size
		if err := s.set(text); err != nil || s != want {
			t.Errorf("%q: got %d, %v, want %d", text, int64(s), err, int64(want))
		}
		var again size
		if err := again.set(s.String()); err != nil || again != s {
			t.Errorf("%q: written as %q, which is read as %v, %v", text, s, again, err)
		}
	}
	for _, text := range []string{"", "-1", "1XB", "many", "99999999999EB"} {
		var s size
		if err := s.set(text); err == nil {
			t.Errorf("%q is read as %d", text, int64(s))
		}
	}
}

func TestConfigurationFileIsRead(t *testing.T) {
	f, err := parseConfig("site.yaml", []byte(`
base_url: https://example.org/
hash: [sha-256, md5]
source: {title: A museum, contact: "mailto:a@example.org"}
sets:
  - name: books
    include: ["books/**"]
    rules:
      - {match: "**/*.csv.gz", type: text/csv, encoding: gzip}
    max_delete: 50
    dumps: true
    archive: {age: 365d, size: 10GiB}
  - title: Everything
    dumps: {package_size: 500MB}
    archive: false
`))
	if err != nil {
		t.Fatal(err)
	}
	want := siteConfig{
		BaseURL: "https://example.org/", Hash: []string{"sha-256", "md5"},
		Source: aboutConfig{Title: "A museum", Contact: "mailto:a@example.org"},
		Sets: []setConfig{
			{
				Name: "books", Include: []string{"books/**"}, Rules: []ruleConfig{{Match: "**/*.csv.gz", Type: "text/csv", Encoding: "gzip"}},
				MaxDelete: "50", Dumps: dumpsConfig{On: true}, Archive: archiveConfig{On: true, Age: duration(365 * 24 * time.Hour), Size: 10 << 30},
			},
			{Title: "Everything", Dumps: dumpsConfig{On: true, PackageSize: 500_000_000}},
		},
	}
	if diff := cmp.Diff(f.siteConfig, want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
	for key, line := range map[string]int{"base_url": 2, "source.title": 4, "sets[0].rules[0].match": 9, "sets[1].dumps.package_size": 14} {
		if got := f.lines[key]; got != line {
			t.Errorf("line of %s: got %d, want %d (of %v)", key, got, line, f.lines)
		}
	}
}

func TestConfigurationFileIsRefusedWithTheLine(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"unknown key":         {"base_url: x\nbaseurl: y\n", `site.yaml:2: unknown field "baseurl"`},
		"unknown key of dump": {"sets:\n- dumps:\n    each: 3\n", `site.yaml:3: unknown field "each"`},
		"twice":               {"dir: a\ndir: b\n", "site.yaml:2: "},
		"no value":            {"sets:\n- dumps:\n", "site.yaml:2: sets[0].dumps: expected a value"},
		"a text for a list":   {"dir: a\nsets: b\n", "site.yaml:2: expected a list, found text"},
		"a list for a text":   {"dir: [a]\n", "site.yaml:1: expected text, found a list"},
		"a text for a number": {"dir: x\nworkers: many\n", "site.yaml:2: expected a whole number, found text"},
		"no duration":         {"sets:\n- name: x\n  rotate_every: soon\n", `site.yaml:3: expected a time with its unit, such as 10s, 90m, 24h, 30d, 2w or 1y, found "soon"`},
		"not YAML":            {"a: b: c\n", "site.yaml:1: "},
		"anchor":              {"sets:\n- &a {name: x}\n- *a\n", "site.yaml:2: expected no anchors"},
		"two documents":       {"dir: x\n---\ndir: y\n", "site.yaml:3: expected one YAML document"},
		"a list":              {"- x\n", "site.yaml:1: "},
	} {
		_, err := parseConfig("site.yaml", []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q in it", name, err, c.want)
		}
	}
}

func TestEmptyConfigurationFileSaysNothing(t *testing.T) {
	for _, text := range []string{"", "# nothing yet\n", "---\n"} {
		f, err := parseConfig("site.yaml", []byte(text))
		if err != nil || len(f.lines) != 0 {
			t.Errorf("%q: got %v, %v", text, f, err)
		}
	}
}

func TestPathsAreRelativeToTheConfigurationFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "site.yaml")
	if err := os.WriteFile(name, []byte("dir: collection\nout: /srv/documents\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := readConfigFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(dir, "collection"); f.Dir != want || f.Out != "/srv/documents" || f.State != "" {
		t.Errorf("got %q, %q, %q", f.Dir, f.Out, f.State)
	}
}

func FuzzConfiguration(f *testing.F) {
	f.Add("base_url: https://example.org/\nsets: [{name: a, dumps: {every: 3d}}]\n")
	f.Add("? a\n: &b [*b]\n")
	f.Add("sets:\n-\n  name: |\n x")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseConfig("x", []byte(text))
		if (c == nil) == (err == nil) {
			t.Errorf("got %v and %v", c, err)
		}
	})
}
