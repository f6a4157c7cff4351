package transfer

import (
	"context"
	"io"

	"instep/internal/spool"
)

// Parts stores the bytes of interrupted transfers of large resources, so that a later
// run can continue them. A mirror implements Parts.
type Parts interface {
	// Part opens the bytes that are stored under a name, or creates an empty Part if
	// there are none. A Part that is open must not be opened again. A mirror that stores
	// no interrupted transfers returns nil.
	Part(ctx context.Context, name string) (Part, error)
}

// Part is the stored beginning of a resource. Of its methods, only ReadAt is safe for
// concurrent use.
type Part interface {
	io.Writer // appends
	io.ReaderAt
	Size() int64 // number of stored bytes
	// Note returns the note that the last Checkpoint stored, and the size of the Part at
	// that Checkpoint. Without a Checkpoint it returns "" and 0. Bytes that were written
	// after the Checkpoint may be lost in a power cut.
	Note() (note string, size int64)
	// Checkpoint makes the bytes written so far durable, and then stores the note, a text
	// of the caller about these bytes.
	Checkpoint(ctx context.Context, note string) error
	// Truncate shortens the Part to a size. If the Part was longer at its last
	// Checkpoint, Truncate also removes the note.
	Truncate(size int64) error
	// Close closes the Part and keeps its bytes for a later run.
	Close() error
	// Discard removes the Part with its bytes and its note.
	Discard() error
}

// Temporary returns an empty Part that exists only during this run. A large one is in a
// temporary file, which Close removes. dir is the directory for that file; "" means the
// system's directory.
func Temporary(dir string) Part { return &temporary{spool.NewFile(dir, 0), dir} }

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

// Truncate implements Part. The size is always 0, since there is never a Checkpoint to
// return to.
func (t *temporary) Truncate(int64) error {
	err := t.Close()
	t.File = spool.NewFile(t.dir, 0)
	return err
}

// Discard implements Part.
func (t *temporary) Discard() error { return t.Close() }
