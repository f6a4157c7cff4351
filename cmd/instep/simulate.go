package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"instep/blob"
	"instep/internal/sim"
	"instep/resourcesync"
	"instep/source"
)

const simulateHelp = `Simulate runs a Source for tests of Destinations, on this machine. It makes resources from a
seed, changes them at a rate, publishes them like publish does, and serves them. It keeps
nothing when it ends.

--size is a size (4KiB), a range (1KiB..64KiB), or a median with the standard deviation of the
logarithm (lognormal:4KiB:1.5). --mix sets the proportion of created, updated and deleted
resources. --speed lets simulated time pass faster than real time. --rate and the times in
documents refer to simulated time.

--quirk and --fault switch on misbehaviour; --list names all kinds. The present resources are
listed at /.sim/truth, which answers only this machine, and at the end in the file of --truth.
Each line of this CSV has a URI, a length and a SHA-256, to compare a mirror with.`

type simulateFlags struct {
	addr, size, mix, quirks, faults, truth string
	resources, sets, listMax, maxEntries   int
	rate, hot, speed                       float64
	seed                                   uint64
	every, duration                        time.Duration
	dump, archive, list                    bool
}

func (a *app) simulateCommand() *cobra.Command {
	var f simulateFlags
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "serve a Source that changes, with the faults that you choose",
		Long:  simulateHelp,
		Example: `  instep simulate
  instep simulate --resources 100000 --rate 20 --every 10s --dump
  instep simulate --quirk 29,34 --fault http-503=2%,truncate,wrong-hash=1%
  instep simulate --list`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.list {
				return a.listSwitches()
			}
			return a.simulate(cmd.Context(), &f)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.addr, "addr", defaultAddr, "listen on this `HOST:PORT`")
	fs.IntVar(&f.resources, "resources", 1000, "`NUMBER` of resources at the beginning")
	fs.StringVar(&f.size, "size", "lognormal:4KiB:1", "`SIZE` of the resources, or the distribution of their sizes")
	fs.Float64Var(&f.rate, "rate", 1, "number of changes in a second of simulated time")
	fs.StringVar(&f.mix, "mix", "1:2:1", "ratio of `CREATED:UPDATED:DELETED` resources")
	fs.Float64Var(&f.hot, "hot", 0.5, "share of the updates (0 to 1) that always change the same hundredth of the resources")
	fs.Float64Var(&f.speed, "speed", 1, "simulated seconds in a second of the clock")
	fs.Uint64Var(&f.seed, "seed", 1, "`NUMBER` that determines all resources and changes: with the same number they are the same")
	timeVar(fs, &f.every, "every", 5*time.Second, "`TIME` between two publications")
	fs.IntVar(&f.sets, "sets", 1, "`NUMBER` of sets over which the resources are distributed")
	fs.IntVar(&f.listMax, "change-list-max", 5000, "largest number of changes in a Change List")
	fs.IntVar(&f.maxEntries, "max-entries", 0, "largest number of resources in a Resource List without an index (default 50000)")
	fs.BoolVar(&f.dump, "dump", false, "offer Resource Dumps and Change Dumps")
	fs.BoolVar(&f.archive, "archive", false, "offer archives of the last twenty documents of each kind")
	timeVar(fs, &f.duration, "duration", 0, "end after this `TIME` (default: when interrupted)")
	fs.StringVar(&f.truth, "truth", "", "write a list of the final resources to `FILE`, as CSV")
	fs.StringVar(&f.quirks, "quirk", "", "comma-separated `NUMBERS` of quirks that the Source has")
	fs.StringVar(&f.faults, "fault", "", "comma-separated `NAMES` of faults that the Source has, each with =N% if its share is not the default")
	fs.BoolVar(&f.list, "list", false, "list all quirks and faults, and end")
	return cmd
}

func (a *app) listSwitches() error {
	for _, sw := range sim.Switches() {
		flag, share := "--fault", ""
		if sw.Rows == "" {
			flag = "--quirk"
		}
		if sw.Of != sim.Always {
			share = fmt.Sprintf(" (%g%% of %s)", sw.Share*100, sw.Of)
		}
		a.out.record(&statusRecord{Message: flag + " " + sw.Name + ": " + sw.Says + share})
		a.out.line("%s %-16s %s%s", flag, sw.Name, sw.Says, share)
	}
	a.out.end(summary{Status: "clean"}, fmt.Sprintf("%d quirks and faults (instep help simulate).", len(sim.Switches())))
	return nil
}

