package destination

import (
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net/http"
	"strings"

	"instep/fetch"
	"instep/resourcesync"
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

// oddities counts the resources whose answers were not what a careful server sends: in
// a content coding that nobody asked for or announced, XML that is called a page, or with nothing
// that tells whether the bytes are the whole resource.
type oddities struct{ asSent, decoded, ranged, unended, pages sample }

// look notes what leaves in doubt whether an answer holds the whole of a resource that
// the Source gives no length and no digest of.
func (o *oddities) look(resp *fetch.Response, uri string) {
	switch {
	case resp.Status == http.StatusOK && resp.Header.Get("Content-Range") != "":
		o.ranged.add(uri)
	case resp.Endless:
		o.unended.add(uri)
	}
}

// tell reports what was odd, and which bytes are kept.
func (o *oddities) tell(d *Destination, set string) {
	const coded = "in a content coding nobody asked for"
	for _, k := range []struct {
		*sample
		quirk     resourcesync.Quirk
		came, now string
	}{
		{&o.asSent, resourcesync.QuirkContentCoding, coded, "kept as they were sent, which is what the list describes"},
		{&o.decoded, resourcesync.QuirkContentCoding, coded, "kept without it"},
		{&o.ranged, 0, "with status 200 and a Content-Range", "nothing proves that they are whole"},
		{&o.pages, 0, "as text/html and are listed as XML", "kept, as they have the length listed and are well-formed XML that is no page"},
		{&o.unended, 0, "without a length, ended by the end of the connection", "nothing proves that they are whole"},
	} {
		if k.n > 0 {
			d.quirk(k.quirk, set, fmt.Sprintf("%d resources came %s, such as %s: %s", k.n, k.came, k.first, k.now))
		}
	}
}
