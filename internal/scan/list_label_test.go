package scan

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/fetch"
	"instep/internal/catalog"
	"instep/resourcesync"
)

// told is a Listing of what is in it.
func told(listed *[]Listed) func(*fetch.Client) Listing {
	return func(*fetch.Client) Listing {
		return func(context.Context, time.Time) iter.Seq2[Listed, error] {
			return func(yield func(Listed, error) bool) {
				for _, e := range *listed {
					if !yield(e, nil) {
						return
					}
				}
			}
		}
	}
}

// labels are what the members are called, by URI.
func (f *listFixture) labels() map[string][3]string {
	f.t.Helper()
	all := map[string][3]string{}
	for r, err := range f.Facts.Members(f.t.Context(), f.Set) {
		if err != nil {
			f.t.Fatal(err)
		}
		all[r.URI] = [3]string{r.Type, r.Encoding, string(r.ChangeFreq)}
	}
	return all
}

// TestOtherLabelsOfListedResourcesAreTakenOver: nothing is read for them, and they are no change.
func TestOtherLabelsOfListedResourcesAreTakenOver(t *testing.T) {
	s := newSite(t)
	s.put("/a", "text", "/b", "more text")
	uri := func(name string) string { return s.URL + "/" + name }
	known, err := resourcesync.ParseDigests(digestOf("nowhere"))
	if err != nil {
		t.Fatal(err)
	}
	old := resourcesync.DatetimeOf(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))
	listed := []Listed{
		{URI: uri("a"), URL: uri("a"), LastMod: old, Type: "text/x-a"},
		{URI: uri("b"), URL: uri("b"), LastMod: old},
		{URI: base + "c", Digests: known, Type: "text/x-c", Encoding: "gzip", ChangeFreq: "daily"},
	}
	f := newList(t, told(&listed))
	f.trust(s)
	f.scan()
	first := f.labels()
	s.asked()
	for _, test := range []struct {
		name       string
		change     func()
		relabelled int64
		want       map[string][3]string
	}{
		{"nothing", func() {}, 0, first},
		{"other labels", func() {
			listed[0].Type = "text/x-other"
			listed[1].ChangeFreq = "never"
			listed[2].Type, listed[2].Encoding, listed[2].ChangeFreq = "text/x-other", "", "weekly"
		}, 3, map[string][3]string{
			uri("a"):   {"text/x-other", "", ""},
			uri("b"):   {first[uri("b")][0], "", "never"},
			base + "c": {"text/x-other", "", "weekly"},
		}},
		{"a type that is told no more", func() { listed[0].Type = "" }, 0, map[string][3]string{
			uri("a"):   {"text/x-other", "", ""},
			uri("b"):   {first[uri("b")][0], "", "never"},
			base + "c": {"text/x-other", "", "weekly"},
		}},
		{"by a rule", func() { f.Rules = []Rule{{Match: "**", Encoding: "br"}} }, 3, map[string][3]string{
			uri("a"):   {"text/x-other", "br", ""},
			uri("b"):   {first[uri("b")][0], "br", "never"},
			base + "c": {"text/x-other", "br", "weekly"},
		}},
	} {
		test.change()
		r := f.scan()
		if r.Relabelled != test.relabelled || r.Unchanged != 3 || r.Created+r.Updated+r.Deleted+r.Hashed != 0 {
			t.Errorf("%s: got %+v, want %d relabelled of 3", test.name, r, test.relabelled)
		}
		if diff := cmp.Diff(f.labels(), test.want); diff != "" {
			t.Errorf("%s (-got +want):\n%s", test.name, diff)
		}
	}
	if asked := s.asked(); len(asked) != 0 {
		t.Errorf("fetched for labels: %q", asked)
	}
}

// TestLabelsComeWithAResourceThatIsLookedAt: of the same bytes, asked for on condition or read again.
func TestLabelsComeWithAResourceThatIsLookedAt(t *testing.T) {
	s := newSite(t)
	s.put("/a", "text")
	listed := []Listed{{URI: s.URL + "/a", URL: s.URL + "/a", Type: "text/x-a"}} // no lastmod: asked for each time
	f := newList(t, told(&listed))
	f.trust(s)
	f.scan()
	listed[0].Type = "text/x-other"
	if r := f.scan(); r.Relabelled != 1 || r.Unchanged != 1 || r.Updated != 0 {
		t.Errorf("on condition: got %+v, want it relabelled", r)
	}
	listed[0].Type = "text/x-third"
	f.forgetStats(t)
	if r := f.scan(); r.Relabelled != 1 || r.Unchanged != 1 || r.Updated != 0 || r.Hashed != 4 {
		t.Errorf("read again: got %+v, want it relabelled", r)
	}
	if diff := cmp.Diff(f.labels(), map[string][3]string{s.URL + "/a": {"text/x-third", "", ""}}); diff != "" {
		t.Errorf("labels (-got +want):\n%s", diff)
	}
}

// forgetStats makes the next scan read everything.
func (f *listFixture) forgetStats(t *testing.T) {
	t.Helper()
	var all []catalog.Resource
	for r, err := range f.Facts.Members(t.Context(), f.Set) {
		if err != nil {
			t.Fatal(err)
		}
		r.Stat = ""
		all = append(all, r)
	}
	if err := f.Facts.Restat(t.Context(), all); err != nil {
		t.Fatal(err)
	}
}
