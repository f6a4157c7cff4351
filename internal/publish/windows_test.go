package publish

import (
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"instep/internal/catalog"
	"instep/resourcesync"
)

var (
	epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	wide  = limits{entries: 5000, bytes: maxListBytes}
)

func minute(n int) time.Time { return epoch.Add(time.Duration(n) * time.Minute) }

// calls are changes numbered from 1; call n recorded at minute n as many as counts says.
func calls(counts ...int) (all []catalog.Change) {
	for i, n := range counts {
		for range n {
			seq := int64(len(all) + 1)
			all = append(all, catalog.Change{
				Seq: seq, Datetime: minute(i + 1), Change: resourcesync.Updated,
				Resource: catalog.Resource{URI: base + "a", Length: resourcesync.Bytes(10)},
			})
		}
	}
	return all
}

func sequence(all []catalog.Change) iter.Seq2[catalog.Change, error] {
	return func(yield func(catalog.Change, error) bool) {
		for _, ch := range all {
			if !yield(ch, nil) {
				return
			}
		}
	}
}

func TestDivide(t *testing.T) {
	open := span{after: 0, through: 0, from: epoch}
	for name, c := range map[string]struct {
		listed int64
		calls  []int
		limits limits
		want   []span
	}{
		"nothing":             {0, nil, wide, []span{open}},
		"into the open list":  {0, []int{2, 3}, wide, []span{{0, 5, epoch, time.Time{}, 5, 0, 50}}},
		"exactly full":        {0, []int{2, 3}, limits{5, maxListBytes, 0, nil}, []span{{0, 5, epoch, time.Time{}, 5, 0, 50}}},
		"one too many":        {0, []int{2, 3, 1}, limits{5, maxListBytes, 0, nil}, []span{{0, 5, epoch, minute(3), 5, 0, 50}, {5, 6, minute(3), time.Time{}, 1, 0, 10}}},
		"a call is one":       {0, []int{3, 3}, limits{5, maxListBytes, 0, nil}, []span{{0, 3, epoch, minute(2), 3, 0, 30}, {3, 6, minute(2), time.Time{}, 3, 0, 30}}},
		"a call over the max": {0, []int{7}, limits{5, maxListBytes, 0, nil}, []span{{0, 7, epoch, time.Time{}, 7, 0, 70}}},
		"after one":           {0, []int{1, 7, 1}, limits{5, maxListBytes, 0, nil}, []span{{0, 1, epoch, minute(2), 1, 0, 10}, {1, 8, minute(2), minute(3), 7, 0, 70}, {8, 9, minute(3), time.Time{}, 1, 0, 10}}},
		"what is listed stays": {8, []int{7, 1, 1}, limits{5, maxListBytes, 0, nil},
			[]span{{0, 8, epoch, minute(3), 8, 0, 0}, {8, 9, minute(3), time.Time{}, 1, 0, 10}}},
		"bytes": {0, []int{1, 1}, limits{5000, 600, 0, nil}, []span{{0, 1, epoch, minute(2), 1, 0, 10}, {1, 2, minute(2), time.Time{}, 1, 0, 10}}},
		"age":   {0, []int{1, 1, 1, 1}, limits{5000, maxListBytes, 2 * time.Minute, nil}, []span{{0, 1, epoch, minute(2), 1, 0, 10}, {1, 3, minute(2), minute(4), 2, 0, 20}, {3, 4, minute(4), time.Time{}, 1, 0, 10}}},
	} {
		got, err := divide(open, c.listed, sequence(calls(c.calls...)), c.limits)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for i := range got {
			got[i].bytes = 0
		}
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(span{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestDivideStopsAtAnError(t *testing.T) {
	broken := errors.New("broken")
	_, err := divide(span{}, 0, func(yield func(catalog.Change, error) bool) { yield(catalog.Change{}, broken) }, wide)
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want the error of the changes", err)
	}
}

// TestEveryChangeIsInOneList: whatever was recorded and listed, lists follow each
// other without gap and overlap, in numbers and in time.
func TestEveryChangeIsInOneList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := calls(rapid.SliceOfN(rapid.IntRange(1, 9), 0, 40).Draw(t, "calls")...)
		listed := int64(0)
		if len(all) > 0 { // a publication never ends within a call
			listed = all[rapid.IntRange(0, len(all)-1).Draw(t, "listed")].Seq
			for listed < int64(len(all)) && all[listed].Datetime.Equal(all[listed-1].Datetime) {
				listed++
			}
		}
		l := limits{
			entries: int64(rapid.IntRange(1, 20).Draw(t, "entries")), bytes: int64(rapid.IntRange(1, 20000).Draw(t, "bytes")),
			age: time.Duration(rapid.IntRange(0, 9).Draw(t, "age")) * time.Minute,
		}
		spans, err := divide(span{from: epoch}, listed, sequence(all), l)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range spans {
			last := i == len(spans)-1
			if s.until.IsZero() != last || !last && (!s.until.Equal(spans[i+1].from) || s.through != spans[i+1].after) {
				t.Fatalf("list %d of %d: %+v does not end where the next begins", i, len(spans), s)
			}
			if i > 0 && s.after < listed {
				t.Fatalf("list %d begins with %d, which is listed already", i, s.number())
			}
			for _, ch := range all[s.after:s.through] {
				if ch.Datetime.Before(s.from) || !last && !ch.Datetime.Before(s.until) {
					t.Fatalf("change %d of %s is not in [%s, %s)", ch.Seq, ch.Datetime, s.from, s.until)
				}
			}
			if s.entries != s.through-s.after {
				t.Fatalf("list %d counts %d changes, has %d", i, s.entries, s.through-s.after)
			}
		}
		if end := spans[len(spans)-1].through; end != int64(len(all)) {
			t.Fatalf("the lists end with change %d, want %d", end, len(all))
		}
	})
}

