// Package runs stores a record of each run of a command on a mirror: the actions of the run,
// tolerated faults, failures and their causes. A record is a file of JSON lines in the directory
// runs of the mirror's state, and its name is the number of the run. The first line is written
// before the run does anything, and the last line when the run ends. So the record of a killed
// run has no end.
//
// Only the newest records are kept. If two runs in a row had nothing to do, the record of the
// second run replaces that of the first and counts it. A record has a limited number of rows, and
// counts the rows that it leaves out.
package runs

import (
	"errors"
	"strings"
	"time"
)

// Limits of stored records. A run has at most 10,000 rows in total.
const (
	maxRuns     = 100
	maxSets     = 1000
	maxNotes    = 2000
	maxFailures = 7000
	maxOfQuirk  = 50   // largest number of notes about the same quirk, a known deviation of the Source from the standard
	maxText     = 2000 // largest length of a message in bytes
	maxURI      = 8 << 10
	maxOptions  = 100
)

const recordFormat = 2

// ErrNoRun means that there is no record of a run with a given number.
var ErrNoRun = errors.New("there is no record of this run")

// Run describes a run. It is the first line of the record.
type Run struct {
	Format  int       `json:"format"`
	ID      int64     `json:"run"` // number of the run; the history of the mirror has the same number
	Command string    `json:"command"`
	Source  string    `json:"source,omitempty"`
	Dir     string    `json:"dir,omitempty"`
	Options []string  `json:"options,omitempty"` // flags of the command, each as --name or --name=value
	Begun   time.Time `json:"begun"`
	Version string    `json:"version,omitempty"` // version of instep
	Go      string    `json:"go,omitempty"`
	System  string    `json:"system,omitempty"`
}

// Kind says what a row is about.
type Kind string

// Values of Kind.
const (
	Set     Kind = "set"     // a row about the way in which a set was synchronised or compared, and the reason for this way
	Note    Kind = "note"    // a row about something that was tolerated, skipped or withheld
	Failure Kind = "failure" // a row about something that failed, or that an audit found wrong
	Retried Kind = "retried" // a row that takes back the failures of a set, because the run tries these resources again
)

// Row is one event of a run.
type Row struct {
	Kind    Kind   `json:"kind"`
	Set     string `json:"set,omitempty"`
	Mode    string `json:"mode,omitempty"` // the way in which the set was synchronised or compared; only in a row of kind Set
	Cause   string `json:"cause,omitempty"`
	Quirk   int    `json:"quirk,omitempty"` // number of the quirk, a known deviation of the Source from the standard; only in a row of kind Note
	URI     string `json:"uri,omitempty"`
	Path    string `json:"path,omitempty"`
	Message string `json:"message,omitempty"`
	Hint    string `json:"hint,omitempty"`
	Open    bool   `json:"open,omitempty"` // whether the note is a reason why the exit code of the run is not 0; only in a row of kind Note
}

// failure identifies a failed resource.
type failure struct{ set, cause, uri string }

func failureOf(row *Row) failure { return failure{row.Set, row.Cause, row.URI} }

// retriedIn reports whether a row of kind Retried for a set takes back the failure. It does
// not if no path is possible for the resource, because such a resource is not tried again.
func (f failure) retriedIn(set string) bool {
	return f.set == set && f.uri != "" && f.cause != CauseNoPlace
}

// Outcome describes how a run ended.
type Outcome struct {
	Status   string           `json:"status"`
	ExitCode int              `json:"exit_code"`
	Error    string           `json:"error,omitempty"` // the message of the error that ended the run early
	Hint     string           `json:"hint,omitempty"`
	Changed  bool             `json:"changed,omitempty"` // whether the run changed the mirror; then the history of the mirror has the run, too
	Idle     bool             `json:"idle,omitempty"`    // whether the run had nothing to do; then the record of the next idle run replaces this record
	Counts   map[string]int64 `json:"counts,omitempty"`  // counts of the run by name, such as "created" and "bytes"
}

// Tally counts the rows of a run, including those that are not in the record.
type Tally struct {
	Causes map[string]int64 `json:"causes,omitempty"` // number of failures by cause
	Quirks map[int]int64    `json:"quirks,omitempty"` // number of notes about each quirk, by the number of the quirk; notes about no quirk have the key 0
	Sets   int64            `json:"sets,omitempty"`
	Kept   int64            `json:"kept"` // number of rows in the record
}

// Failures returns the number of failures of all causes.
func (t *Tally) Failures() int64 { return sum(t.Causes) }

func sum[K comparable](counts map[K]int64) (total int64) {
	for _, n := range counts {
		total += n
	}
	return total
}

// count counts a row. It returns false if the row exceeds the limits of the record.
func (t *Tally) count(row *Row) (keep bool) {
	switch row.Kind {
	case Set:
		t.Sets++
		keep = t.Sets <= maxSets
	case Note:
		keep = sum(t.Quirks) < maxNotes && (row.Open || t.Quirks[row.Quirk] < maxOfQuirk)
		t.Quirks = AddCounts(t.Quirks, map[int]int64{row.Quirk: 1})
	case Failure:
		keep = t.Failures() < maxFailures
		t.Causes = AddCounts(t.Causes, map[string]int64{row.Cause: 1})
	}
	if keep {
		t.Kept++
	}
	return keep
}

// uncount takes back the count of n failures.
func (t *Tally) uncount(cause string, n int64) {
	if t.Causes[cause] -= n; t.Causes[cause] == 0 {
		delete(t.Causes, cause)
	}
}

// End is the last line of a record.
type End struct {
	Ended time.Time `json:"ended"`
	Alike int64     `json:"alike,omitempty"` // number of earlier idle runs whose records this record has replaced
	Since time.Time `json:"since,omitzero"`  // start of the first run that Alike counts
	Outcome
	Tally
}

// Record is the stored record of a run.
type Record struct {
	Run
	Rows []Row
	End  *End // nil if the run has not ended, or was killed
	Tally
}

// clip truncates a text to n bytes, and makes it valid UTF-8.
func clip(s string, n int) string {
	if len(s) <= n {
		return strings.ToValidUTF8(s, "\ufffd")
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

func (r *Row) clip() {
	for _, s := range []*string{&r.Message, &r.Hint} {
		*s = clip(*s, maxText)
	}
	for _, s := range []*string{&r.Set, &r.URI, &r.Path} {
		*s = clip(*s, maxURI)
	}
}
