//go:build unix

package main

import (
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"instep/blob"
	"instep/internal/sim"
	"instep/source"
)

// dryRunCases is how many synchronisations are compared.
func dryRunCases() int {
	if testing.Short() {
		return 50
	}
	return 200
}

// A dry run and the real run after it name the same resources, with the same action,
// by the same way, with as many bytes.
func TestADryRunNamesWhatTheRealRunDoes(t *testing.T) {
	rng := killRandom(t)
	named, ways := 0, map[string]int{}
	for n := 0; n < dryRunCases(); {
		w, fresh := newSimulated(t, rng), true
		for range 5 + rng.IntN(6) {
			w.changes()
			args := w.options(rng)
			dry := instep(t, append([]string{"sync", "-n"}, args...)...)
			if _, err := os.Stat(w.mirror); fresh && !os.IsNotExist(err) {
				t.Errorf("the dry run made the mirror: %v", err)
			}
			fresh = false
			actual := instep(t, append([]string{"sync"}, args...)...)
			got, want := items(dry), items(actual)
			if dry.Withheld != nil { // the dry run shows what is withheld as well
				got = slices.DeleteFunc(got, func(s string) bool { return strings.HasPrefix(s, "deleted ") })
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("%v (-real run +dry run):\n%s\n%s", args, diff, actual.stderr)
			}
			if dry.code != actual.code {
				t.Errorf("%v: the dry run ended with %d, the real run with %d", args, dry.code, actual.code)
			}
			for _, item := range got {
				ways[strings.Fields(item)[1]]++
			}
			named += len(got)
			n++
		}
	}
	t.Logf("%d cases, %d items: %v", dryRunCases(), named, ways)
	if named == 0 {
		t.Error("no case had anything to do")
	}
}

// items are what a run says of each resource, sorted.
func items(o outcome) (all []string) {
	for _, r := range o.records {
		if r.Type != "change" {
			continue
		}
		size := int64(-1)
		if r.Bytes != nil && r.Action != "deleted" {
			size = *r.Bytes
		}
		all = append(all, fmt.Sprintf("%s %q %s %d", r.Action, r.Via, r.URI, size))
	}
	slices.Sort(all)
	return all
}

// simulated is a simulated Source and a mirror of it.
type simulated struct {
	t      *testing.T
	rng    *rand.Rand
	s      *sim.Source
	url    string
	mirror string
}

func newSimulated(t *testing.T, rng *rand.Rand) *simulated {
	t.Helper()
	m, err := sim.NewModel(t.Context(), sim.Config{
		Seed: rng.Uint64(), Resources: 1 + rng.IntN(80), Rate: []float64{0.1, 1, 3}[rng.IntN(3)], Twins: rng.IntN(2) == 0,
		Size: sim.Size{Kind: sim.LogNormal, Low: []int64{50, 5000}[rng.IntN(2)]}, Start: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(nil)
	o := sim.Options{
		Model: m, Bucket: blob.NewMem(), Staging: blob.NewMem(), BaseURL: "http://" + srv.Listener.Addr().String() + "/",
		ChangeListMax: 1 + rng.IntN(40), MaxEntries: 1 + rng.IntN(100), Dumps: rng.IntN(4) > 0,
		DumpEvery: time.Duration(1+rng.IntN(120)) * time.Second, RebaseEvery: time.Duration(1+rng.IntN(120)) * time.Second, Keep: time.Duration(1+rng.IntN(120)) * time.Second,
	}
	if rng.IntN(2) == 0 {
		o.Archive = &source.Archive{}
	}
	s, err := sim.NewSource(o)
	if err != nil {
		t.Fatal(err)
	}
	srv.Config.Handler = s
	srv.Start()
	t.Cleanup(srv.Close)
	w := &simulated{t: t, rng: rng, s: s, url: o.BaseURL, mirror: filepath.Join(t.TempDir(), "mirror")}
	w.round(0)
	return w
}

func (w *simulated) round(d time.Duration) {
	w.t.Helper()
	if _, err := w.s.Round(w.t.Context(), d); err != nil {
		w.t.Fatal(err)
	}
}

// changes lets the Source live on, for a moment or for long.
func (w *simulated) changes() {
	for range 1 + w.rng.IntN(3)*w.rng.IntN(4) {
		w.round(time.Duration(w.rng.IntN(40)) * time.Second)
	}
}

// options are the arguments of a synchronisation.
func (w *simulated) options(rng *rand.Rand) []string {
	args := []string{w.url, w.mirror}
	if rng.IntN(3) > 0 {
		args = append(args, "--max-delete", "100%")
	}
	if rng.IntN(5) == 0 {
		args = append(args, "--include", "*.txt")
	}
	if rng.IntN(8) == 0 {
		args = append(args, "--keep-deleted")
	}
	return args
}
