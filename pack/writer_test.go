package pack_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"instep/pack"
	"instep/resourcesync"
)

// memberOf is a member without a path, with length and digest.
func memberOf(uri, content string) pack.Member {
	h := resourcesync.NewHasher(resourcesync.SHA256)
	io.WriteString(h, content)
	m := pack.Member{Open: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(content)), nil
	}}
	m.Loc, m.Length, m.Digests = uri, resourcesync.Bytes(int64(len(content))), h.Digests()
	return m
}

// membersOf has one member for each content, every other of them text.
func membersOf(contents ...string) []pack.Member {
	var members []pack.Member
	for i, content := range contents {
		m := memberOf(fmt.Sprintf("https://example.org/item/%d.dat", i), content)
		m.Path, m.Type = pack.PathOf(i+1, m.Loc), "text/plain"
		if i%2 == 1 {
			m.Type = "image/png"
		}
		members = append(members, m)
	}
	return members
}

func writeManifest(w io.Writer) error {
	_, err := io.WriteString(w, manifest)
	return err
}

func packed(t testing.TB, w pack.Writer, members []pack.Member) []byte {
	t.Helper()
	var b bytes.Buffer
	n, err := w.Write(context.Background(), &b, writeManifest, members)
	if err != nil {
		t.Fatal(err)
	}
	if n != int64(b.Len()) {
		t.Errorf("size: got %d, want %d", n, b.Len())
	}
	return b.Bytes()
}

// unpack reads a package with archive/zip.
func unpack(b []byte) (names, contents []string, err error) {
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, nil, err
	}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			return nil, nil, err
		}
		content, err := io.ReadAll(r)
		if err != nil {
			return nil, nil, err
		}
		names, contents = append(names, f.Name), append(contents, string(content))
	}
	return names, contents, nil
}

func noise(n int) string {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(n)}).Read(b)
	return string(b)
}

// sizes has an empty member, small ones, those around what is held, and large ones.
func sizes() []string {
	const held = 256 << 10
	return []string{
		"", "a", "two", strings.Repeat("text ", 5_000), noise(4_000),
		strings.Repeat("x", held), noise(held), strings.Repeat("y", held+1), noise(held + 1), strings.Repeat("z ", 1<<20), noise(3 << 20),
	}
}

func TestPackageHoldsTheManifestAndThenTheMembers(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, w := range []pack.Writer{{}, {StoreOnly: true}, {Readers: 1}, {Readers: 7}} {
		t.Run(fmt.Sprintf("%+v", w), func(t *testing.T) {
			members := membersOf(sizes()...)
			names, contents, err := unpack(packed(t, w, members))
			if err != nil {
				t.Fatal(err)
			}
			wantNames, wantContents := []string{"manifest.xml"}, append([]string{manifest}, sizes()...)
			for _, m := range members {
				wantNames = append(wantNames, strings.TrimPrefix(m.Path, "/"))
			}
			if diff := cmp.Diff(wantNames, names); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
			for i := range contents {
				if contents[i] != wantContents[i] {
					t.Errorf("%q: got %d bytes, want %d others", names[i], len(contents[i]), len(wantContents[i]))
				}
			}
		})
	}
}

func TestSameMembersGiveTheSameBytes(t *testing.T) {
	one := packed(t, pack.Writer{Readers: 1}, membersOf(sizes()...))
	for range 5 {
		if !bytes.Equal(one, packed(t, pack.Writer{Readers: 5}, membersOf(sizes()...))) {
			t.Fatal("two packages of the same members differ")
		}
	}
}

