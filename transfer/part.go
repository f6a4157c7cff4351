package transfer

import (
	"context"
	"io"

	"instep/internal/spool"
)

// Parts stores interrupted large transfers, so that a later run can continue them. A
// mirror implements it.
type Parts interface {
	// Part opens the bytes that are stored under a name; it creates an empty Part if
	// there are none. No two open Parts may have the same name.
	Part(ctx context.Context, name string) (Part, error)
}

// Part is the stored beginning of a resource. Only ReadAt is safe for concurrent use.
type Part interface {
	io.Writer // appends
	io.ReaderAt
	Size() int64 // number of stored bytes
	// Note returns the note of the last Checkpoint and the size of the Part at that time;
	// "" and 0 if there was none. A power cut may have lost bytes that were written
	// later.
	Note() (note string, size int64)
	// Checkpoint makes the bytes written so far durable, and then stores the note.
	Checkpoint(ctx context.Context, note string) error
	// Truncate shortens the Part to a size. It also removes the note of the last
	// Checkpoint if the Part was longer then.
	Truncate(size int64) error
	// Close closes the Part and keeps its bytes for a later run.
	Close() error
	// Discard removes the Part with its bytes and its note.
	Discard() error
}

// Temporary returns an empty Part for this run only. Large ones are stored in a temporary
// file in the directory dir ("" is the system's), which Close removes.
func Temporary(dir string) Part { return &temporary{spool.NewFile(dir, 0), dir} }

// temporary is a Part that is removed when it is closed.
type temporary struct {
	*spool.File
	dir string
}

var _ Part = (*temporary)(nil)

// Size implements Part.
func (t *temporary) Size() int64 { return t.Len() }

// Note implements Part.
func (t *temporary) Note() (string, int64) { return "", 0 }

// Checkpoint implements Part.
func (t *temporary) Checkpoint(context.Context, string) error { return nil }

// Truncate implements Part. It removes all bytes, since without a Checkpoint it is only
// called with size 0.
func (t *temporary) Truncate(int64) error {
	err := t.Close()
	t.File = spool.NewFile(t.dir, 0)
	return err
}

// Discard implements Part.
func (t *temporary) Discard() error { return t.Close() }
