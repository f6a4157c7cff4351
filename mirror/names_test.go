package mirror

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"instep/destination"
)

// The rules of some file systems.
var (
	linux   = &fileNames{Longest: 255}
	windows = &fileNames{Refused: "\"*:<>?\\|", Ends: " .", Longest: 255, Case: true, Form: true, Devices: true}
)

// suffixes are those of clashes.
var suffixes = regexp.MustCompile(`~[0-9a-f]{8}\b`)

func TestAFileHasTheNameOfItsURLWhereTheFileSystemTakesIt(t *testing.T) {
	long := strings.Repeat("n", 250)
	sum := func(n *fileNames, rest string) string {
		s, err := n.segments(museum, "https://museum.example.org/"+rest)
		if err != nil {
			t.Fatal(err)
		}
		last := s[len(s)-1]
		return last.name(1)[len(last.base)-last.end:][:len("~12345678")]
	}
	for _, c := range []struct{ rest, linux, windows string }{
		{"a/b.txt", "a/b.txt", "a/b.txt"},
		{"100%25%20cotton.pdf", "100% cotton.pdf", "100% cotton.pdf"},
		{"100%25cotton.pdf", "100%cotton.pdf", "100%cotton.pdf"},
		{"M%C3%BCller.pdf", "M\u00fcller.pdf", "M\u00fcller.pdf"},
		{"Mu%CC%88ller.pdf", "Mu\u0308ller.pdf", "Mu\u0308ller.pdf"},
		{"a:b", "a:b", "a%3Ab"},
		{"%2541", "%41", "%41"},
		{"%41", "A", "A"},
		{`b%5Cc`, `b\c`, "b%5Cc"},
		{"%22q%22%3Cr%3E*%7C%3F", `"q"<r>*|?`, "%22q%22%3Cr%3E%2A%7C%3F"},
		{"con.txt/nul", "con.txt/nul", "%63on.txt/%6Eul"},
		{"end./end%20", "end./end ", "end%2E/end%20"},
		{"zero%E2%80%8Dwidth", "zero\u200dwidth", "zero%E2%80%8Dwidth"},
		{"mark%E2%80%AE", "mark\u202e", "mark%E2%80%AE"},
		{long + ".pdf", long + ".pdf", long + ".pdf"},
		{"~user/x~1234567/x~123456789", "~user/x~1234567/x~123456789", "~user/x~1234567/x~123456789"},
		// What no mirror stores as it is.
		{"", "%index", "%index"},
		{"a/", "a/%index", "a/%index"},
		{"%2e%2e/%2e", "%2E./%2E", "%2E%2E/%2E"},
		{".instep/marker", "%2Einstep/marker", "%2Einstep/marker"},
		{"a/.htaccess", "a/%2Ehtaccess", "a/%2Ehtaccess"},
		{"a%2Fb", "a%2Fb", "a%2Fb"},
		{"%00%0a%7f%C2%85", "%00%0A%7F%C2%85", "%00%0A%7F%C2%85"},
		{"latin-%E9", "latin-%E9", "latin-%E9"},
		{"Catalog.db", "%43atalog.db", "%43atalog.db"},
		{"@host/@x", "%40host/@x", "%40host/@x"},
		{"x~12345678", "x%7E12345678", "x%7E12345678"},
		{"x~12345678.pdf", "x%7E12345678.pdf", "x%7E12345678.pdf"},
		{"x~12345678.d/y", "x%7E12345678.d/y", "x%7E12345678.d/y"},
		// A suffix comes before the extension.
		{"view.php?id=3", "view" + sum(linux, "view.php?id=3") + ".php", "view" + sum(windows, "view.php?id=3") + ".php"},
		{"view?id=3.pdf", "view" + sum(linux, "view?id=3.pdf"), "view" + sum(windows, "view?id=3.pdf")},
		{"No.%205%20is%20alive%23x", "No. 5 is alive#x", "No. 5 is alive#x"},
	} {
		for n, want := range map[*fileNames]string{linux: c.linux, windows: c.windows} {
			segments, err := n.segments(museum, "https://museum.example.org/"+c.rest)
			if err != nil {
				t.Errorf("%s: %v", c.rest, err)
				continue
			}
			if got := unhashedPath(segments); got != want {
				t.Errorf("path of %q by %+v\n got %q\nwant %q", c.rest, *n, got, want)
			}
		}
	}
}

