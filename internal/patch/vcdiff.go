package patch

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"io"
)

// vcdMagic begins a VCDIFF patch: "VCD" with the high bits set, and version 0 (RFC 3284 §4.1).
var vcdMagic = []byte{0xd6, 0xc3, 0xc4, 0x00}

// The bits of the indicators (RFC 3284 §4.1, §4.2). vcdAdler32 is an extension of xdelta3:
// the window has an Adler-32 checksum.
const (
	vcdSecondary = 1 << 0
	vcdCodeTable = 1 << 1
	vcdAppHeader = 1 << 2

	vcdSource  = 1 << 0
	vcdTarget  = 1 << 1
	vcdAdler32 = 1 << 2
)

const (
	// maxWindow is the length of the longest window that is decoded, in bytes. xdelta3
	// makes windows of 8 MiB.
	maxWindow = 16 << 20
	// maxAppHeader is the largest length of the application header in bytes.
	maxAppHeader = 64 << 10
)

type opcode byte

const (
	opNone opcode = iota
	opAdd
	opRun
	opCopy
)

// instruction is one of the two instructions in an entry of a code table (RFC 3284 §5.4). A
// size of 0 means that the patch itself states the size.
type instruction struct {
	op   opcode
	size int
	mode byte // mode of the address in a copy instruction
}

// codeTable is the default code table (RFC 3284 §5.6).
var codeTable = defaultTable()

func defaultTable() (table [256][2]instruction) {
	n := 0
	add := func(first, second instruction) {
		table[n] = [2]instruction{first, second}
		n++
	}
	add(instruction{op: opRun}, instruction{})
	for size := range 18 {
		add(instruction{op: opAdd, size: size}, instruction{})
	}
	for mode := range byte(addressModes) {
		add(instruction{op: opCopy, mode: mode}, instruction{})
		for size := 4; size <= 18; size++ {
			add(instruction{opCopy, size, mode}, instruction{})
		}
	}
	for mode := range byte(addressModes) {
		longest := 6
		if mode >= firstSame {
			longest = 4
		}
		for size := 1; size <= 4; size++ {
			for copied := 4; copied <= longest; copied++ {
				add(instruction{op: opAdd, size: size}, instruction{opCopy, copied, mode})
			}
		}
	}
	for mode := range byte(addressModes) {
		add(instruction{opCopy, 4, mode}, instruction{op: opAdd, size: 1})
	}
	return table
}

// The modes in which the address of a copy instruction is encoded (RFC 3284 §5.3). modeSelf is
// the address itself, and modeHere is the distance back from the current position. The modes
// from firstNear on are distances from recent addresses, and those from firstSame on repeat
// earlier addresses.
const (
	modeSelf     = 0
	modeHere     = 1
	firstNear    = 2
	nearSize     = 4
	firstSame    = firstNear + nearSize
	sameSize     = 3
	addressModes = firstSame + sameSize
)

// addressCache holds the addresses of the last copies of a window (RFC 3284 §5.1).
type addressCache struct {
	near [nearSize]int64
	same [sameSize * 256]int64
	next int
}

func (c *addressCache) update(address int64) {
	c.near[c.next] = address
	c.next = (c.next + 1) % nearSize
	c.same[address%int64(len(c.same))] = address
}

var errVCD = errors.New("the VCDIFF patch is damaged")

// unexpectedEnd converts io.EOF and io.ErrUnexpectedEOF to errVCD. It returns other errors
// unchanged.
func unexpectedEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: the patch ends too early", errVCD)
	}
	return err
}

// readInt reads an integer (RFC 3284 §2) of at most 63 bits.
func readInt(r io.ByteReader) (n int64, err error) {
	for {
		b, err := r.ReadByte()
		if err != nil {
			return 0, unexpectedEnd(err)
		}
		if n >= 1<<56 {
			return 0, fmt.Errorf("%w: an integer has more than 63 bits", errVCD)
		}
		n = n<<7 | int64(b&0x7f)
		if b < 0x80 {
			return n, nil
		}
	}
}

// vcdDecoder applies a VCDIFF patch window by window. It holds the sections of one window, and
// the bytes decoded from them, in memory.
type vcdDecoder struct {
	ctx     context.Context
	base    io.ReaderAt
	length  int64 // length of base
	patch   *bufio.Reader
	limit   int64 // the largest allowed length of the new version, in bytes
	section [3]bytes.Buffer
	window  vcdWindow
}

