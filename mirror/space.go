package mirror

import (
	"errors"
	"fmt"
	"os"

	"instep/internal/catalog"
	"instep/internal/durable"
)

// ErrFull means that a file system has hardly any free space. Nothing that was
// committed is lost, and a later run continues.
var ErrFull = errors.New("no room left")

// The space that a mirror leaves free for others and for its own catalog. If it is more
// than 1 % of the file system, 1 % is left free.
const (
	reserveBytes = 1 << 30
	reserveFiles = 10_000
)

// room returns an error if there is too little free space to begin a batch.
func (m *Mirror) room() error {
	if err := m.roomAt(m.disk.root); err != nil || m.o.State == "" {
		return err
	}
	root, err := os.OpenRoot(m.o.State)
	if err != nil {
		return err
	}
	return errors.Join(m.roomAt(root), root.Close())
}

func (m *Mirror) roomAt(root *os.Root) error {
	s, err := m.o.space(root)
	if err != nil || !s.Known {
		return err
	}
	if least := min(reserveBytes, s.Total/100); s.Free < least {
		return fmt.Errorf("%w: %d MiB are free where %q is, and %d MiB are kept free", ErrFull, s.Free>>20, root.Name(), least>>20)
	}
	if least := min(reserveFiles, s.Files/100); s.FreeFiles < least {
		return fmt.Errorf("%w: %d files can be made where %q is, and room for %d is kept free", ErrFull, s.FreeFiles, root.Name(), least)
	}
	return nil
}

// full adds the mirror to an error for a full disk.
func (m *Mirror) full(err error) error {
	if err == nil || errors.Is(err, ErrFull) || !durable.IsFull(err) && !errors.Is(err, catalog.ErrFull) {
		return err
	}
	return fmt.Errorf("%w for the mirror %q: %w", ErrFull, m.o.Dir, err)
}
