package mirror

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// purge purges the trash at a moment that two runs in a row have reached.
func purge(t *testing.T, m *Mirror, at time.Time, keep int) {
	t.Helper()
	was := m.o.Now
	m.o.Now = func() time.Time { return at }
	defer func() { m.o.Now = was }()
	for range 2 {
		if err := m.BeginRun(t.Context(), "sync", 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.PurgeTrash(t.Context(), keep); err != nil {
		t.Fatal(err)
	}
}

// clockRun is a run of a mirror at a moment: it puts a body at "a", and keeps the trash
// for 30 days.
type clockRun struct {
	at   string
	body string
	want string // the bodies in the trash after it
}

func TestTheTrashOutlivesAWrongClock(t *testing.T) {
	for _, c := range []struct {
		name string
		runs []clockRun
	}{
		{"a right clock", []clockRun{
			{"2026-05-01", "one", ""}, {"2026-05-02", "two", "one"}, {"2026-05-31", "two", "one"},
			{"2026-06-01", "two", "one"}, {"2026-06-02", "two", "one"}, {"2026-06-03", "two", ""},
		}},
		{"1970 for a run", []clockRun{
			{"2026-05-01", "one", ""}, {"1970-01-01", "two", "one"}, {"2026-05-02", "two", "one"}, {"2026-05-03", "two", "one"},
			{"2026-06-01", "two", "one"}, {"2026-06-02", "two", "one"}, {"2026-06-03", "two", ""},
		}},
		{"1970 for several runs, and again later", []clockRun{
			{"2026-05-01", "one", ""}, {"2026-05-02", "one", ""}, {"1970-01-01", "two", "one"}, {"1970-01-01", "three", "one two"},
			{"2026-05-03", "three", "one two"}, {"1970-01-01", "fourth", "one three two"}, {"2026-06-03", "fourth", "one three two"},
			{"2026-06-04", "fourth", "one three two"}, {"2026-07-04", "fourth", "one three two"}, {"2026-07-05", "fourth", ""},
		}},
		{"1970 when the mirror is made", []clockRun{
			{"1970-01-01", "one", ""}, {"1970-01-01", "two", "one"}, {"2026-05-01", "two", "one"}, {"2026-05-02", "two", "one"},
			{"2026-05-31", "two", "one"}, {"2026-06-01", "two", "one"}, {"2026-06-02", "two", ""},
		}},
		{"some months behind", []clockRun{
			{"2026-05-01", "one", ""}, {"2026-05-02", "one", ""}, {"2025-01-01", "two", "one"}, {"2025-01-01", "three", "one two"},
			{"2026-05-03", "three", "one two"}, {"2026-05-04", "three", "one two"}, {"2026-06-03", "three", "one two"}, {"2026-06-04", "three", ""},
		}},
		{"ahead for a run", []clockRun{
			{"2026-05-01", "one", ""}, {"2026-05-02", "two", "one"}, {"2099-01-01", "three", "one two"}, {"2026-05-03", "three", "one two"},
			{"2026-05-31", "three", "one two"}, {"2026-06-02", "three", "one two"}, {"2026-06-03", "three", "two"}, {"2026-06-04", "three", ""},
		}},
	} {
		for _, layout := range []Layout{Tree, Flat} {
			t.Run(c.name+", "+string(layout), func(t *testing.T) {
				p := openPastAs(t, layout)
				for _, r := range c.runs {
					at, err := time.Parse(time.DateOnly, r.at)
					p.ok(err)
					p.now = at
					p.do(stated("a", r.body, "2026-01-01", noon.AddDate(0, 0, len(r.body))))
					p.ok(p.PurgeTrash(t.Context(), 30))
					if got := trashed(p); got != r.want {
						t.Fatalf("in the trash after the run of %s: got %q, want %q", r.at, got, r.want)
					}
				}
			})
		}
	}
}

// trashed are the bodies of all earlier states, each of which has to be there.
func trashed(p *pastMirror) string {
	bodies := map[string]bool{}
	for v, err := range p.Ended(p.t.Context(), time.Time{}.AddDate(1000, 0, 0)) {
		p.ok(err)
		bodies[p.body(&v)] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(bodies)), " ")
}

// Two runs with a clock that is ahead can't be told from a pause. What they leave behind
// ends with consent.
func TestAClockThatWasAheadForLongIsAcceptedWhenTheUserSaysSo(t *testing.T) {
	p := openPast(t)
	run := func(day, body, want string) {
		t.Helper()
		at, err := time.Parse(time.DateOnly, day)
		p.ok(err)
		p.now = at
		p.do(stated("a", body, "2026-01-01", noon.AddDate(0, 0, len(body))))
		p.ok(p.PurgeTrash(t.Context(), 30))
		if got := trashed(p); got != want {
			t.Fatalf("in the trash after the run of %s: got %q, want %q", day, got, want)
		}
	}
	run("2026-05-01", "one", "")
	run("2099-01-01", "two", "one")
	run("2099-01-02", "three", "one two")
	run("2026-05-02", "fourth", "one three two")
	if day, behind, err := p.ClockBehind(t.Context()); err != nil || !behind || day != "2099-01-01" {
		t.Errorf("the clock is behind: got %q, %v, %v", day, behind, err)
	}
	p.ok(p.AcceptClock(t.Context()))
	if _, behind, err := p.ClockBehind(t.Context()); err != nil || behind {
		t.Errorf("the clock is behind after it was accepted: %v, %v", behind, err)
	}
	run("2026-05-03", "fourth", "one three two")
	run("2026-06-02", "fourth", "one three two")
	run("2026-06-04", "fourth", "one two")
	run("2026-06-05", "fourth", "")
}
