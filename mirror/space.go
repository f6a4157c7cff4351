package mirror

import (
	"errors"
	"fmt"
	"os"

	"instep/internal/catalog"
	"instep/internal/durable"
)

// ErrFull means that a file system has hardly any free space. Nothing that was committed
// is lost, and a later run can continue.
var ErrFull = errors.New("no space left")

// A mirror leaves these numbers of bytes and files free, for other programs and for its
// own catalog. On a small file system it leaves at most 1 % free.
const (
	reserveBytes = 1 << 30
	reserveFiles = 10_000
)

func (m *Mirror) checkSpace() error {
	if err := m.checkSpaceAt(m.disk.root); err != nil || m.o.State == "" {
		return err
	}
	root, err := os.OpenRoot(m.o.State)
	if err != nil {
		return err
	}
	return errors.Join(m.checkSpaceAt(root), root.Close())
}

func (m *Mirror) checkSpaceAt(root *os.Root) error {
	s, err := m.o.space(root)
	if err != nil || !s.Known {
		return err
	}
	if least := min(reserveBytes, s.Total/100); s.Free < least {
		return fmt.Errorf("%w: on the file system of %q, only %d MiB are free, but at least %d MiB have to remain free", ErrFull, root.Name(), s.Free>>20, least>>20)
	}
	if least := min(reserveFiles, s.Files/100); s.FreeFiles < least {
		return fmt.Errorf("%w: on the file system of %q, only %d more files can be created, but the mirror needs a reserve of %d files", ErrFull, root.Name(), s.FreeFiles, least)
	}
	return nil
}

// addFull adds ErrFull and the directory of the mirror to an error that a full disk has
// caused. It returns other errors unchanged.
func (m *Mirror) addFull(err error) error {
	if err == nil || errors.Is(err, ErrFull) || !durable.IsFull(err) && !errors.Is(err, catalog.ErrFull) {
		return err
	}
	return fmt.Errorf("%w for the mirror in %q: %w", ErrFull, m.o.Dir, err)
}
