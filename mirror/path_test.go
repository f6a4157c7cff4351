package mirror

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"instep/blob"
	"instep/internal/catalog"
)

// portable are the rules of mirrors that were made before there was a record.
var portable *fileNames

var museum = origin{"https", "museum.example.org", "443"}

func TestPathOfAURIReadsLikeTheURI(t *testing.T) {
	sum := func(s string) string { return segment{text: s, most: maxName}.name(1) }
	for _, c := range []struct{ uri, want string }{
		{"https://museum.example.org/a/b.txt", "a/b.txt"},
		{"HTTPS://Museum.Example.org:443/a", "a"},
		{"https://museum.example.org", "%index"},
		{"https://museum.example.org/", "%index"},
		{"https://museum.example.org/a//b", "a/%index/b"},
		{"https://museum.example.org/a/", "a/%index"},
		{"https://museum.example.org/a%20b.txt", "a b.txt"},
		{"https://museum.example.org/%7euser/%41", "~user/A"},
		{"https://museum.example.org/100%", "100%25"},
		{"https://museum.example.org/%zz%4", "%25zz%254"},
		{"https://museum.example.org/Gem%C3%A4lde", "Gemälde"},
		{"https://museum.example.org/Gema%CC%88lde", "Gemälde"},
		{"https://museum.example.org/%E4", "%E4"},
		{"https://museum.example.org/%FF%CC%88", "%FF%CC%88"},
		{"https://museum.example.org/../../etc/passwd", "%2E%2E/%2E%2E/etc/passwd"},
		{"https://museum.example.org/%2e%2e/%2E", "%2E%2E/%2E"},
		{"https://museum.example.org/a%2fb", "a%2Fb"},
		{`https://museum.example.org/..%5c..\x`, `%2E.%5C..%5Cx`},
		{"https://museum.example.org/%00%1f%7f", "%00%1F%7F"},
		{"https://museum.example.org/C:/x", "C%3A/x"},
		{"https://museum.example.org/.instep/catalog.db", "%2Einstep/%63atalog.db"},
		{"https://museum.example.org/%E2%80%8D.instep/marker", "%E2%80%8D.instep/marker"},
		{"https://museum.example.org/.git/config", "%2Egit/config"},
		{"https://museum.example.org/a./b%20", "a%2E/b%20"},
		{"https://museum.example.org/con/Aux.txt/lpt1/COM%C2%B9.x/nul%20.a", "%63on/%41ux.txt/%6Cpt1/%43OM¹.x/%6Eul .a"},
		{"https://museum.example.org/console/com10", "console/com10"},
		{"https://museum.example.org/@other/@x", "%40other/@x"},
		{"https://museum.example.org/x~12345678/y~ABCDEF0123", "x%7E12345678/y%7EABCDEF0123"},
		{"https://museum.example.org/x~1234567/x~12345678.txt", "x~1234567/x~12345678.txt"},
		{"https://museum.example.org/a?b=1", "a" + sum("https://museum.example.org/a?b=1")},
		{"https://museum.example.org/?b=1", "%index" + sum("https://museum.example.org/?b=1")},
		{"https://museum.example.org/a#b", "a" + sum("https://museum.example.org/a#b")},
		{"http://museum.example.org/a", "@museum.example.org/a"},
		{"https://museum.example.org:8443/a", "@museum.example.org+8443/a"},
		{"https://other.example.org/@a/b", "@other.example.org/@a/b"},
		{"http://[2001:db8::1]:80/a", "@2001%3Adb8%3A%3A1/a"},
		{"http://a+80/x", "@a%2B80/x"},
	} {
		segments, err := portable.segments(museum, c.uri)
		if err != nil {
			t.Errorf("%s: %v", c.uri, err)
			continue
		}
		if got := unhashedPath(segments); got != c.want {
			t.Errorf("path of %q\n got %q\nwant %q", c.uri, got, c.want)
		}
	}
}

