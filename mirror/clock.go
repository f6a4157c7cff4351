package mirror

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"
)

// trashClock decides how old the days of the trash are. The clock of a machine may be
// wrong for a while, and a date in the trash is only as good as the clock that made it:
//
//   - A day ages by the latest date that two runs in a row have reached. One run with a
//     clock that is ahead removes nothing.
//   - A run whose clock is behind that date removes nothing, and its own day is doubtful.
//     So is a day that is later than today.
//   - A doubtful day ages from the first run after it with a clock that is not behind.
//
// Days are written as 2006-01-02, in UTC, so that they sort as text.
type trashClock struct {
	Last  string            `json:"last"`            // day of the last run
	Sure  string            `json:"sure"`            // the latest day that two runs in a row have reached; "": none yet
	Doubt map[string]string `json:"doubt,omitempty"` // doubtful days: the day from which each ages; "": none yet
}

// clockSetting is the name of the setting that holds a trashClock as JSON.
const clockSetting = "trash clock"

// firstDay is older than this program: no clock that shows an earlier day is right.
const firstDay = "2020-01-01"

func dateOf(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// behind reports whether a clock that shows today is behind.
func (c *trashClock) behind(today string) bool { return today < max(c.Sure, firstDay) }

// begin notes that a run begins today.
func (c *trashClock) begin(today string) {
	if c.behind(today) {
		c.doubt(today, "")
	} else {
		if c.Last >= firstDay {
			c.Sure = max(c.Sure, min(today, c.Last))
		}
		for day, from := range c.Doubt {
			if from == "" || from > today {
				c.Doubt[day] = today
			}
		}
	}
	c.Last = today
}

// doubt notes from when a doubtful day ages.
func (c *trashClock) doubt(day, from string) {
	if c.Doubt == nil {
		c.Doubt = map[string]string{}
	}
	c.Doubt[day] = from
}

// accept believes the clock although it is behind: doubtful days age from today.
func (c *trashClock) accept(today string) {
	if today < firstDay {
		return
	}
	c.Sure, c.Last = min(c.Sure, today), today
	for day := range c.Doubt {
		c.Doubt[day] = today
	}
}

// stays returns the first day that is too young to be removed if days are kept for that
// long; "" if nothing may be removed.
func (c *trashClock) stays(today string, keep int) string {
	sure, err := time.Parse(time.DateOnly, c.Sure)
	if err != nil || c.behind(today) {
		return ""
	}
	return dateOf(sure.AddDate(0, 0, -keep))
}

// expired returns those of the given days of the trash that are before the first day that
// stays, and notes which of them are doubtful.
func (c *trashClock) expired(days []string, today, stays string) (old []string) {
	for _, day := range days {
		if from, known := c.Doubt[day]; known && from == "" || !known && (day < firstDay || day > today) {
			c.doubt(day, today)
		}
		if c.from(day) < stays {
			old = append(old, day)
		}
	}
	maps.DeleteFunc(c.Doubt, func(day, from string) bool { return from != "" && c.from(day) < stays })
	return old
}

// from is the day from which a day of the trash ages. Its date counts if it is reached.
func (c *trashClock) from(day string) string {
	from, doubtful := c.Doubt[day]
	if !doubtful || day <= c.Sure && day > from {
		return day
	}
	return from
}

// trashClock returns the stored clock.
func (m *Mirror) trashClock(ctx context.Context) (c trashClock, text string, err error) {
	text, ok, err := m.facts.Setting(ctx, clockSetting)
	if err != nil || !ok {
		return c, "", err
	}
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return c, "", fmt.Errorf("setting %q of the catalog: %w", clockSetting, err)
	}
	return c, text, nil
}

// keepClock stores the clock if it has changed.
func (m *Mirror) keepClock(ctx context.Context, c trashClock, was string) error {
	text, err := json.Marshal(c)
	if err != nil || string(text) == was {
		return err
	}
	return m.facts.SetSettings(ctx, map[string]string{clockSetting: string(text)})
}

// beginDay records the start of a run in the trash clock.
func (m *Mirror) beginDay(ctx context.Context) error {
	c, was, err := m.trashClock(ctx)
	if err != nil {
		return err
	}
	c.begin(dateOf(m.now()))
	return m.keepClock(ctx, c, was)
}

// ClockBehind returns the day that two earlier runs have reached, if the clock shows an
// earlier one now; false if not. While it does, nothing is removed from the trash.
func (m *Mirror) ClockBehind(ctx context.Context) (day string, behind bool, err error) {
	if m.cat == nil {
		return "", false, nil
	}
	c, _, err := m.trashClock(ctx)
	return max(c.Sure, firstDay), err == nil && c.behind(dateOf(m.now())), err
}

// AcceptClock takes the clock for right although earlier runs had a later one. What they,
// or runs since, have put into the trash ages from today if its date is doubtful.
func (m *Mirror) AcceptClock(ctx context.Context) error {
	if m.readOnly {
		return ErrReadOnly
	}
	if err := m.lockCommit(ctx); err != nil {
		return err
	}
	defer m.unlockCommit()
	c, was, err := m.trashClock(ctx)
	if err != nil {
		return err
	}
	c.accept(dateOf(m.now()))
	return m.keepClock(ctx, c, was)
}
