package document

import (
	"errors"
	"fmt"
	"io"

	"instep/fetch"
)

// ErrNoHead is wrapped if the bytes in which the header of a document has to be have none: this is a
// page, or a bomb.
var ErrNoHead = errors.New("no header of a document")

// intake passes the bytes of a document to the decoder. It fails if the text before the
// header, or after it, is too long.
type intake struct {
	from   io.Reader
	most   int64 // bytes before the header, and then after it
	left   int64 // of them
	found  bool
	head   []byte // the bytes before the header was found, or those with which the document begins
	keep   int64  // bytes of head at most
	failed error  // of from
}

func (in *intake) Read(p []byte) (int, error) {
	switch {
	case in.left < 0 && in.found:
		return 0, fmt.Errorf("longer than the %d MiB allowed", in.most>>20)
	case in.left < 0:
		return 0, fmt.Errorf("%w in the first %d KiB", ErrNoHead, in.most>>10)
	}
	n, err := in.from.Read(p)
	in.left -= int64(n)
	if room := in.keep - int64(len(in.head)); room > 0 {
		in.head = append(in.head, p[:min(int64(n), room)]...)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		in.failed = err
	}
	return n, err
}

// headFound records that this is a document, and how many more bytes it may have.
func (in *intake) headFound(most int64) {
	in.found, in.most, in.left, in.keep = true, most, most, fetch.PageHead
}
