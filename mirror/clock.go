package mirror

import (
	"context"
	"maps"
	"time"
)

// trashClock computes how long ago the files of a day were moved to the trash. The clock
// of a machine may be wrong for a while, and so may the dates in the trash. Therefore:
//
//   - The age of a day is counted up to the latest date that two consecutive runs have
//     reached. So a single run whose clock is ahead removes nothing.
//   - A run whose clock is behind that date removes nothing, and the date of the run
//     is recorded as doubtful. A date later than today is also doubtful.
//   - The age of a doubtful date is counted from the first later run whose clock is
//     not behind.
//
// Days are written as 2006-01-02 in UTC, so that they sort as text.
type trashClock struct {
	Last  string            `json:"last"`            // the day on which the last run began
	Sure  string            `json:"sure"`            // the latest day that two consecutive runs have reached; "" if there is none yet
	Doubt map[string]string `json:"doubt,omitempty"` // the days that the clock may have shown wrongly; for each of them, the day from which the age of its files is counted, or "" if that is not known yet
}

const clockSetting = "trash clock"

// firstDay is a day before this program existed. A clock that shows an earlier day is
// wrong.
const firstDay = "2020-01-01"

func dateOf(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// isBehind reports whether today is before a day that earlier runs have reached, so
// that the clock must be wrong.
func (c *trashClock) isBehind(today string) bool { return today < max(c.Sure, firstDay) }

// begin records the day on which a run begins. Later runs compare their clock with that
// day.
func (c *trashClock) begin(today string) {
	if c.isBehind(today) {
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

// doubt records that the clock may have been wrong on a day. The age of the day is
// counted from start; start is "" if it is not known yet.
func (c *trashClock) doubt(day, start string) {
	if c.Doubt == nil {
		c.Doubt = map[string]string{}
	}
	c.Doubt[day] = start
}

// accept trusts the clock even if earlier runs had a later date. The age of each day in
// Doubt is counted from today.
func (c *trashClock) accept(today string) {
	if today < firstDay {
		return
	}
	c.Sure, c.Last = min(c.Sure, today), today
	for day := range c.Doubt {
		c.Doubt[day] = today
	}
}

// firstKept returns the earliest day of the trash that must not be removed yet, if
// files are kept for the given number of days; "" if nothing may be removed.
func (c *trashClock) firstKept(today string, keep int) string {
	sure, err := time.Parse(time.DateOnly, c.Sure)
	if err != nil || c.isBehind(today) {
		return ""
	}
	return dateOf(sure.AddDate(0, 0, -keep))
}

// expired returns the days of the trash whose agingStart is before first, the earliest
// day to keep. It also adds days with a possibly wrong date to Doubt, and removes
// expired days from Doubt.
func (c *trashClock) expired(days []string, today, first string) (old []string) {
	for _, day := range days {
		if from, known := c.Doubt[day]; known && from == "" || !known && (day < firstDay || day > today) {
			c.doubt(day, today)
		}
		if c.agingStart(day) < first {
			old = append(old, day)
		}
	}
	maps.DeleteFunc(c.Doubt, func(day, from string) bool { return from != "" && c.agingStart(day) < first })
	return old
}

// agingStart returns the day from which the age of a day in the trash is counted. It
// differs from that day if the clock may have been wrong, and if no run with a right
// clock has reached the day since then.
func (c *trashClock) agingStart(day string) string {
	from, doubtful := c.Doubt[day]
	if !doubtful || day <= c.Sure && day > from {
		return day
	}
	return from
}

func (m *Mirror) trashClock(ctx context.Context) (c trashClock, text string, err error) {
	text, err = m.readSetting(ctx, clockSetting, &c)
	return c, text, err
}

func (m *Mirror) updateClock(ctx context.Context, update func(c *trashClock, today string)) error {
	c, stored, err := m.trashClock(ctx)
	if err != nil {
		return err
	}
	update(&c, dateOf(m.o.Now()))
	return m.keepSetting(ctx, clockSetting, c, stored)
}

// ClockBehind returns the latest day that two consecutive earlier runs have reached, and
// whether the clock now shows an earlier day. While the clock is behind, nothing is
// removed from the trash.
func (m *Mirror) ClockBehind(ctx context.Context) (day string, behind bool, err error) {
	if m.cat == nil {
		return "", false, nil
	}
	c, _, err := m.trashClock(ctx)
	return max(c.Sure, firstDay), err == nil && c.isBehind(dateOf(m.o.Now())), err
}

// AcceptClock makes today the latest known day, even if earlier runs had a later date.
// Files that were moved to the trash on a day that is now in the future get the age of
// files that are moved today.
func (m *Mirror) AcceptClock(ctx context.Context) error {
	if m.readOnly {
		return ErrReadOnly
	}
	if err := m.lockCommit(ctx); err != nil {
		return err
	}
	defer m.unlockCommit()
	return m.updateClock(ctx, (*trashClock).accept)
}