// What is split at once has to be split into the same at length.
func TestAHostIsSplitOffAsItIsWritten(t *testing.T) {
	for _, c := range []struct{ home, uri string }{
		{"http://[::1]/", "http://::1/a"}, {"http://[::1]:8080/", "http://::1:8080/a"}, {"http://[fe80::1%25e]/", "http://fe80::1%e/a"},
		{"http://museum.example.org:8080/", "http://museum.example.org:8080/a?b"}, {"https://museum.example.org/", "https://museum.example.org/"},
	} {
		home, err := parseOrigin(c.home)
		if err != nil {
			t.Fatal(err)
		}
		short, ok := home.split(c.uri)
		if p, err := splitURI(c.uri); ok != (err == nil) || ok && p != short {
			t.Errorf("%s, %s: got %v, %v, at length %v, %v", c.home, c.uri, short, ok, p, err)
		}
	}
}

func TestURIsThatCannotBeMirroredAreRefused(t *testing.T) {
	for _, uri := range []string{
		"", "a/b", "/a", "ftp://museum.example.org/a", "file:///etc/passwd", "https:/museum.example.org/a", "https://", "https:///a",
		"https://user:secret@museum.example.org/a", "https://user@museum.example.org/", "https://a b/", "https://museum.example.org:x/",
		"https://museum.example.org/" + strings.Repeat("a", maxURI),
	} {
		if s, err := portable.segments(museum, uri); err == nil {
			t.Errorf("%.60q: got the path %q, want an error", uri, unhashedPath(s))
		}
	}
}

func TestLongNamesAndPathsAreCut(t *testing.T) {
	long := strings.Repeat("ä", 150) // 300 bytes
	for _, rest := range []string{
		long, long + "/" + long + "/x", strings.Repeat("a/", 3000) + "x", strings.Repeat(long[:180]+"/", 40) + "x",
		strings.Repeat("%FF", 90), strings.Repeat("x", 255), strings.Repeat("x", 201) + "/y",
	} {
		uri := "https://museum.example.org/" + rest
		checkPath(t, uri, mustPath(t, uri))
	}
	a, b := mustPath(t, "https://museum.example.org/"+long+"/a"), mustPath(t, "https://museum.example.org/"+long+"/b")
	if a[:len(a)-1] != b[:len(b)-1] {
		t.Errorf("siblings in a directory with a long name are apart: %q and %q", a, b)
	}
}

func mustPath(t testing.TB, uri string) string {
	t.Helper()
	segments, err := portable.segments(museum, uri)
	if err != nil {
		t.Fatalf("%q: %v", uri, err)
	}
	return unhashedPath(segments)
}

// checkPath fails unless path is one that every file system takes as it is.
func checkPath(t testing.TB, uri, path string) {
	t.Helper()
	if err := blob.ValidKey(path); err != nil {
		t.Fatalf("%q: %v", uri, err)
	}
	if len(path) > maxNatural+maxSegments*len("~12345678") {
		t.Fatalf("%q: a path of %d bytes", uri, len(path))
	}
	if !norm.NFC.IsNormalString(path) || !utf8.ValidString(path) {
		t.Fatalf("%q: path %q is not in NFC", uri, path)
	}
	for _, r := range path {
		if r != ' ' && !unicode.IsPrint(r) || strings.ContainsRune(`\:*?"<>|`, r) {
			t.Fatalf("%q: path %q holds %q", uri, path, r)
		}
	}
	names := strings.Split(path, "/")
	if len(names) > maxSegments {
		t.Fatalf("%q: %d segments", uri, len(names))
	}
	for _, name := range names {
		if name[0] == '.' || strings.HasSuffix(name, ".") || strings.HasSuffix(name, " ") || device.MatchString(name) {
			t.Fatalf("%q: path %q has the name %q", uri, path, name)
		}
	}
}

