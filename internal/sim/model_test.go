package sim

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"instep/resourcesync"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fatal is what tests and properties have in common.
type fatal interface {
	Helper()
	Fatal(args ...any)
	Context() context.Context
}

func newModel(t fatal, cfg Config) *Model {
	t.Helper()
	cfg.Start = start
	if cfg.Size.Kind == "" {
		cfg.Size = Size{Kind: Uniform, Low: 1, High: 2000}
	}
	m, err := NewModel(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// state of a model as a map from path to digest.
func present(m *Model) map[string]string {
	all := map[string]string{}
	for set := range m.Sets() {
		for r := range m.Resources(set) {
			all[r.Path] = fmt.Sprintf("%d %x", r.Length, r.SHA256)
		}
	}
	return all
}

func truthAt(t fatal, m *Model, at time.Time) map[string]string {
	t.Helper()
	all := map[string]string{}
	truth, err := m.TruthAt(at)
	if err != nil {
		t.Fatal(err)
	}
	for r, err := range truth.All() {
		if err != nil {
			t.Fatal(err)
		}
		all[r.Path] = fmt.Sprintf("%d %x", r.Length, r.SHA256)
	}
	return all
}

func TestTheSameSeedGivesTheSameModel(t *testing.T) {
	cfg := Config{Seed: 7, Resources: 300, Rate: 50, Hot: 0.5, Sets: 3}
	one, two := newModel(t, cfg), newModel(t, cfg)
	cfg.Seed = 8
	other := newModel(t, cfg)
	for _, m := range []*Model{one, two, other} {
		for range 5 {
			if _, err := m.Step(t.Context(), 10*time.Second); err != nil {
				t.Fatal(err)
			}
		}
	}
	if diff := cmp.Diff(present(two), present(one)); diff != "" {
		t.Errorf("same seed (-want +got):\n%s", diff)
	}
	if maps.Equal(present(one), present(other)) {
		t.Error("another seed gives the same resources")
	}
}

func TestContentIsReadAlikeFromAnyPlace(t *testing.T) {
	for _, size := range []int64{1, 7, 8, 9, 63, 4096, 100_001} {
		c := content{keyOf(1, 2, uint32(size)), size}
		whole, err := io.ReadAll(c.open())
		if err != nil || int64(len(whole)) != size {
			t.Fatalf("size %d: got %d bytes, %v", size, len(whole), err)
		}
		if err := iotest.TestReader(c.open(), whole); err != nil {
			t.Errorf("size %d: %v", size, err)
		}
		if got := c.sum(make([]byte, 100)); got != sha256.Sum256(whole) {
			t.Errorf("size %d: the digest is not that of the bytes", size)
		}
	}
}

func TestSizesAreSpreadAsAsked(t *testing.T) {
	const n = 20_000
	for _, c := range []struct {
		size      Size
		low, high int64 // that hold the median
	}{
		{Size{Kind: Fixed, Low: 500}, 500, 500},
		{Size{Kind: Uniform, Low: 1000, High: 3000}, 1950, 2050},
		{Size{Kind: LogNormal, Low: 4096, Sigma: 1.5}, 3900, 4300},
	} {
		below := [2]int{}
		for i := range uint32(n) {
			size := c.size.of(keyOf(3, i, 1))
			if size < minSize || size > maxSize || c.size.Kind == Uniform && (size < 1000 || size > 3000) {
				t.Fatalf("%v: got a size of %d", c.size, size)
			}
			for k, bound := range [2]int64{c.low, c.high + 1} {
				if size < bound {
					below[k]++
				}
			}
		}
		if below[0] > n/2 || below[1] < n/2 {
			t.Errorf("%v: %d of %d are below %d, %d up to %d: the median is elsewhere", c.size, below[0], n, c.low, below[1], c.high)
		}
	}
}

// The history leads from any moment to any later one, and a truth is what was.
func TestHistoryLeadsFromTruthToTruth(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newModel(rt, Config{
			Seed: rapid.Uint64().Draw(rt, "seed"), Resources: rapid.IntRange(1, 50).Draw(rt, "resources"), Sets: 1,
			Rate: 10, Hot: 0.3, Size: Size{Kind: Fixed, Low: 40},
			Mix: Mix{rapid.IntRange(0, 3).Draw(rt, "created"), rapid.IntRange(0, 3).Draw(rt, "updated"), rapid.IntRange(0, 3).Draw(rt, "deleted")},
		})
		moments := []time.Time{m.Now()}
		truths := []map[string]string{present(m)}
		for range 6 {
			if _, err := m.Step(rt.Context(), time.Duration(rapid.IntRange(0, 4000).Draw(rt, "ms"))*time.Millisecond); err != nil {
				rt.Fatal(err)
			}
			moments, truths = append(moments, m.Now()), append(truths, present(m))
		}
		for i, at := range moments {
			if diff := cmp.Diff(truths[i], truthAt(rt, m, at)); diff != "" {
				rt.Fatalf("truth at %v (-want +got):\n%s", at, diff)
			}
		}
		state := maps.Clone(truths[0])
		last := moments[0]
		for ch, err := range m.Changes(0, 1, m.Last(0)) {
			if err != nil {
				rt.Fatal(err)
			}
			if ch.Datetime.Before(last) || !ch.Datetime.Before(m.Now()) {
				rt.Fatalf("change %d is of %v, after %v, now is %v", ch.Seq, ch.Datetime, last, m.Now())
			}
			last = ch.Datetime.Add(time.Microsecond)
			_, had := state[ch.Path]
			if had != (ch.Change != resourcesync.Created) {
				rt.Fatalf("change %d: %s of %q, which was there: %v", ch.Seq, ch.Change, ch.Path, had)
			}
			if ch.Change == resourcesync.Deleted {
				delete(state, ch.Path)
			} else {
				state[ch.Path] = fmt.Sprintf("%d %x", ch.Length, ch.SHA256)
			}
		}
		if diff := cmp.Diff(truths[len(truths)-1], state); diff != "" {
			rt.Fatalf("replayed (-want +got):\n%s", diff)
		}
	})
}

