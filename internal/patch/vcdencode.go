package patch

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"
)

const (
	// madeWindow is the number of bytes of the new version that one window of a patch
	// describes.
	madeWindow = 4 << 20
	// The old version is divided into blocks. minBlock is the smallest length of a block in
	// bytes, and maxBlocks is the largest number of blocks. The index takes 8 to 16 bytes
	// for each block, so at most 32 MiB.
	minBlock  = 32
	maxBlocks = 2 << 20
	// MaxVCDIFF is the maximum length, in bytes, of the versions for which VCDIFF patches
	// are made and applied. Addresses then fit into the 32 bits that xdelta3 has for them.
	MaxVCDIFF = 1 << 30
)

// ErrUnpaid is the error of MakeVCDIFF for a patch that would be longer than the limit.
var ErrUnpaid = errors.New("the patch exceeds the allowed length")

// MakeVCDIFF writes a VCDIFF patch (RFC 3284) that turns the old version into the new
// one. It reads the old version, which has length bytes, from base, and the new version
// from target. It returns the length of the patch. If this length would exceed limit, it
// stops and returns ErrUnpaid. The patch has the default code table, no secondary
// compression and no extension. Memory is bounded: 32 MiB for an index of the old
// version, 4 MiB for a window of the new one, and the instructions for that window.
//
// The old version is divided into blocks of at least 32 bytes, whose hashes are indexed.
// A rolling hash finds equal blocks anywhere in the new version. Each match is verified
// and extended in both directions.
func MakeVCDIFF(ctx context.Context, base io.ReaderAt, length int64, target io.Reader, patch io.Writer, limit int64) (made int64, err error) {
	if length > MaxVCDIFF {
		return 0, fmt.Errorf("%w: expected an old version of at most %d bytes", ErrBounds, int64(MaxVCDIFF))
	}
	e := &vcdEncoder{base: pages{r: base, length: length}}
	if err := e.indexBlocks(ctx); err != nil {
		return 0, fmt.Errorf("reading the old version: %w", err)
	}
	window := make([]byte, madeWindow)
	text := append(bytes.Clone(vcdMagic), 0)
	for {
		if made+int64(len(text)) > limit {
			return made, ErrUnpaid
		}
		n, err := patch.Write(text)
		made += int64(n)
		if err != nil {
			return made, err
		}
		if err := ctx.Err(); err != nil {
			return made, err
		}
		n, err = io.ReadFull(target, window)
		if n == 0 && errors.Is(err, io.EOF) {
			return made, nil
		}
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return made, fmt.Errorf("reading the new version: %w", err)
		}
		if text, err = e.encodeWindow(window[:n]); err != nil {
			return made, fmt.Errorf("reading the old version: %w", err)
		}
	}
}

// vcdEncoder finds parts of the new version that also occur in the old one.
type vcdEncoder struct {
	base   pages
	block  int      // length of a block in bytes
	power  uint64   // factor to the power of block; removes the byte before the block from the rolling hash
	shift  int      // number of bits by which a hash is shifted right to get the index in table
	table  []uint64 // the hash table: each element contains the upper half of a hash, and 1 plus the number of the block with that hash; a free element is 0
	pieces []piece  // the instructions for the window that is being encoded
}

// piece is the encoding of a part of a window: some bytes to add, followed by some bytes to
// copy from the old version.
type piece struct {
	add  int // number of bytes to add, which follow those of the previous piece
	from int64
	size int
}

// factor is the multiplier of the rolling hash. mixer multiplies the hash to spread its bits
// before it becomes an index.
const (
	factor = 0x9e3779b97f4a7c15 | 1
	mixer  = 0xd6e8feb86659fd93
)