// ApplyVCDIFF applies a VCDIFF patch (RFC 3284) to the old version base, which has length
// bytes. It writes the new version to out and returns its length. It reads only the parts
// of base that the patch copies, and holds one window of at most 16 MiB and its
// instructions in memory. It returns ErrBounds if the new version would exceed limit bytes,
// and an error for custom code tables, secondary compression and copies from earlier
// windows. It verifies the Adler-32 checksums that xdelta3 adds to windows. After an error
// the written bytes must not be used.
func ApplyVCDIFF(ctx context.Context, base io.ReaderAt, length int64, patch io.Reader, out io.Writer, limit int64) (made int64, err error) {
	d := &vcdDecoder{ctx: ctx, base: base, length: length, patch: bufio.NewReader(patch), limit: limit}
	if err := d.readHeader(); err != nil {
		return 0, err
	}
	for {
		if err := ctx.Err(); err != nil {
			return made, context.Cause(ctx)
		}
		indicator, err := d.patch.ReadByte()
		if errors.Is(err, io.EOF) {
			return made, nil
		}
		if err == nil {
			err = d.readWindow(indicator, d.limit-made)
		}
		if err != nil {
			return made, err
		}
		n, err := out.Write(d.window.target)
		made += int64(n)
		if err != nil {
			return made, err
		}
	}
}

func (d *vcdDecoder) readHeader() error {
	head := make([]byte, len(vcdMagic)+1)
	if _, err := io.ReadFull(d.patch, head); err != nil {
		return unexpectedEnd(err)
	}
	if !bytes.Equal(head[:len(vcdMagic)], vcdMagic) {
		return errors.New("expected a VCDIFF patch (RFC 3284), which begins with d6 c3 c4 00")
	}
	indicator := head[len(vcdMagic)]
	switch {
	case indicator&vcdSecondary != 0:
		return errors.New("expected a VCDIFF patch without secondary compression; xdelta3 makes one with -S none")
	case indicator&vcdCodeTable != 0:
		return errors.New("expected a VCDIFF patch with the default code table")
	case indicator&^vcdAppHeader != 0:
		return fmt.Errorf("%w: unknown bits %#x in its header", errVCD, indicator)
	case indicator&vcdAppHeader == 0:
		return nil
	}
	n, err := readInt(d.patch)
	if err != nil {
		return err
	}
	if n > maxAppHeader {
		return fmt.Errorf("%w: expected an application header of at most %d bytes, found %d", ErrBounds, maxAppHeader, n)
	}
	_, err = d.patch.Discard(int(n))
	return unexpectedEnd(err)
}

// readWindow decodes a window (RFC 3284 §4.2, §4.3).
func (d *vcdDecoder) readWindow(indicator byte, limit int64) error {
	w := &d.window
	*w = vcdWindow{ctx: d.ctx, base: d.base, target: w.target[:0]}
	switch {
	case indicator&vcdTarget != 0:
		return errors.New("expected a VCDIFF patch whose windows copy from the old version only")
	case indicator&^(vcdSource|vcdAdler32) != 0:
		return fmt.Errorf("%w: unknown bits %#x before a window", errVCD, indicator)
	case indicator&vcdSource != 0:
		var at int64
		if err := readInts(d.patch, &w.segment, &at); err != nil {
			return err
		}
		if at > d.length || w.segment > d.length-at {
			return fmt.Errorf("%w: the patch copies bytes %d to %d of an old version of %d bytes", ErrBase, at, at+w.segment, d.length)
		}
		w.offset = at
	}
	var length int64
	if err := readInts(d.patch, &length); err != nil {
		return err
	}
	encoded := &countingReader{r: io.LimitReader(d.patch, length)}
	checksum, err := d.readDelta(encoded, indicator, limit)
	if err != nil {
		return err
	}
	if encoded.n != length {
		return fmt.Errorf("%w: a window has %d bytes, its header says %d", errVCD, encoded.n, length)
	}
	if err := w.decode(); err != nil {
		return err
	}
	if indicator&vcdAdler32 != 0 && adler32.Checksum(w.target) != checksum {
		return fmt.Errorf("%w: the Adler-32 checksum of a window differs", ErrBase)
	}
	return nil
}

func (d *vcdDecoder) readDelta(r *countingReader, indicator byte, limit int64) (checksum uint32, err error) {
	w := &d.window
	if err := readInts(r, &w.length); err != nil {
		return 0, err
	}
	switch {
	case w.length > limit:
		return 0, tooLong(d.limit)
	case w.length > maxWindow:
		return 0, fmt.Errorf("%w: expected windows of at most %d bytes, found %d", ErrBounds, maxWindow, w.length)
	}
	compressed, err := r.ReadByte()
	if err != nil {
		return 0, unexpectedEnd(err)
	}
	if compressed != 0 {
		return 0, errors.New("expected a VCDIFF patch without secondary compression; xdelta3 makes one with -S none")
	}
	var lengths [3]int64
	if err := readInts(r, &lengths[0], &lengths[1], &lengths[2]); err != nil {
		return 0, err
	}
	if indicator&vcdAdler32 != 0 {
		var sum [4]byte
		if _, err := io.ReadFull(r, sum[:]); err != nil {
			return 0, unexpectedEnd(err)
		}
		checksum = binary.BigEndian.Uint32(sum[:])
	}
	for i, n := range lengths {
		if n > maxWindow {
			return 0, fmt.Errorf("%w: expected sections of at most %d bytes, found %d", ErrBounds, maxWindow, n)
		}
		d.section[i].Reset()
		if _, err := io.CopyN(&d.section[i], r, n); err != nil {
			return 0, unexpectedEnd(err)
		}
	}
	w.data, w.instructions, w.addresses = &d.section[0], &d.section[1], &d.section[2]
	return checksum, nil
}

