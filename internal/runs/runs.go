// Package runs stores a record of each run of a command on a mirror, beside the mirror's
// catalog: actions, tolerated faults, failures and their causes. A record is a file of JSON
// lines in the directory runs of the state, named by the number of the run. Its first
// line is written before the run does anything and its last when the run ends, so that a
// killed run is recognised by its missing end.
//
// Records are bounded: only the newest are kept, a record has a limited number of rows, and
// rows beyond it are counted exactly.
package runs

import (
	"errors"
	"strings"
	"time"
)

// Limits of stored records.
const (
	maxRuns     = 100
	maxSets     = 1000
	maxNotes    = 2000
	maxFailures = 7000 // together with the other rows at most about 10,000 per run
	maxOfQuirk  = 50   // notes about the same habit of the Source
	maxText     = 2000 // length of a message in bytes
	maxURI      = 8 << 10
	maxOptions  = 100
)

// format is the version of the record format.
const format = 2

// ErrNoRun means that there is no record of a run with a given number.
var ErrNoRun = errors.New("no such run is kept")

// Run identifies the run of a record.
type Run struct {
	Format  int       `json:"format"`
	ID      int64     `json:"run"` // number of the run, also used in the history of the mirror
	Command string    `json:"command"`
	Source  string    `json:"source,omitempty"`
	Dir     string    `json:"dir,omitempty"`
	Options []string  `json:"options,omitempty"` // flags in the form in which they can be given again
	Begun   time.Time `json:"begun"`
	Version string    `json:"version,omitempty"` // version of the program
	Go      string    `json:"go,omitempty"`
	System  string    `json:"system,omitempty"`
}

// Kind is the kind of a row.
type Kind string

// Values of Kind.
const (
	Set     Kind = "set"     // how a set was synchronised or compared, and why in this way
	Note    Kind = "note"    // something tolerated, skipped or guessed, or a guard that stopped something
	Failure Kind = "failure" // something that failed or was found wrong
)

// Row is one event of a run.
type Row struct {
	Kind    Kind   `json:"kind"`
	Set     string `json:"set,omitempty"`
	Mode    string `json:"mode,omitempty"` // for a Set
	Cause   string `json:"cause,omitempty"`
	Quirk   int    `json:"quirk,omitempty"` // of a Note: number of the known fault of Sources that it is about
	URI     string `json:"uri,omitempty"`
	Path    string `json:"path,omitempty"`
	Message string `json:"message,omitempty"`
	Hint    string `json:"hint,omitempty"`
}

// Outcome describes how a run ended.
type Outcome struct {
	Status   string           `json:"status"`
	ExitCode int              `json:"exit_code"`
	Error    string           `json:"error,omitempty"` // the error that ended the run early
	Hint     string           `json:"hint,omitempty"`
	Changed  bool             `json:"changed,omitempty"` // the run changed the mirror and is in its history
	Idle     bool             `json:"idle,omitempty"`    // nothing happened: the record replaces that of a preceding idle run of the same command
	Counts   map[string]int64 `json:"counts,omitempty"`  // counts of resources, bytes and the like, by name
}

// Tally counts the rows of a run, including those that were not kept.
type Tally struct {
	Causes map[string]int64 `json:"causes,omitempty"` // failures
	Quirks map[int]int64    `json:"quirks,omitempty"` // number of notes by habit; 0 stands for no known habit
	Sets   int64            `json:"sets,omitempty"`
	Kept   int64            `json:"kept"` // number of rows in the record
}

// Failures returns the number of failures of all causes.
func (t *Tally) Failures() (n int64) {
	for _, of := range t.Causes {
		n += of
	}
	return n
}

// count counts a row and reports whether it is kept.
func (t *Tally) count(row *Row) (keep bool) {
	switch row.Kind {
	case Set:
		t.Sets++
		keep = t.Sets <= maxSets
	case Note:
		keep = t.notes() < maxNotes && t.Quirks[row.Quirk] < maxOfQuirk
		t.Quirks = increased(t.Quirks, row.Quirk)
	case Failure:
		keep = t.Failures() < maxFailures
		t.Causes = increased(t.Causes, row.Cause)
	}
	if keep {
		t.Kept++
	}
	return keep
}

func (t *Tally) notes() (n int64) {
	for _, of := range t.Quirks {
		n += of
	}
	return n
}

func increased[K comparable](m map[K]int64, k K) map[K]int64 {
	if m == nil {
		m = map[K]int64{}
	}
	m[k]++
	return m
}

// End is the last line of a record.
type End struct {
	Ended time.Time `json:"ended"`
	Outcome
	Tally
}

// Record is the stored record of a run.
type Record struct {
	Run
	Rows []Row
	End  *End // nil: the run is not finished, or was killed
	Tally
}

// clip truncates a text to n bytes of valid UTF-8.
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
