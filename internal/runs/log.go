package runs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"instep/destination"
	"instep/fetch"
)

// Log writes the record of a run on a mirror. It receives the events of a Destination (Event)
// and whatever its caller adds. Before Begin it keeps the rows in memory, because the state
// directory that will contain the record may not exist yet. A write error ends the record but
// not the run, and End returns that error. The methods are safe for concurrent use.
type Log struct {
	Repairs bool // whether the run is an audit that repairs; then a resource may get a second, better verdict

	Redact func(text string, message bool) string // if not nil, hides passwords in texts: in messages also those that others gave

	now func() time.Time

	mu      sync.Mutex // guards the following fields
	run     Run
	root    *os.Root          // the directory of all records
	file    *os.File          // the file of this record; nil before Begin and after End
	pending []Row             // rows that were added before Begin
	tally   Tally             // counts all rows of the run, including those that are not in the record
	listed  map[failure]bool  // the failed resources in the record; at most maxFailures
	omitted map[failure]int64 // number of failed resources that are not in the record, by set and cause
	err     error             // the first write error
	changed bool              // whether the run has changed the mirror
	early   error             // the error that ended the run early, from EndedBy
}

// maxPending is the largest number of rows that are kept in memory before Begin.
const maxPending = 1000

// NewLog returns the Log for a run that begins now. It writes nothing before Begin is called.
func NewLog(r Run, now func() time.Time) *Log { return &Log{run: r, now: now} }

// Begin starts the record, and removes old records. The directory state is that of an existing
// mirror and must be writable. The run gets a number that is higher than those of all records and
// higher than lastRun, the number of the last run in the history of the mirror.
func (l *Log) Begin(state string, lastRun int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.begin(state, lastRun); err != nil {
		return fmt.Errorf("begin the record of a run in %q: %w", state, err)
	}
	for _, row := range l.pending {
		l.add(row)
	}
	l.pending = nil
	return nil
}

func (l *Log) begin(state string, lastRun int64) (err error) {
	if l.root, err = openRecords(state, true); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			l.run.ID = 0
			err = errors.Join(err, l.close())
		}
	}()
	l.run.Format, l.run.Begun = recordFormat, l.run.Begun.UTC()
	l.run.Options = l.run.Options[:min(len(l.run.Options), maxOptions)]
	if l.file, l.run.ID, err = createFile(l.root, lastRun); err != nil {
		return err
	}
	l.write("run", l.run)
	if l.err != nil {
		return l.err
	}
	return prune(l.root)
}

// createFile creates the file of a record. The number of the record is the first free one
// after all records and after lastRun.
func createFile(root *os.Root, lastRun int64) (*os.File, int64, error) {
	all, err := runIDs(root)
	if err != nil {
		return nil, 0, err
	}
	if len(all) > 0 {
		lastRun = max(lastRun, all[0])
	}
	for id := lastRun + 1; id < lastRun+1000; id++ {
		f, err := root.OpenFile(recordFile(id), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o640)
		if !errors.Is(err, fs.ErrExist) {
			return f, id, err
		}
	}
	return nil, 0, fmt.Errorf("all numbers from %d to %d are taken", lastRun+1, lastRun+1000)
}

func (l *Log) close() (err error) {
	if l.file != nil {
		err = l.file.Close()
		l.file = nil
	}
	return errors.Join(err, l.root.Close())
}

// ID returns the number of the run; 0 if the run has no record.
func (l *Log) ID() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.run.ID
}

// Add adds a row to the record. If a resource fails again in the same run for the same cause,
// the record keeps one row and counts one failure. Before Begin, Add keeps at most 1,000 rows.
func (l *Log) Add(row Row) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.file != nil:
		l.add(row)
	case len(l.pending) < maxPending:
		l.pending = append(l.pending, row)
	}
}

func (l *Log) add(row Row) {
	if row.Kind == Retried {
		for f := range l.listed {
			if f.retriedIn(row.Set) {
				delete(l.listed, f)
				l.tally.uncount(f.cause, 1)
				l.tally.Kept--
			}
		}
		for f, n := range l.omitted {
			if f.retriedIn(row.Set) {
				delete(l.omitted, f)
				l.tally.uncount(f.cause, n)
			}
		}
	} else if l.isRepeated(&row) || !l.tally.count(&row) {
		return
	}
	l.redact(false, &row.Set, &row.URI)
	l.redact(true, &row.Message, &row.Hint)
	row.clip()
	l.write("", row)
}

func (l *Log) redact(message bool, texts ...*string) {
	if l.Redact == nil {
		return
	}
	for _, text := range texts {
		*text = l.Redact(*text, message)
	}
}

func (l *Log) isRepeated(row *Row) bool {
	if row.Kind != Failure || row.URI == "" {
		return false
	}
	f := failureOf(row)
	if l.listed[f] {
		return true
	}
	if len(l.listed) < maxFailures {
		if l.listed == nil {
			l.listed = map[failure]bool{}
		}
		l.listed[f] = true
		return false
	}
	l.omitted = AddCounts(l.omitted, map[failure]int64{{f.set, f.cause, "…"}: 1})
	return false
}

