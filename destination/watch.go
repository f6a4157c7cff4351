package destination

import (
	"cmp"
	"context"
	"errors"
	"time"

	"instep/discover"
	"instep/fetch"
	"instep/harvest"
	"instep/resourcesync"
)

// Watch makes runs until its context ends, as often as the Source changes. All its
// state is in the mirror, so it can be stopped and started again at any time.
type Watch struct {
	Run   func(context.Context) (Pulse, error) // makes one run
	Every time.Duration                        // time between two runs; 0 to derive it from how often the Source changes
	Most  time.Duration                        // maximum time between two runs if Every is 0; 0 for 1 h
	Rand  func() float64                       // returns a random number in [0,1), which changes each wait by up to a tenth; required
	Told  func(Wait)                           // called before each wait; may be nil
}

// Pulse describes how often the Source changes, as observed in one run.
type Pulse struct {
	News   bool                    // set if the run found something new at the Source
	Gap    time.Duration           // usual time between two changes in the newest Change List; 0 if unknown
	Freq   resourcesync.ChangeFreq // changefreq of the Change List in the Capability List; "" if there is none
	MaxAge time.Duration           // how long the Change List may be cached (Cache-Control)
}

// Wait describes the wait of a Watch between two runs.
type Wait struct {
	For time.Duration
	Err error // the error of the previous run; nil if it succeeded
}

const (
	leastWait   = 10 * time.Second
	mostWait    = time.Hour
	defaultWait = time.Minute // wait between two runs if it is unknown how often the Source changes
)

// Loop makes runs until ctx ends, and then returns nil. After an error of the Source it
// waits, longer each time, and tries again. It returns errors of the mirror, and an
// error if the first run finds no Source although the server answered.
func (w *Watch) Loop(ctx context.Context) error {
	r := rhythm{every: w.Every, most: cmp.Or(w.Most, mostWait)}
	for first := true; ; first = false {
		p, err := w.Run(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && (!survivable(err) || first && !isOutage(err)):
			return err
		}
		wait := r.wait(p, err)
		wait = wait - wait/10 + time.Duration(float64(wait/5)*w.Rand())
		if w.Told != nil {
			w.Told(Wait{wait, err})
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil
		}
	}
}

func survivable(err error) bool {
	var de *discover.Error
	var fe *fetch.Error
	var set *discover.UnknownSetError // the Source offered the set when Loop began and may offer it again, so Loop does not end
	return harvest.OfSource(err) || errors.As(err, &de) || errors.As(err, &fe) || errors.As(err, &set) || errors.Is(err, ErrOutage)
}

func isOutage(err error) bool {
	return errors.Is(err, fetch.Temporary) || errors.Is(err, ErrOutage)
}

type rhythm struct {
	every, most time.Duration
	quiet       int // number of consecutive runs that found nothing new
	failed      int // number of consecutive runs that failed
}

// wait returns how long to wait after a run. While the Source does not change, each
// wait is 1.5 times as long as the previous one, so a change is seen late by at most
// half the time since the previous change.
func (r *rhythm) wait(p Pulse, err error) time.Duration {
	if err != nil {
		r.failed++
		wait := r.grown(cmp.Or(r.every, leastWait), 2, r.failed)
		if fe := (*fetch.Error)(nil); errors.As(err, &fe) {
			wait = max(wait, fe.RetryAfter)
		}
		return wait
	}
	r.failed = 0
	if p.News {
		r.quiet = 0
	}
	wait := r.every
	if wait == 0 {
		wait = r.grown(max(p.firstWait(), leastWait), 1.5, r.quiet)
		wait = max(wait, min(p.MaxAge, r.most))
	}
	r.quiet++
	return wait
}

func (r *rhythm) grown(d time.Duration, factor float64, n int) time.Duration {
	for ; n > 0 && d < r.most; n-- {
		d = time.Duration(float64(d) * factor)
	}
	return min(d, r.most)
}

// firstWait returns how long to wait after a run that found a change.
func (p *Pulse) firstWait() time.Duration {
	if p.Gap > 0 {
		return p.Gap / 2
	}
	switch p.Freq {
	case resourcesync.Always:
		return leastWait
	case resourcesync.Hourly:
		return time.Hour / 2
	case resourcesync.Daily, resourcesync.Weekly, resourcesync.Monthly, resourcesync.Yearly, resourcesync.Never:
		return mostWait
	}
	return defaultWait
}

// Pulse returns how often the Source changes the sets of a plan.
func (p *Plan) Pulse() (all Pulse) {
	for i, s := range p.Sets {
		if i == 0 {
			all = s.Pulse
		}
		all = all.join(s.Pulse)
	}
	return all
}

func (p Pulse) join(q Pulse) Pulse {
	if q.firstWait() < p.firstWait() {
		p, q = q, p
	}
	p.News = p.News || q.News
	p.MaxAge = min(p.MaxAge, q.MaxAge)
	return p
}
