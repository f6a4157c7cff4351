package resourcesync

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// digests of the text "abc", as their standards give them
var abc = []struct {
	alg Algorithm
	hex string
}{
	{MD5, "900150983cd24fb0d6963f7d28e17f72"},
	{SHA1, "a9993e364706816aba3e25717850c26c9cd0d89d"},
	{SHA224, "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7"},
	{SHA256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
	{SHA384, "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7"},
	{SHA512, "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"},
}

func TestHasher(t *testing.T) {
	var algs []Algorithm
	var want []string
	for _, a := range abc {
		algs = append(algs, a.alg)
		want = append(want, string(a.alg)+":"+a.hex)
	}
	h := NewHasher(algs...)
	if _, err := io.WriteString(h, "abc"); err != nil {
		t.Fatal(err)
	}
	ds := h.Digests()
	if got := ds.String(); got != strings.Join(want, " ") {
		t.Errorf("got %s, want %s", got, strings.Join(want, " "))
	}
	for i, d := range ds {
		if d.Algorithm() != abc[i].alg || hex.EncodeToString(d.Sum()) != abc[i].hex {
			t.Errorf("%s: got %s %x", abc[i].alg, d.Algorithm(), d.Sum())
		}
		if again, err := NewDigest(d.Algorithm(), d.Sum()); err != nil || again != d {
			t.Errorf("NewDigest: got %v, %v, want %v", again, err, d)
		}
		if ds.Get(d.Algorithm()) != d {
			t.Errorf("Get(%s) does not find it", d.Algorithm())
		}
		if d.Strong() != (i >= 3) {
			t.Errorf("%s strong: got %v", d.Algorithm(), d.Strong())
		}
	}
	if got := ds.Strongest(); got.Algorithm() != SHA512 {
		t.Errorf("strongest is %s", got.Algorithm())
	}
	if !ds.Get("sha-3").IsZero() || !(Digests{}).Strongest().IsZero() {
		t.Error("a digest from nowhere")
	}
}

func TestParseDigestSpellings(t *testing.T) {
	for _, a := range abc {
		raw, _ := hex.DecodeString(a.hex)
		want, err := NewDigest(a.alg, raw)
		if err != nil {
			t.Fatal(err)
		}
		name := string(a.alg)
		for _, s := range []string{
			name + ":" + a.hex,
			strings.ToUpper(name) + ":" + strings.ToUpper(a.hex),
			strings.ReplaceAll(name, "-", "") + ":" + a.hex,
			strings.ReplaceAll(name, "-", "_") + ":" + a.hex,
			name + ":" + base64.StdEncoding.EncodeToString(raw),
			name + ":" + base64.RawStdEncoding.EncodeToString(raw),
			name + ":" + base64.URLEncoding.EncodeToString(raw),
			name + ":" + base64.RawURLEncoding.EncodeToString(raw),
			" " + name + ":" + a.hex + "\n",
		} {
			got, err := ParseDigest(s)
			if err != nil || got != want {
				t.Errorf("%q: got %v, %v, want %v", s, got, err, want)
			}
		}
	}
}

func TestParseDigestRefuses(t *testing.T) {
	for _, c := range []struct {
		in      string
		unknown bool
	}{
		{"", false}, {":", false}, {"md5", false}, {"md5:", false}, {":900150983cd24fb0d6963f7d28e17f72", false},
		{"md5:900150983cd24fb0d6963f7d28e17f7", false},
		{"md5:900150983cd24fb0d6963f7d28e17f7g", false},
		{"md5:a9993e364706816aba3e25717850c26c9cd0d89d", false},
		{"md5 :900150983cd24fb0d6963f7d28e17f72", true},
		{"sha-3:900150983cd24fb0d6963f7d28e17f72", true},
		{"sha:900150983cd24fb0d6963f7d28e17f72", true},
		{"crc32:00000000", true},
		{"sha-256:" + strings.Repeat("é", 32), false},
	} {
		d, err := ParseDigest(c.in)
		if err == nil || !d.IsZero() {
			t.Errorf("%q was read as %v, %v", c.in, d, err)
		}
		if got := errors.Is(err, ErrUnknownAlgorithm); got != c.unknown {
			t.Errorf("%q: unknown algorithm: got %v, want %v", c.in, got, c.unknown)
		}
	}
	if _, err := NewDigest(MD5, make([]byte, 15)); err == nil {
		t.Error("an md5 of 15 bytes was taken")
	}
	if _, err := NewDigest("crc32", make([]byte, 4)); !errors.Is(err, ErrUnknownAlgorithm) {
		t.Errorf("crc32: got %v", err)
	}
}

func TestParseDigestsKeepsWhatCanBeUsed(t *testing.T) {
	ds, err := ParseDigests("\n sha-\n256:" + abc[3].hex + "\tcrc32:00 md5:" + abc[0].hex + " ")
	if err == nil {
		t.Error("no error for what can't be used")
	}
	if diff := cmp.Diff(ds.String(), "md5:"+abc[0].hex); diff != "" {
		t.Errorf("digests (-got +want):\n%s", diff)
	}
	if ds, err := ParseDigests(" \n"); ds != nil || err != nil {
		t.Errorf("white space: got %v, %v", ds, err)
	}
}

func FuzzDigest(f *testing.F) {
	for _, a := range abc {
		f.Add(string(a.alg) + ":" + a.hex)
	}
	f.Add("SHA256:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=")
	f.Add("sha-256:ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0")
	f.Add("md5:\xff\xfe sha-\n256: :")
	addCorpus[string](f)
	f.Fuzz(func(t *testing.T, s string) {
		ds, err := ParseDigests(s)
		if len(ds) == 0 && err == nil && strings.Trim(s, xmlSpace) != "" {
			t.Fatalf("%q: neither digests nor an error", s)
		}
		again, err := ParseDigests(ds.String())
		if err != nil || again.String() != ds.String() {
			t.Fatalf("%q: written as %q, read as %q, %v", s, ds, again, err)
		}
	})
}