func TestMediaTypeDecidesOnCompression(t *testing.T) {
	text := strings.Repeat("a word and ", 500)
	for _, c := range []struct {
		mediaType, encoding string
		storeOnly           bool
		want                uint16
	}{
		{"text/plain", "", false, zip.Deflate},
		{"text/html; charset=utf-8", "", false, zip.Deflate},
		{"application/rdf+xml", "", false, zip.Deflate},
		{"APPLICATION/JSON", "", false, zip.Deflate},
		{"text/plain", "", true, zip.Store},
		{"text/plain", "gzip", false, zip.Store},
		{"image/jpeg", "", false, zip.Store},
		{"application/pdf", "", false, zip.Store},
		{"", "", false, zip.Store},
	} {
		m := membersOf(text)
		m[0].Type, m[0].Encoding = c.mediaType, c.encoding
		b := packed(t, pack.Writer{StoreOnly: c.storeOnly}, m)
		z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		if got := z.File[1].Method; got != c.want {
			t.Errorf("%+v: got method %d", c, got)
		}
	}
}

func TestWhatDoesNotBecomeSmallerIsStored(t *testing.T) {
	b := packed(t, pack.Writer{}, membersOf(noise(1_000)))
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	if got := z.File[1].Method; got != zip.Store {
		t.Errorf("got method %d, want %d", got, zip.Store)
	}
}

func TestDeletionIsNoMember(t *testing.T) {
	members := membersOf("a", "b")
	members[0] = pack.Member{Entry: resourcesync.Entry{Loc: members[0].Loc, Metadata: resourcesync.Metadata{Change: resourcesync.Deleted}}}
	names, _, err := unpack(packed(t, pack.Writer{}, members))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"manifest.xml", "000/000002-1.dat"}, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestMembersHaveTheTimeOfTheirResource(t *testing.T) {
	for _, c := range []struct{ lastMod, want string }{
		{"2026-03-04T05:06:07Z", "2026-03-04T05:06:07Z"},
		{"2026-03-04T05:06:07+02:00", "2026-03-04T03:06:07Z"},
		{"1971-01-01T00:00:00Z", "1971-01-01T00:00:00Z"},
		{"2040-01-01T00:00:00Z", "2040-01-01T00:00:00Z"}, // by MS-DOS time alone
		{"1601-01-01T00:00:00Z", "1980-01-01T00:00:00Z"},
		{"9999-01-01T00:00:00Z", "1980-01-01T00:00:00Z"},
		{"", "1980-01-01T00:00:00Z"},
	} {
		members := membersOf("held", noise(300<<10))
		for i := range members {
			if err := members[i].LastMod.UnmarshalText([]byte(c.lastMod)); err != nil {
				t.Fatal(err)
			}
		}
		b := packed(t, pack.Writer{}, members)
		z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range z.File[1:] {
			if got := f.Modified.UTC().Format(time.RFC3339); got != c.want {
				t.Errorf("lastmod %q of %q: got %s, want %s", c.lastMod, f.Name, got, c.want)
			}
		}
	}
}

