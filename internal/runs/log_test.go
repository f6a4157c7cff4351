package runs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"testing"
	"time"

	"instep/destination"
	"instep/fetch"
	"instep/harvest"
	"instep/internal/runs"
	"instep/resourcesync"
)

// What a Destination reports before there is a mirror is in its record too, and each cause has
// a group with the command that comes next.
func TestLogKeepsWhatCameBeforeItsRecord(t *testing.T) {
	c, state := &clock{time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}, t.TempDir()
	l := runs.NewLog(runs.Run{Command: "sync", Source: "https://museum.example.org/", Dir: "m", Begun: c.now()}, c.now)
	l.Event(destination.Event{Kind: destination.EventNote, Text: "an early note"})
	if err := l.Begin(state, 6); err != nil {
		t.Fatal(err)
	}
	failed := destination.Event{Kind: destination.EventFailed, Err: errors.New("no room")}
	failed.Action.Want.URI = "https://museum.example.org/vase.jpg"
	l.Event(failed)
	l.Partial("https://museum.example.org/set", errors.New("no list"))
	l.Changed()
	if err := l.End(runs.Outcome{Status: "partial", ExitCode: 4}); err != nil {
		t.Fatal(err)
	}
	if err := l.End(runs.Outcome{}); err != nil { // its second end is none
		t.Error(err)
	}
	all := list(t, state)
	if len(all) != 1 {
		t.Fatalf("%d records", len(all))
	}
	rec := load(t, state, all[0].ID)
	if !rec.Troubled() || !rec.End.Changed || rec.ID != 7 || rec.Rows[0].Message != "an early note" {
		t.Errorf("%+v", rec)
	}
	var got string
	for _, g := range rec.Groups("") {
		got += fmt.Sprintln(g.Cause, g.N, g.More(), g.Next)
	}
	want := "document 1 0 instep lint https://museum.example.org/\nother 1 0 instep sync https://museum.example.org/ m\n"
	if got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}

