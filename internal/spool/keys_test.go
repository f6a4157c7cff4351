package spool

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func keyOf(n int) Key { return Key(fmt.Sprintf("http://example.org/%04d/\x00%d", n/10, n%10)) }

// scattered is a key that looks like that of a handle of n.
func scattered(n int) Key {
	return Key(fmt.Sprintf("http://example.org/\x00%016x", uint64(n)*0x9E3779B97F4A7C15))
}

// numbers is the sequence of keyOf.
func numbers(ns []int) iter.Seq2[Key, error] {
	return func(yield func(Key, error) bool) {
		for _, n := range ns {
			if !yield(keyOf(n), nil) {
				return
			}
		}
	}
}

func gather(s iter.Seq2[Key, error]) (all []Key, err error) {
	for k, err := range s {
		if err != nil {
			return all, err
		}
		all = append(all, k)
	}
	return all, nil
}

func TestKeysAreTheSortedSetOfWhatWasAdded(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		s := NewKeys(dir, rapid.IntRange(1, 500).Draw(t, "budget"))
		defer s.Close()
		model := map[Key]bool{}
		added := 0
		for round := range rapid.IntRange(1, 3).Draw(t, "rounds") {
			for _, n := range rapid.SliceOfN(rapid.IntRange(0, 40), 0, 60).Draw(t, "added") {
				if err := s.Add(keyOf(n)); err != nil {
					t.Fatal(err)
				}
				model[keyOf(n)] = true
				added++
			}
			var want []Key
			for k := range model {
				want = append(want, k)
			}
			slices.Sort(want)
			for range 2 {
				got, err := gather(s.Sorted())
				if err != nil || !slices.Equal(got, want) {
					t.Fatalf("round %d: got %q, %v, want %q", round, got, err, want)
				}
			}
			if s.Len() != int64(added) {
				t.Fatalf("Len: got %d, want %d", s.Len(), added)
			}
		}
	})
}

func TestKeysCanBeReadTwiceAtOnce(t *testing.T) {
	s := NewKeys(t.TempDir(), 200)
	defer s.Close()
	for n := range 10 {
		if err := s.Add(keyOf(9 - n)); err != nil {
			t.Fatal(err)
		}
	}
	outer := 0
	for _, err := range s.Sorted() {
		if err != nil {
			t.Fatal(err)
		}
		outer++
		if inner, err := gather(s.Sorted()); err != nil || len(inner) != 10 {
			t.Fatalf("inner: got %d keys, %v, want 10", len(inner), err)
		}
	}
	if outer != 10 {
		t.Errorf("outer: got %d keys, want 10", outer)
	}
}

// TestKeysTakeLittleMemory counts the peak memory of a process of its own, which
// is this test run again with a number of keys.
func TestKeysTakeLittleMemory(t *testing.T) {
	const variable = "INSTEP_TEST_KEYS"
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil {
		sortMany(t, n)
		return
	}
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: peak memory is read from /proc")
	}
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("SKIPPED: the race detector takes memory of its own")
	}
	n := 2_000_000
	if os.Getenv("INSTEP_LONG") != "" {
		n = 10_000_000
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKeysTakeLittleMemory$", "-test.v")
	cmd.Env = append(os.Environ(), variable+"="+strconv.Itoa(n))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, after, ok := strings.Cut(string(out), "VmHWM:")
	if !ok {
		t.Fatalf("no peak memory in:\n%s", out)
	}
	kib, err := strconv.Atoi(strings.Fields(after)[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d keys: %d KiB", n, kib)
	if kib > 64<<10 {
		t.Errorf("%d keys: peak memory is %d KiB, want at most 64 MiB", n, kib)
	}
}

func sortMany(t *testing.T, n int) {
	s := NewKeys(t.TempDir(), 0)
	defer s.Close()
	for i := range n {
		if err := s.Add(scattered(i)); err != nil {
			t.Fatal(err)
		}
	}
	count := 0
	var last Key
	for k, err := range s.Sorted() {
		if err != nil {
			t.Fatal(err)
		}
		if count > 0 && last >= k {
			t.Fatalf("%q comes after %q", k, last)
		}
		last = k
		count++
	}
	if count != n {
		t.Fatalf("got %d keys, want %d", count, n)
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(status) {
		if bytes.HasPrefix(line, []byte("VmHWM:")) {
			t.Logf("%s", line)
		}
	}
}

func TestMinusIsTheDifferenceOfSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ascending := rapid.Custom(func(t *rapid.T) []int {
			ns := rapid.SliceOfN(rapid.IntRange(0, 30), 0, 30).Draw(t, "keys")
			slices.Sort(ns)
			return ns
		})
		a, b := ascending.Draw(t, "a"), ascending.Draw(t, "b")
		var want []Key
		for _, n := range slices.Compact(slices.Clone(a)) {
			if !slices.Contains(b, n) {
				want = append(want, keyOf(n))
			}
		}
		for range 2 {
			got, err := gather(Minus(numbers(a), numbers(b)))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(got, want); diff != "" {
				t.Fatalf("keys differ (-got +want):\n%s", diff)
			}
		}
	})
}

// TestMinusNeverYieldsOnDoubt: keys of a may be deleted for what Minus yields, so
// that a broken b must end it before the keys that b might have had.
func TestMinusNeverYieldsOnDoubt(t *testing.T) {
	broken := errors.New("broken")
	breaks := func(ns ...int) iter.Seq2[Key, error] {
		return func(yield func(Key, error) bool) {
			for k := range numbers(ns) {
				if !yield(k, nil) {
					return
				}
			}
			yield("", broken)
		}
	}
	for _, c := range []struct {
		name string
		a, b iter.Seq2[Key, error]
		want []Key
		err  error
	}{
		{"b breaks", numbers([]int{1, 2, 3, 4}), breaks(2), []Key{keyOf(1)}, broken},
		{"b breaks at once", numbers([]int{1, 2}), breaks(), nil, broken},
		{"a breaks", breaks(1, 2), numbers([]int{2}), []Key{keyOf(1)}, broken},
		{"b is out of order", numbers([]int{1, 2, 3}), numbers([]int{2, 1, 3}), []Key{keyOf(1)}, ErrOrder},
		{"a is out of order", numbers([]int{2, 1}), numbers(nil), []Key{keyOf(2)}, ErrOrder},
	} {
		got, err := gather(Minus(c.a, c.b))
		if !errors.Is(err, c.err) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.err)
		}
		if diff := cmp.Diff(got, c.want); diff != "" {
			t.Errorf("%s: keys differ (-got +want):\n%s", c.name, diff)
		}
	}
}