func (f *simulateFlags) config(now time.Time) (sim.Config, error) {
	size, err := parseSpread(f.size)
	if err != nil {
		return sim.Config{}, usagef("--size %q: %v", f.size, err)
	}
	mix, err := parseMix(f.mix)
	if err != nil {
		return sim.Config{}, usagef("--mix %q: %v", f.mix, err)
	}
	return sim.Config{
		Seed: f.seed, Resources: f.resources, Size: size, Rate: f.rate, Mix: mix, Hot: f.hot,
		Start: now.UTC(), Sets: f.sets,
	}, nil
}

// parseSpread parses a size (4KiB), a range (1KiB..64KiB), or a median with a sigma
// (lognormal:4KiB:1.5).
func parseSpread(s string) (sim.Size, error) {
	if rest, ok := strings.CutPrefix(s, "lognormal:"); ok {
		median, sigma, _ := strings.Cut(rest, ":")
		n, err := parseBytes(median)
		if err != nil {
			return sim.Size{}, err
		}
		spread := 1.0
		if sigma != "" {
			spread, err = strconv.ParseFloat(sigma, 64)
		}
		if err != nil {
			return sim.Size{}, fmt.Errorf("expected a number after the median, found %q", sigma)
		}
		return sim.Size{Kind: sim.LogNormal, Low: n, Sigma: spread}, nil
	}
	low, high, ranged := strings.Cut(s, "..")
	from, err := parseBytes(low)
	if err != nil || !ranged {
		return sim.Size{Kind: sim.Fixed, Low: from}, err
	}
	to, err := parseBytes(high)
	return sim.Size{Kind: sim.Uniform, Low: from, High: to}, err
}

func parseMix(s string) (sim.Mix, error) {
	var n [3]int
	parts := strings.Split(s, ":")
	for i, part := range parts {
		v, err := strconv.Atoi(part)
		if err != nil || v < 0 || len(parts) != len(n) {
			return sim.Mix{}, errors.New("expected three numbers, such as 1:2:1")
		}
		n[i] = v
	}
	if n == [3]int{} {
		return sim.Mix{}, errors.New("expected at least one number above 0")
	}
	return sim.Mix{Created: n[0], Updated: n[1], Deleted: n[2]}, nil
}

func (f *simulateFlags) switches() ([]sim.Switched, error) {
	quirks, err := sim.ParseQuirks(f.quirks)
	if err != nil {
		return nil, usagef("--quirk: %v", err)
	}
	faults, err := sim.ParseFaults(f.faults)
	if err != nil {
		return nil, usagef("--fault: %v", err)
	}
	return append(faults, quirks...), nil // faults before quirks, since faults change values, and quirks change the form of values
}

// Limits of --every and --speed.
const (
	minEvery = 10 * time.Millisecond
	maxEvery = 24 * time.Hour
	maxSpeed = 1e6
)

func (f *simulateFlags) step() (time.Duration, error) {
	switch {
	case f.every < minEvery || f.every > maxEvery:
		return 0, usagef("--every %v: expected %v to %v", f.every, minEvery, maxEvery)
	case !(f.speed > 0 && f.speed <= maxSpeed):
		return 0, usagef("--speed %g: expected more than 0 and at most %g", f.speed, maxSpeed)
	case f.listMax < 1 || f.listMax > resourcesync.MaxEntries:
		return 0, usagef("--change-list-max %d: expected 1 to %d", f.listMax, resourcesync.MaxEntries)
	case f.duration < 0:
		return 0, usagef("--duration %v: expected 0 or more", f.duration)
	}
	return time.Duration(float64(f.every) * f.speed), nil
}

type simulation struct {
	*app
	flags  *simulateFlags
	step   time.Duration
	model  *sim.Model
	source *sim.Source
	asked  atomic.Int64 // number of requests
	begin  time.Time
	total  sim.Counts
	rounds int
}

func (a *app) simulate(ctx context.Context, f *simulateFlags) error {
	s := &simulation{app: a, flags: f, begin: a.now()}
	var err error
	if s.step, err = f.step(); err != nil {
		return err
	}
	on, err := f.switches()
	if err != nil {
		return err
	}
	cfg, err := f.config(a.now())
	if err != nil {
		return err
	}
	if s.model, err = sim.NewModel(ctx, cfg); err != nil {
		if ctx.Err() != nil {
			return err
		}
		return usagef("%v", err)
	}
	if err := s.model.CheckStep(s.step); err != nil {
		return usagef("%v (choose a lower --rate, --speed or --every)", err)
	}
	return s.serve(ctx, on)
}

