package transfer

import (
	"fmt"
	"mime"
	"strconv"
	"strings"

	"instep/fetch"
	"instep/harvest"
	"instep/resourcesync"
)

// MaxResource is the largest accepted size of a resource of unknown length, in bytes
// (FAULTS §5).
const MaxResource = 10 << 30

// Slack is the number of bytes that are read beyond the listed length, so that an error
// can describe a body that is too long.
const Slack = 64 << 10

// Most returns the largest accepted number of bytes of a body for w.
func Most(w *harvest.Resource) int64 {
	if w.Length.Known() {
		return w.Length.Int64() + Slack
	}
	return MaxResource
}

// Request returns the request for w.
func Request(w *harvest.Resource) fetch.Request {
	return fetch.Request{URL: w.URI, MaxBytes: Most(w), Resume: proof(w.Digests)}
}

// Plausible returns an error if the length or media type of a response shows, before its
// body is read, that it is not the resource.
func Plausible(w *harvest.Resource, resp *fetch.Response) error {
	if n := resp.ContentLength; n >= 0 && w.Length.Known() && n != w.Length.Int64() {
		return fmt.Errorf("%s: the server sends %d bytes: %w", w.URI, n,
			&resourcesync.MismatchError{What: "length", Want: strconv.FormatInt(w.Length.Int64(), 10), Got: strconv.FormatInt(n, 10)})
	}
	if isInstead(w, resp) {
		return fmt.Errorf("%s: the server sent a page of type %q instead of the listed type %q", w.URI, resp.ContentType, w.Type)
	}
	return nil
}

// isInstead reports whether the response is an HTML page, the listed resource is none,
// and no digest can decide whether the page is the resource.
func isInstead(w *harvest.Resource, resp *fetch.Response) bool {
	return len(w.Digests) == 0 && w.Type != "" && isPage(resp.ContentType) && !isPage(w.Type)
}

func isPage(mediaType string) bool {
	t, _, err := mime.ParseMediaType(mediaType)
	return err == nil && (t == "text/html" || strings.HasPrefix(t, "application/xhtml"))
}
