package resourcesync

import (
	"fmt"
	"io"
	"strconv"
)

// MismatchError says that bytes are not the ones that a document describes.
type MismatchError struct {
	What string // "length", or the name of a hash algorithm
	Want string // what the document says
	Got  string // what came
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("%s differs: expected %s, got %s", e.What, e.Want, e.Got)
}

// NewVerifyReader returns a reader of r that fails with a [*MismatchError] in place
// of io.EOF unless the bytes read have the given length and all of the digests
// (1.1 §7). A length below 0 is unknown. No more than length bytes are delivered:
// it fails as soon as there are more. With neither length nor digests it is r.
func NewVerifyReader(r io.Reader, length int64, ds Digests) io.Reader {
	if length < 0 && len(ds) == 0 {
		return r
	}
	v := &verifyReader{r: r, length: length}
	var algs []Algorithm
	for _, d := range ds {
		if !d.IsZero() {
			v.want = append(v.want, d)
			algs = append(algs, d.Algorithm())
		}
	}
	v.hasher = NewHasher(algs...)
	return v
}

type verifyReader struct {
	r      io.Reader
	length int64 // -1 if unknown
	want   Digests
	hasher *Hasher
	n      int64
	err    error // what every further Read returns
}

func (v *verifyReader) Read(p []byte) (int, error) {
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

// expectEOF looks for a byte after the last one that was announced.
func (v *verifyReader) expectEOF() error {
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

// verdict is what the end of the bytes means: io.EOF if they are the right ones.
func (v *verifyReader) verdict() error {
	if v.length >= 0 && v.n != v.length {
		return &MismatchError{"length", strconv.FormatInt(v.length, 10), strconv.FormatInt(v.n, 10)}
	}
	for i, got := range v.hasher.Digests() {
		if got != v.want[i] {
			return &MismatchError{string(got.Algorithm()), v.want[i].String(), got.String()}
		}
	}
	return io.EOF
}
