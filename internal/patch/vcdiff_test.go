package patch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/adler32"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// naive applies a patch as RFC 3284 says, with everything in memory and without bounds. It
// panics if the patch is broken.
func naive(before, patch []byte) (after []byte) {
	p := naiveText(patch[4:])
	if p.byte()&4 != 0 {
		p.next(p.int())
	}
	for len(p) > 0 {
		indicator := p.byte()
		var segment []byte
		if indicator&1 != 0 {
			n, at := p.int(), p.int()
			segment = before[at : at+n]
		}
		p.int() // the lengths of the rest and of the result
		p.int()
		p.byte()
		nd, ni, na := p.int(), p.int(), p.int()
		if indicator&4 != 0 {
			p.next(4)
		}
		after = append(after, naiveWindow(segment, p.next(nd), p.next(ni), p.next(na))...)
	}
	return after
}

// naiveText is what is left of a text that is read.
type naiveText []byte

func (t *naiveText) next(n int) naiveText {
	head := (*t)[:n:n]
	*t = (*t)[n:]
	return head
}

func (t *naiveText) byte() int { return int(t.next(1)[0]) }

func (t *naiveText) int() (n int) {
	for {
		b := t.byte()
		n = n*128 + b%128
		if b < 128 {
			return n
		}
	}
}

func naiveWindow(segment []byte, data, instructions, addresses naiveText) []byte {
	u := bytes.Clone(segment)
	var near [4]int
	var same [768]int
	slot := 0
	for len(instructions) > 0 {
		for _, i := range naiveTable(instructions.byte()) {
			size := i[1]
			if i[0] != 0 && size == 0 {
				size = instructions.int()
			}
			switch i[0] {
			case 'A':
				u = append(u, data.next(size)...)
			case 'R':
				u = append(u, bytes.Repeat(data.next(1), size)...)
			case 'C':
				var address int
				switch mode := i[2]; {
				case mode == 0:
					address = addresses.int()
				case mode == 1:
					address = len(u) - addresses.int()
				case mode < 6:
					address = near[mode-2] + addresses.int()
				default:
					address = same[(mode-6)*256+addresses.byte()]
				}
				near[slot], same[address%768] = address, address
				slot = (slot + 1) % 4
				for j := range size {
					u = append(u, u[address+j])
				}
			}
		}
	}
	return u[len(segment):]
}

// naiveTable returns the instructions of a code, by the ranges that RFC 3284 §5.6 lists.
func naiveTable(code int) [2][3]int {
	switch {
	case code == 0:
		return [2][3]int{{'R', 0, 0}}
	case code <= 18:
		return [2][3]int{{'A', code - 1, 0}}
	case code <= 162:
		mode, size := (code-19)/16, (code-19)%16
		if size > 0 {
			size += 3
		}
		return [2][3]int{{'C', size, mode}}
	case code <= 234:
		n := code - 163
		return [2][3]int{{'A', n%12/3 + 1, 0}, {'C', n%3 + 4, n / 12}}
	case code <= 246:
		n := code - 235
		return [2][3]int{{'A', n%4 + 1, 0}, {'C', 4, n/4 + 6}}
	default:
		return [2][3]int{{'C', 4, code - 247}, {'A', 1, 0}}
	}
}

// edited returns a version with some parts inserted, removed, overwritten, moved or repeated.
func edited(rng *rand.Rand, before []byte) []byte {
	after := bytes.Clone(before)
	for range 1 + rng.IntN(8) {
		at := rng.IntN(len(after) + 1)
		end := min(len(after), at+rng.IntN(200))
		part := bytes.Clone(after[at:end])
		switch rng.IntN(5) {
		case 0:
			after = append(after[:at:at], append(noise(byte(rng.Uint32()), rng.IntN(300)), after[at:]...)...)
		case 1:
			after = append(after[:at], after[end:]...)
		case 2:
			copy(after[at:end], noise(byte(rng.Uint32()), end-at))
		case 3:
			after = append(append(after[:at:at], after[end:]...), part...)
		case 4:
			after = append(after, bytes.Repeat(part, rng.IntN(5))...)
		}
	}
	return after
}

