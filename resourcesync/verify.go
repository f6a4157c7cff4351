package resourcesync

import (
	"fmt"
	"io"
	"slices"
	"strconv"
)

// MismatchError means that bytes differ from their description in a document.
type MismatchError struct {
	What string // "length", or the name of a hash algorithm
	Want string // the value that the document states
	Got  string // the value that the received bytes have
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("%s differs: expected %s, got %s", e.What, e.Want, e.Got)
}

// NewVerifyReader returns a reader of the bytes of r. At the end of r it returns a
// [*MismatchError] instead of io.EOF unless the bytes have the given length and all of
// the given digests (1.1 §7). A negative length means that the length is unknown. The
// reader returns at most length bytes, and an error if r has more. It also computes
// digests with the extra algorithms: see [VerifyReader.Digests].
func NewVerifyReader(r io.Reader, length int64, ds Digests, extra ...Algorithm) *VerifyReader {
	v := &VerifyReader{r: r, length: length}
	var algs []Algorithm
	for _, d := range ds {
		if !d.IsZero() {
			v.want = append(v.want, d)
			algs = append(algs, d.Algorithm())
		}
	}
	for _, a := range extra {
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
	err    error // the error that every further Read returns
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
	v.hasher.Write(p[:n]) // no error: a write to a Hasher never fails
	if err == io.EOF {
		err = v.verdict()
	}
	v.err = err
	return n, err
}

func (v *VerifyReader) expectEOF() error {
	var one [1]byte
	n, err := v.r.Read(one[:])
	switch {
	case n > 0:
		v.err = &MismatchError{"length", strconv.FormatInt(v.length, 10), "more"}
	case err == io.EOF:
		v.err = v.verdict()
	default:
		v.err = err // nil if v.r returned no byte and no error: then the next Read reads again
	}
	return v.err
}

// verdict returns io.EOF if all bytes match the stated length and digests. Otherwise it
// returns a MismatchError.
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
