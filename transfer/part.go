package transfer

import (
	"context"
	"io"

	"instep/internal/spool"
)

// Parts is implemented by a mirror that stores interrupted large transfers, so that a
// later run can continue them.
type Parts interface {
	// Part opens the stored bytes under a name, or an empty Part. Each name can be open
	// only once at a time.
	Part(ctx context.Context, name string) (Part, error)
}

// Part is the beginning of a sequence of bytes. Only ReadAt is safe for concurrent use.
type Part interface {
	io.Writer // appends
	io.ReaderAt
	Size() int64 // number of stored bytes
	// Note returns the note of the last Checkpoint and the number of bytes at that
	// time; "" and 0 for an empty Part. Later bytes may be lost in a power cut.
	Note() (note string, at int64)
	// Checkpoint makes first the bytes written so far durable, and then the note.
	Checkpoint(ctx context.Context, note string) error
	// Truncate removes the bytes from offset n on, and the note of the last Checkpoint
	// if that covered more than n bytes.
	Truncate(n int64) error
	// Close keeps the bytes for a later run.
	Close() error
	// Discard removes the Part, including its bytes and its note.
	Discard() error
}

// Temporary returns a Part in a file in the directory dir ("" is the system's). Closing
// the Part removes the file.
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

// Truncate implements Part. It is only called with 0, to start again.
func (t *temporary) Truncate(int64) error {
	err := t.Close()
	t.File = spool.NewFile(t.dir, 0)
	return err
}

// Discard implements Part.
func (t *temporary) Discard() error { return t.Close() }