// indexBlocks indexes the hashes of the blocks of the old version. It stores only the first of
// several equal blocks.
func (e *vcdEncoder) indexBlocks(ctx context.Context) error {
	e.block = minBlock
	for e.base.length/int64(e.block) >= maxBlocks {
		e.block *= 2
	}
	e.power = 1
	for range e.block {
		e.power *= factor
	}
	blocks := e.base.length / int64(e.block)
	width := bits.Len64(uint64(2*blocks) | 1)
	e.table, e.shift = make([]uint64, 1<<width), 64-width
	r := bufio.NewReaderSize(io.NewSectionReader(e.base.r, 0, e.base.length), 256<<10)
	text := make([]byte, e.block)
	for i := range blocks {
		if i%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if _, err := io.ReadFull(r, text); err != nil {
			return err
		}
		h := e.hash(text) * mixer
		if at, found := e.find(h); !found {
			e.table[at] = h>>32<<32 | uint64(i+1)
		}
	}
	return nil
}

func (e *vcdEncoder) hash(block []byte) (h uint64) {
	for _, b := range block {
		h = h*factor + uint64(b) + 1
	}
	return h
}

// find returns the index in the hash table at which the hash is stored. If it is not stored, find
// returns the index for storing it, and false.
func (e *vcdEncoder) find(h uint64) (at int, found bool) {
	for at = int(h >> e.shift); e.table[at] != 0; at = (at + 1) & (len(e.table) - 1) {
		if e.table[at]>>32 == h>>32 {
			return at, true
		}
	}
	return at, false
}

func (e *vcdEncoder) encodeWindow(target []byte) ([]byte, error) {
	if err := e.setPieces(target); err != nil {
		return nil, err
	}
	low, high := int64(0), int64(0) // the bounds of the segment of the old version from which the window copies bytes
	for _, p := range e.pieces {
		if p.size == 0 {
			continue
		}
		if high == 0 {
			low = p.from
		}
		low, high = min(low, p.from), max(high, p.from+int64(p.size))
	}
	var data, instructions, addresses []byte
	var cache addressCache
	at := 0
	for _, p := range e.pieces {
		if p.add > 0 {
			instructions = appendAdd(instructions, p.add)
			data = append(data, target[at:at+p.add]...)
			at += p.add
		}
		if p.size > 0 {
			var mode byte
			addresses, mode = cache.appendAddress(addresses, p.from-low, high-low+int64(at))
			instructions = appendCopy(instructions, p.size, mode)
			at += p.size
		}
	}
	delta := appendInt(nil, int64(len(target)))
	delta = append(delta, 0)
	for _, s := range [][]byte{data, instructions, addresses} {
		delta = appendInt(delta, int64(len(s)))
	}
	text := []byte{0}
	if high > 0 {
		text[0] = vcdSource
		text = appendInt(appendInt(text, high-low), low)
	}
	text = appendInt(text, int64(len(delta)+len(data)+len(instructions)+len(addresses)))
	return bytes.Join([][]byte{text, delta, data, instructions, addresses}, nil), nil
}

func (e *vcdEncoder) setPieces(target []byte) error {
	e.pieces = e.pieces[:0]
	begin, end := 0, e.block // begin: start of the bytes that have no instruction yet; end: end of the block whose hash is looked up
	if end > len(target) {
		e.pieces = append(e.pieces, piece{add: len(target)})
		return nil
	}
	for h := e.hash(target[:end]); ; end++ {
		if at, found := e.find(h * mixer); found {
			p, err := e.extend(target, begin, end-e.block, int64(uint32(e.table[at])-1)*int64(e.block))
			if err != nil {
				return err
			}
			if p.size >= e.block {
				e.pieces = append(e.pieces, p)
				begin += p.add + p.size
				if end = begin + e.block; end > len(target) {
					break
				}
				h = e.hash(target[begin:end])
				end--
				continue
			}
		}
		if end == len(target) {
			break
		}
		h = h*factor + uint64(target[end]) + 1 - e.power*(uint64(target[end-e.block])+1)
	}
	if begin < len(target) {
		e.pieces = append(e.pieces, piece{add: len(target) - begin})
	}
	return nil
}