// write writes v as a JSON line. Unless kind is "", it adds kind to the line as the field
// "kind".
func (l *Log) write(kind Kind, v any) {
	if l.err != nil {
		return
	}
	line, err := json.Marshal(v)
	if err == nil && kind != "" {
		line = append(fmt.Appendf(nil, `{"kind":%q,`, kind), line[1:]...)
	}
	if err == nil {
		_, err = l.file.Write(append(line, '\n'))
	}
	l.err = err
}

// Event adds a row for an event of a Destination, if this kind of event belongs in a record.
func (l *Log) Event(e destination.Event) {
	switch e.Kind {
	case destination.EventPlanned:
		l.Add(Row{Kind: Set, Set: e.Set, Mode: string(e.Plan.Mode), Message: e.Plan.Why})
	case destination.EventNote:
		l.Add(Row{Kind: Note, Set: e.Set, Quirk: int(e.Quirk), Message: e.Text})
	case destination.EventFailed:
		l.Add(Row{
			Kind: Failure, Set: e.Set, Cause: CauseOf(e.Err), URI: e.Action.Want.URI, Message: e.Err.Error(), Hint: flagFor(e.Err),
		})
	case destination.EventRetried:
		l.Add(Row{Kind: Retried, Set: e.Set})
	case destination.EventVerdict:
		l.addVerdict(e)
	}
}

// addVerdict adds a row for a difference that an audit found. In an audit that repairs, it
// adds only differences that remain after the repair.
func (l *Log) addVerdict(e destination.Event) {
	cause := verdictCauses[e.Verdict]
	if cause == "" || l.Repairs && !e.Again && e.Verdict != destination.VerdictExtra {
		return
	}
	row := Row{Kind: Failure, Set: e.Set, Cause: cause, URI: e.Action.Want.URI, Path: e.Path}
	if e.Err != nil {
		row.Message = e.Err.Error()
	}
	l.Add(row)
}

// flagFor returns the flag that allows a request that this program refused; "" if there is none.
func flagFor(err error) string {
	var fe *fetch.Error
	switch {
	case !errors.As(err, &fe):
		return ""
	case fe.AllowOrigin != "":
		return "--allow-origin " + fe.AllowOrigin
	case fe.AllowPrivate != "":
		return "--allow-private " + fe.AllowPrivate
	}
	return ""
}

// Gap adds a note that some changes of a set are unknown.
func (l *Log) Gap(set, text string) {
	l.Add(Row{Kind: Note, Set: set, Message: text, Hint: "--accept-gap", Open: true})
}

// Partial adds a failure for a set whose documents could be used only in part, or not at all.
func (l *Log) Partial(set string, err error) {
	l.Add(Row{Kind: Failure, Set: set, Cause: CauseDocument, Message: err.Error(), Hint: flagFor(err)})
}

// EndedBy stores the error that ended the run early, so that a summary of the run can get it
// from Early.
func (l *Log) EndedBy(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.early = err
}

// Early returns the error that EndedBy stored; nil if EndedBy was not called.
func (l *Log) Early() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.early
}

// Changed records that the run has changed the mirror.
func (l *Log) Changed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed = true
}

// End completes the record, if one was begun, and sets the fields Changed and Idle of the
// Outcome that it stores. After that, calls of Add and End do not affect the record.
func (l *Log) End(o Outcome) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	o.Changed = l.changed
	o.Idle = l.isIdle(&o)
	l.redact(true, &o.Error, &o.Hint)
	o.Error, o.Hint = clip(o.Error, maxText), clip(o.Hint, maxText)
	end := End{Ended: l.now().UTC(), Outcome: o, Tally: l.tally}
	replaced, err := l.countPrevious(&end)
	l.write("end", end)
	if l.err == nil {
		l.err = l.file.Sync()
	}
	if l.err == nil && replaced != 0 {
		err = l.root.Remove(recordFile(replaced))
	}
	if err := errors.Join(l.err, err, l.close()); err != nil {
		return fmt.Errorf("complete the record of run %d: %w", l.run.ID, err)
	}
	return nil
}

// isIdle reports whether the run was a sync that had nothing to do and nothing to report.
func (l *Log) isIdle(o *Outcome) bool {
	return l.run.Command == "sync" && o.Error == "" && o.ExitCode == 0 && len(l.tally.Causes)+len(l.tally.Quirks) == 0 &&
		o.Counts["created"]+o.Counts["updated"]+o.Counts["deleted"] == 0
}

// countPrevious adds the previous run to the counts in end and returns the number of that run, if
// both runs are idle; else it returns 0. The record of a counted run is removed: otherwise many
// idle runs would displace the records of other runs.
func (l *Log) countPrevious(end *End) (int64, error) {
	if !end.Idle {
		return 0, nil
	}
	all, err := runIDs(l.root)
	if err != nil {
		return 0, err
	}
	i := slices.Index(all, l.run.ID)
	if i < 0 || i+1 == len(all) {
		return 0, nil
	}
	previous, err := readEdges(l.root, all[i+1])
	if err != nil || previous.End == nil || !previous.End.Idle || previous.Command != l.run.Command {
		return 0, err
	}
	end.Alike, end.Since = previous.End.Alike+1, previous.Begun
	if previous.End.Alike > 0 {
		end.Since = previous.End.Since
	}
	return previous.ID, nil
}
