package convert

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"instep/resourcesync"
)

// someTimes are of all precisions and offsets, many of them at the same moment.
var someTimes = []string{
	"", "", "2024", "2024-01", "2024-01-01", "2024-01-01T00:00Z", "2024-01-01T00:00:00Z", "2024-01-01T02:00:00+02:00",
	"2024-01-01T00:00:00.000000000000000001Z", "2024-01-01T00:00:00.5Z", "2024-01-02T00:00:00Z", "2024-02", "2025", "2023-12-31T23:59:59Z",
}

func datetime(t fataler, s string) resourcesync.Datetime {
	t.Helper()
	var d resourcesync.Datetime
	if err := d.UnmarshalText([]byte(s)); err != nil {
		t.Fatalf("%v", err)
	}
	return d
}

// entriesAt makes one entry of each time, with its number as start.
func entriesAt(t fataler, times []string) []encodedEntry {
	t.Helper()
	var out []encodedEntry
	for i, s := range times {
		out = append(out, encodedEntry{start: int64(i), when: datetime(t, s)})
	}
	return out
}

func numbers(entries []encodedEntry) []int64 {
	var out []int64
	for _, p := range entries {
		out = append(out, p.start)
	}
	return out
}

func TestArrange(t *testing.T) {
	for _, c := range []struct {
		name  string
		times []string
		how   arrangement
		order []int64
	}{
		{"in order", []string{"2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z", "2025"}, kept, []int64{0, 1, 2}},
		{"in order as far as can be told", []string{"2024-01-01T10:00:00Z", "2024", "2024-01-01T09:00:00Z"}, kept, []int64{0, 1, 2}},
		{"a year, then a day of it", []string{"2024-05-01T00:00:00Z", "2024"}, kept, []int64{0, 1}},
		{"newest first", []string{"2025", "2024", "2023"}, reversed, []int64{2, 1, 0}},
		{"newest first with equal times", []string{"2025", "2024", "2024", "2023"}, reversed, []int64{3, 2, 1, 0}},
		{"newest first with one unknown", []string{"2025", "", "2023"}, reversed, []int64{2, 1, 0}},
		{"unordered with equal times", []string{"2024", "2025", "2024", "2023"}, sorted, []int64{3, 0, 2, 1}},
		{"unordered with unknown times", []string{"", "2024", "", "2025", "2023"}, sorted, []int64{0, 4, 1, 2, 3}},
		{"no times", []string{"", ""}, kept, []int64{0, 1}},
		{"nothing", nil, kept, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := entriesAt(t, c.times)
			how := sortByTime(p)
			if diff := cmp.Diff(numbers(p), c.order); diff != "" || how != c.how {
				t.Errorf("got %v %v, want %v %v", how, numbers(p), c.how, c.order)
			}
		})
	}
}

func TestArrangedPiecesAreInOrderAndAllThere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := entriesAt(t, rapid.SliceOf(rapid.SampledFrom(someTimes)).Draw(t, "times"))
		before := slices.Clone(p)
		how := sortByTime(p)
		if !oldestFirst(p) {
			t.Fatalf("not in order: %v", p)
		}
		if again := slices.Clone(p); sortByTime(again) != kept {
			t.Fatalf("arranged for the second time: %v", p)
		}
		if how == kept && !slices.Equal(p, before) {
			t.Fatalf("kept, but changed: %v", p)
		}
		all := numbers(p)
		slices.Sort(all)
		if !slices.Equal(all, numbers(before)) {
			t.Fatalf("lost or doubled: %v", numbers(p))
		}
	})
}

func TestCompareIsAnOrder(t *testing.T) {
	for _, a := range someTimes {
		for _, b := range someTimes {
			for _, c := range someTimes {
				x, y, z := datetime(t, a), datetime(t, b), datetime(t, c)
				if compare(x, y) != -compare(y, x) {
					t.Errorf("%q and %q: %d and %d", a, b, compare(x, y), compare(y, x))
				}
				if compare(x, y) <= 0 && compare(y, z) <= 0 && compare(x, z) > 0 {
					t.Errorf("%q <= %q <= %q, but not the first and the last", a, b, c)
				}
				if x.Before(y) && compare(x, y) >= 0 {
					t.Errorf("%q is before %q, but compares as %d", a, b, compare(x, y))
				}
			}
		}
	}
}

func TestClashes(t *testing.T) {
	a, b, x, y := resourcesync.KeyOf("a"), resourcesync.KeyOf("b"), resourcesync.KeyOf("x"), resourcesync.KeyOf("y")
	var none resourcesync.Key
	for _, c := range []struct {
		name    string
		entries []encodedEntry
		want    []int
	}{
		{"paths of their own", []encodedEntry{{path: a}, {path: b}, {}, {}}, nil},
		{"the same bitstream", []encodedEntry{{path: a, bitstream: x}, {path: a, bitstream: x}}, nil},
		{"another bitstream", []encodedEntry{{path: a, bitstream: x}, {path: a, bitstream: y}}, []int{0}},
		{"nothing stated", []encodedEntry{{path: a, bitstream: none}, {path: a, bitstream: none}}, []int{0}},
		{"twice the same, then another", []encodedEntry{{path: a, bitstream: x}, {path: a, bitstream: x}, {path: b}, {path: a, bitstream: y}}, []int{0, 1}},
		{"one inside of the other", []encodedEntry{{path: a}, {path: b}, {path: b}, {path: a}}, []int{0, 1}},
		{"one, another, the one again", []encodedEntry{{path: a, bitstream: x}, {path: a, bitstream: y}, {path: a, bitstream: x}}, []int{0, 1}},
	} {
		if got := replacedEntries(c.entries); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}