// extend makes a match of two blocks longer in both directions, as far as the versions are
// equal. It returns an instruction that first adds the bytes of the window between begin
// and the match, and then copies the match.
func (e *vcdEncoder) extend(target []byte, begin, at int, from int64) (piece, error) {
	size, err := e.base.countEqual(target[at:], from)
	if err != nil || size == 0 {
		return piece{}, err
	}
	for at > begin && from > 0 {
		b, err := e.base.byteAt(from - 1)
		if err != nil {
			return piece{}, err
		}
		if b != target[at-1] {
			break
		}
		at, from, size = at-1, from-1, size+1
	}
	return piece{add: at - begin, from: from, size: size}, nil
}

// appendInt appends an integer (RFC 3284 §2).
func appendInt(text []byte, n int64) []byte {
	for shift := (bits.Len64(uint64(n)|1) - 1) / 7 * 7; shift > 0; shift -= 7 {
		text = append(text, byte(n>>shift)|0x80)
	}
	return append(text, byte(n)&0x7f)
}

// appendAdd appends the instruction to add bytes (RFC 3284 §5.6).
func appendAdd(text []byte, size int) []byte {
	if size <= 17 {
		return append(text, byte(1+size))
	}
	return appendInt(append(text, 1), int64(size))
}

// appendCopy appends the instruction to copy bytes (RFC 3284 §5.6).
func appendCopy(text []byte, size int, mode byte) []byte {
	code := 19 + 16*mode
	if size >= 4 && size <= 18 {
		return append(text, code+byte(size-3))
	}
	return appendInt(append(text, code), int64(size))
}

// appendAddress encodes an address in the mode that takes the fewest bytes, and returns
// that mode.
func (c *addressCache) appendAddress(text []byte, address, here int64) ([]byte, byte) {
	defer c.update(address)
	if at := address % int64(len(c.same)); c.same[at] == address {
		return append(text, byte(at%256)), firstSame + byte(at/256)
	}
	best, mode := address, byte(modeSelf)
	if d := here - address; d < best {
		best, mode = d, modeHere
	}
	for i, near := range c.near {
		if d := address - near; d >= 0 && d < best {
			best, mode = d, firstNear+byte(i)
		}
	}
	return appendInt(text, best), mode
}

const (
	pageSize  = 16 << 10
	pageCount = 256
)

// pages reads an old version at any offset, and caches pageCount pages.
type pages struct {
	r      io.ReaderAt
	length int64
	cached [pageCount]struct {
		number int64 // number of the cached page plus 1; 0 if no page is cached
		text   []byte
	}
}

// page returns the bytes from an offset to the end of the page that contains the offset. At
// the end of the version it returns no bytes.
func (p *pages) page(at int64) ([]byte, error) {
	if at >= p.length {
		return nil, nil
	}
	number := at / pageSize
	cached := &p.cached[number%pageCount]
	if cached.number != number+1 {
		begin := number * pageSize
		if cached.text == nil {
			cached.text = make([]byte, pageSize)
		}
		cached.number, cached.text = 0, cached.text[:min(pageSize, p.length-begin)]
		if n, err := p.r.ReadAt(cached.text, begin); n < len(cached.text) {
			return nil, err
		}
		cached.number = number + 1
	}
	return cached.text[at%pageSize:], nil
}

func (p *pages) byteAt(at int64) (byte, error) {
	text, err := p.page(at)
	if err != nil {
		return 0, err
	}
	return text[0], nil
}

// countEqual returns how many bytes at the start of a text equal those of the version at an
// offset.
func (p *pages) countEqual(text []byte, at int64) (n int, err error) {
	for n < len(text) {
		page, err := p.page(at + int64(n))
		if err != nil || len(page) == 0 {
			return n, err
		}
		page = page[:min(len(page), len(text)-n)]
		same := commonPrefix(page, text[n:])
		if n += same; same < len(page) {
			break
		}
	}
	return n, nil
}

func commonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	if bytes.Equal(a[:n], b[:n]) {
		return n
	}
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