// TestRetriedFailuresAreNotCounted: what failed and came later in the run is no failure, neither of
// a run that ended nor of one that was killed. What cannot be retried, and other sets, stay.
func TestRetriedFailuresAreNotCounted(t *testing.T) {
	for _, ended := range []bool{true, false} {
		c, state := &clock{time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}, t.TempDir()
		l := runs.NewLog(runs.Run{Command: "sync", Begun: c.now()}, c.now)
		if err := l.Begin(state, 0); err != nil {
			t.Fatal(err)
		}
		mismatch := &resourcesync.MismatchError{What: "length", Want: "1", Got: "2"}
		fail := func(set, uri string, err error) {
			e := destination.Event{Kind: destination.EventFailed, Set: set, Err: err}
			e.Action.Want.URI = uri
			l.Event(e)
		}
		fail("a", "settled", mismatch)
		fail("a", "again", mismatch)
		fail("a", "otherwise", mismatch)
		fail("a", "nowhere", destination.ErrNoPlace)
		fail("b", "again", mismatch)
		l.Event(destination.Event{Kind: destination.EventRetried, Set: "a"})
		fail("a", "again", mismatch)
		fail("a", "otherwise", &fetch.Error{Kind: fetch.NotFound})
		if ended {
			if err := l.End(runs.Outcome{Status: "partial", ExitCode: 4}); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		rec := load(t, state, 1)
		for _, g := range rec.Groups("") {
			for _, r := range g.Rows {
				got = append(got, fmt.Sprintf("%s %d %s %s", g.Cause, g.N, r.Set, r.URI))
			}
		}
		want := []string{"mismatch 2 b again", "mismatch 2 a again", "no-place 1 a nowhere", "not-found 1 a otherwise"}
		if !slices.Equal(got, want) || rec.Failures() != 4 || rec.Kept != 4 {
			t.Errorf("ended %v: got %q, %d failures, %d rows; want %q", ended, got, rec.Failures(), rec.Kept, want)
		}
	}
}

// More failures than a record has are taken back, too.
func TestManyRetriedFailuresAreNotCounted(t *testing.T) {
	c, state := &clock{time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}, t.TempDir()
	l := runs.NewLog(runs.Run{Command: "sync", Begun: c.now()}, c.now)
	if err := l.Begin(state, 0); err != nil {
		t.Fatal(err)
	}
	for i := range 7500 {
		l.Add(runs.Row{Kind: runs.Failure, Set: "a", Cause: runs.CauseNotFound, URI: fmt.Sprint(i)})
	}
	for range 2 {
		l.Event(destination.Event{Kind: destination.EventRetried, Set: "a"})
	}
	l.Add(runs.Row{Kind: runs.Failure, Set: "a", Cause: runs.CauseNotFound, URI: "again"})
	if err := l.End(runs.Outcome{Status: "partial", ExitCode: 4}); err != nil {
		t.Fatal(err)
	}
	if rec := load(t, state, 1); rec.Failures() != 1 || rec.Kept != 1 || len(rec.Rows) != 1 {
		t.Errorf("got %d failures, %d rows, %d of them read; want 1", rec.Failures(), rec.Kept, len(rec.Rows))
	}
}

func TestLogOfARunThatFoundNothingNewIsIdle(t *testing.T) {
	c, state := &clock{time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}, t.TempDir()
	for range 3 {
		c.t = c.t.Add(time.Hour)
		l := runs.NewLog(runs.Run{Command: "sync", Begun: c.now()}, c.now)
		if err := l.Begin(state, 0); err != nil {
			t.Fatal(err)
		}
		if err := l.End(runs.Outcome{Status: "in-sync"}); err != nil {
			t.Fatal(err)
		}
	}
	if all := list(t, state); len(all) != 1 {
		t.Errorf("%d records of runs with nothing new, want the last one", len(all))
	}
}

// TestNextCommandKeepsWhatTheRunAllowed: a flag that is advised comes beside those given.
func TestNextCommandKeepsWhatTheRunAllowed(t *testing.T) {
	cause := runs.CauseRefused
	rec := runs.Record{Tally: runs.Tally{Causes: map[string]int64{cause: 1}}, Rows: []runs.Row{{Kind: runs.Failure, Cause: cause, Hint: "--allow-origin https://b.example.org"}}}
	rec.Run = runs.Run{Command: "sync", Source: "https://example.org/", Dir: "mirror", Options: []string{"--allow-origin=https://a.example.org", "--allow-origin=https://b.example.org", "--strict"}}
	const want = "instep sync --allow-origin https://b.example.org --allow-origin=https://a.example.org --strict https://example.org/ mirror"
	if got := rec.Groups("")[0].Next; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestCausesAreToldApart(t *testing.T) {
	mismatch := &resourcesync.MismatchError{What: "length", Want: "1", Got: "2"}
	for _, c := range []struct {
		err  error
		want string
	}{
		{&fetch.Error{Kind: fetch.Temporary}, runs.CauseTemporary},
		{&fetch.Error{Kind: fetch.Refused}, runs.CauseRefused},
		{&fetch.Error{Kind: fetch.NotFound}, runs.CauseNotFound},
		{&fetch.Error{Kind: fetch.Denied}, runs.CauseDenied},
		{&fetch.Error{Kind: fetch.TooLarge}, runs.CauseTooLarge},
		{&fetch.Error{Kind: fetch.Protocol}, runs.CauseProtocol},
		{mismatch, runs.CauseMismatch},
		{&harvest.DocumentError{URI: "u", Reason: "cannot be used"}, runs.CauseDocument},
		{&harvest.DocumentError{URI: "u", Err: &fetch.Error{Kind: fetch.NotFound}}, runs.CauseNotFound},
		{destination.ErrOccupied, runs.CauseOccupied},
		{destination.ErrNoPlace, runs.CauseNoPlace},
		{destination.ErrNotHeld, runs.CauseMoved},
		{destination.ErrOutage, runs.CauseTemporary},
		{fs.ErrPermission, runs.CauseOther},
	} {
		if got := runs.CauseOf(fmt.Errorf("bring it: %w", c.err)); got != c.want {
			t.Errorf("%v: got %q, want %q", c.err, got, c.want)
		}
	}
}
