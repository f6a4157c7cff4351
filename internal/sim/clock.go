package sim

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// clock simulates a wrong clock of a Source. Documents are published with correct times,
// and the wrong times are written into them when they are served. Events during the fault
// keep their wrong time afterwards.
type clock struct {
	mu    sync.Mutex // guards the fields below
	turns []turn     // sorted by since
}

// turn is a time at which the error of the clock changes.
type turn struct {
	since time.Time
	shift shift
}

// shift is how far a clock is ahead of the correct time. It is not a Duration, which
// cannot exceed 292 years.
type shift struct {
	years int
	by    time.Duration
}

func (s shift) of(t time.Time) time.Time { return t.AddDate(s.years, 0, 0).Add(s.by) }

// turn changes the error of the clock from a time on.
func (k *clock) turn(now time.Time, to shift) {
	k.mu.Lock()
	defer k.mu.Unlock()
	last := turn{}
	if n := len(k.turns); n > 0 {
		last = k.turns[n-1]
	}
	if last.shift == to {
		return
	}
	k.turns = append(k.turns, turn{now, to})
}

// right reports whether the clock has never been wrong.
func (k *clock) right() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.turns) == 0
}

// shows returns the time that the clock shows at a given correct time.
func (k *clock) shows(now time.Time) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := len(k.turns); n > 0 {
		return k.turns[n-1].shift.of(now)
	}
	return now
}

// said returns the time that the clock showed at a past time. At the exact time of a turn
// the clock still has the error before the turn.
func (k *clock) said(t time.Time) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, turn := range slices.Backward(k.turns) {
		if t.After(turn.since) {
			return turn.shift.of(t)
		}
	}
	return t
}

// rewrite returns the switch that writes the times of the wrong clock into documents and
// packages.
func (k *clock) rewrite() *Switch {
	said := func(s string) string {
		t, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			return s
		}
		return k.said(t).Format(time.RFC3339Nano)
	}
	sw := inPackages("clock", "", func(d *document) { d.times(said) }, nil)
	packages := sw.doc
	sw.doc = func(c *call, on Switched, d *document) {
		packages(c, on, d)
		if !strings.HasSuffix(d.kind, "-manifest") { // the past changes of the clock
			d.times(said)
		}
	}
	return sw
}

// wrongClock returns a fault of the Source's clock.
func wrongClock(name, says string, ahead shift) *Switch {
	return &Switch{Name: name, Says: "the Source's clock is " + says + "; documents written meanwhile keep these times", Rows: "CHG-05", Of: Always, Share: 1, clock: ahead}
}

var clockFaults = []*Switch{
	wrongClock("clock-seconds-behind", "three seconds behind", shift{by: -3 * time.Second}),
	wrongClock("clock-hour-behind", "an hour behind", shift{by: -time.Hour}),
	wrongClock("clock-year-behind", "a year behind", shift{years: -1}),
	wrongClock("clock-seconds-ahead", "three seconds ahead", shift{by: 3 * time.Second}),
	wrongClock("clock-hour-ahead", "an hour ahead", shift{by: time.Hour}),
	wrongClock("clock-year-ahead", "a year ahead", shift{years: 1}),
	wrongClock("clock-9999", "7,973 years ahead", shift{years: 7973}),
	allAnswers("no-date", "CHG-05", "answers have no Date", func(_ *call, a *answer) { a.header["Date"] = nil }),
}
