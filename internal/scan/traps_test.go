package scan

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestCat_PUB_06: a tree of traps. Secrets, links and devices stay private, and
// every name is published, percent-encoded byte for byte.
func TestCat_PUB_06(t *testing.T) {
	names := []string{"plain", "a b", "100%", "q?x=1", "h#x", "semi;colon", "amp&<>\"'", "back\\slash", "tab\tnew\nline", "\x01\x7f",
		"latin-\xe9", "utf-é-日本", "e\u0301", "%41", "~tilde", "-rf", "trailing ", "\ufeffbom", "\xff\xfe", "colon:at@", "x."}
	f := setUp(t)
	for _, n := range names {
		f.write("dir/"+n, n)
	}
	f.write(".env", "secret")
	f.write(".git/config", "secret")
	f.write("dir/.htpasswd", "secret")
	f.write("state/catalog.db", "ours")
	f.write("resourcesync/capabilitylist.xml", "ours")
	f.write("private/key", "secret")
	f.Exclude = []string{"private"}
	f.Ours = func(name string) bool { return name == "state" || strings.HasPrefix(name, "resourcesync/") }
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	rel, err := filepath.Rel(f.root, outside)
	if err != nil {
		t.Fatal(err)
	}
	links := map[string]string{
		"out-absolute": outside, "out-relative": rel, "zero": "/dev/zero", "proc": "/proc/self/environ", "up": "..", "self": ".",
		"inside-absolute": f.path("dir/plain"), "dangling": "nothing", "loop": "loop", "dir-link": "dir", "to-env": ".env",
		"to-git": ".git/config", "via-dir-link": "dir-link/plain", "to-ours": "state/catalog.db", "to-excluded": "private/key",
		"through": "dir/../../" + filepath.Base(f.root) + "/dir/plain", "into": "dir/../plain",
		"good": "dir/plain", "dir/good-up": "../dir/plain", "good-chain": "good",
	}
	for name, to := range links {
		f.link(to, name)
	}
	for i := range maxLinks + 1 {
		f.link("chain"+string(rune('a'+i)), "chain"+string(rune('a'+i+1)))
	}
	f.link("dir/plain", "chaina")
	makeFIFO(t, f.path("fifo"))
	listen(t, f.path("socket"))

	r := f.scan()
	want := []string{"dir/good-up", "good", "good-chain"}
	for _, n := range names {
		want = append(want, "dir/"+n)
	}
	for i := range maxLinks {
		want = append(want, "chain"+string(rune('a'+i)))
	}
	got := f.paths()
	slices.Sort(got)
	slices.Sort(want)
	same(t, "published", got, want)
	same(t, "excluded", r.Excluded, map[Reason]int64{Dotfile: 3, Symlink: int64(len(links) - 3 + 2), Special: 2, Ours: 2, Pattern: 1})
	if r.Failures.Count != 0 {
		t.Errorf("failures: %v", r.Failures.First)
	}
	for _, m := range f.members() {
		u, err := url.Parse(m.URI)
		if err != nil || "https://example.org"+u.EscapedPath() != m.URI || u.Path != "/col/"+m.Path {
			t.Errorf("%q has the URI %q, which is %+v, %v", m.Path, m.URI, u, err)
		}
	}
	expect(t, f.scan(), 0, 0, 0, int64(len(want)))
}

// Paths of 4,096 bytes, and longer ones than a system call takes, in names of every
// byte that a name can have.
func TestLongestPathsArePublished(t *testing.T) {
	f := setUp(t)
	var bytes []byte
	for c := byte(255); c > 0; c-- {
		if c != '/' && c != '.' {
			bytes = append(bytes, c)
		}
	}
	name := string(bytes) // of 253 bytes
	root, err := os.OpenRoot(f.root)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	var want []string
	for _, depth := range []int{16, 20} {
		dir := strings.Repeat(name+"/", depth)
		want = append(want, dir+strings.Repeat("x", max(1, 4096-len(dir))))
		if err := root.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := root.WriteFile(want[len(want)-1], []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if len(want[0]) != 4096 {
		t.Fatalf("the first path has %d bytes, want 4096", len(want[0]))
	}
	r := f.scan()
	expect(t, r, int64(len(want)), 0, 0, 0)
	got := f.paths()
	slices.Sort(got)
	slices.Sort(want)
	same(t, "published", got, want)
	for _, m := range f.members() {
		if u, err := url.Parse(m.URI); err != nil || u.Path != "/col/"+m.Path {
			t.Errorf("the URI of a path of %d bytes leads elsewhere: %v", len(m.Path), err)
		}
	}
	expect(t, f.scan(), 0, 0, 0, int64(len(want)))
	same(t, "looked up", looked(f), "")
}

// listen leaves a socket at path, by a short name: they are bounded.
func listen(t *testing.T, path string) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
}

func TestURI(t *testing.T) {
	for path, want := range map[string]string{
		"a/b.txt":     "a/b.txt",
		"a b":         "a%20b",
		"-._~!$&'()*": "-._~!$&'()*",
		"+,;=:@":      "+,;=:@",
		"%41?#[]|\\^": "%2541%3F%23%5B%5D%7C%5C%5E",
		"é\xff\x00":   "%C3%A9%FF%00",
	} {
		if got := URI(base, path); got != base+want {
			t.Errorf("URI(%q) = %q, want %q", path, got, base+want)
		}
	}
}

// Whatever the name: the URI is one, it gives the name back, and so no two names
// have the same.
func FuzzURI(f *testing.F) {
	f.Add("a/b c%")
	f.Add("\xff\n日本")
	f.Fuzz(func(t *testing.T, path string) {
		uri := URI(base, path)
		back, err := url.PathUnescape(strings.TrimPrefix(uri, base))
		if err != nil || back != path {
			t.Errorf("URI(%q) = %q, which is %q, %v", path, uri, back, err)
		}
		for _, c := range []byte(uri) {
			if c <= ' ' || c >= 0x7f || strings.IndexByte("\"<>\\^`{|}?#[]", c) >= 0 {
				t.Errorf("URI(%q) = %q has the byte %q", path, uri, c)
			}
		}
	})
}
