package past_test

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"instep/internal/past"
	"instep/resourcesync"
)

// states reads one state a line: URI, length, digest and lastmod, each - if it is unknown.
func states(t *testing.T, text string) iter.Seq2[past.State, error] {
	t.Helper()
	var all []past.State
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		s := past.State{URI: f[0]}
		if f[1] != "-" {
			var n int64
			if _, err := fmt.Sscan(f[1], &n); err != nil {
				t.Fatal(err)
			}
			s.Length = resourcesync.Bytes(n)
		}
		var err error
		if f[2] != "-" {
			s.Digests, err = resourcesync.ParseDigests(f[2])
		}
		if err == nil && f[3] != "-" {
			s.LastMod, err = resourcesync.ParseDatetime(f[3])
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	return each(all)
}

func each(all []past.State) iter.Seq2[past.State, error] {
	return func(yield func(past.State, error) bool) {
		for _, s := range all {
			if !yield(s, nil) {
				return
			}
		}
	}
}

const (
	sumA = "md5:0cc175b9c0f1b6a831c399e269772661"
	sumB = "md5:92eb5ffee6ae2fec3ad71c777531578f"
	sha1 = "sha-1:86f7e437faa5a7fce15d1ddcb9eaeaea377667b8"
)

func TestCompare(t *testing.T) {
	for name, c := range map[string]struct {
		before, after string
		want          []string
	}{
		"nothing":                      {"", "", nil},
		"created":                      {"", "b 1 - -\na 1 - -\n", []string{"a created", "b created"}},
		"deleted":                      {"a 1 - -\n", "", []string{"a deleted"}},
		"other digest":                 {"a 1 " + sumA + " -\n", "a 1 " + sumB + " -\n", []string{"a updated"}},
		"same digest, other lastmod":   {"a 1 " + sumA + " 2026-01-01\n", "a 1 " + sumA + " 2026-01-02\n", []string{"a same"}},
		"no digest of one algorithm":   {"a 1 " + sumA + " 2026-01-01\n", "a 1 " + sha1 + " 2026-01-02\n", []string{"a updated"}},
		"other length":                 {"a 1 - 2026-01-01\n", "a 2 - 2026-01-01\n", []string{"a updated"}},
		"lastmod in another time zone": {"a 1 - 2026-01-01T01:00:00+01:00\n", "a 1 - 2026-01-01T00:00:00Z\n", []string{"a same"}},
		"nothing to go by":             {"a - - -\n", "a - - 2026-01-01\n", []string{"a same"}},
		"named twice, last counts":     {"a 1 - -\na 2 - -\n", "a 2 - -\na 2 - -\n", []string{"a same"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for d, err := range past.Compare("", states(t, c.before), states(t, c.after)) {
				if err != nil {
					t.Fatal(err)
				}
				change := string(d.Change)
				if change == "" {
					change = "same"
				}
				got = append(got, d.State().URI+" "+change)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// More resources than are held in memory are compared in the same way.
func TestCompareMoreThanFitsInMemory(t *testing.T) {
	const n = 30_000
	var before, after []past.State
	want := map[resourcesync.Change]int{}
	for i := range n {
		s := past.State{URI: fmt.Sprintf("https://example.org/%d", i*7919%n), Length: resourcesync.Bytes(int64(i))}
		o := s
		switch i % 4 {
		case 0:
			before = append(before, s)
			want[resourcesync.Deleted]++
			continue
		case 1:
			after = append(after, s)
			want[resourcesync.Created]++
			continue
		case 2:
			o.Length = resourcesync.Bytes(int64(i + 1))
			want[resourcesync.Updated]++
		default:
			want[""]++
		}
		before, after = append(before, s), append(after, o)
	}
	slices.Reverse(after)
	got, last := map[resourcesync.Change]int{}, ""
	for d, err := range past.Compare(t.TempDir(), each(before), each(after)) {
		if err != nil {
			t.Fatal(err)
		}
		if uri := d.State().URI; uri <= last {
			t.Fatalf("%s after %s", uri, last)
		} else {
			last = uri
		}
		got[d.Change]++
	}
	if !cmp.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// An error of either state ends the comparison before anything is said of it.
func TestCompareFailsAsAWhole(t *testing.T) {
	broken := errors.New("cut off")
	cut := func(yield func(past.State, error) bool) {
		_ = yield(past.State{URI: "a"}, nil) && yield(past.State{}, broken)
	}
	for name, pair := range map[string][2]iter.Seq2[past.State, error]{"before": {cut, each(nil)}, "after": {each(nil), cut}} {
		n := 0
		for d, err := range past.Compare("", pair[0], pair[1]) {
			if n++; !errors.Is(err, broken) {
				t.Errorf("%s: got %+v, %v, want the error alone", name, d, err)
			}
		}
		if n != 1 {
			t.Errorf("%s: %d values, want 1", name, n)
		}
	}
}
