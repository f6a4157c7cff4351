package resourcesync

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestVerifyReader(t *testing.T) {
	const text = "hello, world"
	h := NewHasher(MD5, SHA256)
	io.WriteString(h, text)
	good := h.Digests()
	h = NewHasher(SHA1)
	io.WriteString(h, "something else")
	mixed := append(good[:2:2], h.Digests()...)

	for _, c := range []struct {
		name   string
		length int64
		ds     Digests
		what   string // of the mismatch, "" if there is none
		got    string // text delivered
	}{
		{"nothing known", -1, nil, "", text},
		{"right length", 12, nil, "", text},
		{"right digests, unknown length", -1, good, "", text},
		{"right length and digests", 12, good, "", text},
		{"absent digests do not count", 12, Digests{{}}, "", text},
		{"more than announced", 5, nil, "length", "hello"},
		{"more than nothing", 0, nil, "length", ""},
		{"less than announced", 13, good, "length", text},
		{"one digest of three differs", 12, mixed, "sha-1", text},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, r := range []io.Reader{
				strings.NewReader(text),
				iotest.OneByteReader(strings.NewReader(text)),
				iotest.DataErrReader(strings.NewReader(text)),
			} {
				v := NewVerifyReader(r, c.length, c.ds)
				got, err := io.ReadAll(v)
				if string(got) != c.got {
					t.Errorf("delivered %q, want %q", got, c.got)
				}
				mismatch, _ := errors.AsType[*MismatchError](err)
				switch {
				case c.what == "" && err != nil:
					t.Errorf("got error %v, want none", err)
				case c.what != "" && (mismatch == nil || mismatch.What != c.what):
					t.Errorf("got error %v, want a mismatch of %s", err, c.what)
				case c.what != "":
					if _, again := v.Read(make([]byte, 1)); again != err {
						t.Errorf("second error %v, want the first again", again)
					}
				}
			}
		})
	}
}

func TestVerifyReaderPassesErrorsOn(t *testing.T) {
	cut := errors.New("connection lost")
	_, err := io.ReadAll(NewVerifyReader(io.MultiReader(strings.NewReader("he"), iotest.ErrReader(cut)), 5, nil))
	if err != cut {
		t.Errorf("got %v, want %v", err, cut)
	}
}

func TestVerifyReaderTellsFurtherDigests(t *testing.T) {
	h := NewHasher(MD5, SHA256)
	h.Write([]byte("some bytes"))
	want := h.Digests()
	for name, ds := range map[string]Digests{"one is checked": want[:1], "both are checked": want, "none is checked": nil} {
		v := NewVerifyReader(strings.NewReader("some bytes"), -1, ds, SHA256, MD5)
		if _, err := io.Copy(io.Discard, v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, d := range want {
			if got := v.Digests().Get(d.Algorithm()); got != d || len(v.Digests()) != 2 {
				t.Errorf("%s: got %v, want both digests", name, v.Digests())
			}
		}
	}
	wrong := NewVerifyReader(strings.NewReader("other bytes"), -1, want[:1], SHA256)
	if _, err := io.Copy(io.Discard, wrong); err == nil {
		t.Error("other bytes: got no error")
	}
}