func FuzzPath(f *testing.F) {
	for _, s := range []string{"/a/b.txt", "/../..%2f%5c", "/%00", "/.instep/tmp/x", "//", "/a?b#c", "/con.txt", "/e%CC%81", "/\xff\u0327", "/x~12345678"} {
		f.Add("https://museum.example.org" + s)
		f.Add("http://other.example.org:8080" + s)
		f.Add(s[1:])
	}
	f.Fuzz(func(t *testing.T, uri string) {
		if short, ok := museum.split(uri); ok {
			if p, err := splitURI(uri); err != nil || p != short {
				t.Fatalf("%q is split into %v, at length into %v, %v", uri, short, p, err)
			}
		}
		if isPlain(uri) && escape(uri, nil, unsafeRune) != uri {
			t.Fatalf("%q counts as plain, and is escaped to %q", uri, escape(uri, nil, unsafeRune))
		}
		segments, err := portable.segments(museum, uri)
		if err != nil {
			return
		}
		path := unhashedPath(segments)
		checkPath(t, uri, path)
		place, err := (&placer{names: newWorld(), blocked: vacant}).put(segments)
		if err != nil || place.Path != path {
			t.Fatalf("%q in an empty mirror: got %q and %v, want %q", uri, place.Path, err, path)
		}
		for level := segments[0].level; level <= maxLevel; level++ {
			checkPath(t, uri, segments[0].name(level))
		}
		for _, rules := range []*fileNames{linux, windows} {
			w := newWorld()
			w.rules = rules
			checkNames(t, rules, uri, w.add(t, uri))
		}
	})
}

// world is the names of a mirror in memory.
type world struct {
	rules *fileNames
	files map[string]string
	dirs  map[string]string
}

func newWorld() *world {
	return &world{files: map[string]string{}, dirs: map[string]string{}}
}

func (w *world) File(fold string) (bool, error) {
	_, ok := w.files[fold]
	return ok, nil
}

func (w *world) Directory(fold string) (string, bool, error) {
	path, ok := w.dirs[fold]
	return path, ok, nil
}

func (w *world) add(t testing.TB, uri string) string {
	t.Helper()
	segments, err := w.rules.segments(museum, uri)
	if err != nil {
		t.Fatal(err)
	}
	place, err := (&placer{names: w, rules: w.rules, blocked: vacant}).put(segments)
	if err != nil {
		t.Fatal(err)
	}
	w.take(t, uri, place)
	return place.Path
}

// take fails if the place breaks what makes it unique on every file system.
func (w *world) take(t testing.TB, uri string, p catalog.Place) {
	t.Helper()
	for _, d := range p.Directories {
		if by, ok := w.files[w.rules.key(d)]; ok {
			t.Fatalf("%q: directory %q is the file of %q", uri, d, by)
		}
		w.dirs[w.rules.key(d)] = d
	}
	if by, ok := w.files[w.rules.key(p.Path)]; ok {
		t.Fatalf("%q and %q are both at %q", uri, by, p.Path)
	}
	if _, ok := w.dirs[w.rules.key(p.Path)]; ok {
		t.Fatalf("%q: file %q is a directory", uri, p.Path)
	}
	for dir := p.Path; strings.Contains(dir, "/"); {
		dir = dir[:strings.LastIndexByte(dir, '/')]
		if got := w.dirs[w.rules.key(dir)]; got != dir {
			t.Fatalf("%q: directory of %q is known as %q", uri, p.Path, got)
		}
	}
	w.files[w.rules.key(p.Path)] = uri
}

