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
)

// Recorder writes the record of a run during the run. Its methods are safe for
// concurrent use. A write error ends the record but not the run; End returns the error.
type Recorder struct {
	now  func() time.Time
	root *os.Root // directory of the records
	run  Run

	mu     sync.Mutex // guards the fields below
	file   *os.File   // nil after the record has ended
	tally  Tally
	failed map[string]bool // failed resources by set, cause and URI; only those of the first maxFailures rows
	err    error           // the first write error
}

// Begin starts the record of a run in a state directory, with a number above r.ID and
// those of all records, and removes old records. r.Begun is stored in UTC.
func Begin(state string, r Run, now func() time.Time) (*Recorder, error) {
	rec, err := begin(state, r, now)
	if err != nil {
		return nil, fmt.Errorf("begin the record of a run in %q: %w", state, err)
	}
	return rec, nil
}

func begin(state string, r Run, now func() time.Time) (_ *Recorder, err error) {
	root, err := openRecords(state, true)
	if err != nil {
		return nil, err
	}
	rec := &Recorder{now: now, root: root}
	defer func() {
		if err != nil {
			err = errors.Join(err, rec.close())
		}
	}()
	r.Format, r.Begun = format, r.Begun.UTC()
	if len(r.Options) > maxOptions {
		r.Options = r.Options[:maxOptions]
	}
	if rec.file, r.ID, err = create(root, r.ID); err != nil {
		return nil, err
	}
	rec.run = r
	rec.write("run", r)
	if rec.err != nil {
		return nil, rec.err
	}
	return rec, prune(root)
}

// ID returns the number of the run.
func (r *Recorder) ID() int64 { return r.run.ID }

// Add records a row. If a resource fails again in the same run for the same cause, it
// keeps one row and counts once.
func (r *Recorder) Add(row Row) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil || r.again(&row) || !r.tally.count(&row) {
		return
	}
	row.clip()
	r.write("", row)
}

// again reports whether a resource has already failed in this run for the same cause.
func (r *Recorder) again(row *Row) bool {
	if row.Kind != Failure || row.URI == "" {
		return false
	}
	key := row.Set + "\x00" + row.Cause + "\x00" + row.URI
	if r.failed[key] {
		return true
	}
	if len(r.failed) < maxFailures {
		if r.failed == nil {
			r.failed = map[string]bool{}
		}
		r.failed[key] = true
	}
	return false
}

// Tally returns the counts so far.
func (r *Recorder) Tally() Tally {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tally
}

// End completes the record. Later calls record nothing.
func (r *Recorder) End(o Outcome) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return r.err
	}
	o.Error, o.Hint = clip(o.Error, maxText), clip(o.Hint, maxText)
	r.write("end", End{Ended: r.now().UTC(), Outcome: o, Tally: r.tally})
	if r.err == nil {
		r.err = r.file.Sync()
	}
	if r.err == nil && o.Idle {
		r.err = r.replaceIdle()
	}
	if r.err = errors.Join(r.err, r.close()); r.err != nil {
		r.err = fmt.Errorf("record of the run %d: %w", r.run.ID, r.err)
	}
	return r.err
}

// replaceIdle removes the record of the previous run if that was idle too: many idle
// runs must not displace other records.
func (r *Recorder) replaceIdle() error {
	all, err := ids(r.root)
	if err != nil {
		return err
	}
	i := slices.Index(all, r.run.ID)
	if i < 0 || i+1 == len(all) {
		return nil
	}
	before, err := edges(r.root, all[i+1])
	if err != nil || before.End == nil || !before.End.Idle || before.Command != r.run.Command {
		return err
	}
	return r.root.Remove(fileOf(before.ID))
}

func (r *Recorder) close() (err error) {
	if r.file != nil {
		err = r.file.Close()
		r.file = nil
	}
	return errors.Join(err, r.root.Close())
}

// write writes a line with the fields of v, and kind if v has no kind itself.
func (r *Recorder) write(kind Kind, v any) {
	if r.err != nil {
		return
	}
	line, err := json.Marshal(v)
	if err == nil && kind != "" {
		line = append(fmt.Appendf(nil, `{"kind":%q,`, kind), line[1:]...)
	}
	if err == nil {
		_, err = r.file.Write(append(line, '\n'))
	}
	r.err = err
}

// create creates the file of a run, with a number above all others and above after. If
// another process takes the same number at that moment, it tries the next number.
func create(root *os.Root, after int64) (*os.File, int64, error) {
	all, err := ids(root)
	if err != nil {
		return nil, 0, err
	}
	if len(all) > 0 {
		after = max(after, all[0])
	}
	for id := after + 1; id < after+1000; id++ {
		f, err := root.OpenFile(fileOf(id), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o640)
		if !errors.Is(err, fs.ErrExist) {
			return f, id, err
		}
	}
	return nil, 0, fmt.Errorf("the numbers from %d to %d are taken", after+1, after+1000)
}
