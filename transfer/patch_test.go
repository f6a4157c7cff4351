package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"instep/harvest"
	"instep/internal/patch"
	"instep/resourcesync"
)

// version is a version of a random resource, with the patch that made it.
type version struct {
	body  []byte
	patch harvest.Patch
	made  []byte
}

func digestsOf(b []byte) resourcesync.Digests {
	h := resourcesync.NewHasher(resourcesync.SHA256)
	_, _ = h.Write(b)
	return h.Digests()
}

// histories makes random histories of a JSON document, of 8 versions each.
func histories(t *testing.T, rng *rand.Rand, n int) (all [][]version) {
	t.Helper()
	for range n {
		body := []byte(fmt.Sprintf(`{"n":%d,"text":%q,"list":[1,2,3]}`, rng.IntN(1000), strings.Repeat("x", 200+rng.IntN(100))))
		history := []version{{body: body}}
		for i := range 7 {
			before := history[i].body
			after := bytes.Replace(before, []byte(`"list":[`), []byte(fmt.Sprintf(`"list":[%d,`, rng.IntN(1000))), 1)
			kind := []patch.Kind{patch.JSON, patch.Zstd, patch.VCDIFF}[rng.IntN(3)]
			made, err := patch.Make(t.Context(), kind, before, after)
			if err != nil || made == nil {
				t.Fatalf("%s: %v", kind, err)
			}
			history = append(history, version{after, harvest.Patch{
				URI: fmt.Sprint(i), Type: string(kind), Length: resourcesync.Bytes(int64(len(made))), Digests: digestsOf(made),
				After: digestsOf(after), Size: resourcesync.Bytes(int64(len(after))),
			}, made})
		}
		all = append(all, history)
	}
	return all
}

// trial draws what a mirror holds, what it wants and the patches that it is told of, with
// something wrong or nothing.
func trial(rng *rand.Rand, history []version) (held version, w harvest.Resource, made map[string][]byte, right bool) {
	from := rng.IntN(len(history) - 1)
	to := from + 1 + rng.IntN(len(history)-from-1)
	held, made, right = history[from], map[string][]byte{}, true
	w = harvest.Resource{URI: "r", Length: resourcesync.Bytes(int64(len(history[to].body))), Digests: digestsOf(history[to].body)}
	for i := from + 1; i <= to; i++ {
		p := history[i].patch
		made[p.URI] = history[i].made
		w.Patches = append(w.Patches, p)
	}
	at := rng.IntN(len(w.Patches))
	switch rng.IntN(6) {
	case 0: // another base
		other := rng.IntN(len(history))
		right = other == from
		held = history[other]
	case 1: // a gap
		w.Patches = append(w.Patches[:at:at], w.Patches[at+1:]...)
		right = false
	case 2: // the patches of others in its place
		p := &w.Patches[at]
		other := history[1+rng.IntN(len(history)-1)]
		right = other.patch.URI == p.URI
		made[p.URI], p.Type, p.Digests, p.Length = other.made, other.patch.Type, nil, resourcesync.Length{}
	case 3: // twice
		w.Patches = append(w.Patches, w.Patches[len(w.Patches)-1])
		right = false
	case 4: // a damaged patch whose digest nobody gives
		p := &w.Patches[at]
		broken := bytes.Clone(made[p.URI])
		broken[rng.IntN(len(broken))] ^= byte(1 + rng.IntN(255))
		made[p.URI], p.Digests, right = broken, nil, false
	}
	return held, w, made, right
}

// Whatever base, chain of patches and gap there is, the result is the version that is wanted or
// there is none, and the base stays as it is.
func TestCat_PAT_01(t *testing.T) {
	trials := 3_000
	if os.Getenv("INSTEP_LONG") != "" {
		trials = 1_000_000
	}
	rng := rand.New(rand.NewPCG(3, uint64(trials)))
	all := histories(t, rng, 20)
	var used, refused, lucky int
	for range trials {
		held, w, patches, right := trial(rng, all[rng.IntN(len(all))])
		p := NewPatcher(nil, "")
		p.fetch = func(_ context.Context, step *harvest.Patch) ([]byte, error) {
			return readVerified(bytes.NewReader(patches[step.URI]), step.Length, step.Digests)
		}
		kept := bytes.Clone(held.body)
		base := Base{
			Open:   func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(held.body)), nil },
			Length: resourcesync.Bytes(int64(len(kept))), Digests: digestsOf(kept),
		}
		made, _, done, err := p.Make(t.Context(), base, &w)
		var got []byte
		if err == nil {
			got, _ = io.ReadAll(made)
		}
		switch {
		case !bytes.Equal(held.body, kept):
			t.Fatal("the base was changed")
		case err == nil && digestsOf(got).String() != w.Digests.String():
			t.Fatalf("a wrong version: %q", got)
		case err == nil && !right:
			lucky++ // a damage that changes nothing, or a patch that is the same
		case err != nil && right:
			t.Fatalf("a right patch was refused: %v", err)
		}
		if err != nil {
			refused++
			continue
		}
		used++
		done()
	}
	t.Logf("%d trials: 0 wrong versions; %d made (%d of them in spite of a fault), %d refused", trials, used, lucky, refused)
}

