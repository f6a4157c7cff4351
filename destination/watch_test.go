package destination_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/destination"
	"instep/discover"
	"instep/fetch"
	"instep/mirror"
	"instep/resourcesync"
)

// aRun is what a run of a watch comes to.
type aRun struct {
	pulse destination.Pulse
	err   error
}

// watch makes these runs, and returns the waits between them without jitter and what
// ended the loop. After the last run the watch is told to stop.
func watch(t *testing.T, w destination.Watch, runs ...aRun) (waits []time.Duration, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		n, began := 0, time.Now()
		w.Run = func(context.Context) (destination.Pulse, error) {
			if n > 0 {
				waits = append(waits, time.Since(began))
			}
			if n++; n > len(runs) {
				stop()
				return destination.Pulse{}, nil
			}
			began = time.Now()
			return runs[n-1].pulse, runs[n-1].err
		}
		if w.Rand == nil {
			w.Rand = func() float64 { return 0.5 }
		}
		err = w.Loop(ctx)
	})
	return waits, err
}

func TestWatchKeepsTheRhythmOfTheSource(t *testing.T) {
	pulse := func(p destination.Pulse) aRun { return aRun{pulse: p} }
	news := pulse(destination.Pulse{News: true, Gap: 2 * time.Minute})
	quiet := pulse(destination.Pulse{Gap: 2 * time.Minute})
	busy := &fetch.Error{Op: "get", Kind: fetch.Temporary, RetryAfter: 3 * time.Hour}
	out := aRun{err: destination.ErrOutage}
	for name, c := range map[string]struct {
		watch destination.Watch
		runs  []aRun
		want  string
	}{
		"half the time between two changes": {runs: []aRun{news, news}, want: "[1m0s 1m0s]"},
		"longer while nothing changes, up to the bound": {
			watch: destination.Watch{Most: 3 * time.Minute}, runs: []aRun{news, quiet, quiet, quiet, quiet, news},
			want: "[1m0s 1m30s 2m15s 3m0s 3m0s 1m0s]",
		},
		"no sooner than the bound": {runs: []aRun{pulse(destination.Pulse{News: true, Gap: time.Second})}, want: "[10s]"},
		"no sooner than caches expire": {
			runs: []aRun{pulse(destination.Pulse{News: true, Gap: time.Minute, MaxAge: 10 * time.Minute}), pulse(destination.Pulse{News: true, MaxAge: 365 * 24 * time.Hour})},
			want: "[10m0s 1h0m0s]",
		},
		"as the Capability List says": {
			runs: []aRun{pulse(destination.Pulse{News: true, Freq: resourcesync.Hourly}), pulse(destination.Pulse{News: true, Freq: resourcesync.Always}), pulse(destination.Pulse{News: true, Freq: resourcesync.Yearly})},
			want: "[30m0s 10s 1h0m0s]",
		},
		"without any sign":            {runs: []aRun{pulse(destination.Pulse{News: true})}, want: "[1m0s]"},
		"as told":                     {watch: destination.Watch{Every: 5 * time.Second}, runs: []aRun{news, quiet, quiet, quiet}, want: "[5s 5s 5s 5s]"},
		"seldom in an outage":         {runs: []aRun{out, out, out, news, out}, want: "[20s 40s 1m20s 1m0s 20s]"},
		"not before it is asked back": {runs: []aRun{{err: fmt.Errorf("set: %w", busy)}}, want: "[3h0m0s]"},
	} {
		t.Run(name, func(t *testing.T) {
			waits, err := watch(t, c.watch, c.runs...)
			if got := fmt.Sprint(waits); got != c.want || err != nil {
				t.Errorf("got %s, %v; want %s", got, err, c.want)
			}
		})
	}
}

func TestWatchJittersByATenth(t *testing.T) {
	for draw, want := range map[float64]string{0: "[54s]", 0.5: "[1m0s]", 0.999999999: "[1m5.999999988s]"} {
		waits, err := watch(t, destination.Watch{Rand: func() float64 { return draw }}, aRun{})
		if got := fmt.Sprint(waits); got != want || err != nil {
			t.Errorf("jitter %v: got %s, %v; want %s", draw, got, err, want)
		}
	}
}