func (s *simulation) serve(ctx context.Context, on []sim.Switched) error {
	dir, err := os.MkdirTemp("", "instep-simulate-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ln, err := s.listen(ctx)
	if err != nil {
		return err
	}
	defer ln.Close()
	base := "http://" + ln.Addr().String() + "/"
	closeBuckets, err := s.open(dir, base, on)
	if err != nil {
		return err
	}
	defer closeBuckets()
	if err := s.source.Publish(ctx); err != nil {
		return err
	}
	s.out.record(&statusRecord{Addr: ln.Addr().String(), URI: base})
	s.out.line("Serving %d resources that change at %s (end with Ctrl-C)", s.model.Len(), base)

	ctx, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() {
		served <- serveHandler(ctx, ln, countRequests(s.source, &s.asked))
		stop() // if the server failed, the simulation ends, because nobody can read further changes
	}()
	err = s.run(ctx)
	stop()
	return errors.Join(err, <-served, s.finish())
}

// listen refuses an unspecified address such as 0.0.0.0, because the URIs in documents contain
// the address.
func (s *simulation) listen(ctx context.Context) (net.Listener, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.flags.addr)
	if err != nil {
		return nil, err
	}
	if at, err := netip.ParseAddrPort(ln.Addr().String()); err == nil && at.Addr().IsUnspecified() {
		_ = ln.Close()
		return nil, usagef("--addr %q: expected the address by which Destinations reach this machine, because all documents contain it", s.flags.addr)
	}
	return ln, nil
}

func (s *simulation) open(dir, base string, on []sim.Switched) (closeBuckets func(), err error) {
	var buckets []*blob.Dir
	closeBuckets = func() {
		for _, b := range buckets {
			_ = b.Close()
		}
	}
	for _, name := range []string{"documents", "staging"} {
		name = filepath.Join(dir, name)
		if err := os.Mkdir(name, 0o755); err != nil {
			closeBuckets()
			return nil, err
		}
		b, err := blob.OpenDir(name, blob.DirOptions{})
		if err != nil {
			closeBuckets()
			return nil, err
		}
		buckets = append(buckets, b)
	}
	// Replaced documents are kept for ten minutes of real time, not of simulated time.
	keep := time.Duration(min(float64(10*time.Minute)*s.flags.speed, float64(math.MaxInt64/2)))
	o := sim.Options{
		Model: s.model, BaseURL: base, Bucket: buckets[0], Staging: buckets[1],
		ChangeListMax: s.flags.listMax, MaxEntries: s.flags.maxEntries, Dumps: s.flags.dump, Keep: keep,
		Generator: "instep/" + version, Switches: on,
	}
	if s.flags.archive {
		o.Archive = &source.Archive{Count: 20}
	}
	if s.source, err = sim.NewSource(o); err != nil {
		closeBuckets()
		return nil, usagef("%v", err)
	}
	return closeBuckets, nil
}

func countRequests(h http.Handler, n *atomic.Int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		h.ServeHTTP(w, r)
	})
}

func (s *simulation) run(ctx context.Context) error {
	if s.flags.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.flags.duration)
		defer cancel()
	}
	tick := time.NewTicker(s.flags.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		begin := s.now()
		n, err := s.source.Round(ctx, s.step)
		s.total.Add(n)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		s.rounds++
		s.tell(n, s.now().Sub(begin))
	}
}

func (s *simulation) tell(n sim.Counts, took time.Duration) {
	text := fmt.Sprintf("%s: %d created, %d updated, %d deleted; %d resources; published in %s",
		s.model.Now().Format(time.RFC3339), n.Created, n.Updated, n.Deleted, s.model.Len(), took.Round(time.Millisecond))
	s.out.record(&statusRecord{Message: text})
	s.out.line("%s", text)
}

// finish writes the file of --truth even after an interruption.
func (s *simulation) finish() error {
	if s.flags.truth != "" {
		ctx := context.Background()
		if err := writeWhole(ctx, s.flags.truth, func(w io.Writer) error { return s.source.Truth(ctx, w) }); err != nil {
			return fmt.Errorf("write the file of --truth: %w", err)
		}
	}
	took := s.now().Sub(s.begin)
	s.out.end(summary{
		Status: "clean", Created: num(s.total.Created), Updated: num(s.total.Updated), Deleted: num(s.total.Deleted),
		Resources: num(int64(s.model.Len())), Requests: num(s.asked.Load()), Seconds: seconds(took),
	}, fmt.Sprintf("Stopped after %s and %d rounds: %d created, %d updated, %d deleted; %d requests answered.",
		took.Round(time.Second), s.rounds, s.total.Created, s.total.Updated, s.total.Deleted, s.asked.Load()))
	return nil
}
