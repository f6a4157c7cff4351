package destination

import (
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"strings"

	"instep/transfer"
)

// decoder undoes a content coding (RFC 9110 §8.4.1). What comes out is bounded by the
// length given or, without one, by what a resource may have.
func decoder(coding string, body io.Reader) (io.Reader, error) {
	switch strings.ToLower(coding) {
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(body)
		return &atMost{z, transfer.MaxResource}, err
	case "deflate":
		z, err := zlib.NewReader(body)
		return &atMost{z, transfer.MaxResource}, err
	}
	return nil, fmt.Errorf("content coding %q: expected gzip or deflate", coding)
}

// atMost fails where more than n bytes come.
type atMost struct {
	r io.Reader
	n int64
}

func (a *atMost) Read(p []byte) (int, error) {
	n, err := a.r.Read(p)
	if a.n -= int64(n); a.n < 0 {
		return 0, fmt.Errorf("the decoded body is larger than the %d bytes allowed", int64(transfer.MaxResource))
	}
	return n, err
}