func TestWatchEndsForWhatWaitingDoesNotMend(t *testing.T) {
	disk := errors.New("no space left on device")
	gone := &fetch.Error{Op: "get", Kind: fetch.NotFound}
	down := &fetch.Error{Op: "get", Kind: fetch.Temporary}
	unknown := &discover.UnknownSetError{Name: "prints"}
	for name, c := range map[string]struct {
		runs []aRun
		want error
	}{
		"the mirror":                            {[]aRun{{}, {err: disk}}, disk},
		"a Source that was never there":         {[]aRun{{err: gone}}, gone},
		"a Source that is not there for a time": {[]aRun{{}, {err: gone}, {}}, nil},
		"a Source that is down at first":        {[]aRun{{err: down}, {}}, nil},
		"a set that was never offered":          {[]aRun{{err: unknown}}, unknown},
		"a set that is not offered for a time":  {[]aRun{{}, {err: unknown}, {}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			waits, err := watch(t, destination.Watch{}, c.runs...)
			if !errors.Is(err, c.want) || c.want == nil && len(waits) != len(c.runs) {
				t.Errorf("got %v after %d runs, want %v", err, len(waits), c.want)
			}
		})
	}
}

func TestWatchStopsWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		w := destination.Watch{
			Run:  func(context.Context) (destination.Pulse, error) { return destination.Pulse{}, nil },
			Rand: func() float64 { return 0 }, Told: func(destination.Wait) { time.AfterFunc(time.Second, stop) },
		}
		began := time.Now()
		if err := w.Loop(ctx); err != nil || time.Since(began) != time.Second {
			t.Errorf("got %v after %v, want the end after 1s", err, time.Since(began))
		}
	})
}

// The rhythm is learned from the Change List: its datetimes, changefreq and Cache-Control.
func TestPlanTellsHowOftenTheSourceChanges(t *testing.T) {
	s, paths, m := inStep(t, 3)
	s.answer("/changes.xml", nil)
	pulse := func() (p destination.Pulse) {
		t.Helper()
		err := m.with(func(ctx context.Context, d *destination.Destination, _ *mirror.Mirror) error {
			plan, err := d.Plan(ctx)
			if err != nil {
				return err
			}
			defer plan.Close()
			p = plan.Pulse()
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if diff := cmp.Diff(destination.Pulse{}, pulse()); diff != "" {
		t.Errorf("of a Source that tells nothing (-want +got):\n%s", diff)
	}
	var entries []resourcesync.Entry
	for _, minute := range []int{1, 1, 6, 6, 6, 11, 40} {
		entries = append(entries, s.change(minute, resourcesync.Updated, paths[0]))
	}
	s.changes(0, entries...)
	s.doc("/caps.xml", head(resourcesync.CapabilityCapabilityList, func(h *resourcesync.Header) {
		h.Links = []resourcesync.Link{{Rel: "up", Href: s.uri("/.well-known/resourcesync")}}
	}), resourcesync.Entry{Loc: s.uri("/list.xml"), Metadata: resourcesync.Metadata{Capability: resourcesync.CapabilityResourceList}},
		resourcesync.Entry{Loc: s.uri("/changes.xml"), ChangeFreq: resourcesync.Hourly, Metadata: resourcesync.Metadata{Capability: resourcesync.CapabilityChangeList}})
	s.answer("/changes.xml", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=90")
		w.Header().Set("Age", "30")
		_, _ = w.Write(s.bodies["/changes.xml"])
	})
	want := destination.Pulse{News: true, Gap: 5 * time.Minute, Freq: resourcesync.Hourly, MaxAge: time.Minute}
	if diff := cmp.Diff(want, pulse()); diff != "" {
		t.Errorf("with news (-want +got):\n%s", diff)
	}
	m.mustSync(destination.Incremental, 1, 0, 0, 0)
	want.News = false
	if diff := cmp.Diff(want, pulse()); diff != "" {
		t.Errorf("without (-want +got):\n%s", diff)
	}
}

// An outage of the Source is waited out, and what has changed meanwhile is brought.
func TestWatchSurvivesAnOutage(t *testing.T) {
	s, paths, m := inStep(t, 3)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	down := 0
	s.answer("/.well-known/resourcesync", func(w http.ResponseWriter, _ *http.Request) {
		if down++; down <= 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write(s.bodies["/.well-known/resourcesync"])
	})
	s.put(paths[1], []byte("meanwhile"))
	s.changes(0, s.change(1, resourcesync.Updated, paths[1]))
	var failed []error
	w := destination.Watch{
		Every: time.Millisecond, Most: 4 * time.Millisecond, Rand: func() float64 { return 0 },
		Run: func(context.Context) (destination.Pulse, error) {
			rep, err := m.sync()
			if err == nil && rep.Updated == 1 {
				stop()
			}
			return destination.Pulse{}, err
		},
		Told: func(w destination.Wait) {
			if w.Err != nil {
				failed = append(failed, w.Err)
			}
		},
	}
	if err := w.Loop(ctx); err != nil || len(failed) != 3 {
		t.Errorf("got %v after %d failed runs, want none after 3", err, len(failed))
	}
	for _, err := range failed {
		if !errors.Is(err, fetch.Temporary) {
			t.Errorf("waited for %v", err)
		}
	}
	m.wantFiles(paths...)
}
