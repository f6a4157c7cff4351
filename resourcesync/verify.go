package resourcesync

import (
	"fmt"
	"io"
	"slices"
	"strconv"
)

// MismatchError means that bytes differ from those that a document describes.
type MismatchError struct {
	What string // "length", or the name of a hash algorithm
	Want string // the value in the document
	Got  string // what came
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("%s differs: expected %s, got %s", e.What, e.Want, e.Got)
}

// NewVerifyReader returns a reader of r that returns a [*MismatchError] instead of
// io.EOF unless the bytes read have the given length and all of the digests (1.1 §7).
// A negative length is unknown. It never returns more than length bytes: it fails as
// soon as there are more. It can compute other digests as well: see
// [VerifyReader.Digests].
func NewVerifyReader(r io.Reader, length int64, ds Digests, also ...Algorithm) *VerifyReader {
	v := &VerifyReader{r: r, length: length}
	var algs []Algorithm
	for _, d := range ds {
		if !d.IsZero() {
			v.want = append(v.want, d)
			algs = append(algs, d.Algorithm())
		}
	}
	for _, a := range also {
		if !slices.Contains(algs, a) {
			algs = append(algs, a)
		}
	}
	v.hasher = NewHasher(algs...)
	return v
}

// VerifyReader is the result of [NewVerifyReader].
type VerifyReader struct {
	r      io.Reader
	length int64 // -1 if unknown
	want   Digests
	hasher *Hasher
	n      int64
	err    error // returned by every further Read
}

// Digests returns the digests of the bytes read so far, for all computed algorithms.
func (v *VerifyReader) Digests() Digests { return v.hasher.Digests() }

// Read implements io.Reader.
func (v *VerifyReader) Read(p []byte) (int, error) {
	if v.err != nil || len(p) == 0 {
		return 0, v.err
	}
	if v.length >= 0 && v.n == v.length {
		return 0, v.expectEOF()
	}
	if v.length >= 0 {
		p = p[:min(int64(len(p)), v.length-v.n)]
	}
	n, err := v.r.Read(p)
	v.n += int64(n)
	v.hasher.Write(p[:n]) // a Hasher never fails
	if err == io.EOF {
		err = v.verdict()
	}
	v.err = err
	return n, err
}

// expectEOF checks for a byte beyond the stated length. It returns a MismatchError if
// there is one, and the verdict at the end.
func (v *VerifyReader) expectEOF() error {
	var one [1]byte
	n, err := v.r.Read(one[:])
	switch {
	case n > 0:
		v.err = &MismatchError{"length", strconv.FormatInt(v.length, 10), "more"}
	case err == io.EOF:
		v.err = v.verdict()
	default:
		v.err = err // nil: a reader may return nothing once; the caller reads again
	}
	return v.err
}

// verdict returns io.EOF at the end of the bytes if they match, otherwise an error.
func (v *VerifyReader) verdict() error {
	if v.length >= 0 && v.n != v.length {
		return &MismatchError{"length", strconv.FormatInt(v.length, 10), strconv.FormatInt(v.n, 10)}
	}
	got := v.hasher.Digests()
	for i, want := range v.want {
		if got[i] != want {
			return &MismatchError{string(want.Algorithm()), want.String(), got[i].String()}
		}
	}
	return io.EOF
}