func TestMemberThatIsNotAsItsEntrySaysIsNamed(t *testing.T) {
	defer goleak.VerifyNone(t)
	gone := errors.New("gone")
	yields := func(content string) func(*pack.Member) {
		return func(m *pack.Member) {
			m.Open = func(context.Context) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(content)), nil }
		}
	}
	for _, size := range []int{10, 300 << 10} {
		content := noise(size)
		for name, c := range map[string]struct {
			spoil    func(*pack.Member)
			mismatch bool
		}{
			"longer":     {yields(content + "x"), true},
			"shorter":    {yields(content[1:]), true},
			"changed":    {yields("x" + content[1:]), true},
			"not opened": {func(m *pack.Member) { m.Open = func(context.Context) (io.ReadCloser, error) { return nil, gone } }, false},
			"cut": {func(m *pack.Member) {
				m.Open = func(context.Context) (io.ReadCloser, error) {
					return io.NopCloser(io.MultiReader(strings.NewReader(content[:5]), failing{gone})), nil
				}
			}, false},
			"no bytes":         {func(m *pack.Member) { m.Open = nil }, false},
			"path not rooted":  {func(m *pack.Member) { m.Path = "a" }, false},
			"path of nothing":  {func(m *pack.Member) { m.Path = "/" }, false},
			"path not unicode": {func(m *pack.Member) { m.Path = "/\xff" }, false},
		} {
			t.Run(fmt.Sprintf("%s/%d", name, size), func(t *testing.T) {
				members := membersOf("a", content, "c")
				c.spoil(&members[1])
				_, err := new(pack.Writer).Write(t.Context(), io.Discard, writeManifest, members)
				failed, ok := errors.AsType[*pack.MemberError](err)
				if !ok || failed.URI != members[1].Loc {
					t.Fatalf("got %v, want a MemberError of %q", err, members[1].Loc)
				}
				if _, got := errors.AsType[*resourcesync.MismatchError](err); got != c.mismatch {
					t.Errorf("got %v: is it a mismatch? %v, want %v", err, got, c.mismatch)
				}
			})
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error)  { return 0, f.err }
func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestErrorOfTheOutputIsTold(t *testing.T) {
	full := errors.New("disk full")
	for _, size := range []int{0, 10, 1 << 20} {
		members := membersOf(noise(size), noise(size))
		_, err := new(pack.Writer).Write(t.Context(), failing{full}, writeManifest, members)
		if !errors.Is(err, full) {
			t.Errorf("members of %d bytes: got %v, want %v", size, err, full)
		}
		if _, ok := errors.AsType[*pack.MemberError](err); ok {
			t.Errorf("members of %d bytes: %v blames a member", size, err)
		}
	}
}

func TestErrorOfTheManifestIsTold(t *testing.T) {
	bad := errors.New("bad entry")
	_, err := new(pack.Writer).Write(t.Context(), io.Discard, func(io.Writer) error { return bad }, nil)
	if !errors.Is(err, bad) {
		t.Errorf("got %v, want %v", err, bad)
	}
}

func TestCancelledWriteEnds(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, size := range []int{10, 1 << 20} {
		ctx, cancel := context.WithCancel(t.Context())
		members := membersOf(make([]string, 1_000)...)
		for i := range members {
			content := noise(size)
			members[i].Length, members[i].Digests = resourcesync.Bytes(int64(size)), nil
			members[i].Open = func(context.Context) (io.ReadCloser, error) {
				if i == 100 {
					cancel()
				}
				return io.NopCloser(strings.NewReader(content)), nil
			}
			if i > 300 {
				members[i].Open = func(context.Context) (io.ReadCloser, error) {
					t.Error("a member was opened long after the cancellation")
					return nil, io.EOF
				}
			}
		}
		if _, err := new(pack.Writer).Write(ctx, io.Discard, writeManifest, members); !errors.Is(err, context.Canceled) {
			t.Errorf("members of %d bytes: got %v, want context.Canceled", size, err)
		}
		cancel()
	}
}

// TestWhatIsReadAheadIsBounded: no more members are opened than may wait.
func TestWhatIsReadAheadIsBounded(t *testing.T) {
	const readers, each = 2, 8
	members := membersOf(make([]string, 100)...)
	opened := make(chan struct{}, len(members))
	most := 0
	for i := range members {
		content := members[i].Open
		members[i].Open = func(ctx context.Context) (io.ReadCloser, error) {
			opened <- struct{}{}
			return content(ctx)
		}
	}
	first := members[0].Open
	members[0].Open = func(ctx context.Context) (io.ReadCloser, error) {
		for range readers*each - 1 {
			<-opened // the others, by the other reader
		}
		select {
		case <-opened:
			most++
		default:
		}
		return first(ctx)
	}
	packed(t, pack.Writer{Readers: readers}, members)
	if most != 0 {
		t.Errorf("got more than %d members read ahead", readers*each)
	}
}

func TestRandomMembersComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		contents := rapid.SliceOfN(rapid.String(), 0, 80).Draw(t, "contents")
		w := pack.Writer{StoreOnly: rapid.Bool().Draw(t, "store"), Readers: rapid.IntRange(0, 4).Draw(t, "readers")}
		var b bytes.Buffer
		if _, err := w.Write(t.Context(), &b, writeManifest, membersOf(contents...)); err != nil {
			t.Fatal(err)
		}
		_, got, err := unpack(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(append([]string{manifest}, contents...), got); diff != "" {
			t.Errorf("contents (-want +got):\n%s", diff)
		}
	})
}

