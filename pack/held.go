package pack

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"io"
	"math"
	"time"

	"github.com/klauspost/compress/flate"

	"instep/resourcesync"
)

// heldSize is up to which size in bytes members are read ahead; others are streamed.
const heldSize = 256 << 10

// held is a member of which all bytes are in memory, unless it is streamed. It is used
// again for a later one.
type held struct {
	m     *Member
	ready chan error // receives the result of reading the member; has room for one

	bytes    []byte       // uncompressed bytes of the resource
	packed   bytes.Buffer // the same, compressed
	deflated bool         // packed holds them
	crc      uint32
}

// streamed reports whether the member is too large, or of unknown length.
func (h *held) streamed() bool {
	n := h.m.Length
	return !n.Known() || n.Int64() > heldSize
}

func (h *held) content() []byte {
	if h.deflated {
		return h.packed.Bytes()
	}
	return h.bytes
}

func (h *held) header() *zip.FileHeader {
	f := newHeader(h.m.Path[1:], h.m.LastMod)
	if !h.deflated {
		f.Method = zip.Store
	}
	f.CRC32 = h.crc
	f.CompressedSize64, f.UncompressedSize64 = uint64(len(h.content())), uint64(len(h.bytes))
	return f
}

// reader reads members, one after the other.
type reader struct {
	compress bool
	deflate  *flate.Writer // made when first needed
}

// read reads, verifies and compresses a member, unless it will be streamed.
func (r *reader) read(ctx context.Context, h *held) error {
	if h.streamed() {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := h.fill(ctx); err != nil {
		return err
	}
	h.crc = crc32.ChecksumIEEE(h.bytes)
	h.deflated = false
	if r.compress && compressible(&h.m.Entry) {
		return r.pack(h)
	}
	return nil
}

func (h *held) fill(ctx context.Context) error {
	src, err := h.m.open(ctx)
	if err != nil {
		return err
	}
	defer src.Close() // only read from
	n := int(h.m.Length.Int64())
	if cap(h.bytes) < n {
		h.bytes = make([]byte, n, max(n, 16<<10))
	}
	h.bytes = h.bytes[:n]
	if _, err := io.ReadFull(src, h.bytes); err != nil {
		return h.m.failed(err)
	}
	var one [1]byte // the reader verifies at the end of the bytes
	if _, err := io.ReadFull(src, one[:]); err != io.EOF {
		return h.m.failed(err)
	}
	return nil
}

// pack compresses the bytes that were read, if that makes them smaller.
func (r *reader) pack(h *held) error {
	h.packed.Reset()
	if r.deflate == nil {
		w, err := flate.NewWriter(&h.packed, flate.DefaultCompression)
		if err != nil {
			return h.m.failed(err)
		}
		r.deflate = w
	} else {
		r.deflate.Reset(&h.packed)
	}
	if _, err := r.deflate.Write(h.bytes); err != nil {
		return h.m.failed(err)
	}
	if err := r.deflate.Close(); err != nil {
		return h.m.failed(err)
	}
	h.deflated = h.packed.Len() < len(h.bytes)
	return nil
}

// The times that a ZIP file can store: those of MS-DOS, whose zero is no date, and those of
// the extended timestamp, which are UTC.
var (
	firstDOS   = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)
	afterDOS   = time.Date(2108, 1, 1, 0, 0, 0, 0, time.UTC)
	timestamps = [5]byte{0x55, 0x54, 5, 0, 1} // its id, its size, and that it is the time of modification
)

// newHeader makes the header of a member that is compressed by DEFLATE, with its time if a
// ZIP file can store that. archive/zip writes neither times nor flags of members that were
// compressed before.
func newHeader(name string, lastMod resourcesync.Datetime) *zip.FileHeader {
	const utf8Name = 1 << 11
	h := &zip.FileHeader{Name: name, Method: zip.Deflate, ReaderVersion: 20}
	for i := range len(name) {
		if name[i] >= 0x80 {
			h.Flags |= utf8Name
			break
		}
	}
	t := firstDOS
	if !lastMod.IsZero() {
		t = lastMod.Time().UTC()
		if s := t.Unix(); s >= 0 && s <= math.MaxInt32 {
			h.Extra = binary.LittleEndian.AppendUint32(timestamps[:len(timestamps):len(timestamps)], uint32(s))
		}
		if t.Before(firstDOS) || !t.Before(afterDOS) {
			t = firstDOS
		}
	}
	h.ModifiedDate = uint16(t.Day() + int(t.Month())<<5 + (t.Year()-1980)<<9) //nolint:staticcheck // archive/zip does not write Modified for members that were compressed before
	h.ModifiedTime = uint16(t.Second()/2 + t.Minute()<<5 + t.Hour()<<11)      //nolint:staticcheck // the same
	return h
}
