package destination_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/destination"
	"instep/fetch"
	"instep/harvest"
	"instep/insteptest"
	"instep/resourcesync"
)

// harvester keeps what it is told in a map: a store that knows nothing of mirrors.
type harvester struct {
	t     *testing.T
	d     *destination.Destination
	url   string
	store map[string]insteptest.Resource
	since map[string]time.Time // by set
}

func newHarvester(t *testing.T, src *insteptest.Source) *harvester {
	t.Helper()
	c, err := fetch.New(fetch.Options{MaxRetries: 2, Backoff: time.Millisecond, BackoffMax: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.TrustSource(t.Context(), src.URL); err != nil {
		t.Fatal(err)
	}
	return &harvester{t: t, d: &destination.Destination{Client: c}, url: src.URL, store: map[string]insteptest.Resource{}, since: map[string]time.Time{}}
}

// from is the earliest of what is known of each set.
func (h *harvester) from() (t time.Time) {
	for _, at := range h.since {
		if t.IsZero() || at.Before(t) {
			t = at
		}
	}
	return t
}

// harvest follows the changes; it returns how many there were.
func (h *harvester) harvest(since time.Time) (n int, err error) {
	for change, err := range h.d.Changes(h.t.Context(), h.url, since) {
		if err != nil {
			return n, err
		}
		n++
		if change.Change == resourcesync.Deleted {
			delete(h.store, change.URI)
		} else if err := h.keep(change.Resource); err != nil {
			return n, err
		}
		if change.Changed.After(h.since[change.Set]) {
			h.since[change.Set] = change.Changed
		}
	}
	return n, nil
}

func (h *harvester) keep(w harvest.Resource) error {
	body, err := h.d.Open(h.t.Context(), w)
	if err != nil {
		return err
	}
	defer body.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, body)
	if err != nil {
		return err
	}
	h.store[w.URI] = insteptest.Resource{Length: n, SHA256: hex.EncodeToString(sum.Sum(nil)), Type: w.Type}
	return nil
}

func (h *harvester) mustEqual(src *insteptest.Source) {
	h.t.Helper()
	if diff := cmp.Diff(src.Resources(), h.store); diff != "" {
		h.t.Fatalf("(-Source +store)\n%s", diff)
	}
}

func TestChangesKeepAStoreInStep(t *testing.T) {
	for _, sets := range []int{1, 2} {
		src := insteptest.NewSource(t, insteptest.Options{Seed: 4, Resources: 40, Sets: sets, MaxList: 10})
		h := newHarvester(t, src)
		for round := range 10 {
			if _, err := h.harvest(h.from()); err != nil {
				t.Fatalf("%d sets, round %d: %v", sets, round, err)
			}
			h.mustEqual(src)
			src.Advance(20 * time.Second)
		}
	}
}

func TestChangesTellOnlyWhatIsNew(t *testing.T) {
	src := insteptest.NewSource(t, insteptest.Options{Resources: 100, Rate: 0.1})
	h := newHarvester(t, src)
	if n, err := h.harvest(time.Time{}); err != nil || n != 100 {
		t.Fatalf("everything: %d, %v", n, err)
	}
	changes := src.Advance(time.Minute)
	if n, err := h.harvest(h.from()); err != nil || n == 0 || int64(n) > changes {
		t.Errorf("got %d, %v; want at most %d", n, err, changes)
	}
	if n, err := h.harvest(h.from()); err != nil || n > 1 {
		t.Errorf("without news: got %d, %v; want the last change at most", n, err)
	}
}

func TestChangesOfLongAgoAreAGap(t *testing.T) {
	src := insteptest.NewSource(t, insteptest.Options{Resources: 40, MaxList: 5, Keep: time.Second})
	h := newHarvester(t, src)
	if _, err := h.harvest(time.Time{}); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		src.Advance(time.Minute)
	}
	var gap *destination.GapError
	if _, err := h.harvest(h.from()); !errors.As(err, &gap) || gap.Why == "" {
		t.Fatalf("got %v, want a gap", err)
	}
	clear(h.store)
	if _, err := h.harvest(time.Time{}); err != nil {
		t.Fatal(err)
	}
	h.mustEqual(src)
}

func TestOpenGivesNoWrongBytes(t *testing.T) {
	src := insteptest.NewSource(t, insteptest.Options{})
	h := newHarvester(t, src)
	src.Misbehave("wrong-bytes=100%")
	var mismatch *resourcesync.MismatchError
	if _, err := h.harvest(time.Time{}); !errors.As(err, &mismatch) {
		t.Errorf("got %v, want a mismatch", err)
	}
	if len(h.store) > 0 {
		t.Errorf("kept %v", maps.Keys(h.store))
	}
}

func TestChangesEndWhenNobodyWantsMore(t *testing.T) {
	src := insteptest.NewSource(t, insteptest.Options{Sets: 2})
	h := newHarvester(t, src)
	n := 0
	for _, err := range h.d.Changes(t.Context(), src.URL, time.Time{}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 3 {
			break
		}
	}
	if n != 3 {
		t.Errorf("got %d changes", n)
	}
}

// A deletion has no digest and no links, so nothing can prove it or choose it by them: who does not
// hear of it keeps the resource for ever.
func TestChangesTellDeletionsWhateverIsChosen(t *testing.T) {
	for name, choose := range map[string]func(*destination.Destination){
		"strict":        func(d *destination.Destination) { d.Strict = true },
		"by collection": func(d *destination.Destination) { d.Collections = []string{"urn:x:c"} },
		"by profile":    func(d *destination.Destination) { d.Profiles = []string{"urn:x:p"} },
		"with metadata": func(d *destination.Destination) { d.Include, d.WithMetadata = []string{"*.none"}, true },
	} {
		src := insteptest.NewSource(t, insteptest.Options{Seed: 4, Resources: 40})
		h := newHarvester(t, src)
		if _, err := h.harvest(time.Time{}); err != nil {
			t.Fatal(err)
		}
		since := h.from()
		src.Advance(time.Minute)
		want := deletions(t, h, since)
		choose(h.d)
		if got := deletions(t, h, since); len(want) == 0 || !cmp.Equal(got, want) {
			t.Errorf("%s: got %d deletions, want %d", name, len(got), len(want))
		}
	}
}

// deletions are the URIs of resources deleted since a moment.
func deletions(t *testing.T, h *harvester, since time.Time) (uris []string) {
	t.Helper()
	for change, err := range h.d.Changes(t.Context(), h.url, since) {
		if err != nil {
			t.Fatal(err)
		}
		if change.Change == resourcesync.Deleted {
			uris = append(uris, change.URI)
		}
	}
	return uris
}
