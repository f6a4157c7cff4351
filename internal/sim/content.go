package sim

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// mix returns a number that looks random. It is the finaliser of splitmix64.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

const golden = 0x9e3779b97f4a7c15

// keyOf returns the number from which the content of a version is generated.
func keyOf(seed uint64, id, version uint32) uint64 {
	return mix(mix(seed+golden) ^ (uint64(id)<<32 | uint64(version)))
}

// content generates the bytes of a version when they are read, so that none are stored.
type content struct {
	key  uint64
	size int64
}

// word returns the 8 bytes at offset 8n of the content, which are lower-case letters.
func (c content) word(n int64) uint64 {
	const sixteen, a = 0x0f0f0f0f0f0f0f0f, 0x6161616161616161
	return mix(c.key+uint64(n)*golden)&sixteen + a
}

// ReadAt implements io.ReaderAt.
func (c content) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off >= c.size {
		return 0, io.EOF
	}
	n, short := len(p), false
	if left := c.size - off; int64(n) > left {
		n, short = int(left), true
	}
	c.fill(p[:n], off)
	if short {
		return n, io.EOF
	}
	return n, nil
}

func (c content) fill(p []byte, off int64) {
	var word [8]byte
	if from := off % 8; from != 0 {
		binary.LittleEndian.PutUint64(word[:], c.word(off/8))
		n := copy(p, word[from:])
		p, off = p[n:], off+int64(n)
	}
	for ; len(p) >= 8; p, off = p[8:], off+8 {
		binary.LittleEndian.PutUint64(p, c.word(off/8))
	}
	if len(p) > 0 {
		binary.LittleEndian.PutUint64(word[:], c.word(off/8))
		copy(p, word[:])
	}
}

func (c content) open() *io.SectionReader { return io.NewSectionReader(c, 0, c.size) }

func (c content) sum(buf []byte) (sum [sha256.Size]byte) {
	h := sha256.New()
	for off := int64(0); off < c.size; {
		p := buf[:min(int64(len(buf)), c.size-off)]
		c.fill(p, off)
		h.Write(p)
		off += int64(len(p))
	}
	h.Sum(sum[:0])
	return sum
}

// SizeKind is the kind of a statistical distribution of sizes.
type SizeKind string

// Values of SizeKind.
const (
	Fixed     SizeKind = "fixed"     // always Low bytes
	Uniform   SizeKind = "uniform"   // uniformly distributed between Low and High bytes
	LogNormal SizeKind = "lognormal" // lognormally distributed: Low is the median in bytes, and Sigma the standard deviation of the logarithm
)

// Size is the distribution of the sizes of versions. Two versions of a resource may have
// different sizes.
type Size struct {
	Kind      SizeKind
	Low, High int64
	Sigma     float64 // 0 means 1
}

const (
	minSize  = 1
	maxSize  = 1 << 30
	maxSigma = 5
)

func (s Size) check() error {
	switch {
	case s.Kind != Fixed && s.Kind != Uniform && s.Kind != LogNormal:
		return fmt.Errorf("size: expected fixed, uniform or lognormal, found %q", s.Kind)
	case s.Low < minSize || s.Low > maxSize:
		return fmt.Errorf("size: expected %d to %d bytes, found %d", minSize, maxSize, s.Low)
	case s.Kind == Uniform && (s.High < s.Low || s.High > maxSize):
		return fmt.Errorf("size: expected a largest size of %d to %d bytes, found %d", s.Low, maxSize, s.High)
	case s.Sigma < 0 || s.Sigma > maxSigma:
		return fmt.Errorf("size: expected a sigma of 0 to %d, found %g", maxSigma, s.Sigma)
	}
	return nil
}

func (s Size) of(key uint64) int64 {
	switch s.Kind {
	case Uniform:
		return s.Low + int64(mix(key^1)%uint64(s.High-s.Low+1))
	case LogNormal:
		sigma := s.Sigma
		if sigma == 0 {
			sigma = 1
		}
		normal := math.Sqrt(-2*math.Log(unit(mix(key^1)))) * math.Cos(2*math.Pi*unit(mix(key^2)))
		return int64(min(max(float64(s.Low)*math.Exp(sigma*normal), minSize), maxSize))
	}
	return s.Low
}

// unit maps a random number to a number greater than 0 and at most 1.
func unit(x uint64) float64 { return (float64(x>>11) + 1) / (1 << 53) }
