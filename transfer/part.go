package transfer

import (
	"context"
	"io"

	"instep/internal/spool"
)

// Parts is implemented by a Mirror that stores interrupted large transfers, so that a later
// run can continue them.
type Parts interface {
	// Part opens the stored bytes of a name, or an empty Part. A name is open once at a
	// time.
	Part(ctx context.Context, name string) (Part, error)
}

// Part is the beginning of some bytes. It is not safe for concurrent use but for
// ReadAt.
type Part interface {
	io.Writer // appends
	io.ReaderAt
	Size() int64 // bytes that are here
	// Note returns the note of the last Checkpoint, and its number of bytes; "" and 0 for
	// an empty Part. Bytes beyond it may be lost by a power cut.
	Note() (note string, at int64)
	// Checkpoint makes the bytes written so far durable, and then the note.
	Checkpoint(ctx context.Context, note string) error
	// Truncate drops the bytes from offset n on, and also the note of the last
	// Checkpoint if that was made with more than n bytes.
	Truncate(n int64) error
	// Close keeps the bytes for a later run.
	Close() error
	// Discard removes the Part with its bytes and its note.
	Discard() error
}

// Temporary is a Part in a file of the directory dir ("": the system's), which is removed when
// the Part is closed.
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

// Truncate implements Part. It is called to begin anew, with 0.
func (t *temporary) Truncate(int64) error {
	err := t.Close()
	t.File = spool.NewFile(t.dir, 0)
	return err
}

// Discard implements Part.
func (t *temporary) Discard() error { return t.Close() }
