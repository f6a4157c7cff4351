package runs

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"

	"instep/internal/durable"
)

const (
	directory = "runs"
	suffix    = ".jsonl"
)

const (
	maxEdge = 256 << 10 // largest length in bytes of the first and the last line of a record
	maxLine = 1 << 20   // largest length in bytes of any line of a record
)

var (
	recordName = regexp.MustCompile(`^([1-9]\d{0,17})\.jsonl$`)
	// formerName matches the file names that earlier versions of this program gave to
	// records. These names contain the time of the run.
	formerName = regexp.MustCompile(`^\d{8}T\d{6}Z(-\d{3})?\.jsonl$`)
)

func recordFile(id int64) string { return strconv.FormatInt(id, 10) + suffix }

func openRecords(state string, create bool) (*os.Root, error) {
	root, err := os.OpenRoot(state)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if create {
		if err := root.Mkdir(directory, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	return root.OpenRoot(directory)
}

func fileNames(root *os.Root) ([]string, error) {
	f, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// runIDs returns the numbers of the recorded runs, the newest first.
func runIDs(root *os.Root) ([]int64, error) {
	found, err := fileNames(root)
	var all []int64
	for _, name := range found {
		if m := recordName.FindStringSubmatch(name); m != nil {
			id, _ := strconv.ParseInt(m[1], 10, 64) // ParseInt cannot fail, because the number has at most 18 digits
			all = append(all, id)
		}
	}
	slices.Sort(all)
	slices.Reverse(all)
	return all, err
}

// prune keeps the newest maxRuns records. It removes all records that earlier versions of this
// program wrote.
func prune(root *os.Root) error {
	found, err := fileNames(root)
	if err != nil {
		return err
	}
	remove := slices.DeleteFunc(found, func(name string) bool { return !formerName.MatchString(name) })
	all, err := runIDs(root)
	if err != nil {
		return err
	}
	for _, id := range all[min(len(all), maxRuns):] {
		remove = append(remove, recordFile(id))
	}
	for _, name := range remove {
		if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// List returns the records of all runs in a state directory, newest first, without their rows.
// If a run has not ended, its Tally is empty.
func List(state string) ([]Record, error) {
	root, err := openRecords(state, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the runs kept in %q: %w", state, err)
	}
	defer root.Close()
	all, err := runIDs(root)
	if err != nil {
		return nil, fmt.Errorf("list the runs kept in %q: %w", state, err)
	}
	records := make([]Record, 0, len(all))
	for _, id := range all {
		rec, err := readEdges(root, id)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, durable.ErrNotRegular) {
			continue // another run has removed the record, or it is not a regular file
		}
		if err != nil {
			return nil, fmt.Errorf("read the record of run %d in %q: %w", id, state, err)
		}
		records = append(records, *rec)
	}
	return records, nil
}

// readEdges reads a record without its rows: only the first and the last line of the file.
func readEdges(root *os.Root, id int64) (*Record, error) {
	f, err := durable.OpenRegular(root, recordFile(id))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	rec := &Record{Run: Run{ID: id}}
	head := make([]byte, min(info.Size(), maxEdge))
	if _, err := f.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if line, _, ok := bytes.Cut(head, []byte("\n")); ok {
		rec.addLine(line)
	}
	tail := make([]byte, min(info.Size(), maxEdge))
	if _, err := f.ReadAt(tail, info.Size()-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if line, ok := bytes.CutSuffix(tail, []byte("\n")); ok {
		rec.addLine(line[bytes.LastIndexByte(line, '\n')+1:])
	}
	rec.Rows = nil // remove the last line, which was added as a row if the run has not ended
	if rec.End == nil {
		rec.Tally = Tally{}
	}
	return rec, nil
}

// Load returns the record of the run with the given number. It returns ErrNoRun if there is no
// such record.
func Load(state string, id int64) (_ *Record, err error) {
	defer func() {
		if errors.Is(err, fs.ErrNotExist) {
			err = ErrNoRun
		}
		if err != nil {
			err = fmt.Errorf("read the record of run %d in %q: %w", id, state, err)
		}
	}()
	root, err := openRecords(state, false)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := durable.OpenRegular(root, recordFile(id))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rec := &Record{Run: Run{ID: id}}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxLine)
	for len(rec.Rows) <= maxSets+maxNotes+maxFailures && lines.Scan() {
		rec.addLine(lines.Bytes())
	}
	return rec, lines.Err()
}

// addLine skips lines of an unknown kind, which later versions of this program may write, and an
// incomplete line, which a crash may leave at the end.
func (rec *Record) addLine(text []byte) {
	var kind struct {
		Kind Kind `json:"kind"`
	}
	if json.Unmarshal(text, &kind) != nil {
		return
	}
	switch kind.Kind {
	case "run":
		id := rec.ID
		if json.Unmarshal(text, &rec.Run) == nil {
			rec.ID = id
		}
	case "end":
		var end End
		if json.Unmarshal(text, &end) == nil {
			rec.End, rec.Tally = &end, end.Tally
		}
	case Retried:
		var row Row
		if json.Unmarshal(text, &row) == nil {
			rec.Rows = slices.DeleteFunc(rec.Rows, func(r Row) bool {
				again := r.Kind == Failure && failureOf(&r).retriedIn(row.Set)
				if again {
					rec.uncount(r.Cause, 1)
					rec.Kept--
				}
				return again
			})
		}
	case Set, Note, Failure:
		var row Row
		if json.Unmarshal(text, &row) == nil {
			rec.Tally.count(&row)
			rec.Rows = append(rec.Rows, row)
		}
	}
}
