package inputs

import (
	"errors"
	"io"

	"instep/internal/spool"
	"instep/lint"
)

// maxSpooled limits in bytes what is read from standard input, a pipe or the network. It is large
// because packages are large.
const maxSpooled = 1 << 30

// content has the bytes of an input. They can be read several times, from any offset.
type content struct {
	io.ReaderAt
	size int64
}

func (c content) open() (io.ReadCloser, error) {
	return io.NopCloser(io.NewSectionReader(c, 0, c.size)), nil
}

func (c content) firstBytes() ([]byte, error) {
	b := make([]byte, min(lint.HeadSize, c.size))
	n, err := io.ReadFull(io.NewSectionReader(c, 0, c.size), b)
	return b[:n], err
}

func spoolAll(r io.Reader) (*spool.File, error) {
	f := spool.NewFile("", maxSpooled)
	w := &errorKeeper{w: f}
	if _, err := io.Copy(w, r); err != nil {
		if w.err != nil && !errors.Is(w.err, spool.ErrLimit) {
			err = &FatalError{w.err}
		}
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// errorKeeper is a writer that remembers its error, so that the caller of io.Copy can tell
// whether the writer or the reader has failed.
type errorKeeper struct {
	w   io.Writer
	err error
}

func (o *errorKeeper) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	o.err = err
	return n, err
}
