package catalog

import (
	"testing"
	"time"

	"instep/resourcesync"
)

// The clock steps back between changes, and between the closing of a window and
// the next change: each call has a later datetime, and no change falls into a closed window.
func TestCat_PUB_04(t *testing.T) {
	c := open(t)
	s := set(t, c, "")
	now := epoch
	c.now = func() time.Time { return now }

	first := record(t, c, s, change(t, resourcesync.Created, "a", "1"))[0]
	now = epoch.Add(-10 * 365 * 24 * time.Hour)
	second := record(t, c, s, change(t, resourcesync.Updated, "a", "2"))[0]
	if want := first.Datetime.Add(time.Microsecond); !second.Datetime.Equal(want) {
		t.Errorf("a change after the clock stepped back has %s, want %s", second.Datetime, want)
	}

	until, err := c.Facts.Moment(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := second.Datetime.Add(time.Microsecond); !until.Equal(want) {
		t.Errorf("Moment = %s, want one tick after the last change, %s", until, want)
	}
	if err := c.Facts.Reserve(t.Context(), until); err != nil {
		t.Fatal(err)
	}
	if err := c.Facts.Reserve(t.Context(), until.Add(-time.Hour)); err != nil { // never goes back
		t.Fatal(err)
	}
	c = reopenWithClock(t, c, &now)
	third := record(t, c, s, change(t, resourcesync.Updated, "a", "3"))[0]
	if third.Datetime.Before(until) {
		t.Errorf("a change after the window closed at %s has %s", until, third.Datetime)
	}

	now = epoch.Add(time.Hour)
	if got, err := c.Facts.Moment(t.Context()); !got.Equal(now) || err != nil {
		t.Errorf("Moment = %s, %v; want the clock's, %s", got, err, now)
	}
	fourth := record(t, c, s, change(t, resourcesync.Updated, "a", "4"))[0]
	if !fourth.Datetime.Equal(now) {
		t.Errorf("a change has %s, want the clock's, %s", fourth.Datetime, now)
	}
}

func reopenWithClock(t *testing.T, c *Catalog, now *time.Time) *Catalog {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	c = reopen(t, c.path, false)
	c.now = func() time.Time { return *now }
	return c
}