// version makes a random first version: binary, text, or much of the same.
func version(rng *rand.Rand) []byte {
	n := rng.IntN(60_000)
	switch rng.IntN(3) {
	case 0:
		return noise(byte(rng.Uint32()), n)
	case 1:
		var b strings.Builder
		for b.Len() < n {
			fmt.Fprintf(&b, "<record id=%q><title>Object %d</title></record>\n", fmt.Sprint(rng.IntN(10_000)), rng.IntN(100))
		}
		return []byte(b.String())
	default:
		return bytes.Repeat(noise(byte(rng.Uint32()), 1+rng.IntN(100)), n/100+1)
	}
}

func makeVCDIFF(t testing.TB, before, after []byte) []byte {
	t.Helper()
	made, err := Make(t.Context(), VCDIFF, before, after)
	if err != nil || made == nil {
		t.Fatalf("no patch of %d bytes to %d: %v", len(before), len(after), err)
	}
	return made
}

// Every patch makes the new version, by our decoder and by a plain one.
func TestVCDIFFRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	n := 500
	if testing.Short() {
		n = 100
	}
	var whole, patched int
	for i := range n {
		before := version(rng)
		after := edited(rng, before)
		made := makeVCDIFF(t, before, after)
		if got := naive(before, made); !bytes.Equal(got, after) {
			t.Fatalf("edit %d: the plain decoder makes %d bytes, want %d", i, len(got), len(after))
		}
		whole, patched = whole+len(after), patched+len(made)
	}
	t.Logf("%d edits, %d bytes of versions, %d bytes of patches (%.1f %%)", n, whole, patched, 100*float64(patched)/float64(whole))
}

