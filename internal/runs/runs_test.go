package runs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/internal/runs"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// clock is a clock that stands still until it is moved.
type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

func beginRun(state string, r runs.Run, now func() time.Time) (*runs.Log, error) {
	l := runs.NewLog(r, now)
	return l, l.Begin(state, r.ID)
}

func begin(t *testing.T, state string, c *clock) *runs.Log {
	t.Helper()
	rec, err := beginRun(state, runs.Run{
		Command: "sync", Source: "https://museum.example.org/", Dir: "mirror", Options: []string{"--strict"}, Begun: c.now(), Version: "1.2.3", Go: "go1.26",
	}, c.now)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func load(t *testing.T, state string, id int64) *runs.Record {
	t.Helper()
	rec, err := runs.Load(state, id)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func list(t *testing.T, state string) []runs.Record {
	t.Helper()
	all, err := runs.List(state)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestARunIsKeptAsItWasTold(t *testing.T) {
	state, c := t.TempDir(), &clock{t0}
	rec := begin(t, state, c)
	rows := []runs.Row{
		{Kind: runs.Set, Set: "https://museum.example.org/caps.xml", Mode: "baseline", Message: "no earlier synchronisation"},
		{Kind: runs.Note, Quirk: 7, Message: "tolerated"},
		{Kind: runs.Failure, Cause: "not-found", URI: "https://museum.example.org/a", Message: "404", Hint: "ask the Source"},
	}
	for _, r := range rows {
		rec.Add(r)
	}
	c.t = t0.Add(time.Minute)
	if err := rec.End(runs.Outcome{Status: "partial", ExitCode: 4, Counts: map[string]int64{"created": 3}}); err != nil {
		t.Fatal(err)
	}
	rec.Add(rows[0]) // after the end: too late
	tally := runs.Tally{Causes: map[string]int64{"not-found": 1}, Quirks: map[int]int64{7: 1}, Sets: 1, Kept: 3}
	want := &runs.Record{
		Run: runs.Run{
			Format: 2, ID: 1, Command: "sync", Source: "https://museum.example.org/", Dir: "mirror",
			Options: []string{"--strict"}, Begun: t0, Version: "1.2.3", Go: "go1.26",
		},
		Rows: rows, Tally: tally,
		End: &runs.End{Ended: c.t, Outcome: runs.Outcome{Status: "partial", ExitCode: 4, Counts: map[string]int64{"created": 3}}, Tally: tally},
	}
	if d := cmp.Diff(load(t, state, rec.ID()), want); d != "" {
		t.Errorf("Load (-got +want):\n%s", d)
	}
	want.Rows = nil
	if d := cmp.Diff(list(t, state), []runs.Record{*want}); d != "" {
		t.Errorf("List (-got +want):\n%s", d)
	}
}

// A run that was killed has a record without an end, and its torn last line is no
// reason to lose the others.
func TestARunThatWasKilledIsUnfinished(t *testing.T) {
	state := t.TempDir()
	rec := begin(t, state, &clock{t0})
	rec.Add(runs.Row{Kind: runs.Failure, Cause: "denied", URI: "https://museum.example.org/a"})
	name := filepath.Join(state, "runs", "1.jsonl")
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(whole) {
		if err := os.WriteFile(name, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		all := list(t, state)
		if len(all) != 1 || all[0].End != nil || all[0].ID != rec.ID() {
			t.Fatalf("List of a record cut at byte %d of %d: got %+v, want one run without an end", cut, len(whole), all)
		}
		if got := load(t, state, rec.ID()); got.End != nil || len(got.Rows) > 1 {
			t.Fatalf("Load of a record cut at byte %d: got %+v", cut, got)
		}
	}
	if err := os.WriteFile(name, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	got := load(t, state, rec.ID())
	if d := cmp.Diff(got.Tally, runs.Tally{Causes: map[string]int64{"denied": 1}, Kept: 1}); d != "" {
		t.Errorf("what an unfinished run counts (-got +want):\n%s", d)
	}
}

func TestRowsAreBoundedAndCountsExact(t *testing.T) {
	state := t.TempDir()
	rec := begin(t, state, &clock{t0})
	const of = 15_000
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := range of / 4 {
				rec.Add(runs.Row{Kind: runs.Failure, Cause: "not-found", URI: fmt.Sprintf("https://museum.example.org/%d/%d", worker, i)})
				rec.Add(runs.Row{Kind: runs.Note, Quirk: 1 + i%60, Message: "tolerated"})
				rec.Add(runs.Row{Kind: runs.Set, Mode: "baseline", Message: strings.Repeat("x", 5000)})
			}
		})
	}
	wg.Wait()
	if err := rec.End(runs.Outcome{Status: "partial"}); err != nil {
		t.Fatal(err)
	}
	got := load(t, state, rec.ID())
	if got.End == nil || got.Causes["not-found"] != of || got.Tally.Sets != of {
		t.Fatalf("got end %v, %d failures, %d sets, want all %d counted", got.End, got.Causes["not-found"], got.Tally.Sets, of)
	}
	if n := int64(len(got.Rows)); n > 10_000 || n != got.Kept {
		t.Errorf("got %d rows, %d told, want at most 10,000 and as many as told", n, got.Kept)
	}
	notes := int64(0)
	for _, n := range got.Quirks {
		notes += n
	}
	if notes != of {
		t.Errorf("got %d notes counted, want %d", notes, of)
	}
	for _, r := range got.Rows {
		if len(r.Message) > 2100 {
			t.Fatalf("a message of %d bytes was kept whole", len(r.Message))
		}
	}
}

func TestAResourceThatFailsTwiceInARunIsOneFailure(t *testing.T) {
	state := t.TempDir()
	rec := begin(t, state, &clock{t0})
	for _, row := range []runs.Row{
		{Kind: runs.Failure, Cause: "temporary", Set: "a", URI: "https://museum.example.org/1"},
		{Kind: runs.Failure, Cause: "temporary", Set: "a", URI: "https://museum.example.org/1"},
		{Kind: runs.Failure, Cause: "not-found", Set: "b", URI: "https://museum.example.org/1"},
		{Kind: runs.Failure, Cause: "document", Set: "a"},
		{Kind: runs.Failure, Cause: "document", Set: "a"},
	} {
		rec.Add(row)
	}
	if err := rec.End(runs.Outcome{Status: "partial", ExitCode: 4}); err != nil {
		t.Fatal(err)
	}
	want := map[string]int64{"temporary": 1, "not-found": 1, "document": 2}
	if d := cmp.Diff(load(t, state, rec.ID()).Causes, want); d != "" {
		t.Errorf("failures by cause (-got +want):\n%s", d)
	}
}

func TestTheNewestRunsAreKept(t *testing.T) {
	state, c := t.TempDir(), &clock{t0}
	stranger := filepath.Join(state, "runs", "notes.txt")
	var first, last int64
	for i := range 103 {
		rec := begin(t, state, c)
		if i == 0 {
			first = rec.ID()
			if err := os.WriteFile(stranger, []byte("mine"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		last = rec.ID()
		if err := rec.End(runs.Outcome{Status: "in-sync", Counts: map[string]int64{"created": 1}}); err != nil {
			t.Fatal(err)
		}
	}
	all := list(t, state)
	if len(all) != 100 || all[0].ID != last || all[99].ID != 4 {
		t.Errorf("got %d runs from %d to %d, want 100 from %d to 4", len(all), all[0].ID, all[len(all)-1].ID, last)
	}
	if _, err := runs.Load(state, first); !errors.Is(err, runs.ErrNoRun) {
		t.Errorf("Load of the first run: got %v, want ErrNoRun", err)
	}
	if _, err := os.Stat(stranger); err != nil {
		t.Errorf("a file that is no record was removed: %v", err)
	}
}

func TestIdleRunsLeaveOneRecord(t *testing.T) {
	state, c := t.TempDir(), &clock{t0}
	end := func(command string, idle bool) {
		t.Helper()
		c.t = c.t.Add(time.Second)
		rec, err := beginRun(state, runs.Run{Command: command, Begun: c.now()}, c.now)
		if err != nil {
			t.Fatal(err)
		}
		o := runs.Outcome{Status: "in-sync"}
		if !idle {
			o.Counts = map[string]int64{"created": 1}
		}
		if err := rec.End(o); err != nil {
			t.Fatal(err)
		}
	}
	for _, run := range []struct {
		command string
		idle    bool
	}{{"sync", true}, {"sync", false}, {"sync", true}, {"sync", true}, {"sync", true}, {"audit", true}, {"sync", true}, {"sync", false}, {"sync", true}} {
		end(run.command, run.idle)
	}
	var got []string
	for _, r := range list(t, state) {
		got = append(got, fmt.Sprintf("%d %s %t %d", r.ID, r.Command, r.End.Idle, r.End.Alike))
		if first := t0.Add(3 * time.Second); r.End.Alike > 0 && !r.End.Since.Equal(first) {
			t.Errorf("run %d is like others since %v, want the beginning of the first of them, %v", r.ID, r.End.Since, first)
		}
	}
	want := []string{"9 sync true 0", "8 sync false 0", "7 sync true 0", "6 audit false 0", "5 sync true 2", "2 sync false 0", "1 sync true 0"}
	if d := cmp.Diff(got, want); d != "" {
		t.Errorf("runs that are kept (-got +want):\n%s", d)
	}
}

func TestOnlyRecordsAreRead(t *testing.T) {
	state := t.TempDir()
	if all := list(t, state); len(all) != 0 {
		t.Errorf("a state without records: got %v, want no runs", all)
	}
	rec := begin(t, state, &clock{t0})
	if err := rec.End(runs.Outcome{Status: "in-sync"}); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(state, "9.jsonl")
	if err := os.WriteFile(secret, []byte(`{"kind":"run","command":"secret"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, id := range []int64{-1, 0, 2, 9} {
		if got, err := runs.Load(state, id); !errors.Is(err, runs.ErrNoRun) {
			t.Errorf("Load(%d): got %+v, %v, want ErrNoRun", id, got, err)
		}
	}
	if err := os.Symlink(secret, filepath.Join(state, "runs", "8.jsonl")); err != nil {
		t.Skipf("SKIPPED: no symbolic links here: %v", err)
	}
	if got, err := runs.Load(state, 8); err == nil {
		t.Errorf("Load followed a symbolic link: %+v", got)
	}
}

// Numbers only grow: those of the mirror's history count, and so do those that another process
// takes at the same moment.
func TestNumbersAscend(t *testing.T) {
	state, c := t.TempDir(), &clock{t0}
	for _, step := range []struct{ after, want int64 }{{0, 1}, {0, 2}, {7, 8}, {3, 9}} {
		rec, err := beginRun(state, runs.Run{ID: step.after, Command: "sync", Begun: t0}, c.now)
		if err != nil || rec.ID() != step.want {
			t.Fatalf("a run after %d: got %d, %v, want %d", step.after, rec.ID(), err, step.want)
		}
	}
	var wg sync.WaitGroup
	taken := make([]int64, 8)
	for i := range taken {
		wg.Go(func() {
			rec, err := beginRun(state, runs.Run{Command: "audit", Begun: t0}, c.now)
			if err != nil {
				t.Error(err)
				return
			}
			taken[i] = rec.ID()
		})
	}
	wg.Wait()
	slices.Sort(taken)
	if d := cmp.Diff(taken, []int64{10, 11, 12, 13, 14, 15, 16, 17}); d != "" {
		t.Errorf("numbers taken at once (-got +want):\n%s", d)
	}
}

func TestRecordsOfEarlierBuildsGo(t *testing.T) {
	state := t.TempDir()
	former := filepath.Join(state, "runs", "20260301T120000Z-002.jsonl")
	if err := os.MkdirAll(filepath.Dir(former), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(former, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	begin(t, state, &clock{t0})
	if _, err := os.Stat(former); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a record named by its time: %v, want it removed", err)
	}
}

func TestARecordIsNotBegunWhereThereIsNoState(t *testing.T) {
	_, err := beginRun(filepath.Join(t.TempDir(), "none"), runs.Run{Begun: t0}, (&clock{t0}).now)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
}
