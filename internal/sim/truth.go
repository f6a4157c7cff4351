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

// Truth is the state of a Model's resources at one moment.
type Truth struct {
	model *Model
	at    int64
}

// TruthAt returns the state of the resources at the given time. It returns ErrForgotten if
// some changes after that time are no longer stored.
func (m *Model) TruthAt(at time.Time) (Truth, error) {
	t := Truth{m, at.UnixMicro()}
	m.mu.RLock()
	defer m.mu.RUnlock()
	_, err := t.undo(0, 0)
	return t, err
}

// All yields the resources in the order of their ids, in their state at the time of the
// Truth, even if the Model changes during the loop. The error is ErrForgotten if
// changes since that time are no longer stored.
func (t Truth) All() iter.Seq2[Resource, error] {
	const share = 64 << 10 // the number of ids in a batch; for each batch the whole history is read
	return func(yield func(Resource, error) bool) {
		buf := make([]byte, hashBuffer)
		for from := uint32(0); ; from += share {
			batch, more, err := t.inRange(from, from+share)
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

// inRange returns the resources with from <= id < to, in their state at the time of the
// Truth. The fields Changed and SHA256 are zero if a resource was changed after that time.
func (t Truth) inRange(from, to uint32) (batch []Resource, more bool, err error) {
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

// undo returns the earlier version number of each resource that was changed after the time of
// the Truth. The number is 0 if the resource did not exist at that time.
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

// WriteCSV writes the header line "uri,length,sha256", and then one line for each resource,
// in the order of the ids. A URI is base followed by the path of the resource.
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
