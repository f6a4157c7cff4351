package lint

import (
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

// mostBody is the largest number of bytes of a resource that are read.
const mostBody = 1 << 30

// fetched is a resource as the server sent it.
type fetched struct {
	header http.Header
	length int64  // Content-Length; -1 if the response has none
	coding string // content coding, "" if it has none

	read    bool // the body was read
	served  bytesSeen
	decoded bytesSeen // the decoded bytes; equal to served if there is no coding
	opaque  bool      // the bytes could not be decoded
}

// bytesSeen holds the length and digests of the bytes that passed.
type bytesSeen struct {
	n       int64
	sum     [sha256.Size]byte
	digests resourcesync.Digests
}

// counting is a writer that computes bytesSeen.
type counting struct {
	n      int64
	sum    hash.Hash
	hasher *resourcesync.Hasher
}

func newCounting(algs []resourcesync.Algorithm) *counting {
	return &counting{sum: sha256.New(), hasher: resourcesync.NewHasher(algs...)}
}

func (c *counting) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	c.sum.Write(p)
	return c.hasher.Write(p)
}

func (c *counting) seen() bytesSeen {
	return bytesSeen{c.n, [sha256.Size]byte(c.sum.Sum(nil)), c.hasher.Digests()}
}

// get requests a resource. It reads and hashes the body, with the algorithms of want,
// if body is set or the header lacks the length.
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
	return f, f.take(resp.Body, algs)
}

// take reads the body. It returns errors of the transfer.
func (f *fetched) take(body io.Reader, algs []resourcesync.Algorithm) error {
	served := newCounting(algs)
	wire := &wireReader{r: io.TeeReader(body, served)}
	if f.coding != "" {
		decoded := newCounting(algs)
		src, err := decode(f.coding, wire)
		if err == nil {
			_, err = io.Copy(decoded, io.LimitReader(src, mostBody))
		}
		f.decoded, f.opaque = decoded.seen(), err != nil
	}
	if _, err := io.Copy(io.Discard, wire); err != nil && wire.err == nil {
		return err
	}
	f.served = served.seen()
	if f.coding == "" {
		f.decoded = f.served
	}
	return wire.err
}

// wireReader remembers an error of the transfer.
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

var errCoding = errors.New("a content coding that is not read here")

func decode(coding string, body io.Reader) (io.Reader, error) {
	switch coding {
	case "gzip", "x-gzip":
		return gzip.NewReader(body)
	case "deflate":
		return zlib.NewReader(body)
	}
	return nil, errCoding
}

// holds reports whether all digests match the bytes.
func (b *bytesSeen) holds(want resourcesync.Digests) bool {
	for _, d := range want {
		if !d.IsZero() && b.digests.Get(d.Algorithm()) != d {
			return false
		}
	}
	return true
}

// describes reports whether length and digests match the bytes.
func (b *bytesSeen) describes(length resourcesync.Length, want resourcesync.Digests) bool {
	return (!length.Known() || length.Int64() == b.n) && b.holds(want)
}
