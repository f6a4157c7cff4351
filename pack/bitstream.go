package pack

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/flate"
)

// Bitstream is a readable member of a package (1.1 §11.2).
type Bitstream struct {
	p *Package
	i int
}

func (b Bitstream) member() *member { return &b.p.members[b.i] }

// Name returns the name of the bitstream as it is written in the directory of the package.
// Programs must only show it to people: as a path it could lead to any file of the system.
func (b Bitstream) Name() string { return b.member().name }

// Size returns the length of the bitstream in bytes, as the directory of the package
// states it.
func (b Bitstream) Size() int64 { return b.member().size }

// Checksum returns the CRC-32 (IEEE) of the bitstream, as the directory of the package
// states it.
func (b Bitstream) Checksum() uint32 { return b.member().crc }

// Span returns the position of the bytes of the package that are needed to read the
// bitstream: its compressed bytes, and the headers before and after them.
func (b Bitstream) Span() (offset, length int64) {
	m := b.member()
	return m.offset, m.next - m.offset
}

// Find finds a bitstream by the path of a manifest entry (rs:md/@path, 1.1 §11.2, §13.2).
// In the path and in the names of members it ignores a leading slash and ".", and reads
// backslashes as slashes. It finds nothing for a path that contains "..".
func (p *Package) Find(path string) (Bitstream, bool) {
	i, ok := p.names[plainName(path)]
	if !ok || climbs(path) || p.members[i].isDirectory() {
		return Bitstream{}, false
	}
	return Bitstream{p, i}, true
}

// FindBelow finds a bitstream by a path in a manifest whose paths are not relative to the
// root of the package. Either the path ends with the name of the member, or the name ends
// with the path. If several members match, FindBelow finds none. The caller must verify by
// a digest that the bitstream is the right one.
func (p *Package) FindBelow(path string) (Bitstream, bool) {
	path = plainName(path)
	i, ok := p.byBase()[base(path)]
	if !ok || i < 0 || climbs(path) {
		return Bitstream{}, false
	}
	name := plainName(p.members[i].name)
	return Bitstream{p, i}, strings.HasSuffix("/"+name, "/"+path) || strings.HasSuffix("/"+path, "/"+name)
}

func (p *Package) baseNames() map[string]int {
	bases := make(map[string]int, len(p.names))
	for name, i := range p.names {
		if p.members[i].isDirectory() || climbs(name) {
			continue
		}
		if _, several := bases[base(name)]; several {
			i = -1
		}
		bases[base(name)] = i
	}
	return bases
}

func base(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// climbs reports whether a name has the segment "..".
func climbs(name string) bool {
	return strings.Contains(name, "..") && slices.Contains(segments(name), "..")
}

// Open opens the bitstream for reading. The error wraps ErrLimit if the bitstream has more
// than limit bytes. The reader yields as many bytes as the directory states, and returns an
// error instead of io.EOF if their checksum is wrong. The caller must close the reader.
func (b Bitstream) Open(limit int64) (io.ReadCloser, error) {
	from, n := b.Span()
	return b.OpenSpan(io.NewSectionReader(b.p.r, from, n), limit)
}

// OpenSpan is like Open, but reads the bytes that Span describes from r instead of the
// package.
func (b Bitstream) OpenSpan(r io.ReaderAt, limit int64) (io.ReadCloser, error) {
	m := b.member()
	opening, err := b.p.openMember(m, r, limit)
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", m.name, err)
	}
	return &opened{opening}, nil
}

// opened is the reader of an open bitstream. Close makes its memberReader available for
// other bitstreams, because a memberReader has large buffers.
type opened struct{ r *memberReader }

func (o *opened) Read(b []byte) (int, error) {
	if o.r == nil {
		return 0, errors.New("read after Close")
	}
	return o.r.Read(b)
}

func (o *opened) Close() error {
	if o.r != nil {
		o.r.release()
		o.r = nil
	}
	return nil
}

