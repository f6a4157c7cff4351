package patch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

func TestKindOf(t *testing.T) {
	for text, want := range map[string]Kind{
		"application/json-patch+json":          JSON,
		"application/json-patch":               JSON, // as in Example 27
		"Application/JSON-Patch+JSON; a=b":     JSON,
		"application/zstd":                     Zstd,
		"application/vcdiff":                   VCDIFF,
		"application/x-tiff-diff":              "",
		"application/patch-ops-error+xml":      "",
		"":                                     "",
		"application/json-patch+json; broken=": "",
	} {
		got, known := KindOf(text)
		if got != want || known != (want != "") {
			t.Errorf("KindOf(%q) = %q, %t, want %q", text, got, known, want)
		}
	}
}

func TestBest(t *testing.T) {
	list := func(changed string) []byte {
		var b strings.Builder
		for i := range 100 {
			title := fmt.Sprint("object ", i)
			if i == 50 {
				title = changed
			}
			fmt.Fprintf(&b, `{"id":%d,"title":%q,"price":1.10,"n":12345678901234567890},`, i, title)
		}
		return []byte(`[` + strings.TrimSuffix(b.String(), ",") + `]`)
	}
	pretty := func(text []byte) []byte {
		var b bytes.Buffer
		if err := json.Indent(&b, text, "", "  "); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	for name, c := range map[string]struct {
		mediaType     string
		before, after []byte
		want          Kind
	}{
		"compact JSON":              {"application/json", list("a"), list("b"), JSON},
		"with < and &":              {"application/ld+json", list("a"), list("<b> & c"), JSON},
		"JSON that is laid out":     {"application/json", pretty(list("a")), pretty(list("b")), Zstd},
		"JSON of another type":      {"text/plain", list("a"), list("b"), Zstd},
		"not JSON after all":        {"application/json", []byte(strings.Repeat("no JSON ", 50)), []byte(strings.Repeat("no JSON ", 50) + "!"), Zstd},
		"nothing in common":         {"text/plain", list("a"), noise(1, 1000), ""},
		"too small to pay":          {"text/plain", []byte("a short text"), []byte("a short text."), ""},
		"from nothing":              {"text/plain", nil, noise(1, 1000), ""},
		"to nothing":                {"text/plain", list("a"), nil, ""},
		"longer than what is taken": {"text/plain", make([]byte, MaxBytes+1), list("a"), ""},
	} {
		kind, made, err := Best(t.Context(), c.mediaType, c.before, c.after)
		if err != nil || kind != c.want {
			t.Errorf("%s: %q, %v, want %q", name, kind, err, c.want)
			continue
		}
		if kind == "" {
			continue
		}
		got, err := Apply(t.Context(), kind, c.before, made, int64(len(c.after)))
		if err != nil || !bytes.Equal(got, c.after) {
			t.Errorf("%s: applying %d bytes: %v, equal: %t", name, len(made), err, bytes.Equal(got, c.after))
		}
		if 2*len(made) >= len(c.after) {
			t.Errorf("%s: the patch has %d bytes, the whole %d", name, len(made), len(c.after))
		}
	}
}

// The longest versions are patched too: only the slowest encoder finds what they share.
func TestZstdOfLongVersions(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: versions of 16 MiB take a while; run without -short")
	}
	before := noise(1, MaxBytes-6)
	after := append([]byte("before"), before...)
	made, err := Make(t.Context(), Zstd, before, after)
	if err != nil || made == nil || len(made) > 4_000 {
		t.Errorf("the patch has %d bytes, %v", len(made), err)
	}
	t.Logf("%d bytes for %d", len(made), len(after))
}