// xdelta3 applies the patches that are made here, and those that it makes are applied here.
func TestVCDIFFOfXdelta3(t *testing.T) {
	program, err := exec.LookPath("xdelta3")
	if err != nil {
		t.Skip("SKIPPED: xdelta3 is not installed")
	}
	rng := rand.New(rand.NewPCG(5, 6))
	n := 500
	if testing.Short() {
		n = 40
	}
	file := func(name string) string { return filepath.Join(t.TempDir(), name) }
	old, version2, patch, result := file("old"), file("new"), file("patch"), file("result")
	var whole, ours, theirs int
	for i := range n {
		before := version(rng)
		after := edited(rng, before)
		made := makeVCDIFF(t, before, after)
		for name, text := range map[string][]byte{old: before, version2: after, patch: made} {
			if err := os.WriteFile(name, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		xdelta3(t, program, "-d", "-f", "-s", old, patch, result)
		if got, err := os.ReadFile(result); err != nil || !bytes.Equal(got, after) {
			t.Fatalf("edit %d: xdelta3 makes %d bytes of our patch, want %d: %v", i, len(got), len(after), err)
		}
		options := [][]string{{}, {"-n"}, {"-A="}, {"-W", "16384"}, {"-9"}}[i%5]
		xdelta3(t, program, append(append([]string{"-e", "-f", "-S", "none"}, options...), "-s", old, version2, patch)...)
		foreign, err := os.ReadFile(patch)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Apply(t.Context(), VCDIFF, before, foreign, max(1, int64(len(after))))
		if err != nil || !bytes.Equal(got, after) {
			t.Fatalf("edit %d: we make %d bytes of the patch of xdelta3 %v, want %d: %v", i, len(got), options, len(after), err)
		}
		if again := naive(before, foreign); !bytes.Equal(again, after) {
			t.Fatalf("edit %d: the plain decoder makes %d bytes, want %d", i, len(again), len(after))
		}
		whole, ours, theirs = whole+len(after), ours+len(made), theirs+len(foreign)
	}
	t.Logf("%d edits both ways, %d bytes of versions: our patches have %d bytes, those of xdelta3 %d", n, whole, ours, theirs)
}

func xdelta3(t *testing.T, program string, args ...string) {
	t.Helper()
	if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		t.Fatalf("xdelta3 %q: %v\n%s", args, err, out)
	}
}

// vcd makes a patch of a header and windows.
func vcd(header byte, rest ...[]byte) []byte {
	return append(append(bytes.Clone(vcdMagic), header), bytes.Join(rest, nil)...)
}

// vcdWindowOf makes a window with a segment of the old version, unless that is empty.
func vcdWindowOf(segment, at, length int64, data, instructions, addresses []byte) []byte {
	text := []byte{0}
	if segment > 0 {
		text = appendInt(appendInt([]byte{vcdSource}, segment), at)
	}
	delta := append(appendInt(nil, length), 0)
	for _, s := range [][]byte{data, instructions, addresses} {
		delta = appendInt(delta, int64(len(s)))
	}
	delta = bytes.Join([][]byte{delta, data, instructions, addresses}, nil)
	return append(appendInt(text, int64(len(delta))), delta...)
}

func ints(numbers ...int64) (text []byte) {
	for _, n := range numbers {
		text = appendInt(text, n)
	}
	return text
}

// Patches that xdelta3 does not make, and that are correct.
func TestVCDIFFInstructions(t *testing.T) {
	before := []byte("0123456789")
	checked := func(window []byte, sum uint32) []byte {
		text := []byte{vcdAdler32, window[1] + 4}
		text = append(text, window[2:7]...)
		text = append(text, byte(sum>>24), byte(sum>>16), byte(sum>>8), byte(sum))
		return append(text, window[7:]...)
	}
	add := vcdWindowOf(0, 0, 3, []byte("abc"), []byte{4}, nil)
	for name, c := range map[string]struct {
		patch []byte
		want  string
	}{
		"nothing":                       {vcd(0), ""},
		"an application header":         {vcd(vcdAppHeader, []byte("\x05hello"), add), "abc"},
		"two windows":                   {vcd(0, add, add), "abcabc"},
		"a checksum":                    {vcd(0, checked(add, adler32.Checksum([]byte("abc")))), "abc"},
		"a run":                         {vcd(0, vcdWindowOf(0, 0, 200, []byte("x"), append([]byte{0}, ints(200)...), nil)), strings.Repeat("x", 200)},
		"a copy of what it writes":      {vcd(0, vcdWindowOf(0, 0, 10, []byte("abc"), []byte{4, 19 + 4}, []byte{0})), "abcabcabca"},
		"a copy from here back":         {vcd(0, vcdWindowOf(0, 0, 7, []byte("abc"), []byte{4, 19 + 16 + 1}, []byte{1})), "abccccc"},
		"a copy across the segment":     {vcd(0, vcdWindowOf(4, 6, 9, []byte("abc"), []byte{4, 19 + 3}, []byte{2})), "abc89abc8"},
		"near and same":                 {vcd(0, vcdWindowOf(9, 1, 12, nil, []byte{20, 19 + 32 + 1, 19 + 96 + 1}, []byte{2, 1, 3})), "345645674567"},
		"an instruction that adds zero": {vcd(0, vcdWindowOf(0, 0, 3, []byte("abc"), []byte{1, 0, 4}, nil)), "abc"},
	} {
		got, err := Apply(t.Context(), VCDIFF, before, c.patch, 1000)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
		}
	}
}

