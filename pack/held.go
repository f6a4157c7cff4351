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

// Members of more than maxAhead bytes are streamed, and not read ahead into memory.
const maxAhead = 256 << 10

// queuedMember is a member that is read ahead into memory, unless it must be streamed. Its buffers
// are used again for later members.
type queuedMember struct {
	m     *Member
	ready chan error // the result of reading the member ahead; buffered, so that sending never blocks

	bytes    []byte       // the member before compression
	packed   bytes.Buffer // the member after compression
	deflated bool         // whether the member is written in its compressed form
	crc      uint32
}

func (h *queuedMember) mustStream() bool {
	n := h.m.Length
	return !n.Known() || n.Int64() > maxAhead
}

func (h *queuedMember) content() []byte {
	if h.deflated {
		return h.packed.Bytes()
	}
	return h.bytes
}

func (h *queuedMember) header() *zip.FileHeader {
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
	deflate  *flate.Writer // the compressor; created at its first use
}

// read reads, verifies and compresses a member, unless the member must be streamed.
func (r *reader) read(ctx context.Context, h *queuedMember) error {
	if h.mustStream() {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := h.readBytes(ctx); err != nil {
		return err
	}
	h.crc = crc32.ChecksumIEEE(h.bytes)
	h.deflated = false
	if r.compress && compressible(&h.m.Entry) {
		return r.compressMember(h)
	}
	return nil
}

func (h *queuedMember) readBytes(ctx context.Context) error {
	src, err := h.m.open(ctx)
	if err != nil {
		return err
	}
	defer src.Close() // closing a reader loses no data, so the error is ignored
	n := int(h.m.Length.Int64())
	if cap(h.bytes) < n {
		h.bytes = make([]byte, n, max(n, 16<<10))
	}
	h.bytes = h.bytes[:n]
	if _, err := io.ReadFull(src, h.bytes); err != nil {
		return h.m.failed(err)
	}
	var one [1]byte // reading past the last byte makes the reader verify all bytes
	if _, err := io.ReadFull(src, one[:]); err != io.EOF {
		return h.m.failed(err)
	}
	return nil
}

// compressMember keeps the compressed bytes only if they are fewer than the original ones.
func (r *reader) compressMember(h *queuedMember) error {
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

var (
	// A time in the MS-DOS format of ZIP is from firstDOS until before afterDOS.
	firstDOS = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)
	afterDOS = time.Date(2108, 1, 1, 0, 0, 0, 0, time.UTC)
	// timestamps is the beginning of the extra field for a modification time in UTC: id,
	// size and flags.
	timestamps = [5]byte{0x55, 0x54, 5, 0, 1}
)

// newHeader returns the header of a member that is compressed with DEFLATE. It sets the time
// and the flags itself, because archive/zip leaves them out for members that the caller
// compressed. A time that a ZIP file cannot store is left out.
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