// A patch that costs more than its bounds is refused before it does.
func TestCat_PAT_02(t *testing.T) {
	array := []byte(`{"a":[` + strings.Repeat("1,", 400_000) + `1],"b":"` + strings.Repeat("x", 1000) + `"}`)
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	ops := func(n int, op string) []byte {
		return []byte("[" + strings.TrimSuffix(strings.Repeat(op+",", n), ",") + "]")
	}
	compressed := func(before, after []byte, options ...zstd.EOption) []byte {
		made := append(bytes.Clone(dczMagic), sum(before)...)
		enc, err := zstd.NewWriter(nil, append([]zstd.EOption{zstd.WithEncoderDictRaw(0, before)}, options...)...)
		if err != nil {
			t.Fatal(err)
		}
		return enc.EncodeAll(after, made)
	}
	small := []byte(`{"a":["0123456789"],"b":{"c":1}}`)
	var doubling []string
	for i := range 40 {
		doubling = append(doubling, fmt.Sprintf(`{"op":"copy","from":"","path":"/x%d"}`, i))
	}
	header := func(rest ...byte) []byte { return append(append(bytes.Clone(dczMagic), sum(small)...), rest...) }
	zeros := make([]byte, 512<<20)
	bombs := map[string]struct {
		kind          Kind
		before, patch []byte
	}{
		"copies that double the document":       {JSON, small, []byte("[" + strings.Join(doubling, ",") + "]")},
		"copies that double a member":           {JSON, small, ops(60, `{"op":"copy","from":"/a","path":"/a/-"}`)},
		"copies of one large member":            {JSON, array, ops(100, `{"op":"copy","from":"/a","path":"/c"}`)},
		"one operation too many":                {JSON, small, ops(maxOperations+1, `{"op":"add","path":"/b/d","value":1}`)},
		"a million operations":                  {JSON, small, ops(1_000_000, `{"op":"add","path":"/b/d","value":1}`)},
		"a pointer of 100,000 steps":            {JSON, small, ops(1, `{"op":"add","path":"`+strings.Repeat("/a", 100_000)+`","value":1}`)},
		"a source of 100,000 steps":             {JSON, small, ops(1, `{"op":"copy","path":"/c","from":"`+strings.Repeat("/a", 100_000)+`"}`)},
		"a value of 100,000 levels":             {JSON, small, ops(1, `{"op":"add","path":"/b/d","value":`+deep(100_000)+`}`)},
		"a value of 101 levels":                 {JSON, small, ops(1, `{"op":"add","path":"/b/d","value":`+deep(101)+`}`)},
		"levels that add up":                    {JSON, small, ops(2, `{"op":"add","path":"`+strings.Repeat("/a", 1)+`/0","value":`+deep(98)+`}`)},
		"a document of 100,000 levels":          {JSON, []byte(deep(100_000)), ops(1, `{"op":"add","path":"/-","value":1}`)},
		"elements that move a long array":       {JSON, array, ops(maxOperations, `{"op":"add","path":"/a/0","value":1}`)},
		"moves within a long array":             {JSON, array, ops(maxOperations, `{"op":"move","from":"/a/9","path":"/a/0"}`)},
		"tests of a long array":                 {JSON, array, ops(maxOperations, `{"op":"test","path":"/a","value":[]}`)},
		"a value longer than the result may be": {JSON, small, ops(1, `{"op":"add","path":"/b/d","value":"`+strings.Repeat("x", 10_000)+`"}`)},
		"512 MiB of zeros":                      {Zstd, small, compressed(small, zeros)},
		"512 MiB of zeros in one window":        {Zstd, small, compressed(small, zeros, zstd.WithWindowSize(zstd.MaxWindowSize))},
		"a window of 2 GiB":                     {Zstd, small, header(0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 0x01, 0x00, 0x00)},
		"a frame of 2^63 bytes":                 {Zstd, small, header(0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0x01, 0x00, 0x00)},
		"blocks of one repeated byte":           {Zstd, small, header(append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58}, bytes.Repeat([]byte{0x02, 0x00, 0x10, 0x00}, 100_000)...)...)},
		"a run of 16 MiB":                       {VCDIFF, small, vcd(0, vcdWindowOf(0, 0, 16<<20, []byte("x"), append([]byte{0}, ints(16<<20)...), nil))},
		"windows that announce 320 bytes each":  {VCDIFF, small, vcd(0, bytes.Repeat(vcdWindowOf(0, 0, 320, []byte("x"), append([]byte{0}, ints(320)...), nil), 100_000))},
		"a copy of one byte over and over":      {VCDIFF, small, vcd(0, vcdWindowOf(1, 0, 300, nil, append([]byte{19}, ints(1<<40)...), []byte{0}))},
		"a million empty instructions":          {VCDIFF, small, vcd(0, vcdWindowOf(0, 0, 1, nil, bytes.Repeat([]byte{1, 0}, 1_000_000), nil))},
		"the old version over and over":         {Zstd, array[:MaxBytes/32], compressed(array[:MaxBytes/32], bytes.Repeat(array[:MaxBytes/32], 40))},
	}
	refused, slowest, largest := 0, time.Duration(0), uint64(0)
	for name, b := range bombs {
		began, peak := heapPeak()
		begin := time.Now()
		after, err := Apply(t.Context(), b.kind, b.before, b.patch, 0)
		took := time.Since(begin)
		used := peak() - began
		if largest = max(largest, used); used > 128<<20 {
			t.Errorf("%s: refused with %d MiB of memory", name, used>>20)
		}
		slowest = max(slowest, took)
		if err == nil {
			t.Errorf("%s: %d bytes of patch make %d bytes from %d", name, len(b.patch), len(after), len(b.before))
			continue
		}
		if took > 2*time.Second {
			t.Errorf("%s: refused after %s: %v", name, took, err)
		}
		refused++
	}
	t.Logf("%d of %d refused, the slowest in %s, with at most %d MiB of memory", refused, len(bombs), slowest, largest>>20)
}

