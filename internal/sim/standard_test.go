package sim

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/blob"
	"instep/internal/conformance/replay"
	"instep/lint"
	"instep/source"
)

// everything is a Source with all capabilities, its lists small.
func everything(t *testing.T, sets int) *site {
	t.Helper()
	m := newModel(t, Config{Seed: 21, Resources: 90, Rate: 3, Sets: sets, Size: Size{Kind: Uniform, Low: 1, High: 900}})
	return serve(t, Options{
		Model: m, Bucket: blob.NewMem(), Staging: blob.NewMem(), ChangeListMax: 15, MaxEntries: 20, Dumps: true,
		DumpEvery: time.Minute, RebaseEvery: 40 * time.Second, Keep: 50 * time.Second, Archive: &source.Archive{Count: 6},
		Generator: "sim test",
	})
}

// From each list and dump that is published or archived, and the changes after it, the
// present resources follow.
func TestWhatIsPublishedReplays(t *testing.T) {
	for _, sets := range []int{1, 2} {
		s := everything(t, sets)
		read := func(uri string) ([]byte, error) {
			r, _, err := s.o.Bucket.Get(t.Context(), strings.TrimPrefix(uri, s.url), 0, -1)
			if err != nil {
				return nil, err
			}
			defer r.Close()
			return io.ReadAll(r)
		}
		for round := range 25 {
			if _, err := s.Round(t.Context(), 7*time.Second); err != nil {
				t.Fatal(err)
			}
			tree, err := replay.Walk(read, source.DescriptionURI(s.url))
			if err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			for i, set := range tree.Sets {
				want := replay.State{}
				for r := range s.o.Model.Resources(i) {
					want[s.url+r.Path] = fmt.Sprintf("%x", r.SHA256)
				}
				all, err := set.Replay()
				if err != nil {
					t.Fatalf("round %d: %v", round, err)
				}
				for _, r := range all {
					if diff := cmp.Diff(want, r.State); diff != "" {
						t.Fatalf("round %d: from %s of %v (-truth +replayed):\n%s", round, r.URI, r.At, diff)
					}
				}
				if round > 20 && len(all) < 6 {
					t.Errorf("round %d: got %d lists and dumps, want the archived ones too", round, len(all))
				}
			}
		}
	}
}

// check holds a document against the rules and returns which are broken, by level.
func check(t *testing.T, uri string, text []byte, opts ...lint.Option) map[string]lint.Level {
	t.Helper()
	broken := map[string]lint.Level{}
	c := lint.Checker{Report: func(f lint.Finding) { broken[f.Rule] = max(broken[f.Rule], f.Level) }}
	if _, err := c.Document(t.Context(), uri, bytes.NewReader(text), opts...); err != nil {
		t.Fatal(err)
	}
	return broken
}

func TestASourceWithoutSwitchesIsClean(t *testing.T) {
	s := everything(t, 1)
	for range 20 {
		if _, err := s.Round(t.Context(), 7*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	checked := 0
	for info, err := range s.o.Bucket.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(info.Key, ".xml") {
			continue
		}
		var opts []lint.Option
		if strings.HasPrefix(info.Key, "sitemap") {
			opts = append(opts, lint.WithKind(lint.KindSitemap))
		}
		checked++
		for rule, level := range check(t, s.url+info.Key, []byte(s.body(info.Key)), opts...) {
			if level > lint.Info {
				t.Errorf("%s: %s is broken (%s)", info.Key, rule, level)
			}
		}
	}
	if checked < 40 {
		t.Errorf("only %d documents were checked", checked)
	}
}

// otherRule is for quirks that the linter does not call by their number: the rule that
// their document breaks, "" if it takes more than the document to see them.
var otherRule = map[string]string{
	"12": "", "21": "", "23": "quirk-19-capability-repeated", "24": "resourcelist-up-required", "27": "", "29": "datetime-every-entry-helps",
	"32": "", "33": "", "37": "", "38": "", "40": "", "44": "loc-absolute-uri", "50": "",
}

// The linter names what the documents of a Source with a quirk break.
func TestTheLinterNamesQuirks(t *testing.T) {
	clean := newSite(t)
	for _, sw := range quirks {
		show, ok := shows[sw.Name]
		if !ok || sw.doc == nil && sw.raw == nil {
			continue
		}
		s := newSite(t, all(sw))
		before := check(t, "a", []byte(clean.body(clean.place(show.path))))
		after := check(t, "a", []byte(s.body(s.place(show.path))))
		maps.DeleteFunc(after, func(rule string, _ lint.Level) bool { _, had := before[rule]; return had })
		want, other := otherRule[sw.Name]
		if !other {
			want = fmt.Sprintf("quirk-%02s-", sw.Name)
		}
		named := slices.ContainsFunc(slices.Collect(maps.Keys(after)), func(rule string) bool { return strings.HasPrefix(rule, want) })
		if named != (want != "") || want == "" && len(after) > 0 {
			t.Errorf("quirk %s: the linter names %v, expected %q", sw.Name, after, want)
		}
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestAModelTakesSomeDozenBytesForAResource(t *testing.T) {
	const n = 200_000
	before := heap()
	m := newModel(t, Config{Seed: 1, Resources: n, Rate: 1000, Size: Size{Kind: Fixed, Low: 16}})
	if _, err := m.Step(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	if each := (heap() - before) / n; each > 80 {
		t.Errorf("got %d bytes for a resource, want at most 80", each)
	}
	runtime.KeepAlive(m)
}

func BenchmarkNewModel(b *testing.B) {
	for _, size := range []int64{100, 4096} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			const n = 100_000
			b.SetBytes(n * size)
			for b.Loop() {
				if _, err := NewModel(b.Context(), Config{Seed: 1, Resources: n, Size: Size{Kind: Fixed, Low: size}, Start: start}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkRound(b *testing.B) {
	m, err := NewModel(b.Context(), Config{Seed: 1, Resources: 100_000, Rate: 1000, Size: Size{Kind: Fixed, Low: 1000}, Start: start})
	if err != nil {
		b.Fatal(err)
	}
	s, err := NewSource(Options{Model: m, BaseURL: "http://sim.example.org/", Bucket: blob.NewMem(), Staging: blob.NewMem()})
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Publish(b.Context()); err != nil {
		b.Fatal(err)
	}
	var changes int64
	for b.Loop() {
		n, err := s.Round(b.Context(), time.Second)
		if err != nil {
			b.Fatal(err)
		}
		changes += n.Sum()
	}
	b.ReportMetric(float64(changes)/b.Elapsed().Seconds(), "changes/s")
}
