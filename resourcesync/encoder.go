package resourcesync

import (
	"errors"
	"fmt"
	"io"
)

// The largest document that the standard allows (1.1 §7): a decoder takes more,
// an encoder does not write it.
const (
	MaxEntries = 50_000
	MaxBytes   = 50_000_000
)

// ErrFull says that an entry would take a document over its limits: 50,000
// entries or 50,000,000 bytes (1.1 §7). Nothing was written and the document can
// be closed; the entry belongs into the next one.
var ErrFull = errors.New("document is full")

// Encoder writes one document as a stream, in constant memory. The same values
// give the same bytes. It writes what the standard allows and nothing else: a
// value that would make the document invalid is an error that names its field.
type Encoder struct {
	w          io.Writer
	out        builder
	header     Header
	plain      bool // a plain sitemap
	maxEntries int
	count      int
	written    int64 // bytes handed to w
	err        error // of w, or of use after Close
}

// EncoderOption is an option of NewEncoder.
type EncoderOption func(*Encoder)

// WithMaxEntries lowers the number of entries after which Encode returns ErrFull;
// what is not between 1 and [MaxEntries] is ignored.
func WithMaxEntries(n int) EncoderOption {
	return func(e *Encoder) {
		if n > 0 && n < e.maxEntries {
			e.maxEntries = n
		}
	}
}

const flushAt = 64 << 10

var errClosed = errors.New("encode entry: document is closed")

// NewEncoder begins a document with header h. A header with neither metadata nor
// links is that of a plain sitemap: then entries have no metadata and no links
// either. Bytes reach w by and by; all of them when Close has returned.
func NewEncoder(w io.Writer, h Header, opts ...EncoderOption) (*Encoder, error) {
	e := &Encoder{w: w, header: h, maxEntries: MaxEntries}
	for _, o := range opts {
		o(e)
	}
	e.plain = h.Metadata.isZero() && len(h.Links) == 0
	if err := e.out.header(&h, e.plain); err != nil {
		return nil, fmt.Errorf("encode header: %w", err)
	}
	return e, nil
}

// Encode writes an entry. It returns [ErrFull] if the document has no room for it,
// and an error that names the field if a value can't be written; in both cases
// nothing was written and the Encoder can go on.
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
	if e.Bytes() > MaxBytes {
		size := len(e.out.b) - start
		e.out.b = e.out.b[:start]
		if e.count == 0 {
			return fmt.Errorf("encode entry %q: its %d bytes fit into no document of %d", clip(en.Loc), size, MaxBytes)
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
	e.err = errClosed
	return nil
}

// Count returns the number of entries written.
func (e *Encoder) Count() int { return e.count }

// Bytes returns the size of the document, with its closing tag: what it will be if
// nothing more is written, what it is after Close.
func (e *Encoder) Bytes() int64 {
	n := e.written + int64(len(e.out.b))
	if e.err == errClosed {
		return n
	}
	return n + int64(len(closingTag(e.header.Root)))
}

func (e *Encoder) flush() error {
	n, err := e.w.Write(e.out.b)
	if err == nil && n < len(e.out.b) {
		err = io.ErrShortWrite
	}
	if err != nil {
		e.err = fmt.Errorf("write document: %w", err)
		return e.err
	}
	e.written += int64(n)
	e.out.b = e.out.b[:0]
	return nil
}

func closingTag(r Root) string {
	if r == SitemapIndex {
		return "</sitemapindex>\n"
	}
	return "</urlset>\n"
}
