package pack

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"io"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/klauspost/compress/flate"

	"instep/resourcesync"
)

// heldSize is the largest size in bytes of a member that is read ahead into memory. Larger
// members are streamed.
const heldSize = 256 << 10

// held is a member that is waiting to be written. It was read ahead into memory, unless
// it will be streamed. Its buffers are used again for later members.
type held struct {
	m     *Member
	ready chan error // receives the result of reading the member; buffered, so that sending never blocks

	bytes    []byte       // the member's bytes before compression
	packed   bytes.Buffer // the member's bytes after compression
	deflated bool         // whether the compressed bytes are written, because they are fewer
	crc      uint32
}

// streamed reports whether the member is to be streamed, because it is too large to be read
// ahead or its length is unknown.
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

// reader reads members ahead, one after the other.
type reader struct {
	compress bool
	deflate  *flate.Writer // compressor, created when it is first needed
}

// read reads, verifies and compresses a member, unless it is to be streamed.
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
	defer src.Close() // the error is ignored, since closing cannot damage what was only read
	n := int(h.m.Length.Int64())
	if cap(h.bytes) < n {
		h.bytes = make([]byte, n, max(n, 16<<10))
	}
	h.bytes = h.bytes[:n]
	if _, err := io.ReadFull(src, h.bytes); err != nil {
		return h.m.failed(err)
	}
	var one [1]byte // reads one byte more, because the reader verifies the bytes only at their end
	if _, err := io.ReadFull(src, one[:]); err != io.EOF {
		return h.m.failed(err)
	}
	return nil
}

// pack compresses the bytes of a member. The compressed bytes are used only if they are
// fewer than the original ones.
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

// The first time that the MS-DOS format can express, the first time after its last one, and
// the start of the extra field for a time in UTC.
var (
	firstDOS   = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)
	afterDOS   = time.Date(2108, 1, 1, 0, 0, 0, 0, time.UTC)
	timestamps = [5]byte{0x55, 0x54, 5, 0, 1} // the id and the size of the field, and a flag for the modification time
)

// newHeader returns the header of a member that is compressed with DEFLATE. It includes the
// time of the member if a ZIP file can store it. It sets the time and the flags itself,
// because archive/zip leaves them out for members that the caller compressed.
func newHeader(name string, lastMod resourcesync.Datetime) *zip.FileHeader {
	const utf8Name = 1 << 11
	h := &zip.FileHeader{Name: name, Method: zip.Deflate, ReaderVersion: 20}
	if strings.IndexFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) >= 0 {
		h.Flags |= utf8Name
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