// A base whose bytes are not those recorded makes nothing.
func TestBaseThatRots(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	history := histories(t, rng, 1)[0]
	w := harvest.Resource{Length: resourcesync.Bytes(int64(len(history[1].body))), Digests: digestsOf(history[1].body), Patches: []harvest.Patch{history[1].patch}}
	rotten := bytes.Clone(history[0].body)
	rotten[3]++
	p := NewPatcher(nil, "")
	p.fetch = func(context.Context, *harvest.Patch) ([]byte, error) {
		t.Error("the patch was fetched before the base was known to be right")
		return nil, errors.New("not here")
	}
	base := Base{
		Open:   func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(rotten)), nil },
		Length: resourcesync.Bytes(int64(len(rotten))), Digests: digestsOf(history[0].body),
	}
	if _, _, _, err := p.Make(t.Context(), base, &w); !IsMismatch(err) {
		t.Errorf("got %v", err)
	}
}

// Versions of more than 16 MiB are patched by VCDIFF in temporary files, which are gone afterwards.
func TestPatchesOfLongVersions(t *testing.T) {
	noise := rand.NewChaCha8([32]byte{1})
	body := make([]byte, patch.MaxBytes+1000)
	_, _ = noise.Read(body)
	history := []version{{body: body}}
	for i := range 2 {
		before := history[i].body
		after := append([]byte(fmt.Sprint("version ", i, " ")), before...)
		var made bytes.Buffer
		if _, err := patch.MakeVCDIFF(t.Context(), bytes.NewReader(before), int64(len(before)), bytes.NewReader(after), &made, 1000); err != nil {
			t.Fatal(err)
		}
		history = append(history, version{after, harvest.Patch{
			URI: fmt.Sprint(i), Type: string(patch.VCDIFF), Length: resourcesync.Bytes(int64(made.Len())),
			After: digestsOf(after), Size: resourcesync.Bytes(int64(len(after))),
		}, made.Bytes()})
	}
	for name, c := range map[string]struct {
		spoil func(w *harvest.Resource, made [][]byte, held []byte)
		want  string
	}{
		"right":               {func(*harvest.Resource, [][]byte, []byte) {}, ""},
		"a damaged patch":     {func(_ *harvest.Resource, made [][]byte, _ []byte) { made[1][bytes.Index(made[1], []byte("version"))]++ }, "the patch 1"},
		"a patch that is cut": {func(_ *harvest.Resource, made [][]byte, _ []byte) { made[0] = made[0][:20] }, "too early"},
		"rotten held bytes":   {func(_ *harvest.Resource, _ [][]byte, held []byte) { held[3]++ }, "reading the stored bytes"},
		"another kind":        {func(w *harvest.Resource, _ [][]byte, _ []byte) { w.Patches[1].Type = string(patch.Zstd) }, "up to 16777216 bytes"},
		"a smaller result":    {func(w *harvest.Resource, _ [][]byte, _ []byte) { w.Patches[1].Size = resourcesync.Bytes(1000) }, "more than 1000 bytes"},
		"another result":      {func(w *harvest.Resource, _ [][]byte, _ []byte) { w.Digests = digestsOf(nil) }, "expected"},
	} {
		dir := t.TempDir()
		last := history[2]
		w := harvest.Resource{URI: "r", Length: last.patch.Size, Digests: last.patch.After, Patches: []harvest.Patch{history[1].patch, last.patch}}
		made := [][]byte{bytes.Clone(history[1].made), bytes.Clone(last.made)}
		held := bytes.Clone(body)
		c.spoil(&w, made, held)
		p := NewPatcher(nil, dir)
		p.fetch = func(_ context.Context, step *harvest.Patch) ([]byte, error) { return made[step.URI[0]-'0'], nil }
		base := Base{
			Open:   func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(held)), nil },
			Length: resourcesync.Bytes(int64(len(body))), Digests: digestsOf(body),
		}
		got, _, done, err := p.Make(t.Context(), base, &w)
		if err == nil {
			if text, err := io.ReadAll(got); err != nil || !bytes.Equal(text, last.body) {
				t.Errorf("%s: %d bytes, %v", name, len(text), err)
			}
			done()
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s: %d temporary files are left, %v", name, len(left), err)
		}
	}
}