// TestDamageIsDetected: a package that was cut, or in which a bit was flipped, is
// either refused or gives bytes that the manifest contradicts; here, other bytes.
func TestDamageIsDetected(t *testing.T) {
	contents := []string{"one", strings.Repeat("text ", 400), noise(700)}
	whole := packed(t, pack.Writer{}, membersOf(contents...))
	want := append([]string{manifest}, contents...)
	for n := range len(whole) {
		if _, _, err := unpack(whole[:n]); err == nil {
			t.Fatalf("cut to %d of %d bytes: got no error", n, len(whole))
		}
	}
	for i := range whole {
		b := bytes.Clone(whole)
		b[i] ^= 1 << (i % 8)
		if _, got, err := unpack(b); err == nil && !cmp.Equal(got, want) {
			t.Fatalf("a bit of byte %d flipped: got other bytes and no error", i)
		}
	}
}

// testers are programs that test a package, with the package as their last argument
// or, if input is set, on their standard input.
var testers = []struct {
	name  string
	args  []string
	input bool
}{
	{"unzip", []string{"-tqq"}, false},
	{"zipinfo", []string{"-1"}, false},
	{"7z", []string{"t", "-bso0"}, false},
	{"bsdtar", []string{"-xOf"}, false},
	{"bsdtar", []string{"-xOf", "-"}, true},
	{"jar", []string{"t"}, true},
	{"python3", []string{"-c", "import sys, zipfile; sys.exit(zipfile.ZipFile(sys.argv[1]).testzip())"}, false},
}

// acceptedByOthers has other programs test a package, but for those left out.
func acceptedByOthers(t *testing.T, b []byte, except ...string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "package.zip")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range testers {
		name := p.name
		if p.input {
			name += " of a stream"
		}
		if slices.Contains(except, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			tool, err := exec.LookPath(p.name)
			if err != nil {
				t.Skipf("SKIPPED: %s is not installed, so it has not tested the package", p.name)
			}
			cmd := exec.CommandContext(t.Context(), tool, p.args...)
			if p.input {
				cmd.Stdin = bytes.NewReader(b)
			} else {
				cmd.Args = append(cmd.Args, file)
			}
			var said bytes.Buffer
			cmd.Stderr = &said
			if err := cmd.Run(); err != nil || said.Len() > 0 {
				t.Errorf("%s: %v: %s", p.name, err, said.String())
			}
		})
	}
}

func TestOtherProgramsAcceptPackages(t *testing.T) {
	members := membersOf(sizes()...)
	members[1].Path = "/ordner/größe.txt"
	for i := range members {
		members[i].LastMod = resourcesync.DatetimeOf(time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC))
	}
	for _, w := range []pack.Writer{{}, {StoreOnly: true}} {
		t.Run(fmt.Sprintf("store=%v", w.StoreOnly), func(t *testing.T) {
			acceptedByOthers(t, packed(t, w, members))
		})
	}
}

func TestOtherProgramsAcceptPackagesOfManyMembers(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: a package of 70,000 members takes a while; run without -short")
	}
	b := packed(t, pack.Writer{}, membersOf(make([]string, 70_000)...))
	acceptedByOthers(t, b)
	_, r, err := open(t, b).Manifest() // its directory is within the bounds of our own reader
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || string(got) != manifest {
		t.Errorf("got %q, %v, want %q", got, err, manifest)
	}
}

// zeros is n bytes that are 0.
type zeros struct{ n int64 }

func (z *zeros) Read(p []byte) (int, error) {
	if z.n == 0 {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), z.n)]
	clear(p)
	z.n -= int64(len(p))
	return len(p), nil
}

