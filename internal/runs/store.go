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

// maxEdge is the largest length in bytes of the first and last line of a record,
// maxLine of any line.
const (
	maxEdge = 256 << 10
	maxLine = 1 << 20
)

// recordName matches the file names of records; formerName matches those of earlier
// builds, which contain the time of the run.
var (
	recordName = regexp.MustCompile(`^([1-9]\d{0,17})\.jsonl$`)
	formerName = regexp.MustCompile(`^\d{8}T\d{6}Z(-\d{3})?\.jsonl$`)
)

// fileOf returns the file name of the record of a run.
func fileOf(id int64) string { return strconv.FormatInt(id, 10) + suffix }

// openRecords opens the directory of the records in a state directory.
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

// names lists the files in the directory of the records.
func names(root *os.Root) ([]string, error) {
	f, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// ids lists the runs that have a record, newest first.
func ids(root *os.Root) ([]int64, error) {
	found, err := names(root)
	var all []int64
	for _, name := range found {
		if m := recordName.FindStringSubmatch(name); m != nil {
			id, _ := strconv.ParseInt(m[1], 10, 64) // cannot fail: at most 18 digits
			all = append(all, id)
		}
	}
	slices.Sort(all)
	slices.Reverse(all)
	return all, err
}

// prune removes records that are too old.
func prune(root *os.Root) error {
	found, err := names(root)
	if err != nil {
		return err
	}
	remove := slices.DeleteFunc(found, func(name string) bool { return !formerName.MatchString(name) })
	all, err := ids(root)
	if err != nil {
		return err
	}
	for _, id := range all[min(len(all), maxRuns):] {
		remove = append(remove, fileOf(id))
	}
	for _, name := range remove {
		if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// List returns the recorded runs of a state, newest first, without their rows. The
// Tally of a run without End is unknown. A state without records has no runs.
func List(state string) ([]Record, error) {
	root, err := openRecords(state, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the runs kept in %q: %w", state, err)
	}
	defer root.Close()
	all, err := ids(root)
	if err != nil {
		return nil, fmt.Errorf("list the runs kept in %q: %w", state, err)
	}
	records := make([]Record, 0, len(all))
	for _, id := range all {
		rec, err := edges(root, id)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, durable.ErrNotRegular) {
			continue // removed in the meantime, or not ours
		}
		if err != nil {
			return nil, fmt.Errorf("record of the run %d in %q: %w", id, state, err)
		}
		records = append(records, *rec)
	}
	return records, nil
}

// edges reads the first and last line of a record.
func edges(root *os.Root, id int64) (*Record, error) {
	f, err := durable.OpenRegular(root, fileOf(id))
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
		rec.line(line)
	}
	tail := make([]byte, min(info.Size(), maxEdge))
	if _, err := f.ReadAt(tail, info.Size()-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if line, ok := bytes.CutSuffix(tail, []byte("\n")); ok {
		rec.line(line[bytes.LastIndexByte(line, '\n')+1:])
	}
	rec.Rows = nil // without an end the last line may be a row
	if rec.End == nil {
		rec.Tally = Tally{}
	}
	return rec, nil
}

// Load returns the record of a run. It returns ErrNoRun if there is none with that
// number.
func Load(state string, id int64) (*Record, error) {
	rec, err := load(state, id)
	if err != nil {
		return nil, fmt.Errorf("record of the run %d in %q: %w", id, state, err)
	}
	return rec, nil
}

func load(state string, id int64) (*Record, error) {
	root, err := openRecords(state, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoRun
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := durable.OpenRegular(root, fileOf(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoRun
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rec := &Record{Run: Run{ID: id}}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxLine)
	for len(rec.Rows) <= maxSets+maxNotes+maxFailures && lines.Scan() {
		rec.line(lines.Bytes())
	}
	return rec, lines.Err()
}

// line adds a line to the record. It skips an incomplete last line, left by a crash,
// and unknown kinds of later versions.
func (rec *Record) line(text []byte) {
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
	case Set, Note, Failure:
		var row Row
		if json.Unmarshal(text, &row) == nil {
			rec.Tally.count(&row)
			rec.Rows = append(rec.Rows, row)
		}
	}
}