// heapPeak returns the bytes of the heap now, and a function that returns the most that it has
// had since.
func heapPeak() (now uint64, peak func() uint64) {
	sample := func() uint64 {
		read := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(read)
		return read[0].Value.Uint64()
	}
	runtime.GC()
	now = sample()
	done, most := make(chan struct{}), make(chan uint64)
	go func() {
		highest := now
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			highest = max(highest, sample())
			select {
			case <-done:
				most <- highest
				return
			case <-tick.C:
			}
		}
	}()
	return now, func() uint64 {
		close(done)
		return <-most
	}
}

// A patch never leads to a panic, and the old version stays as it is.
func TestCat_PAT_04(t *testing.T) {
	before := []byte(`{"a":[1,2,{"b":null}],"c":"text","d":1.10}`)
	after := []byte(`{"a":[1,{"b":null}],"c":"other text","d":1.10,"e":[]}`)
	kept := bytes.Clone(before)
	rng := rand.New(rand.NewPCG(1, 2))
	n := 10_000
	if testing.Short() {
		n = 1_000
	}
	same := 0
	for _, kind := range []Kind{JSON, Zstd, VCDIFF} {
		made, err := Make(t.Context(), kind, before, after)
		if err != nil || made == nil {
			t.Fatalf("%s: %v", kind, err)
		}
		for range n / 3 {
			broken := damaged(rng, made)
			if got, err := Apply(t.Context(), kind, before, broken, 0); err == nil && bytes.Equal(got, after) {
				same++
			}
			if !bytes.Equal(before, kept) {
				t.Fatalf("%s: the old version was changed by %q", kind, broken)
			}
		}
	}
	if _, err := Apply(t.Context(), "application/x-tiff-diff", before, after, 0); err == nil {
		t.Error("an unknown kind was applied")
	}
	t.Logf("%d damaged patches, 0 changes of the old version; %d made the new version all the same", n, same)
}

// damaged returns a patch with some bytes changed, inserted or cut off.
func damaged(rng *rand.Rand, made []byte) []byte {
	broken := bytes.Clone(made)
	for range 1 + rng.IntN(4) {
		at := rng.IntN(len(broken))
		switch rng.IntN(4) {
		case 0:
			broken = broken[:at+1]
		case 1:
			broken = append(broken[:at], broken[min(at+1+rng.IntN(4), len(broken)):]...)
		default:
			broken[at] ^= byte(1 + rng.IntN(255))
		}
		if len(broken) == 0 {
			return broken
		}
	}
	return broken
}

// A patch for other bytes is known by the digest that it begins with.
func TestZstdIsForOneBase(t *testing.T) {
	before, after := bytes.Repeat([]byte("one text "), 100), bytes.Repeat([]byte("one text! "), 100)
	made, err := Make(t.Context(), Zstd, before, after)
	if err != nil || made == nil {
		t.Fatal(err)
	}
	other := append(bytes.Clone(before), '.')
	if _, err := Apply(t.Context(), Zstd, other, made, 0); !errors.Is(err, ErrBase) {
		t.Errorf("got %v, want ErrBase", err)
	}
	if _, err := Apply(t.Context(), Zstd, before, made[:dczHeader-1], 0); err == nil || errors.Is(err, ErrBase) {
		t.Errorf("a header that is cut: %v", err)
	}
}

func FuzzApply(f *testing.F) {
	before := []byte(`{"a":[1,2,{"b":null}],"c":"text"}`)
	for _, kind := range []Kind{JSON, Zstd} {
		made, err := Make(f.Context(), kind, before, []byte(`{"a":[2,{"b":null}],"c":"other text"}`))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(kind == JSON, before, made)
	}
	f.Add(true, []byte(`[]`), []byte(`[{"op":"move","from":"/0","path":"/-"},{"op":"test","path":"","value":null}]`))
	f.Add(true, []byte(`null`), []byte(`[{"op":"copy","from":"","path":"/a"},{"op":"remove","path":""}]`))
	f.Fuzz(func(t *testing.T, isJSON bool, before, made []byte) {
		kind := Zstd
		if isJSON {
			kind = JSON
		} else if len(made) >= dczHeader { // else all of them are for another base
			made = append(append(bytes.Clone(dczMagic), sum(before)...), made[dczHeader:]...)
		}
		kept := bytes.Clone(before)
		after, err := Apply(t.Context(), kind, before, made, 1<<20)
		if err == nil && len(after) > 1<<20 {
			t.Errorf("%d bytes", len(after))
		}
		if !bytes.Equal(before, kept) {
			t.Error("the old version was changed")
		}
	})
}

// noise returns n random bytes.
func noise(seed byte, n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}
