package pack

import (
	"archive/zip"
	"bufio"
	"context"
	"fmt"
	"io"
	"runtime"
	"unicode/utf8"

	"github.com/klauspost/compress/flate"
	"golang.org/x/sync/errgroup"

	"instep/resourcesync"
)

// Writer writes packages. The zero value is usable. It may write several packages
// concurrently.
type Writer struct {
	StoreOnly bool // whether to store all members without compression; by default members of a text type are compressed
	Readers   int  // number of goroutines that read members ahead; 0 means the number of processors, at most 4
}

// Sizes that limit the memory for writing a package.
const (
	aheadEach  = 8 // number of members that each reader reads ahead
	bufferSize = 256 << 10
)

// Write writes a package to out and returns its size. It writes the manifest first, by
// calling the function manifest, and then the members in their order. The same manifest and
// members give the same bytes, since no clock is read. Memory is bounded: Write takes 4 MiB
// for each reader, and the size of one directory entry for each member.
//
// Members of a text type are compressed. Members of other types or with a content coding
// are stored. A member of more than 256 KiB is written in blocks of DEFLATE even if it is
// stored, so that a program that reads the package as a stream finds the end of the member.
//
// A member that cannot be opened or read, or whose bytes differ from its entry, is a
// [*MemberError]. After an error the output is not a usable package.
func (w *Writer) Write(ctx context.Context, out io.Writer, manifest func(io.Writer) error, members []Member) (int64, error) {
	count := &countingWriter{w: out}
	p := &packing{
		storeOnly: w.StoreOnly,
		buffered:  bufio.NewWriterSize(count, bufferSize),
		buffer:    make([]byte, bufferSize),
	}
	p.zip = zip.NewWriter(p.buffered)
	p.zip.RegisterCompressor(zip.Deflate, p.compressor)
	if err := p.writeManifest(manifest); err != nil {
		return count.n, err
	}
	if err := p.writeMembers(ctx, members, w.readers()); err != nil {
		return count.n, err
	}
	if err := p.zip.Close(); err != nil {
		return count.n, fmt.Errorf("writing the directory of the package: %w", err)
	}
	if err := p.buffered.Flush(); err != nil {
		return count.n, fmt.Errorf("writing the package: %w", err)
	}
	return count.n, nil
}

func (w *Writer) readers() int {
	if w.Readers > 0 {
		return w.Readers
	}
	return min(runtime.GOMAXPROCS(0), 4)
}

type packing struct {
	storeOnly bool
	zip       *zip.Writer
	buffered  *bufio.Writer // under zip
	buffer    []byte        // used for copying streamed members

	level   int              // compression level for the next member
	streams [2]*flate.Writer // one compressor for each level; used again for later members
}

func (p *packing) writeManifest(write func(io.Writer) error) error {
	h := newHeader(ManifestName, resourcesync.Datetime{})
	p.level = levelOf(!p.storeOnly)
	f, err := p.zip.CreateHeader(h)
	if err != nil {
		return fmt.Errorf("writing the package: %w", err)
	}
	return write(f)
}

// writeMembers writes the members in their order. At the same time several goroutines read
// the next members into memory.
func (p *packing) writeMembers(ctx context.Context, members []Member, readers int) error {
	group, ctx := errgroup.WithContext(ctx)
	free := make(chan *queuedMember, readers*aheadEach)
	work, order := make(chan *queuedMember, cap(free)), make(chan *queuedMember, cap(free))
	for range cap(free) {
		free <- &queuedMember{ready: make(chan error, 1)}
	}
	group.Go(func() error {
		defer close(work)
		defer close(order)
		return distribute(ctx, members, free, work, order)
	})
	for range readers {
		r := reader{compress: !p.storeOnly}
		group.Go(func() error {
			for h := range work {
				h.ready <- r.read(ctx, h)
			}
			return nil
		})
	}
	group.Go(func() error {
		for h := range order {
			if err := <-h.ready; err != nil {
				return err
			}
			if err := p.writeMember(ctx, h); err != nil {
				return err
			}
			free <- h
		}
		return nil
	})
	return group.Wait()
}

// distribute sends each member to the readers and, in the same order, to the writer. Each
// member takes an unused buffer from free, so the number of buffers limits how many members
// are read ahead.
func distribute(ctx context.Context, members []Member, free <-chan *queuedMember, work, order chan<- *queuedMember) error {
	for i := range members {
		m := &members[i]
		if m.Path == "" {
			continue
		}
		if len(m.Path) < 2 || m.Path[0] != '/' || !utf8.ValidString(m.Path) {
			return &MemberError{m.Loc, fmt.Errorf("the path is %q; expected a slash and the name of a file", m.Path)}
		}
		select {
		case h := <-free:
			h.m = m
			work <- h // never blocks, because the channel has space for all buffers
			order <- h
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (p *packing) writeMember(ctx context.Context, h *queuedMember) error {
	if h.mustStream() {
		return p.stream(ctx, h.m)
	}
	f, err := p.zip.CreateRaw(h.header())
	if err == nil {
		_, err = f.Write(h.content())
	}
	if err != nil {
		return fmt.Errorf("writing the package: %w", err)
	}
	return nil
}

func (p *packing) stream(ctx context.Context, m *Member) error {
	p.level = levelOf(!p.storeOnly && compressible(&m.Entry))
	f, err := p.zip.CreateHeader(newHeader(m.Path[1:], m.LastMod))
	if err != nil {
		return fmt.Errorf("writing the package: %w", err)
	}
	r, err := m.open(ctx)
	if err != nil {
		return err
	}
	defer r.Close() // closing a reader loses no data, so the error is ignored
	for {
		n, err := r.Read(p.buffer)
		if _, failed := f.Write(p.buffer[:n]); failed != nil {
			return fmt.Errorf("writing the package: %w", failed)
		}
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return m.failed(err)
		}
	}
}

// compressor is called by the zip.Writer for each streamed member.
func (p *packing) compressor(w io.Writer) (io.WriteCloser, error) {
	i := 0
	if p.level == flate.NoCompression {
		i = 1
	}
	if s := p.streams[i]; s != nil {
		s.Reset(w)
		return s, nil
	}
	s, err := flate.NewWriter(w, p.level)
	p.streams[i] = s
	return s, err
}

func levelOf(compressed bool) int {
	if compressed {
		return flate.DefaultCompression
	}
	return flate.NoCompression
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}