func TestClashesGetASuffix(t *testing.T) {
	w := newWorld()
	var got []string
	for _, rest := range []string{"a", "a/b", "a/c", "A", "Docs/x", "docs/y", "docs", "e%CC%81", "%C3%A9", "%C3%89", "s%61me", "same"} {
		got = append(got, w.add(t, "https://museum.example.org/"+rest))
	}
	suffix := func(rest string) string {
		return segment{most: maxName, text: "https://museum.example.org/" + rest}.name(1)
	}
	want := []string{
		"a", "a" + suffix("a/") + "/b", "a" + suffix("a/") + "/c", "A" + suffix("A"),
		"Docs/x", "Docs/y", "docs" + suffix("docs"),
		"é", "é" + suffix("%C3%A9"), "É" + suffix("%C3%89"), "same", "same" + suffix("same"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}

// nastyParts are pieces of URIs that meet after decoding, folding or cutting.
var nastyParts = []string{
	"a", "A", "%61", "b", "B", "ß", "ss", "SS", "e%CC%81", "%C3%A9", "É", "/", "/", "//", "%2F", ".", "..", "%2e", "?q", "#f", "%", "%index",
	"con", "CON.", " ", "%20", "~", "~12345678", "\ufb00", "ff", "K", "\u212a", "İ", "i̇", "\u200d", "\ufe0f", "%FF", "%EF%AC%80", "x", "X",
	"1", "~0000000", "@", "@h", "+80", ":", "%00", "Å", "\u212b", "A\u030a", "ΐ", "Ϊ́", "\u0345", "ͅα", strings.Repeat("l", 199), strings.Repeat("L", 199),
}

func nastyURI(pick func(n int) int) string {
	origins := []string{"https://museum.example.org", "https://museum.example.org", "http://museum.example.org", "https://other.example.org:8080"}
	var b strings.Builder
	b.WriteString(origins[pick(len(origins))])
	b.WriteByte('/')
	for range 1 + pick(5) {
		b.WriteString(nastyParts[pick(len(nastyParts))])
	}
	return b.String()
}

// TestCat_STO_01: whatever the URI, its path leads nowhere but into the mirror.
func TestCat_STO_01(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		uri := nastyURI(rng.IntN)
		checkPath(t, uri, mustPath(t, uri))
	}
	for _, hostile := range []string{
		"/../../x", "/%2e%2e/%2e%2e/x", "/..%2f..%2fx", "/..%5c..%5cx", "//etc/passwd", "/%2fetc%2fpasswd", "/a%00b", "/C:%5cx",
		"/.instep/marker", "/%2einstep/marker", "/.INSTEP/marker", "/.instep%20/marker", "/.instep./x", "/.instep::$DATA", "/.git/hooks/x",
		"/%E2%80%8C.instep/x", "/\u200c.instep/x", "/.instep\ufe0f/x",
	} {
		uri := "https://museum.example.org" + hostile
		path := mustPath(t, uri)
		checkPath(t, uri, path)
		if first, _, _ := strings.Cut(path, "/"); strings.EqualFold(first, ".instep") {
			t.Errorf("%q lies at %q", uri, path)
		}
	}
}

// TestCat_STO_02: no two URIs share a file, and no file is a directory, whatever the file
// system takes for one name.
func TestCat_STO_02(t *testing.T) {
	for name, rules := range map[string]*fileNames{"portable": portable, "linux": linux, "windows": windows} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, 4))
			w, seen := newWorld(), map[string]bool{}
			w.rules = rules
			for len(seen) < 150_000 {
				uri := nastyURI(rng.IntN)
				if seen[uri] {
					continue
				}
				seen[uri] = true
				checkNames(t, rules, uri, w.add(t, uri))
			}
		})
	}
}

func checkNames(t testing.TB, rules *fileNames, uri, path string) {
	t.Helper()
	if err := blob.ValidKey(path); err != nil {
		t.Fatalf("%q: %v", uri, err)
	}
	if !rules.accepts(path) || path[0] == '.' || strings.Contains(path, "/.") {
		t.Fatalf("%q: path %q is none that the file system takes", uri, path)
	}
	if rules == nil && !norm.NFC.IsNormalString(path) {
		t.Fatalf("%q: path %q is not in NFC", uri, path)
	}
}

func TestPlacesDependOnNothingButTheOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		pick := func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "pick") }
		var uris []string
		seen := map[string]bool{}
		for range rapid.IntRange(1, 40).Draw(rt, "n") {
			if u := nastyURI(pick); !seen[u] {
				seen[u] = true
				uris = append(uris, u)
			}
		}
		var runs [2]string
		for i := range runs {
			w := newWorld()
			for _, u := range uris {
				runs[i] += fmt.Sprintln(w.add(t, u))
			}
		}
		if runs[0] != runs[1] {
			rt.Fatalf("got %s and %s", runs[0], runs[1])
		}
	})
}

// A foreign file may be in the way of the suffixed name as well.
func TestBlockedNamesAreLengthened(t *testing.T) {
	w := newWorld()
	w.add(t, "https://museum.example.org/a")
	uri := "https://museum.example.org/A"
	segments, err := portable.segments(museum, uri)
	if err != nil {
		t.Fatal(err)
	}
	short := unhashedPath(segments) + segments[0].name(1)[1:]
	p := placer{names: w, blocked: func(path string, _ bool) (bool, error) { return path == short, nil }}
	got, err := p.put(segments)
	if want := segments[0].name(2); err != nil || got.Path != want {
		t.Errorf("got %q and %v, want %q", got.Path, err, want)
	}
}

// vacant says that nothing is in the way.
func vacant(string, bool) (bool, error) { return false, nil }
