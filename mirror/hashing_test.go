package mirror

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"instep/harvest"
	"instep/resourcesync"
)

// counted counts what is written to it.
type counted struct{ bytes.Buffer }

// Digests that the reader has computed are taken in the order in which the mirror
// keeps them; if one of them is missing, the mirror computes all itself.
func TestHashingTakesWhatIsComputedAlready(t *testing.T) {
	const text = "some bytes"
	by := func(algs ...resourcesync.Algorithm) resourcesync.Digests {
		h := resourcesync.NewHasher(algs...)
		io.WriteString(h, text) // never fails
		return h.Digests()
	}
	w := &harvest.Resource{Digests: by(resourcesync.MD5)}
	want := by(resourcesync.SHA256, resourcesync.MD5)
	for name, tt := range map[string]struct {
		r    io.Reader
		asks bool // the reader for digests
	}{
		"both are computed":  {r: resourcesync.NewVerifyReader(strings.NewReader(text), -1, w.Digests, resourcesync.SHA256), asks: true},
		"one is not":         {r: resourcesync.NewVerifyReader(strings.NewReader(text), -1, w.Digests)},
		"none is":            {r: strings.NewReader(text)},
		"others are as well": {r: resourcesync.NewVerifyReader(strings.NewReader(text), -1, nil, resourcesync.SHA1, resourcesync.MD5, resourcesync.SHA256), asks: true},
	} {
		var o counted
		to, digests := hashing(w, &o, tt.r)
		if _, direct := to.(*counted); direct != tt.asks {
			t.Errorf("%s: asks the reader: got %v, want %v", name, direct, tt.asks)
		}
		if _, err := io.Copy(to, tt.r); err != nil || o.String() != text {
			t.Errorf("%s: got %q, %v; want the bytes", name, &o, err)
		}
		if diff := cmp.Diff(want.String(), digests().String()); diff != "" {
			t.Errorf("%s: digests (-want +got):\n%s", name, diff)
		}
	}
}
