package past_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/blob"
	"instep/fetch"
	"instep/internal/past"
	"instep/internal/sim"
	"instep/resourcesync"
	"instep/source"
)

// life is a simulated Source with a history, all of which is archived.
type life struct {
	t          *testing.T
	model      *sim.Model
	s          *sim.Source
	server     *httptest.Server
	begin, end time.Time
	rng        *rand.Rand
}

// newLife lets a Source make so many changes or some more, published in up to 60 rounds.
func newLife(t *testing.T, changes int, adapt func(*sim.Options)) *life {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("INSTEP_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("INSTEP_SEED=%d", seed)
	l := &life{t: t, rng: rand.New(rand.NewPCG(seed, 1))}
	start := time.Now().Add(-24 * time.Hour).Truncate(time.Second)
	var err error
	l.model, err = sim.NewModel(t.Context(), sim.Config{
		Seed: seed, Resources: 100, Rate: 1, Hot: 0.2, Twins: true, Sets: 1, Start: start,
		Size: sim.Size{Kind: sim.LogNormal, Low: 200},
	})
	if err != nil {
		t.Fatal(err)
	}
	l.server = httptest.NewUnstartedServer(nil)
	o := sim.Options{
		Model: l.model, Bucket: blob.NewMem(), Staging: blob.NewMem(), BaseURL: "http://" + l.server.Listener.Addr().String() + "/",
		ChangeListMax: 70, MaxEntries: 60, RebaseEvery: 5 * time.Minute, DumpEvery: 7 * time.Minute, Keep: time.Minute,
		Archive: &source.Archive{},
	}
	if adapt != nil {
		adapt(&o)
	}
	if l.s, err = sim.NewSource(o); err != nil {
		t.Fatal(err)
	}
	l.server.Config.Handler = l.s
	l.server.Start()
	t.Cleanup(l.server.Close)
	l.round(0)
	l.begin = l.model.Now()
	for l.model.Last(0) < int64(changes) {
		l.round(time.Duration(1+l.rng.IntN(2*changes/60+1)) * time.Second)
	}
	l.end = l.model.Now()
	return l
}

func (l *life) round(d time.Duration) {
	l.t.Helper()
	if _, err := l.s.Round(context.Background(), d); err != nil {
		l.t.Fatal(err)
	}
}

// instant is any moment of the history.
func (l *life) instant() time.Time {
	return l.begin.Add(time.Duration(l.rng.Int64N(int64(l.end.Sub(l.begin)))))
}

// truth is what there was at a moment, as digests by URI.
func (l *life) truth(at time.Time) map[string]string {
	l.t.Helper()
	truth, err := l.model.TruthAt(at.Add(1)) // changes of the moment itself count
	if err != nil {
		l.t.Fatal(err)
	}
	all := map[string]string{}
	for r, err := range truth.All() {
		if err != nil {
			l.t.Fatal(err)
		}
		all[l.server.URL+"/"+r.Path] = fmt.Sprintf("sha-256:%x", r.SHA256)
	}
	return all
}

func (l *life) client() *fetch.Client {
	l.t.Helper()
	c, err := fetch.New(fetch.Options{})
	if err == nil {
		err = c.TrustSource(l.t.Context(), l.server.URL)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(c.Close)
	return c
}

// rounds is how many instants are looked at: a few with -short.
func rounds() int {
	if os.Getenv("INSTEP_LONG") != "" {
		return 100
	}
	return 8
}

// changes is how long a history is.
func changes() int {
	if os.Getenv("INSTEP_LONG") != "" {
		return 2000
	}
	return 400
}

// The documents of a Source, archived and present, by lists or by dumps alone, say at any
// instant what there was, and what became of it until any other.
func TestSourceIsReadAsItWasAtAnyInstant(t *testing.T) {
	for name, adapt := range map[string]func(*sim.Options){
		"lists":           nil,
		"lists and dumps": func(o *sim.Options) { o.Dumps = true },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, changes(), adapt)
			src := &past.Source{URI: l.server.URL, Client: l.client(), Tell: func(_ resourcesync.Quirk, _, text string) { t.Log(text) }}
			sets, err := src.Sets(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			for range rounds() {
				from, to := l.instant(), l.instant()
				if to.Before(from) {
					from, to = to, from
				}
				got := map[string]resourcesync.Change{}
				for d, err := range past.Compare("", src.At(t.Context(), sets[0], from), src.At(t.Context(), sets[0], to)) {
					if err != nil {
						t.Fatalf("from %v to %v: %v", from, to, err)
					}
					got[d.State().URI] = d.Change
				}
				if want := became(l.truth(from), l.truth(to)); !cmp.Equal(got, want) {
					t.Errorf("from %v to %v (-got +want):\n%s", from, to, cmp.Diff(got, want))
				}
			}
		})
	}
}

// became is what happened to each resource between two states.
func became(before, after map[string]string) map[string]resourcesync.Change {
	all := map[string]resourcesync.Change{}
	for uri := range before {
		all[uri] = resourcesync.Deleted
	}
	for uri, sum := range after {
		was, ok := before[uri]
		switch {
		case !ok:
			all[uri] = resourcesync.Created
		case was == sum:
			all[uri] = ""
		default:
			all[uri] = resourcesync.Updated
		}
	}
	return all
}
