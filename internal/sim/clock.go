package sim

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// clock simulates a wrong clock of a Source. Documents are published with correct times,
// which are replaced by wrong ones when the documents are served. Events that happen while
// the clock is wrong keep their wrong times when the clock is right again.
type clock struct {
	mu    sync.Mutex // guards the field below
	turns []turn     // oldest first
}

// turn records that the simulated clock was set.
type turn struct {
	since time.Time
	shift shift
}

// shift is how far a clock is ahead. Years are counted separately, because a time.Duration
// cannot exceed 292 years.
type shift struct {
	years int
	by    time.Duration
}

func (s shift) of(t time.Time) time.Time { return t.AddDate(s.years, 0, 0).Add(s.by) }

func (k *clock) addTurn(now time.Time, to shift) {
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

func (k *clock) isRight() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.turns) == 0
}

func (k *clock) shows(now time.Time) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := len(k.turns); n > 0 {
		return k.turns[n-1].shift.of(now)
	}
	return now
}

// shownAt returns the time that the clock showed at t. An event at the very time when the
// clock was set counts as earlier than the setting.
func (k *clock) shownAt(t time.Time) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, turn := range slices.Backward(k.turns) {
		if t.After(turn.since) {
			return turn.shift.of(t)
		}
	}
	return t
}

// rewrite returns the switch that replaces the correct times by those of the wrong clock, in
// documents and in packages.
func (k *clock) rewrite() *Switch {
	said := func(s string) string {
		t, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			return s
		}
		return k.shownAt(t).Format(time.RFC3339Nano)
	}
	sw := inPackages("clock", "", func(d *document) { d.replaceTimes(said) }, nil)
	packages := sw.doc
	sw.doc = func(c *call, on Switched, d *document) {
		packages(c, on, d)
		if !strings.HasSuffix(d.kind, "-manifest") { // the function packages has replaced the times in manifests before
			d.replaceTimes(said)
		}
	}
	return sw
}

func wrongClock(name, says string, ahead shift) *Switch {
	return &Switch{Name: name, Says: "the Source's clock is " + says + "; events during this time keep their wrong times", Rows: "CHG-05", Of: Always, Share: 1, clock: ahead}
}

var clockFaults = []*Switch{
	wrongClock("clock-seconds-behind", "three seconds behind", shift{by: -3 * time.Second}),
	wrongClock("clock-hour-behind", "an hour behind", shift{by: -time.Hour}),
	wrongClock("clock-year-behind", "a year behind", shift{years: -1}),
	wrongClock("clock-seconds-ahead", "three seconds ahead", shift{by: 3 * time.Second}),
	wrongClock("clock-hour-ahead", "an hour ahead", shift{by: time.Hour}),
	wrongClock("clock-year-ahead", "a year ahead", shift{years: 1}),
	wrongClock("clock-9999", "7,973 years ahead", shift{years: 7973}),
	allAnswers("no-date", "CHG-05", "responses have no Date", func(_ *call, a *answer) { a.header["Date"] = nil }),
}