func (p *Package) openMember(m *member, span io.ReaderAt, limit int64) (*memberReader, error) {
	switch {
	case m.size > limit:
		return nil, fmt.Errorf("%w: expected at most %d bytes, got %d", ErrLimit, limit, m.size)
	case m.flags&flagEncrypted != 0:
		return nil, errEncrypted
	case m.method != methodStore && m.method != methodDeflate:
		return nil, &methodError{m.method}
	case m.next < m.offset:
		return nil, damaged("the member begins within the directory")
	}
	r, _ := readers.Get().(*memberReader)
	if r == nil {
		r = &memberReader{in: bufio.NewReaderSize(nil, readSize)}
	}
	r.m, r.strict, r.span, r.n, r.crc, r.err = m, !p.lim.Tolerant, io.NewSectionReader(span, 0, m.next-m.offset), 0, 0, nil
	r.in.Reset(r.span)
	if err := r.readHeader(); err != nil {
		r.release()
		return nil, err
	}
	return r, nil
}

// readSize is the number of bytes that are read at a time. Most members are smaller.
const readSize = 64 << 10

// readers is a pool of memberReaders, because each of them has 100 KiB of buffers.
var readers sync.Pool // of *memberReader

// memberReader reads a member of a package and verifies its bytes.
type memberReader struct {
	m       *member
	strict  bool
	span    *io.SectionReader // from the local header of this member to the start of the next member
	in      *bufio.Reader     // reads span
	dataEnd int64             // offset in span at which the member's compressed bytes end
	content io.Reader         // reads the member's decompressed bytes
	deflate io.ReadCloser     // the decompressor, created at its first use
	n       int64             // number of decompressed bytes that were read
	crc     uint32
	err     error // the error that Read has returned and will return again
}

// readHeader returns an error if the local header contradicts the directory.
func (r *memberReader) readHeader() error {
	m := r.m
	head, err := r.in.Peek(localSize)
	if err != nil {
		return unexpectedEnd(err)
	}
	if !bytes.HasPrefix(head, []byte(localSignature)) {
		return damaged("there is no member at the offset that the directory states")
	}
	h := localHeader(head)
	name := make([]byte, h.nameLength())
	if _, err = r.in.Discard(localSize); err == nil {
		_, err = io.ReadFull(r.in, name)
	}
	if err != nil {
		return unexpectedEnd(err)
	}
	fields := make([]byte, h.extraLength())
	if _, err := io.ReadFull(r.in, fields); err != nil {
		return unexpectedEnd(err)
	}
	if r.strict {
		if err := h.check(m, string(name), fields); err != nil {
			return fmt.Errorf("%w: %w", ErrAmbiguous, err)
		}
	}
	r.dataEnd = int64(localSize+len(name)+len(fields)) + m.packed
	if rest := r.span.Size() - r.dataEnd; rest < 0 || r.strict && !m.mayPrecede(rest) {
		return fmt.Errorf("%w: %d unused bytes follow the member", ErrAmbiguous, rest)
	}
	r.setContent()
	return nil
}

// localHeader is the fixed part of a local header (APPNOTE.TXT §4.3.7).
type localHeader [localSize]byte

func (h *localHeader) flags() uint16    { return binary.LittleEndian.Uint16(h[6:]) }
func (h *localHeader) method() uint16   { return binary.LittleEndian.Uint16(h[8:]) }
func (h *localHeader) crc() uint32      { return binary.LittleEndian.Uint32(h[14:]) }
func (h *localHeader) packed() int64    { return int64(binary.LittleEndian.Uint32(h[18:])) }
func (h *localHeader) size() int64      { return int64(binary.LittleEndian.Uint32(h[22:])) }
func (h *localHeader) nameLength() int  { return int(binary.LittleEndian.Uint16(h[26:])) }
func (h *localHeader) extraLength() int { return int(binary.LittleEndian.Uint16(h[28:])) }

func (h *localHeader) check(m *member, name string, fields []byte) error {
	ex, err := parseExtra(fields)
	if err != nil {
		return err
	}
	packed, size := h.packed(), h.size()
	if err := ex.replace64(&size, &packed); err != nil {
		return err
	}
	streamed := m.flags&flagDescriptor != 0
	switch {
	case name != m.name:
		return fmt.Errorf("the header before the member has the name %q", name)
	case ex.name != "" && ex.name != m.name:
		return fmt.Errorf("the header before the member has the name %q for programs that know Unicode", ex.name)
	case h.flags() != m.flags || h.method() != m.method:
		return fmt.Errorf("the header before the member has flags %#04x and method %d, but the directory has %#04x and %d", h.flags(), h.method(), m.flags, m.method)
	case streamed && packed == 0 && size == 0 && h.crc() == 0:
		return nil
	case h.crc() != m.crc && !(streamed && h.crc() == 0) || packed != m.packed || size != m.size:
		return fmt.Errorf("the header before the member states %d bytes compressed to %d with checksum %08x, but the directory states %d compressed to %d with %08x", size, packed, h.crc(), m.size, m.packed, m.crc)
	}
	return nil
}

