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

	"instep/internal/durable"
)

const (
	directory = "runs"
	suffix    = ".jsonl"
)

// maxEdge bounds the first and the last line of a record, in bytes; maxLine any of its lines.
const (
	maxEdge = 256 << 10
	maxLine = 1 << 20
)

var recordName = regexp.MustCompile(`^(\d{8}T\d{6}Z(?:-\d{3})?)\.jsonl$`)

// openRecords opens the directory of the records in the directory of a state.
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

// ids lists the runs of which a record is kept, the newest first.
func ids(root *os.Root) ([]string, error) {
	f, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	var all []string
	for _, name := range names {
		if m := recordName.FindStringSubmatch(name); m != nil {
			all = append(all, m[1])
		}
	}
	slices.Sort(all)
	slices.Reverse(all)
	return all, err
}

// prune removes the records that are too old.
func prune(root *os.Root) error {
	all, err := ids(root)
	if err != nil || len(all) <= maxRuns {
		return err
	}
	for _, id := range all[maxRuns:] {
		if err := root.Remove(id + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// List returns the recorded runs of a state, the newest first, without their rows. The
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
			continue // removed in the meantime, or not one of ours
		}
		if err != nil {
			return nil, fmt.Errorf("record of the run %s in %q: %w", id, state, err)
		}
		records = append(records, *rec)
	}
	return records, nil
}

// edges reads the first and the last line of a record.
func edges(root *os.Root, id string) (*Record, error) {
	f, err := durable.OpenRegular(root, id+suffix)
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
	rec.Rows = nil // the last line may be one if the run has no end
	if rec.End == nil {
		rec.Tally = Tally{}
	}
	return rec, nil
}

// Load returns the record of a run; ErrNoRun if there is none with that id.
func Load(state, id string) (*Record, error) {
	rec, err := load(state, id)
	if err != nil {
		return nil, fmt.Errorf("record of the run %q in %q: %w", id, state, err)
	}
	return rec, nil
}

func load(state, id string) (*Record, error) {
	if !recordName.MatchString(id + suffix) {
		return nil, ErrNoRun
	}
	root, err := openRecords(state, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoRun
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := durable.OpenRegular(root, id+suffix)
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

// line adds a line of the record. It skips a last line that a crash cut off, and kinds of
// later versions.
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