func TestClashesGetASuffixWhereTheFileSystemFolds(t *testing.T) {
	rests := []string{"report.pdf", "Report.pdf", "%72eport.pdf", "M%C3%BCller.pdf", "Mu%CC%88ller.pdf", "docs/a", "Docs/b", "report.pdf/x"}
	form := &fileNames{Longest: 255, Form: true}
	for name, c := range map[string]struct {
		rules *fileNames
		want  []string // "~" is the suffix
	}{
		"linux":   {linux, []string{"report.pdf", "Report.pdf", "report~.pdf", "M\u00fcller.pdf", "Mu\u0308ller.pdf", "docs/a", "Docs/b", "report.pdf~/x"}},
		"form":    {form, []string{"report.pdf", "Report.pdf", "report~.pdf", "M\u00fcller.pdf", "Mu\u0308ller~.pdf", "docs/a", "Docs/b", "report.pdf~/x"}},
		"windows": {windows, []string{"report.pdf", "Report~.pdf", "report~.pdf", "M\u00fcller.pdf", "Mu\u0308ller~.pdf", "docs/a", "docs/b", "report.pdf~/x"}},
	} {
		w := newWorld()
		w.rules = c.rules
		var got []string
		for _, rest := range rests {
			got = append(got, suffixes.ReplaceAllString(w.add(t, "https://museum.example.org/"+rest), "~"))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: paths (-want +got):\n%s", name, diff)
		}
	}
}

func TestAMirrorIsMadeByWhatItsFileSystemTakes(t *testing.T) {
	dir := t.TempDir()
	m := openMirror(t, options(dir))
	if runtime.GOOS == "linux" { // on which no tests run where names are folded
		if diff := cmp.Diff(linux, m.names); diff != "" {
			t.Errorf("what the file system takes (-want +got):\n%s", diff)
		}
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(dir, tempKey)); err == nil {
		t.Error("the probe left its directory")
	}
	for _, open := range []func() (*Mirror, error){
		func() (*Mirror, error) { return OpenReadOnly(t.Context(), options(dir)) },
		func() (*Mirror, error) { return Open(t.Context(), options(dir)) },
	} {
		again, err := open()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(m.names, again.names); diff != "" {
			t.Errorf("opened again (-made +opened):\n%s", diff)
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A mirror that an earlier version has made keeps the rules that it began with.
func TestAMirrorWithoutARecordKeepsItsNames(t *testing.T) {
	dir := t.TempDir()
	asBefore(t, dir)
	m := openMirror(t, options(dir))
	commit(t, m, func(b destination.Batch) error {
		return errors.Join(put(b, set, "a:b", "colon", noon), put(b, set, "A", "upper", noon), put(b, set, "a", "lower", noon))
	})
	for name, want := range map[string]string{"a:b": "a%3Ab", "A": "A", "a": "a~"} {
		if got := suffixes.ReplaceAllString(lookup(t, m, set, name).Path, "~"); got != want {
			t.Errorf("%s is at %q, want %q", name, got, want)
		}
	}
}

// asBefore makes a mirror as it was made before there was a record.
func asBefore(t *testing.T, dir string) {
	t.Helper()
	if err := openMirror(t, options(dir)).Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, markerKey)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var mark marker
	if err := json.Unmarshal(text, &mark); err != nil {
		t.Fatal(err)
	}
	mark.Names, mark.Format = nil, markerFormat
	if text, err = json.Marshal(mark); err == nil {
		err = os.WriteFile(name, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