// TestEntryBytesIsNotLess than what the Encoder writes.
func TestEntryBytesIsNotLess(t *testing.T) {
	digests := strings.Repeat("a", 64)
	sum, err := resourcesync.ParseDigests("sha-256:" + digests + " md5:" + strings.Repeat("b", 32))
	if err != nil {
		t.Fatal(err)
	}
	said := resourcesync.Remainder{
		Links:   []resourcesync.Link{{Rel: "via", Href: base + strings.Repeat("&", 50), Digests: sum, Length: resourcesync.Bytes(1 << 62), Pri: 1}, {Rel: "x", Href: base}},
		Attrs:   []resourcesync.Attr{{Space: "http://example.org/terms/", Name: "shelf", Value: `"7"`}},
		Foreign: `<x xmlns="http://example.org/terms/">text</x>`,
	}
	remainder, err := said.Text()
	if err != nil {
		t.Fatal(err)
	}
	for _, uri := range []string{base, base + strings.Repeat("a&'b", 500)} {
		ch := catalog.Change{Change: resourcesync.Updated, Datetime: epoch.Add(time.Microsecond), Resource: catalog.Resource{
			URI: uri, LastMod: resourcesync.DatetimeOf(epoch.Add(time.Nanosecond)), Length: resourcesync.Bytes(1 << 62), Digests: sum,
			Type: "application/vnd.example+xml", Encoding: "gzip", ChangeFreq: resourcesync.Monthly, Remainder: remainder,
		}}
		sizes := [2]int64{}
		for n := range sizes {
			var out strings.Builder
			h := resourcesync.Header{Links: []resourcesync.Link{{Rel: "up", Href: base}}}
			h.Capability, h.From = resourcesync.CapabilityChangeList, resourcesync.DatetimeOf(epoch)
			enc, err := resourcesync.NewEncoder(&out, h)
			for range n {
				en, damaged := changeEntry(ch)
				err = errors.Join(err, damaged, enc.Encode(en))
			}
			if err := errors.Join(err, enc.Close()); err != nil {
				t.Fatal(err)
			}
			sizes[n] = int64(out.Len())
		}
		if got, wrote := entryBytes(&ch), sizes[1]-sizes[0]; got < wrote {
			t.Errorf("%.40s: estimated %d bytes, the Encoder writes %d", uri, got, wrote)
		}
	}
}
