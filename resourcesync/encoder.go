package resourcesync

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

// Limits of a document in the standard (1.1 §7). A Decoder accepts documents beyond these
// limits, but an Encoder never writes such documents.
const (
	MaxEntries = 50_000
	MaxBytes   = 50_000_000
)

// ErrFull means that the entry would make the document exceed the limits of 50,000 entries
// or 50,000,000 bytes (1.1 §7). The entry was not written, and belongs in the next
// document. Without the entry, the document is valid and can be closed.
var ErrFull = errors.New("document is full")

// Encoder writes one document as a stream, in constant memory. The same values give the
// same bytes. It returns an [*EncodeError] for a value that cannot be written, and for an
// element that is missing or must not be in a document of this kind (1.1 §7 to §14). It
// does not compare entries with each other, for example their order, and does not check
// whether relation types are registered.
type Encoder struct {
	w          countingWriter
	zip        *gzip.Writer // compressor that writes to w; nil if the document is not compressed
	out        builder
	header     Header
	plain      bool // whether the document is a plain sitemap
	maxEntries int
	maxBytes   int64
	count      int
	flushed    int64 // number of bytes already passed to w
	err        error // error that further calls return: an error of w, or errClosed after Close
}

// EncoderOption is an option of [NewEncoder].
type EncoderOption func(*Encoder)

// WithMaxEntries lowers the number of entries after which Encode returns ErrFull. It
// ignores values outside 1 to [MaxEntries].
func WithMaxEntries(n int) EncoderOption {
	return func(e *Encoder) {
		if n > 0 && n < e.maxEntries {
			e.maxEntries = n
		}
	}
}

// WithGzip compresses the document. The gzip header has neither name nor time, so the same
// values still give the same bytes. The limits apply to the uncompressed document (1.1 §7).
func WithGzip() EncoderOption {
	return func(e *Encoder) { e.zip = gzip.NewWriter(&e.w) }
}

func withReserve(n int64) EncoderOption {
	return func(e *Encoder) { e.maxBytes -= n }
}

const flushAt = 64 << 10

var errClosed = errors.New("encode entry: the document is closed")

// NewEncoder begins a document with header h. If the header has neither metadata nor links,
// the document is a plain sitemap, and its entries must have neither metadata nor links.
// The Encoder buffers what it writes to w. Close writes the rest.
func NewEncoder(w io.Writer, h Header, opts ...EncoderOption) (*Encoder, error) {
	e := &Encoder{w: countingWriter{w: w}, header: h, maxEntries: MaxEntries, maxBytes: MaxBytes}
	for _, o := range opts {
		o(e)
	}
	e.plain = h.Metadata.isZero() && len(h.Links) == 0
	if err := e.out.header(&h, e.plain); err != nil {
		return nil, fmt.Errorf("encode header: %w", err)
	}
	return e, nil
}

// Encode writes an entry. It returns [ErrFull] if the document is full, and an
// [*EncodeError] if a value cannot be written. After either error, nothing of the entry
// was written, and the Encoder can still be used.
func (e *Encoder) Encode(en Entry) error {
	if e.err != nil {
		return e.err
	}
	if e.count >= e.maxEntries {
		return ErrFull
	}
	start := len(e.out.b)
	if err := e.out.entry(&en, e.header.Root, e.plain); err != nil {
		e.out.b = e.out.b[:start]
		return fmt.Errorf("encode entry %q: %w", clip(en.Loc), err)
	}
	if e.Bytes() > e.maxBytes {
		size := len(e.out.b) - start
		e.out.b = e.out.b[:start]
		if e.count == 0 {
			return fmt.Errorf("encode entry %q: the entry has %d bytes, which do not fit into a document of %d bytes", clip(en.Loc), size, MaxBytes)
		}
		return ErrFull
	}
	e.count++
	if len(e.out.b) >= flushAt {
		return e.flush()
	}
	return nil
}

// Close ends the document. It does not close w. The document is complete if and
// only if the error is nil.
func (e *Encoder) Close() error {
	if e.err != nil {
		return e.err
	}
	e.out.b = append(e.out.b, closingTag(e.header.Root)...)
	if err := e.flush(); err != nil {
		return err
	}
	if e.zip != nil {
		if err := e.zip.Close(); err != nil {
			e.err = fmt.Errorf("write document: %w", err)
			return e.err
		}
	}
	e.err = errClosed
	return nil
}

// Count returns the number of entries written.
func (e *Encoder) Count() int { return e.count }

// Bytes returns the uncompressed size of the document in bytes. The size includes the end
// tag of the document, even before Close has written it.
func (e *Encoder) Bytes() int64 {
	n := e.flushed + int64(len(e.out.b))
	if e.err == errClosed {
		return n
	}
	return n + int64(len(closingTag(e.header.Root)))
}

// Written returns the number of bytes written so far, after compression. After Close it is
// the stored size of the document.
func (e *Encoder) Written() int64 { return e.w.n }

func (e *Encoder) flush() error {
	var w io.Writer = &e.w
	if e.zip != nil {
		w = e.zip
	}
	if _, err := w.Write(e.out.b); err != nil {
		e.err = fmt.Errorf("write document: %w", err)
		return e.err
	}
	e.flushed += int64(len(e.out.b))
	e.out.b = e.out.b[:0]
	return nil
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return n, err
}

func closingTag(r Root) string {
	if r == SitemapIndex {
		return "</sitemapindex>\n"
	}
	return "</urlset>\n"
}
