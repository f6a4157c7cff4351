package pack_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"instep/pack"
)

const manifest = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"/>`

// zipOf makes a ZIP file of members: names, each with the same content.
func zipOf(t *testing.T, content string, names ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range names {
		f, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "/") {
			continue
		}
		if _, err := io.WriteString(f, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func open(t *testing.T, b []byte) *pack.Package { return openWith(t, b, pack.Limits{}) }

func openWith(t *testing.T, b []byte, l pack.Limits) *pack.Package {
	t.Helper()
	p, err := pack.Open(bytes.NewReader(b), int64(len(b)), l)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestManifestIsFoundAtTheTopLevel(t *testing.T) {
	for _, c := range []struct {
		members []string
		want    string // its name; "" if there is none
		why     string // part of the error
	}{
		{[]string{"a", "manifest.xml", "b"}, "manifest.xml", ""},
		{[]string{"/manifest.xml", "manifest.xml", "MANIFEST.XML"}, "manifest.xml", ""},
		{[]string{"Manifest.xml", "/manifest.xml"}, "/manifest.xml", ""},
		{[]string{`\manifest.xml`}, `\manifest.xml`, ""},
		{[]string{"./manifest.xml"}, "./manifest.xml", ""},
		{[]string{"Manifest.XML"}, "Manifest.XML", ""},
		{[]string{"../../manifest.xml"}, "", `got "../../manifest.xml"`},
		{[]string{"dump/manifest.xml"}, "", `got "dump/manifest.xml"`},
		{[]string{"manifest.xml/"}, "", "none of the 1 members"},
		{[]string{"a", "manifest.xml.bak"}, "", "none of the 2 members"},
		{[]string{"manifest.xml", "manifest.xml"}, "", "2 members are called"},
		{nil, "", "none of the 0 members"},
	} {
		name, r, err := openWith(t, zipOf(t, manifest, c.members...), pack.Limits{Tolerant: true}).Manifest()
		if c.want == "" {
			if !errors.Is(err, pack.ErrNoManifest) || !strings.Contains(err.Error(), c.why) {
				t.Errorf("%q: got %q, %v; want ErrNoManifest with %q", c.members, name, err, c.why)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", c.members, err)
			continue
		}
		text, err := io.ReadAll(r)
		if name != c.want || err != nil || string(text) != manifest {
			t.Errorf("%q: got %q, %q, %v; want %q", c.members, name, text, err, c.want)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The bytes of a member may come from anywhere, if they are those.
func TestBitstreamIsOpenedFromItsSpan(t *testing.T) {
	content := strings.Repeat("some text. ", 10_000)
	b := zipOf(t, content, "manifest.xml", "a", "b")
	p := open(t, b)
	spans := map[string][]byte{}
	members := map[string]pack.Bitstream{}
	for _, name := range []string{"a", "b"} {
		m, ok := p.Find(name)
		if !ok {
			t.Fatalf("there is no %q", name)
		}
		from, n := m.Span()
		members[name], spans[name] = m, b[from:from+n]
	}
	damaged := bytes.Clone(spans["b"])
	damaged[len(damaged)/2] ^= 1
	for name, c := range map[string]struct {
		span []byte
		most int64
		want error // nil: it is read
	}{
		"its own":            {spans["b"], int64(len(content)), nil},
		"more than its own":  {append(bytes.Clone(spans["b"]), "more"...), int64(len(content)), nil},
		"longer than wanted": {spans["b"], int64(len(content)) - 1, pack.ErrLimit},
		"of another":         {spans["a"], int64(len(content)), pack.ErrAmbiguous},
		"damaged":            {damaged, int64(len(content)), pack.ErrNotZIP},
		"cut off":            {spans["b"][:len(spans["b"])/2], int64(len(content)), pack.ErrNotZIP},
		"none":               {nil, int64(len(content)), pack.ErrNotZIP},
	} {
		text, err := readSpan(members["b"], c.span, c.most)
		if !errors.Is(err, c.want) || err == nil && text != content {
			t.Errorf("%s: got %d bytes, %v; want %v", name, len(text), err, c.want)
		}
	}
}

func readSpan(m pack.Bitstream, span []byte, most int64) (string, error) {
	r, err := m.OpenSpan(bytes.NewReader(span), most)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(r)
	return string(text), errors.Join(err, r.Close())
}

func TestWhatIsNoZIPIsRefused(t *testing.T) {
	whole := zipOf(t, manifest, "manifest.xml")
	for name, b := range map[string][]byte{
		"empty":    nil,
		"text":     []byte("PK, but only in name"),
		"cut":      whole[:len(whole)-10],
		"headless": whole[len(whole)-22:],
	} {
		if _, err := pack.Open(bytes.NewReader(b), int64(len(b)), pack.Limits{}); !errors.Is(err, pack.ErrNotZIP) {
			t.Errorf("%s: got %v, want ErrNotZIP", name, err)
		}
	}
}

func TestLargeDirectoryIsNotRead(t *testing.T) {
	names := make([]string, 1000)
	for i := range names {
		names[i] = strings.Repeat("long/", 40) + string(rune('a'+i%26))
	}
	b := zipOf(t, "", names...)
	_, err := pack.Open(bytes.NewReader(b), int64(len(b)), pack.Limits{Directory: 100 << 10})
	if !errors.Is(err, pack.ErrLimit) {
		t.Errorf("got %v, want ErrLimit", err)
	}
}

func TestLargeManifestIsNotRead(t *testing.T) {
	b := zipOf(t, strings.Repeat(" ", 1<<20), "manifest.xml")
	p, err := pack.Open(bytes.NewReader(b), int64(len(b)), pack.Limits{Manifest: 1<<20 - 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.Manifest(); !errors.Is(err, pack.ErrLimit) {
		t.Errorf("got %v, want ErrLimit", err)
	}
}

// A directory can say that a member is small while its data continues for ever.
func TestManifestThatIsLargerThanSaidFails(t *testing.T) {
	b := zipOf(t, strings.Repeat(" ", 1<<20), "manifest.xml")
	at := bytes.LastIndex(b, []byte("PK\x01\x02"))
	copy(b[at+24:], []byte{1, 0, 0, 0}) // uncompressed size
	_, r, err := open(t, b).Manifest()
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(r); err == nil || len(text) > 64<<10 {
		t.Errorf("got %d bytes, %v; want an error", len(text), err)
	}
}

func TestDamagedManifestFailsBeforeItsEnd(t *testing.T) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	f, err := w.CreateHeader(&zip.FileHeader{Name: "manifest.xml", Method: zip.Store})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(f, manifest); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Replace(b.Bytes(), []byte("<urlset"), []byte("<URLset"), 1)
	_, r, err := open(t, damaged).Manifest()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(r); !errors.Is(err, pack.ErrNotZIP) || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("got %v, want a wrong checksum", err)
	}
}

func TestEncryptedManifestIsRefused(t *testing.T) {
	b := zipOf(t, manifest, "manifest.xml")
	b[bytes.LastIndex(b, []byte("PK\x01\x02"))+8] |= 1
	if _, _, err := openWith(t, b, pack.Limits{Tolerant: true}).Manifest(); err == nil || !strings.Contains(err.Error(), "encrypted") {
		t.Errorf("got %v, want that it is encrypted", err)
	}
}

func TestErrorOfTheReaderIsTold(t *testing.T) {
	broken := errors.New("the disk is gone")
	r := &failingAt{iotest.ErrReader(broken)}
	if _, err := pack.Open(r, 1000, pack.Limits{}); !errors.Is(err, broken) || errors.Is(err, pack.ErrNotZIP) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

type failingAt struct{ r io.Reader }

func (f *failingAt) ReadAt(p []byte, _ int64) (int, error) { return f.r.Read(p) }

func FuzzOpen(f *testing.F) {
	f.Add([]byte("PK\x05\x06"))
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	m, err := w.Create("manifest.xml")
	if err != nil {
		f.Fatal(err)
	}
	_, _ = io.WriteString(m, manifest)
	_ = w.Close()
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		const most = 1 << 16
		p, err := pack.Open(bytes.NewReader(b), int64(len(b)), pack.Limits{Directory: most, Manifest: most})
		if err != nil {
			return
		}
		_, r, err := p.Manifest()
		if err != nil {
			return
		}
		defer r.Close()
		if n, _ := io.Copy(io.Discard, r); n > most {
			t.Errorf("read %d bytes, want at most %d", n, most)
		}
	})
}
