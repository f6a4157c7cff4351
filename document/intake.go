package document

import (
	"errors"
	"fmt"
	"io"
)

// ErrNoHead means that the header of the document is longer than allowed. Such a
// response is an HTML page or an attack.
var ErrNoHead = errors.New("no header of a document")

// intake passes the bytes of a document to the decoder. It limits the length of the
// header, and then the length of the rest.
type intake struct {
	from        io.Reader
	limit       int64  // largest length in bytes of the header and, after the header was read, of the rest
	left        int64  // number of bytes that may still be read before limit is reached
	found       bool   // whether the header was read
	head        []byte // the first bytes of the body, at most the number in the field keep
	keep        int64
	transferErr error // error of reading the response
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
