package lint

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"net/http"

	"instep/fetch"
	"instep/resourcesync"
)

// mostBody is the largest number of bytes that are read from the body of one response.
const mostBody = 1 << 30

type fetched struct {
	header http.Header
	length int64  // the value of Content-Length; -1 if the response has none
	coding string // the content coding of the response; "" if it has none

	read    bool       // whether the body of the response was read
	served  *bytesSeen // the bytes of the body as they were sent; nil if the body was not read
	decoded *bytesSeen // the bytes of the body after decoding the content coding
	opaque  bool       // whether the body could not be decoded
}

type bytesSeen struct {
	n      int64
	sum    hash.Hash // SHA-256
	hasher *resourcesync.Hasher
}

func newBytesSeen(algs []resourcesync.Algorithm) *bytesSeen {
	return &bytesSeen{sum: sha256.New(), hasher: resourcesync.NewHasher(algs...)}
}

func (b *bytesSeen) Write(p []byte) (int, error) {
	b.n += int64(len(p))
	b.sum.Write(p)
	return b.hasher.Write(p)
}

func (b *bytesSeen) equal(o *bytesSeen) bool { return bytes.Equal(b.sum.Sum(nil), o.sum.Sum(nil)) }

// get requests a resource. It reads the body if the parameter body is true, or if the
// response does not state the length. It computes the digests of the body that can be
// compared with want.
func (r *liveRun) get(ctx context.Context, uri, accept string, want resourcesync.Digests, body bool) (*fetched, error) {
	resp, err := r.l.Client.Get(ctx, fetch.Request{URL: uri, Accept: accept, MaxBytes: mostBody})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	f := &fetched{header: resp.Header, length: resp.ContentLength, coding: codingOf(resp.Header)}
	if !body && f.length >= 0 {
		return f, nil
	}
	var algs []resourcesync.Algorithm
	for _, d := range want {
		if !d.IsZero() {
			algs = append(algs, d.Algorithm())
		}
	}
	f.read = true
	return f, f.readBody(resp.Body, algs)
}

// readBody returns only errors of the transfer. After an error of decoding it sets opaque.
func (f *fetched) readBody(body io.Reader, algs []resourcesync.Algorithm) error {
	f.served = newBytesSeen(algs)
	f.decoded = f.served
	wire := &wireReader{r: io.TeeReader(body, f.served)}
	if f.coding != "" {
		f.decoded = newBytesSeen(algs)
		src, err := decode(f.coding, wire)
		if err == nil {
			_, err = io.Copy(f.decoded, io.LimitReader(src, mostBody))
		}
		f.opaque = err != nil
	}
	if _, err := io.Copy(io.Discard, wire); err != nil && wire.err == nil {
		return err
	}
	return wire.err
}

// wireReader remembers an error of the transfer, so that it can be distinguished from
// an error of decoding.
type wireReader struct {
	r   io.Reader
	err error
}

func (w *wireReader) Read(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	n, err := w.r.Read(p)
	if err != nil && err != io.EOF {
		w.err = err
	}
	return n, err
}

var errCoding = errors.New("the content coding is neither gzip nor deflate")

func decode(coding string, body io.Reader) (io.Reader, error) {
	switch coding {
	case "gzip", "x-gzip":
		return gzip.NewReader(body)
	case "deflate":
		return zlib.NewReader(body)
	}
	return nil, errCoding
}

// holds reports whether all given digests match the bytes.
func (b *bytesSeen) holds(want resourcesync.Digests) bool {
	got := b.hasher.Digests()
	for _, d := range want {
		if !d.IsZero() && got.Get(d.Algorithm()) != d {
			return false
		}
	}
	return true
}

// describes reports whether the given length and digests match the bytes.
func (b *bytesSeen) describes(length resourcesync.Length, want resourcesync.Digests) bool {
	return (!length.Known() || length.Int64() == b.n) && b.holds(want)
}