func readInts(r io.ByteReader, numbers ...*int64) (err error) {
	for _, n := range numbers {
		if *n, err = readInt(r); err != nil {
			return err
		}
	}
	return nil
}

type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

func (c *countingReader) ReadByte() (byte, error) {
	var b [1]byte
	_, err := io.ReadFull(c, b[:])
	return b[0], err
}

// vcdWindow decodes one window of a patch: it makes a part of the new version from a segment
// of the old version.
type vcdWindow struct {
	ctx                           context.Context
	base                          io.ReaderAt
	offset, segment               int64 // offset and length of the segment in the old version
	length                        int64 // length of the target, the part of the new version that the window describes
	target                        []byte
	data, instructions, addresses *bytes.Buffer
	cache                         addressCache
}

func (w *vcdWindow) decode() error {
	for n := 0; w.instructions.Len() > 0; n++ {
		if n%1024 == 0 && w.ctx.Err() != nil {
			return context.Cause(w.ctx)
		}
		code, _ := w.instructions.ReadByte()
		for _, i := range codeTable[code] {
			if i.op == opNone {
				continue
			}
			size := int64(i.size)
			if size == 0 {
				var err error
				if size, err = readInt(w.instructions); err != nil {
					return err
				}
			}
			if size > w.length-int64(len(w.target)) {
				return fmt.Errorf("%w: an instruction exceeds its window of %d bytes", ErrBounds, w.length)
			}
			if err := w.execute(i, int(size)); err != nil {
				return err
			}
		}
	}
	if int64(len(w.target)) != w.length || w.data.Len() > 0 || w.addresses.Len() > 0 {
		return fmt.Errorf("%w: a window should be decoded to %d bytes, but makes %d bytes and leaves %d bytes of its sections unused", errVCD, w.length, len(w.target), w.data.Len()+w.addresses.Len())
	}
	return nil
}

func (w *vcdWindow) execute(i instruction, size int) error {
	switch i.op {
	case opAdd:
		if size > w.data.Len() {
			return fmt.Errorf("%w: the data of a window end too early", errVCD)
		}
		w.target = append(w.target, w.data.Next(size)...)
	case opRun:
		b, err := w.data.ReadByte()
		if err != nil {
			return unexpectedEnd(err)
		}
		n := len(w.target)
		w.target = grown(w.target, size)
		for j := range size {
			w.target[n+j] = b
		}
	case opCopy:
		address, err := w.readAddress(i.mode)
		if err != nil {
			return err
		}
		return w.appendCopy(address, size)
	}
	return nil
}

// readAddress reads the address from which a copy instruction copies. Addresses number the
// bytes of the segment and then the bytes of the target, from 0.
func (w *vcdWindow) readAddress(mode byte) (address int64, err error) {
	here := w.segment + int64(len(w.target))
	if mode >= firstSame {
		b, err := w.addresses.ReadByte()
		if err != nil {
			return 0, unexpectedEnd(err)
		}
		address = w.cache.same[int(mode-firstSame)*256+int(b)]
	} else {
		if address, err = readInt(w.addresses); err != nil {
			return 0, err
		}
		switch {
		case mode == modeHere:
			address = here - address
		case mode >= firstNear:
			address += w.cache.near[mode-firstNear]
		}
	}
	if address < 0 || address >= here {
		return 0, fmt.Errorf("%w: a copy begins at offset %d, but only %d bytes are known", ErrBounds, address, here)
	}
	w.cache.update(address)
	return address, nil
}

// appendCopy appends a copy of the bytes at an address to the target. These bytes may begin in
// the segment and continue in the target, and may include bytes that this same call appends.
func (w *vcdWindow) appendCopy(address int64, size int) error {
	n := len(w.target)
	w.target = grown(w.target, size)
	to := w.target[n:]
	if address < w.segment {
		part := to[:min(int64(size), w.segment-address)]
		if got, err := w.base.ReadAt(part, w.offset+address); got < len(part) {
			return fmt.Errorf("reading the old version: %w", err)
		}
		address, to = w.segment, to[len(part):]
	}
	from := int(address - w.segment)
	for len(to) > 0 { // if the copied bytes overlap the target, each pass copies twice as many bytes as the pass before
		to = to[copy(to, w.target[from:len(w.target)-len(to)]):]
	}
	return nil
}

// grown returns b with n more bytes, whose values the caller must set.
func grown(b []byte, n int) []byte {
	if need := len(b) + n; need > cap(b) {
		bigger := make([]byte, len(b), max(need, min(2*cap(b), maxWindow)))
		copy(bigger, b)
		b = bigger
	}
	return b[:len(b)+n]
}
