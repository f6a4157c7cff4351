package destination

import (
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"strings"
	"sync"

	"instep/resourcesync"
)

// decoder undoes a content coding (RFC 9110 §8.4.1). What comes out is bounded by the
// length given or, without one, by what a resource may have.
func decoder(coding string, body io.Reader) (io.Reader, error) {
	switch strings.ToLower(coding) {
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(body)
		return &atMost{z, maxResource}, err
	case "deflate":
		z, err := zlib.NewReader(body)
		return &atMost{z, maxResource}, err
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
		return 0, fmt.Errorf("the decoded body is larger than the %d bytes allowed", int64(maxResource))
	}
	return n, err
}

// codings counts the resources that were sent in a content coding although none was
// asked for or announced.
type codings struct {
	mu              sync.Mutex
	asSent, decoded coded
}

// coded counts resources; first is the URI of the first of them.
type coded struct {
	n     int
	first string
}

func (c *codings) note(which *coded, uri string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if which.n == 0 {
		which.first = uri
	}
	which.n++
}

// tell reports which bytes are kept.
func (c *codings) tell(d *Destination, set string) {
	for _, k := range []struct {
		coded
		how string
	}{{c.asSent, "as they were sent"}, {c.decoded, "without it, which is what the list describes"}} {
		if k.n > 0 {
			d.quirk(resourcesync.QuirkContentCoding, set, fmt.Sprintf("%d resources came in a content coding nobody asked for, such as %s: kept %s", k.n, k.first, k.how))
		}
	}
}
