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

// Watch makes runs for as long as its context lasts, as often as the Source changes.
// All that it knows lies in the mirror, so it can be ended and begun again at any time.
type Watch struct {
	Run   func(context.Context) (Pulse, error) // makes one run
	Every time.Duration                        // between two runs; 0: by the rhythm of the Source
	Most  time.Duration                        // between two runs by that rhythm; 0: 1 h
	Rand  func() float64                       // in [0,1), for the jitter of a tenth; required
	Told  func(Wait)                           // called before each wait; may be nil
}

// Pulse is what a run showed of how often its Source changes.
type Pulse struct {
	News   bool                    // the Source has said something that was not known
	Gap    time.Duration           // usual time between the changes in the newest Change List; 0: unknown
	Freq   resourcesync.ChangeFreq // of the Change List, as the Capability List says; "" if it does not
	MaxAge time.Duration           // freshness lifetime of the Change List (Cache-Control)
}

// Wait is what a Watch does between two runs.
type Wait struct {
	For time.Duration
	Err error // the error that ended the run before; nil if there was none
}

const (
	leastWait   = 10 * time.Second
	mostWait    = time.Hour
	defaultWait = time.Minute // for a Source of which nothing is known yet
)

// Loop makes runs until ctx ends, which is no error. An error of the Source is waited
// out, longer each time; one of the mirror ends the loop, and so does a first run that
// finds no Source although it is answered.
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
		wait := r.next(p, err)
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

// survivable reports whether another time may be better: the trouble is the Source's.
func survivable(err error) bool {
	var de *discover.Error
	var fe *fetch.Error
	var set *discover.UnknownSetError // offered before: it may come back
	return harvest.OfSource(err) || errors.As(err, &de) || errors.As(err, &fe) || errors.As(err, &set) || errors.Is(err, ErrOutage)
}

// isOutage reports whether the Source did not answer, or asked to be left alone.
func isOutage(err error) bool {
	return errors.Is(err, fetch.Temporary) || errors.Is(err, ErrOutage)
}

// rhythm decides when a Source is asked again.
type rhythm struct {
	every, most time.Duration
	quiet       int // runs in a row that found nothing
	failed      int // runs in a row that failed
}

// next is how long to wait after a run that showed p, or failed. While a Source is
// quiet the waits grow by half each time, so that a change is seen late by no more than
// half the time that it let wait for itself.
func (r *rhythm) next(p Pulse, err error) time.Duration {
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
		wait = r.grown(max(p.base(), leastWait), 1.5, r.quiet)
		wait = max(wait, min(p.MaxAge, r.most))
	}
	r.quiet++
	return wait
}

// grown is d grown by a factor n times, up to the bound.
func (r *rhythm) grown(d time.Duration, factor float64, n int) time.Duration {
	for ; n > 0 && d < r.most; n-- {
		d = time.Duration(float64(d) * factor)
	}
	return min(d, r.most)
}

// base is how long to wait after a change.
func (p *Pulse) base() time.Duration {
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

// Pulse is how often the Source changes the sets of a plan.
func (p *Plan) Pulse() (all Pulse) {
	for i, s := range p.Sets {
		if i == 0 {
			all = s.Pulse
		}
		all = all.join(s.Pulse)
	}
	return all
}

// join makes the pulse of several sets: that of the set with the most frequent changes.
func (p Pulse) join(q Pulse) Pulse {
	if q.base() < p.base() {
		p, q = q, p
	}
	p.News = p.News || q.News
	p.MaxAge = min(p.MaxAge, q.MaxAge)
	return p
}
