package sim

import (
	"context"
	"encoding/csv"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"strconv"
	"time"
)

// Truth is the state of a Model's resources at one time.
type Truth struct {
	model *Model
	at    int64
}

// TruthAt returns the resources at a time, after all changes before that time. It returns
// ErrForgotten if the history does not reach back that far.
func (m *Model) TruthAt(at time.Time) (Truth, error) {
	t := Truth{m, at.UnixMicro()}
	m.mu.RLock()
	defer m.mu.RUnlock()
	_, err := t.undo(0, 0)
	return t, err
}

// All yields the resources in the order of their ids, with their state at the time of the
// Truth, even if the Model changes meanwhile. It ends with ErrForgotten if the history no
// longer reaches back that far.
func (t Truth) All() iter.Seq2[Resource, error] {
	const share = 64 << 10 // number of ids that share handles in one call, which reads the history once
	return func(yield func(Resource, error) bool) {
		buf := make([]byte, hashBuffer)
		for from := uint32(0); ; from += share {
			batch, more, err := t.share(from, from+share)
			if err != nil {
				yield(Resource{}, err)
				return
			}
			for i := range batch {
				if batch[i].Changed.IsZero() {
					batch[i].SHA256 = batch[i].content.sum(buf)
				}
				if !yield(batch[i], nil) {
					return
				}
			}
			if !more {
				return
			}
		}
	}
}

// share returns the resources with from <= id < to, with their state at the time of the
// Truth. Resources that have changed since then lack Changed and SHA256.
func (t Truth) share(from, to uint32) (batch []Resource, more bool, err error) {
	m := t.model
	m.mu.RLock()
	defer m.mu.RUnlock()
	was, err := t.undo(from, to)
	if err != nil {
		return nil, false, err
	}
	for id := from; id < min(to, uint32(len(m.states))); id++ {
		s := &m.states[id]
		version, changed := was[id]
		switch {
		case changed && version > 0:
			batch = append(batch, m.resource(id, version, 0, [32]byte{}))
		case !changed && s.place != nowhere:
			batch = append(batch, m.resource(id, s.version, s.changed, s.sum))
		}
	}
	return batch, to < uint32(len(m.states)), nil
}

// undo returns, for each resource that has changed since the time of the Truth, its version
// at that time, or 0 if it did not exist.
func (t Truth) undo(from, to uint32) (map[uint32]uint32, error) {
	was := map[uint32]uint32{}
	for set := range t.model.logs {
		h := &t.model.logs[set]
		i := len(h.events)
		for ; i > 0 && h.events[i-1].at >= t.at; i-- {
			e := &h.events[i-1]
			if e.id < from || e.id >= to {
				continue
			}
			switch e.kind {
			case created:
				was[e.id] = 0
			case updated:
				was[e.id] = e.version - 1
			case deleted:
				was[e.id] = e.version
			}
		}
		if i == 0 && h.first > 1 {
			return nil, fmt.Errorf("the resources at %s: %w", time.UnixMicro(t.at).UTC().Format(time.RFC3339Nano), ErrForgotten)
		}
	}
	return was, nil
}

// WriteCSV writes a header line "uri,length,sha256", then one line for each resource, in
// the order of ids. It prepends base to their paths.
func (t Truth) WriteCSV(ctx context.Context, w io.Writer, base string) error {
	out := csv.NewWriter(w)
	line := []string{"uri", "length", "sha256"}
	if err := out.Write(line); err != nil {
		return err
	}
	for r, err := range t.All() {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			line[0], line[1], line[2] = base+r.Path, strconv.FormatInt(r.Length, 10), hex.EncodeToString(r.SHA256[:])
			err = out.Write(line)
		}
		if err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}