func TestOtherProgramsAcceptMembersOverFourGigabytes(t *testing.T) {
	if os.Getenv("INSTEP_LONG") == "" {
		t.Skip("SKIPPED: set INSTEP_LONG to pack 5 GiB")
	}
	const size = 5 << 30
	members := membersOf("before", "", "after")
	members[1].Type, members[1].Digests, members[1].Length = "text/plain", nil, resourcesync.Bytes(size)
	members[1].Open = func(context.Context) (io.ReadCloser, error) { return io.NopCloser(&zeros{size}), nil }
	// A stream has no directory, from which bsdtar would know that sizes have 64 bits.
	acceptedByOthers(t, packed(t, pack.Writer{}, members), "bsdtar of a stream")
}

func TestPathsArePortable(t *testing.T) {
	for _, c := range []struct {
		n    int
		uri  string
		want string
	}{
		{1, "https://example.org/a/report.pdf", "/000/000001-report.pdf"},
		{12_345, "https://example.org/a/report.pdf?x=/y#z/w", "/012/012345-report.pdf"},
		{2, "https://example.org/", "/000/000002"},
		{2, "https://example.org", "/000/000002"},
		{2, "https://example.org/dir/", "/000/000002-dir"},
		{3, "https://example.org/..%2F..%2Fetc%2Fpasswd", "/000/000003-etc-passwd"},
		{3, "https://example.org/a%00b%0A.txt", "/000/000003-a-b-.txt"},
		{4, "https://example.org/gr%C3%B6%C3%9Fe.txt", "/000/000004-gr--e.txt"},
		{5, "https://example.org/CON.", "/000/000005-CON"},
		{6, "https://example.org/" + strings.Repeat("long", 30) + ".jpeg", "/000/000006-" + strings.Repeat("long", 8) + "lon.jpeg"},
		{7, "https://example.org/a." + strings.Repeat("b", 60), "/000/000007-a." + strings.Repeat("b", 38)},
		{8, "urn:uuid:1", "/000/000008"},
		{9, "https://example.org/%zz", "/000/000009-zz"},
		{10, "https://example.org/...", "/000/000010"},
	} {
		if got := pack.PathOf(c.n, c.uri); got != c.want {
			t.Errorf("PathOf(%d, %q): got %q, want %q", c.n, c.uri, got, c.want)
		}
	}
}

// FuzzPathOf: whatever the URI, the Encoder takes the path, and no two are alike.
func FuzzPathOf(f *testing.F) {
	f.Add(1, "https://example.org/a/../b.txt")
	f.Add(50_000, "https://example.org/%2e%2e/")
	f.Fuzz(func(t *testing.T, n int, uri string) {
		n = max(1, min(n, resourcesync.MaxEntries))
		got := pack.PathOf(n, uri)
		if strings.Trim(got, "/0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._-") != "" || len(got) > 60 {
			t.Errorf("PathOf(%d, %q) = %q has more than letters, digits, dots, or is too long", n, uri, got)
		}
		if !strings.HasPrefix(got, fmt.Sprintf("/%03d/%06d", n/1000, n)) {
			t.Errorf("PathOf(%d, %q) = %q does not begin with its number", n, uri, got)
		}
		h := resourcesync.Header{Links: []resourcesync.Link{{Rel: "up", Href: "https://example.org/c"}}}
		h.Capability, h.At = resourcesync.CapabilityResourceDumpManifest, resourcesync.DatetimeOf(time.Unix(0, 0))
		enc, err := resourcesync.NewEncoder(io.Discard, h)
		if err != nil {
			t.Fatal(err)
		}
		if err := enc.Encode(resourcesync.Entry{Loc: "https://example.org/r", Metadata: resourcesync.Metadata{Path: got}}); err != nil {
			t.Errorf("PathOf(%d, %q): %v", n, uri, err)
		}
	})
}
