package catalog

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"instep/resourcesync"
)

func TestWindowStart(t *testing.T) {
	const hour = int64(time.Hour / time.Microsecond)
	for name, c := range map[string]struct {
		at   []int64 // hours
		now  int64
		want int
	}{
		"one":                           {[]int64{0}, 1000, 0},
		"a day is not over":             {[]int64{0, 10, 20}, 23, 0},
		"it is":                         {[]int64{-2, 0, 10, 20}, 24, 1},
		"every hour":                    {[]int64{0, 1, 2, 3, 4, 12, 24}, 26, 2},
		"once a day":                    {[]int64{0, 24, 48, 72}, 96, 2},
		"once a week: the last counts":  {[]int64{0, 7 * 24, 14 * 24}, 21 * 24, 1},
		"one jump ahead":                {[]int64{0, 1, 2, 3}, 9000, 0},
		"and some time after":           {[]int64{0, 1, 2, 9000, 9011}, 9012, 2},
		"back to the beginning of time": {[]int64{1000, 1001, 1002}, 5, 0},
		"there and back":                {[]int64{1000, 1001, 3, 1002, 4, 1003}, 1004, 0},
		"some are still to come":        {[]int64{1000, 1001, 9000, 9001, 1002}, 1010, 0},
		"they were, and are forgotten":  {[]int64{1000, 9000, 9001, 1002, 1010, 1020}, 1030, 3},
		"of long ago":                   {[]int64{-500000, 10}, 11, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var all []extent
			for i, at := range c.at {
				all = append(all, extent{id: int64(i), at: at * hour})
			}
			if got := windowStart(all, c.now*hour); got.id != int64(c.want) {
				t.Errorf("got the one at %d, want the one at %d", c.at[got.id], c.at[c.want])
			}
		})
	}
}

// windowed is a catalog of a mirror whose clock the test sets.
type windowed struct {
	*Catalog
	t   *testing.T
	now time.Time
	set SetID
}

func newWindowed(t *testing.T) *windowed {
	w := &windowed{t: t, now: readTime(1e15)}
	c, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "catalog.db"), Create: true, Now: func() time.Time { return w.now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	w.Catalog, w.set = c, set(t, c, "a set")
	return w
}

// commit makes resources of these names, ends the memberships of others, and moves the cursor.
func (w *windowed) commit(ready func() error, made, ended []string) error {
	w.t.Helper()
	o := Outcome{At: w.now, Run: &Run{Begun: w.now, What: "sync"}, Cursor: &Cursor{Set: w.set, Body: "{}"}}
	var intents []Intent
	for _, name := range made {
		intents = append(intents, Intent{URI: name, SHA256: sum(w.t, name).Get(resourcesync.SHA256)})
		o.Stored = append(o.Stored, Resource{URI: name, Stored: true, Length: resourcesync.Bytes(1), Digests: sum(w.t, name)})
		o.Members = append(o.Members, Membership{Set: w.set, URI: name, Changed: w.now})
	}
	for _, name := range ended {
		o.Ended = append(o.Ended, Membership{Set: w.set, URI: name})
	}
	err := w.Mirror.Intend(w.t.Context(), intents, &o, func(uri string, _ Names) (Place, error) {
		return Place{Path: uri}, nil
	})
	if err != nil {
		return err
	}
	return w.Mirror.Settle(w.t.Context(), o, ready)
}

func (w *windowed) want(members, lost int64, joined int) {
	w.t.Helper()
	l, ok, err := w.Mirror.Losses(w.t.Context(), w.set)
	if err != nil || !ok || l.Members != members || l.Lost != lost {
		w.t.Fatalf("losses: got %d of %d, %v, %v; want %d of %d", l.Lost, l.Members, ok, err, lost, members)
	}
	if got := len(collect(w.t, l.Each)); got != int(lost) {
		w.t.Errorf("got %d losses one by one, want %d", got, lost)
	}
	if got := len(collect(w.t, l.Joined)); got != joined {
		w.t.Errorf("got %d newcomers, want %d", got, joined)
	}
}

// What a commit ends is lost with that commit or not at all.
func TestLossIsOfTheCommit(t *testing.T) {
	w := newWindowed(t)
	if err := w.commit(nil, []string{"a", "b", "c"}, nil); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the disk is gone")
	if err := w.commit(func() error { return broken }, nil, []string{"a"}); !errors.Is(err, broken) {
		t.Fatalf("got %v, want %v", err, broken)
	}
	w.want(3, 0, 0)
	if err := w.commit(nil, nil, []string{"a"}); err != nil {
		t.Fatal(err)
	}
	w.want(3, 1, 0)
}

// Neither losses nor extents are more than the window needs.
func TestWindowIsBounded(t *testing.T) {
	w := newWindowed(t)
	if err := w.commit(nil, []string{"a", "b", "c", "d"}, nil); err != nil {
		t.Fatal(err)
	}
	count := func(table string) (n int) {
		t.Helper()
		if err := w.write.QueryRow("SELECT COUNT(*) FROM " + table).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for i := range 1000 {
		w.now = w.now.Add(5 * time.Minute)
		name := fmt.Sprint("passing ", i)
		if err := w.commit(nil, []string{name}, nil); err != nil {
			t.Fatal(err)
		}
		if err := w.commit(nil, nil, []string{name}); err != nil {
			t.Fatal(err)
		}
	}
	if n := count("extent"); n > 100 {
		t.Errorf("got %d extents, want at most 100", n)
	}
	if n := count("loss"); n > 300 {
		t.Errorf("got %d losses, want those of a day", n)
	}
	w.now = w.now.Add(24 * time.Hour)
	for range 3 {
		w.now = w.now.Add(12 * time.Hour)
		if err := w.commit(nil, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	w.want(4, 0, 0)
	if n := count("loss"); n != 0 {
		t.Errorf("got %d losses, want none", n)
	}
}

// A mirror of the schema before has the members that it has, of long ago.
func TestWindowOfAnEarlierSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalog.db")
	db := earlier(t, path, 7)
	for _, query := range []string{
		"INSERT INTO setting VALUES ('uuid', 'f3c0')",
		"INSERT INTO sets (name, members, bytes) VALUES ('followed', 7, 0), ('never', 3, 0)",
		"INSERT INTO cursor (set_id, body) VALUES (1, '{}')",
		"INSERT INTO run (begun, what, created, updated, deleted) VALUES (1, 'sync', 10, 0, 0)",
	} {
		if _, err := db.Exec(query); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	c := reopen(t, path, false)
	if l, ok, err := c.Mirror.Losses(t.Context(), 1); err != nil || !ok || l.Members != 7 || l.Lost != 0 {
		t.Errorf("got %+v, %v, %v; want 7 members", l, ok, err)
	}
	if all, err := extents(c.reading(t.Context(), "read extents"), 1); err != nil || len(all) != 1 || all[0].run != 1 {
		t.Errorf("got the extents %+v, %v; want one of the run 1", all, err)
	}
	if l, ok, err := c.Mirror.Losses(t.Context(), 2); err != nil || ok {
		t.Errorf("got %+v, %v, %v; want none of a set that was never followed", l, ok, err)
	}
}