// A hostile patch is refused, within its bounds and without the memory that it announces.
func TestVCDIFFRefuses(t *testing.T) {
	before := []byte("0123456789")
	copied := func(mode byte, address ...byte) []byte {
		return vcd(0, vcdWindowOf(10, 0, 4, nil, []byte{19 + 16*mode + 1}, address))
	}
	bits := bytes.Repeat([]byte{0xff}, 9)
	for name, c := range map[string]struct {
		patch []byte
		want  string
	}{
		"an empty file":                       {nil, "too early"},
		"another file":                        {[]byte("a text of ours"), "begins with d6 c3 c4 00"},
		"the format of open-vcdiff":           {[]byte("\xd6\xc3\xc4S\x00"), "begins with d6 c3 c4 00"},
		"a secondary compressor":              {vcd(vcdSecondary, []byte{2}), "-S none"},
		"a code table":                        {vcd(vcdCodeTable, []byte{0}), "default code table"},
		"an unknown bit":                      {vcd(8), "unknown bits"},
		"an application header of 2^62 bytes": {vcd(vcdAppHeader, ints(1<<62)), "application header"},
		"an application header that is cut":   {vcd(vcdAppHeader, []byte{5, 1}), "too early"},
		"an integer of 64 bits":               {vcd(vcdAppHeader, bits, []byte{0x7f}), "63 bits"},
		"an integer without an end":           {vcd(vcdAppHeader, bits[:3]), "too early"},
		"a copy from earlier windows":         {vcd(0, []byte{vcdTarget, 4, 0}), "copy from the old version only"},
		"an unknown bit of a window":          {vcd(0, []byte{16}), "unknown bits"},
		"a segment after the end":             {vcd(0, vcdWindowOf(1, 10, 0, nil, nil, nil)), "another version"},
		"a segment that overflows":            {vcd(0, vcdWindowOf(1<<62, 1<<62, 0, nil, nil, nil)), "another version"},
		"a compressed section":                {vcd(0, []byte{0, 5, 0, 1, 0, 0, 0}), "-S none"},
		"a window of 2^62 bytes":              {vcd(0, vcdWindowOf(0, 0, 1<<62, nil, []byte{0}, nil)), "more than 1000"},
		"windows that add up":                 {vcd(0, bytes.Repeat(vcdWindowOf(0, 0, 600, []byte("x"), append([]byte{0}, ints(600)...), nil), 2)), "more than 1000"},
		"data of 2^62 bytes":                  {vcd(0, []byte{0, 20, 1, 0}, ints(1<<62, 0, 0)), "sections"},
		"data of 16 MiB that are not there":   {vcd(0, []byte{0, 8, 1, 0}, ints(16<<20, 0, 0)), "too early"},
		"a run of 2^62 bytes":                 {vcd(0, vcdWindowOf(0, 0, 9, []byte("x"), append([]byte{0}, ints(1<<62)...), nil)), "exceeds its window"},
		"a run of nothing":                    {vcd(0, vcdWindowOf(0, 0, 9, nil, []byte{0, 9}, nil)), "too early"},
		"data that end":                       {vcd(0, vcdWindowOf(0, 0, 9, []byte("x"), []byte{3}, nil)), "end too early"},
		"data that are left":                  {vcd(0, vcdWindowOf(0, 0, 1, []byte("xy"), []byte{2}, nil)), "unused"},
		"addresses that are left":             {vcd(0, vcdWindowOf(0, 0, 1, []byte("x"), []byte{2}, []byte{0})), "unused"},
		"a window that is not filled":         {vcd(0, vcdWindowOf(0, 0, 2, []byte("x"), []byte{2}, nil)), "decoded to 2 bytes, but makes 1"},
		"an instruction that is cut":          {vcd(0, vcdWindowOf(0, 0, 2, []byte("x"), []byte{1, 0x80}, nil)), "too early"},
		"a copy of the future":                {copied(0, 10), "but only 10 bytes are known"},
		"a copy of the far future":            {copied(0, ints(1<<62)...), "but only 10 bytes are known"},
		"a copy from before the beginning":    {copied(1, 11), "but only 10 bytes are known"},
		"a copy from here":                    {copied(1, 0), "but only 10 bytes are known"},
		"a near copy that overflows":          {vcd(0, vcdWindowOf(10, 0, 8, nil, []byte{20, 19 + 32 + 1}, append([]byte{5}, ints(1<<63-1)...))), "but only 14 bytes are known"},
		"a copy without an address":           {copied(7), "too early"},
		"a length that is too small":          {vcd(0, []byte{0, 5, 3, 0, 3, 1, 0}, []byte("abc\x04")), "too early"},
		"a length that is too large":          {vcd(0, []byte{0, 10, 3, 0, 3, 1, 0}, []byte("abc\x04")), "its header says 10"},
		"a checksum of other bytes":           {vcd(0, []byte{vcdAdler32, 13, 3, 0, 3, 1, 0, 0, 0, 0, 0}, []byte("abc\x04")), "Adler-32"},
	} {
		begin := time.Now()
		got, err := Apply(t.Context(), VCDIFF, before, c.patch, 1000)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %q, %v, want an error with %q", name, got, err, c.want)
		}
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("%s: refused after %s", name, took)
		}
	}
	announced := vcd(0, []byte{0, 8, 1, 0}, ints(16<<20, 0, 0))
	var first, last runtime.MemStats
	runtime.ReadMemStats(&first)
	_, _ = ApplyVCDIFF(t.Context(), bytes.NewReader(nil), 0, bytes.NewReader(announced), io.Discard, 1<<40)
	runtime.ReadMemStats(&last)
	allocated := last.TotalAlloc - first.TotalAlloc
	if allocated > 100_000 {
		t.Errorf("a patch of %d bytes that announces 16 MiB takes %d bytes of memory", len(announced), allocated)
	}
}

