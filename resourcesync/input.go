package resourcesync

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"unicode/utf8"
)

// window is the part of a document that is in the buffer of a scanner. The next bytes are
// buf[pos:end], which are valid UTF-8 and consist of characters that XML allows.
type window struct {
	src   io.Reader
	limit int64

	buf  []byte
	pos  int   // the index of the next byte to scan
	end  int   // the end of the bytes that were checked
	full int   // the end of the bytes that were read; buf[end:full] is an incomplete character
	base int64 // the offset of buf[0] in the document
	err  error // the error that ended the reading; io.EOF at the normal end of src

	counted   int   // the line feeds in buf[:counted] were counted
	line      int   // number, from 1, of the line that contains buf[counted]
	lineStart int64 // offset in the document of the start of this line
}

const firstBuffer = 32 << 10

var (
	errTooLarge = errors.New("the document is too large")
	errEndless  = errors.New("the compressed document is too large")
	errNotText  = errors.New("these bytes are not a character that XML allows, in the encoding of the document")
	errCutChar  = errors.New("the last character is incomplete")
)

// readMore appends bytes of the document to the unscanned bytes, buf[pos:end]. If there are
// no more, it stores the reason in the field err and returns false. Each call reads at
// least half as many bytes as are unscanned. So the total time is linear, even if the
// caller scans a long token from its start after each call.
func (w *window) readMore() bool {
	w.count(w.pos)
	w.full = copy(w.buf, w.buf[w.pos:w.full])
	w.end -= w.pos
	w.base += int64(w.pos)
	w.counted, w.pos = 0, 0
	for had := w.end; w.end == had; {
		if w.err != nil {
			return false
		}
		w.read()
	}
	return true
}

func (w *window) read() {
	kept := w.full
	if kept >= len(w.buf)/2 {
		w.buf = append(make([]byte, 0, max(firstBuffer, 2*len(w.buf))), w.buf[:kept]...)
		w.buf = w.buf[:cap(w.buf)]
	}
	room := w.buf[kept:]
	room = room[:min(int64(len(room)), w.limit+1-w.base-int64(kept))]
	if len(room) == 0 {
		w.err = errTooLarge
		return
	}
	n, err := io.ReadAtLeast(w.src, room, min(len(room), kept/2+1))
	if err == io.ErrUnexpectedEOF {
		err = nil // not reported yet: the next call of src.Read returns the cause
	}
	w.full += n
	w.check(err)
}

// check moves the field end behind the valid bytes. If the document ends there, it
// stores the reason in the field err.
func (w *window) check(readErr error) {
	n, ok := validText(w.buf[w.end:w.full])
	w.end += n
	switch {
	case !ok:
		w.err = errNotText
	case w.base+int64(w.end) > w.limit:
		w.end = int(w.limit - w.base)
		w.err = errTooLarge
	case readErr != nil && readErr != io.EOF:
		w.err = readErr
	case readErr == io.EOF && w.end < w.full:
		w.err = errCutChar
	case readErr == io.EOF:
		w.err = io.EOF
	}
}

// count sets the fields line, lineStart and counted for the position of buf[i].
func (w *window) count(i int) {
	if i <= w.counted {
		return
	}
	seg := w.buf[w.counted:i]
	if n := bytes.Count(seg, newline); n > 0 {
		w.line += n
		w.lineStart = w.base + int64(w.counted+bytes.LastIndexByte(seg, '\n')+1)
	}
	w.counted = i
}

var newline = []byte{'\n'}

// validText returns the length of the longest prefix of b that is valid UTF-8 and
// consists of characters that XML allows (XML 1.0 §2.2). ok is false if an invalid
// character follows. An incomplete character at the end of b is allowed.
func validText(b []byte) (n int, ok bool) {
	i := 0
	for i < len(b) {
		i += plainLines(b[i:])
		for odd := min(i+32, len(b)); i < odd; {
			if c := b[i]; c < utf8.RuneSelf {
				if c < ' ' && !isSpace(c) {
					return i, false
				}
				i++
				continue
			}
			r, size := utf8.DecodeRune(b[i:])
			if r == utf8.RuneError && size == 1 {
				return i, !utf8.FullRune(b[i:])
			}
			if r == 0xFFFE || r == 0xFFFF {
				return i, false
			}
			i += size
		}
	}
	return i, true
}

// open detects the compression and encoding of a document by its first bytes. It returns a
// reader of the text as UTF-8, the encoding, and whether the document was compressed.
//
// The reader reads at most about 2 * limit bytes of r, because a text of limit bytes in
// UTF-8 may take 2 * limit bytes in UTF-16. So it also ends for endless compressed data
// that decompresses to almost nothing.
func open(r io.Reader, limit int64) (text io.Reader, encoding string, packed bool, err error) {
	const spare = 64 << 10
	br := bufio.NewReaderSize(&steadyReader{r, 2*min(limit, math.MaxInt64/4) + spare}, 4096)
	head, err := br.Peek(2)
	if bytes.HasPrefix(head, gzipMagic) {
		zr, err := gzip.NewReader(br)
		if err != nil {
			return nil, "", true, gzipError(err)
		}
		packed = true
		br = bufio.NewReaderSize(gzipReader{zr}, 4096)
		if head, _ = br.Peek(2); bytes.HasPrefix(head, gzipMagic) {
			return nil, "", true, &DecodeError{Kind: NotResourceSync, Msg: "the document is compressed with gzip twice; expected at most once"}
		}
	} else if len(head) == 0 && err != io.EOF {
		return nil, "", false, err
	}
	text, encoding, err = decodeText(br)
	return text, encoding, packed, err
}

// steadyReader returns an error if the reader r repeatedly returns no bytes, or returns
// too many bytes in total.
type steadyReader struct {
	r     io.Reader
	limit int64 // number of bytes that may still be read
}

func (s *steadyReader) Read(p []byte) (int, error) {
	for range 100 {
		n, err := s.r.Read(p)
		if s.limit -= int64(n); s.limit < 0 {
			return 0, errEndless
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
	return 0, io.ErrNoProgress
}

var gzipMagic = []byte{0x1f, 0x8b}

// gzipReader adds the word gzip to the errors of a gzip.Reader.
type gzipReader struct{ r io.Reader }

func (g gzipReader) Read(p []byte) (int, error) {
	n, err := g.r.Read(p)
	if err != nil && err != io.EOF && err != errEndless {
		err = gzipError(err)
	}
	return n, err
}

func gzipError(err error) error { return fmt.Errorf("decompress gzip: %w", err) }
