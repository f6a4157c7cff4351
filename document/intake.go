package document

import (
	"errors"
	"fmt"
	"io"
)

// ErrNoHead means that there is no document header within the allowed number of bytes:
// the response is an HTML page or an attack.
var ErrNoHead = errors.New("no header of a document")

// intake passes the bytes of a document to the decoder. It returns an error if the text
// before the header, or after it, is too long.
type intake struct {
	from        io.Reader
	limit       int64 // largest number of bytes, first up to the header and then after it
	left        int64 // number of bytes that may still be read
	found       bool
	head        []byte // the start of the body up to the rs:md of the document, or all that was read if there is none
	keep        int64  // largest length of head
	transferErr error  // error of reading the response
}

func (in *intake) Read(p []byte) (int, error) {
	switch {
	case in.left < 0 && in.found:
		return 0, fmt.Errorf("the document is longer than the %d MiB that are allowed", in.limit>>20)
	case in.left < 0:
		return 0, fmt.Errorf("%w in the first %d KiB", ErrNoHead, in.limit>>10)
	}
	n, err := in.from.Read(p)
	in.left -= int64(n)
	if room := in.keep - int64(len(in.head)); room > 0 {
		in.head = append(in.head, p[:min(int64(n), room)]...)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		in.transferErr = err
	}
	return n, err
}