// Long versions are patched in parts, with the memory of a window; a patch that does not pay is given up.
func TestVCDIFFOfLongVersions(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: versions of 40 MiB take a while; run without -short")
	}
	before := noise(1, 40<<20)
	after := append([]byte("before"), before...)
	copy(after[20<<20:], "in the middle")
	var patch bytes.Buffer
	n, err := MakeVCDIFF(t.Context(), bytes.NewReader(before), int64(len(before)), bytes.NewReader(after), &patch, 10_000)
	if err != nil || n > 1_000 || n != int64(patch.Len()) {
		t.Fatalf("%d bytes, %v", n, err)
	}
	got := new(bytes.Buffer)
	made, err := ApplyVCDIFF(t.Context(), bytes.NewReader(before), int64(len(before)), &patch, got, int64(len(after)))
	if err != nil || made != int64(len(after)) || !bytes.Equal(got.Bytes(), after) {
		t.Errorf("%d bytes, %v", made, err)
	}
	t.Logf("%d bytes for %d", n, len(after))
	if _, err := MakeVCDIFF(t.Context(), bytes.NewReader(before), int64(len(before)), bytes.NewReader(noise(2, 20<<20)), io.Discard, 5<<20); !errors.Is(err, ErrUnpaid) {
		t.Errorf("nothing in common: %v, want ErrUnpaid", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := MakeVCDIFF(ctx, bytes.NewReader(before), int64(len(before)), bytes.NewReader(after), io.Discard, 1<<30); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// Whatever the decoder accepts, the plain decoder makes the same of it; and the encoder's
// patches make the version.
func FuzzVCDIFF(f *testing.F) {
	before := []byte(strings.Repeat("a text of the old version, ", 5))
	f.Add(before, makeVCDIFF(f, before, append(before[20:], before[:50]...)))
	f.Add(before, vcd(0, vcdWindowOf(10, 0, 12, nil, []byte{20, 19 + 32 + 1, 19 + 96 + 1}, []byte{2, 1, 3})))
	f.Add(before, vcd(vcdAppHeader, []byte("\x02hi"), vcdWindowOf(0, 0, 10, []byte("abc"), []byte{4, 19 + 4}, []byte{0})))
	f.Fuzz(func(t *testing.T, before, text []byte) {
		if got, err := Apply(t.Context(), VCDIFF, before, text, 1<<20); err == nil {
			if len(got) > 1<<20 || !bytes.Equal(got, naive(before, text)) {
				t.Errorf("%d bytes that the plain decoder does not make", len(got))
			}
		}
		made := new(bytes.Buffer)
		if _, err := MakeVCDIFF(t.Context(), bytes.NewReader(before), int64(len(before)), bytes.NewReader(text), made, 1<<30); err != nil {
			t.Fatal(err)
		}
		if got := naive(before, made.Bytes()); !bytes.Equal(got, text) {
			t.Errorf("the patch makes %d bytes, want %d", len(got), len(text))
		}
	})
}
