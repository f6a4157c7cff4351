//go:build unix

package main

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// clocked runs commands on a mirror of a library at moments of its own.
type clocked struct {
	*testing.T
	source, mirror string
	stderr         string // of the last command
}

// at runs the program on a day of the year 2026, and returns what it writes.
func (c *clocked) at(day int, args ...string) string {
	c.Helper()
	var stdout, stderr bytes.Buffer
	now := time.Date(2026, 4, 1, 12, 0, 0, 0, time.UTC).AddDate(0, 0, day)
	a := &app{args: args, stdout: &stdout, stderr: &stderr, now: func() time.Time { return now }}
	a.out = &output{stdout: &stdout, stderr: &stderr}
	root := a.rootCommand()
	root.SetArgs(args)
	err := root.ExecuteContext(c.Context())
	a.out.flush()
	if err != nil || a.code != 0 {
		c.Fatalf("day %d: instep %s: exit code %d, %v\n%s", day, strings.Join(args, " "), a.code, err, &stderr)
	}
	c.stderr = stderr.String()
	return stdout.String()
}

func (c *clocked) sync(day int, flags ...string) {
	c.Helper()
	c.at(day, append([]string{"sync", c.source, c.mirror}, flags...)...)
}

// wantStates fails unless so many earlier states are there, each of which comes back.
func (c *clocked) wantStates(day, want int) {
	c.Helper()
	if got := strings.Count(c.at(day, "history", c.mirror), "\n") - 1; got != want {
		c.Fatalf("day %d: got %d earlier states, want %d", day, got, want)
	}
	if want > 0 {
		c.at(day, "restore", c.mirror, "shelf0/0.txt", "--to", filepath.Join(c.TempDir(), "back"))
	}
}

// forget makes the state one of an earlier version, which kept no settings.
func (c *clocked) forget() {
	c.Helper()
	db, err := sql.Open("sqlite", filepath.Join(c.mirror, ".instep", "catalog.db"))
	if err == nil {
		_, err = db.Exec("DELETE FROM setting WHERE name IN ('kept settings', 'trash clock')")
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		c.Fatal(err)
	}
}

// replaced is a mirror that was made on day 0 with some flags, and of which 8 resources
// were replaced on day 1, in a run with others.
func replaced(t *testing.T, made, later []string) *clocked {
	l := newLiar(t)
	for i := range 12 {
		l.offer(fmt.Sprintf("/shelf%d/%d.%s", i%3, i, []string{"txt", "pdf"}[i%2]), fmt.Sprint("book ", i))
	}
	c := &clocked{T: t, source: l.URL + "/capabilitylist.xml", mirror: filepath.Join(t.TempDir(), "mirror")}
	c.sync(0, made...)
	l.ransom("2026-03-02T12:00:00Z", 8)
	c.sync(1, later...)
	return c
}

func TestRetentionHoldsWithoutItsFlag(t *testing.T) {
	c := replaced(t, []string{"--keep-versions", "forever"}, nil)
	for _, day := range []int{60, 61, 62} {
		c.sync(day)
		c.wantStates(day, 8)
	}
	c.sync(63, "--keep-versions", "30") // once
	c.wantStates(63, 0)
	if report := c.at(64, "report", c.mirror); !strings.Contains(report, "--keep-versions=forever  (kept") {
		t.Errorf("report: %s", report)
	}
}

func TestRetentionThatIsRememberedHolds(t *testing.T) {
	c := replaced(t, nil, []string{"--keep-versions", "90", "--remember"})
	for _, day := range []int{60, 61, 62} {
		c.sync(day)
		c.wantStates(day, 8)
	}
	c.sync(100)
	c.sync(101)
	c.wantStates(101, 0)
}

// A mirror of an earlier version, every run of which was told to keep all: the first run
// that is not told forgets nothing, says so once, and what it says ends it.
func TestAMirrorOfAnEarlierVersionForgetsNothingUntold(t *testing.T) {
	const hint = "--keep-versions 30 --remember"
	forever := []string{"--keep-versions", "forever"}
	c := replaced(t, forever, forever)
	c.sync(60, forever...)
	c.forget()
	c.sync(61)
	if !strings.Contains(c.stderr, "earlier states since 2026-04-02 are kept here") || !strings.Contains(c.stderr, hint) {
		t.Errorf("said: %s", c.stderr)
	}
	for _, day := range []int{61, 62, 63} {
		c.wantStates(day, 8)
		if c.sync(day + 1); strings.Contains(c.stderr, hint) {
			t.Errorf("said again: %s", c.stderr)
		}
	}
	c.sync(65, strings.Fields(hint)...)
	c.sync(66)
	c.wantStates(66, 0)
}

// One whose runs had the default goes on with it, and nothing is said.
func TestAMirrorOfAnEarlierVersionKeepsTheDefault(t *testing.T) {
	c := replaced(t, nil, nil)
	c.forget()
	for _, day := range []int{30, 31, 32, 33} {
		if c.sync(day); strings.Contains(c.stderr, "kept here") {
			t.Errorf("day %d: %s", day, c.stderr)
		}
	}
	c.wantStates(33, 0)
}

// One whose runs are told to keep all for longer needs not be told any more.
func TestALongerRetentionOfAnEarlierVersionIsKept(t *testing.T) {
	forever := []string{"--keep-versions", "forever"}
	c := replaced(t, forever, forever)
	c.forget()
	c.sync(2, forever...)
	for _, day := range []int{60, 61, 62} {
		c.sync(day)
		c.wantStates(day, 8)
	}
}

// A clock that is wrong for a run takes nothing out of the trash, and ends well.
func TestAWrongClockForgetsNothing(t *testing.T) {
	for _, wrong := range []int{-56 * 365, 70 * 365} {
		c := replaced(t, nil, nil)
		c.sync(wrong)
		c.wantStates(2, 8)
		c.sync(2)
		c.sync(3)
		c.wantStates(3, 8)
		c.sync(40)
		c.sync(41)
		c.wantStates(41, 0)
	}
}

// Two runs with a clock that is ahead look like a pause. What they leave behind is said, and
// the command that is printed ends it.
func TestAClockThatWasAheadIsAccepted(t *testing.T) {
	const said, hint = "nothing is removed from the trash", "--keep-versions 30 --remember"
	c := replaced(t, nil, nil)
	c.sync(70 * 365)
	c.sync(70*365 + 1)
	if c.sync(2); !strings.Contains(c.stderr, said) || !strings.Contains(c.stderr, hint) {
		t.Errorf("said: %s", c.stderr)
	}
	for i, flags := range [][]string{strings.Fields(hint), nil, nil} {
		if c.sync(3+i, flags...); strings.Contains(c.stderr, said) {
			t.Errorf("said again: %s", c.stderr)
		}
	}
}

// A setting of a newer version may be a filter: what is not understood is not left out.
func TestSettingsOfANewerVersionAreRefused(t *testing.T) {
	l, dir := library(t, 3)
	db, err := sql.Open("sqlite", filepath.Join(dir, ".instep", "catalog.db"))
	if err == nil {
		_, err = db.Exec(`UPDATE setting SET value = '{"values":{"only-newer":["x"]}}' WHERE name = 'kept settings'`)
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"sync", "audit"} {
		if o := instep(t, command, l.URL+"/capabilitylist.xml", dir); o.code != exitUsage || !strings.Contains(o.stderr+fmt.Sprint(o.records), "--only-newer") {
			t.Errorf("%s: exit code %d, %v", command, o.code, o.records)
		}
	}
	mustDo(t, "report", dir)
}
