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

// MaxResource is the maximum accepted size in bytes of a resource whose length is
// unknown (FAULTS §5).
const MaxResource = 10 << 30

// Slack is the number of bytes by which a body may exceed the listed length before the
// request fails with the error that the body is too large. For a body within this
// limit, the error says instead that its length is not the listed one.
const Slack = 64 << 10

// Most returns the maximum number of bytes to read from the body of a response for a
// resource.
func Most(w *harvest.Resource) int64 {
	if w.Length.Known() {
		return w.Length.Int64() + Slack
	}
	return MaxResource
}

// Request returns the request for the resource w.
func Request(w *harvest.Resource) fetch.Request {
	return fetch.Request{URL: w.URI, MaxBytes: Most(w), Resume: proof(w.Digests)}
}

// Plausible returns an error if the length or media type of a response shows that it is
// not the resource w. The body has not been read yet.
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

// isInstead reports whether the response is an HTML page although the Source lists
// another media type, and no digest could prove that the page is the resource. Such a
// page may be an error message or a login form.
func isInstead(w *harvest.Resource, resp *fetch.Response) bool {
	return len(w.Digests) == 0 && w.Type != "" && isPage(resp.ContentType) && !isPage(w.Type)
}

func isPage(mediaType string) bool {
	t, _, err := mime.ParseMediaType(mediaType)
	return err == nil && (t == "text/html" || strings.HasPrefix(t, "application/xhtml"))
}