func TestBytesAreThoseOfTheDigest(t *testing.T) {
	m := newModel(t, Config{Seed: 1, Resources: 20, Rate: 20})
	if _, err := m.Step(t.Context(), 10*time.Second); err != nil {
		t.Fatal(err)
	}
	for r := range m.Resources(0) {
		found, ok := m.Find(r.Path)
		if !ok {
			t.Fatalf("%q is not found", r.Path)
		}
		body, err := io.ReadAll(found.Open())
		if err != nil || int64(len(body)) != r.Length || sha256.Sum256(body) != r.SHA256 {
			t.Errorf("%q: %d bytes, %v: not what is said of them", r.Path, len(body), err)
		}
	}
	for _, path := range []string{"", "r/", "r/0000/x.txt", "r/0001/00000000.txt", "r/0000/0.txt", "r/4294967/4294967295.txt", "r/0000/00000000.csv"} {
		if _, ok := m.Find(path); ok {
			t.Errorf("%q is found", path)
		}
	}
}

func TestAModelStaysWithinItsBounds(t *testing.T) {
	for name, mix := range map[string]Mix{"growing": {Created: 1}, "shrinking": {Deleted: 1}, "still": {}} {
		t.Run(name, func(t *testing.T) {
			m := newModel(t, Config{Seed: 1, Resources: 30, Rate: 1000, Mix: mix, Size: Size{Kind: Fixed, Low: 8}})
			for range 3 {
				if _, err := m.Step(t.Context(), time.Second); err != nil {
					t.Fatal(err)
				}
			}
			if n := m.Len(); n < 1 || n > m.bound() || len(m.states) > m.bound() {
				t.Errorf("got %d resources, %d ever; want 1 to %d", n, len(m.states), m.bound())
			}
		})
	}
}

func TestHistoryForgetsAndSaysSo(t *testing.T) {
	m := newModel(t, Config{Seed: 1, Resources: 5, Rate: 25_000, Size: Size{Kind: Fixed, Low: 8}})
	m.cfg.History = 1000
	for range 2 {
		if _, err := m.Step(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(m.logs[0].events); n < 1000 || n > 1500 {
		t.Errorf("remembered: got %d changes, want 1000 to 1500", n)
	}
	for _, err := range m.Changes(0, 1, 2) {
		if !errors.Is(err, ErrForgotten) {
			t.Errorf("the first change: got %v, want ErrForgotten", err)
		}
	}
	if _, err := m.TruthAt(start); !errors.Is(err, ErrForgotten) {
		t.Errorf("the first truth: got %v, want ErrForgotten", err)
	}
}

func TestTruthIsWrittenAsCSV(t *testing.T) {
	m := newModel(t, Config{Seed: 1, Resources: 2, Size: Size{Kind: Fixed, Low: 10}})
	var out bytes.Buffer
	truth, err := m.TruthAt(m.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := truth.WriteCSV(t.Context(), &out, "http://sim.example.org/"); err != nil {
		t.Fatal(err)
	}
	r, _ := m.Find(pathOf(0))
	want := fmt.Sprintf("uri,length,sha256\nhttp://sim.example.org/r/0000/00000000.txt,10,%x\n", r.SHA256)
	if !strings.HasPrefix(out.String(), want) || strings.Count(out.String(), "\n") != 3 {
		t.Errorf("got %q, want %q and a line more", out.String(), want)
	}
}

func TestConfigsOutOfBoundsAreRefused(t *testing.T) {
	good := Config{Resources: 10, Size: Size{Kind: Fixed, Low: 1}, Start: start}
	for want, spoil := range map[string]func(c *Config){
		"resources:": func(c *Config) { c.Resources = 0 },
		"sets:":      func(c *Config) { c.Sets = 11 },
		"rate:":      func(c *Config) { c.Rate = -1 },
		"mix:":       func(c *Config) { c.Mix.Deleted = -1 },
		"hot:":       func(c *Config) { c.Hot = 1.5 },
		"start:":     func(c *Config) { c.Start = time.Time{} },
		"sigma":      func(c *Config) { c.Size.Sigma = 9 },
		"largest":    func(c *Config) { c.Size = Size{Kind: Uniform, Low: 5, High: 4} },
		"lognormal":  func(c *Config) { c.Size.Kind = "" },
		"1 to":       func(c *Config) { c.Size.Low = 0 },
	} {
		c := good
		spoil(&c)
		if _, err := NewModel(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	m := newModel(t, Config{Resources: 1, Rate: MaxRate})
	if _, err := m.Step(t.Context(), time.Minute); err == nil {
		t.Error("six million changes in one step are accepted")
	}
}