// mayPrecede reports whether the compressed bytes of a member may be followed by n bytes
// before the next member. Only a data descriptor may be there.
func (m *member) mayPrecede(n int64) bool {
	if m.flags&flagDescriptor == 0 {
		return n == 0
	}
	return n == 12 || n == 16 || n == 20 || n == maxDescriptor
}

func (r *memberReader) setContent() {
	switch {
	case r.m.method == methodStore:
		r.content = io.LimitReader(r.in, r.m.packed)
		return
	case r.deflate == nil:
		r.deflate = flate.NewReader(r.in)
	default:
		// Without a dictionary, Reset never returns an error.
		_ = r.deflate.(flate.Resetter).Reset(r.in, nil)
	}
	r.content = r.deflate
}

func (r *memberReader) Read(b []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.content.Read(b)
	if int64(n) > r.m.size-r.n {
		n, err = int(r.m.size-r.n), damaged("%q has more bytes than the %d that the directory states", r.m.name, r.m.size)
	}
	r.n += int64(n)
	r.crc = crc32.Update(r.crc, crc32.IEEETable, b[:n])
	switch {
	case err == io.EOF:
		err = r.checkEnd()
	case err != nil:
		err = fmt.Errorf("read %q: %w", r.m.name, markDamage(err))
	}
	r.err = err
	return n, err
}

// markDamage returns an ErrNotZIP for an error of the decompressor. Any other error comes
// from reading the package, and is returned unchanged.
func markDamage(err error) error {
	var corrupt flate.CorruptInputError
	var internal flate.InternalError
	if errors.As(err, &corrupt) || errors.As(err, &internal) || errors.Is(err, io.ErrUnexpectedEOF) {
		return damaged("%w", err)
	}
	return err
}

// checkEnd returns io.EOF if the bytes of the member match the directory.
func (r *memberReader) checkEnd() error {
	m := r.m
	switch at := r.position(); {
	case r.n != m.size:
		return damaged("%q has %d bytes, but the directory states %d", m.name, r.n, m.size)
	case r.crc != m.crc:
		return damaged("%q has the checksum %08x, but the directory states %08x", m.name, r.crc, m.crc)
	case r.strict && at != r.dataEnd:
		return fmt.Errorf("%w: %q ends after %d compressed bytes, but the directory states %d", ErrAmbiguous, m.name, m.packed-(r.dataEnd-at), m.packed)
	case r.strict && m.flags&flagDescriptor != 0:
		return r.checkDescriptor()
	}
	return io.EOF
}

// position returns the offset in span up to which bytes were consumed.
func (r *memberReader) position() int64 {
	at, err := r.span.Seek(0, io.SeekCurrent)
	if err != nil {
		return -1 // cannot fail
	}
	return at - int64(r.in.Buffered())
}

// checkDescriptor reads the data descriptor after the bytes of a member. It returns io.EOF if
// the descriptor matches the directory. A descriptor may have no signature, and its numbers
// may have 32 or 64 bits.
func (r *memberReader) checkDescriptor() error {
	got, err := io.ReadAll(io.LimitReader(r.in, maxDescriptor))
	if err != nil {
		return fmt.Errorf("read %q: %w", r.m.name, err)
	}
	le := binary.LittleEndian
	short := le.AppendUint32(nil, r.m.crc)
	long := le.AppendUint64(le.AppendUint64(bytes.Clone(short), uint64(r.m.packed)), uint64(r.m.size))
	short = le.AppendUint32(le.AppendUint32(short, uint32(r.m.packed)), uint32(r.m.size))
	for _, want := range [][]byte{short, long} {
		if bytes.Equal(got, want) || bytes.Equal(got, append([]byte(descriptorSignature), want...)) {
			return io.EOF
		}
	}
	return fmt.Errorf("%w: the data descriptor after %q contradicts the directory", ErrAmbiguous, r.m.name)
}

// unexpectedEnd replaces io.EOF by an error that wraps ErrNotZIP. It returns other errors
// unchanged.
func unexpectedEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return damaged("the package ends within a member")
	}
	return err
}

func (r *memberReader) release() {
	r.in.Reset(nil)
	r.m, r.span, r.content = nil, nil, nil
	readers.Put(r)
}
