package lint

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"instep/fetch"
)

func (r *liveRun) checkResponse(d *Document, a *Answer, head []byte) {
	packed := bytes.HasPrefix(head, []byte("\x1f\x8b"))
	contentType := a.Header.Get("Content-Type")
	t := essence(contentType)
	isGzip := packed && (t == "application/gzip" || t == "application/x-gzip")
	if packed && !isGzip && codingOf(a.Header) == "" {
		r.reportResponse("quirk-12-gzip-undeclared", "the body is compressed with gzip, and Content-Type is %q without Content-Encoding", contentType)
	}
	if !isGzip && !isXML(contentType) {
		r.reportResponse("quirk-13-media-type", "the document is served with Content-Type %q", contentType)
	}
	if isOpen(d) {
		if kept := freshness(a.Header, r.l.Now()); kept > 0 {
			r.reportResponse("quirk-36-stale-cache", "changes may still be added to this list, but caches may serve an old copy for %v: Cache-Control is %q, Expires %q",
				kept, strings.Join(a.Header.Values("Cache-Control"), ", "), a.Header.Get("Expires"))
		}
	}
	if v := a.Header.Get("Last-Modified"); v != "" {
		if _, err := http.ParseTime(v); err != nil {
			r.reportResponse("quirk-60-http-dates", "Last-Modified is %q, which is no HTTP date", v)
		}
	}
	if v := a.Header.Get("Etag"); v != "" && !isETag(v) {
		r.reportResponse("quirk-60-http-dates", "ETag is %q; expected it in quotes", v)
	}
}

func (r *liveRun) reportResponse(id, format string, args ...any) {
	if rule := r.active(id, r.kind); rule != nil {
		r.report(rule, Finding{Message: fmt.Sprintf(format, args...)})
	}
}

func isXML(contentType string) bool {
	t, params, err := mime.ParseMediaType(contentType)
	charset := params["charset"]
	return err == nil && t == "application/xml" && (charset == "" || strings.EqualFold(charset, "utf-8"))
}

func codingOf(h http.Header) string {
	c := strings.ToLower(strings.TrimSpace(h.Get("Content-Encoding")))
	if c == "identity" {
		return ""
	}
	return c
}

// isOpen reports whether changes may be added to the document later (1.1 §12.1).
func isOpen(d *Document) bool {
	kind := strings.TrimSuffix(d.Kind, "-index")
	return d.Complete && (kind == "changelist" || kind == "changedump") && d.Until.IsZero()
}

func isETag(v string) bool {
	v = strings.TrimPrefix(v, "W/")
	return len(v) > 1 && v[0] == '"' && v[len(v)-1] == '"'
}

// freshness returns the time for which caches may use the response without asking the
// server again (RFC 9111 §4.2.1).
func freshness(h http.Header, now time.Time) time.Duration {
	var age, shared time.Duration
	has := false
	for _, v := range h.Values("Cache-Control") {
		for directive := range strings.SplitSeq(v, ",") {
			name, value, _ := strings.Cut(strings.ToLower(strings.TrimSpace(directive)), "=")
			seconds, err := strconv.ParseInt(strings.Trim(value, `"`), 10, 32)
			switch {
			case name == "no-cache" || name == "no-store":
				return 0
			case name == "max-age" && err == nil:
				age, has = time.Duration(seconds)*time.Second, true
			case name == "s-maxage" && err == nil:
				shared, has = time.Duration(seconds)*time.Second, true
			}
		}
	}
	if has {
		return max(age, shared)
	}
	expires, err := http.ParseTime(h.Get("Expires"))
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return max(expires.Sub(now).Round(time.Second), 0)
}

// checkClosed requests a document again if it has the attribute "until", and makes a
// finding if its bytes differ, since a closed document must not change (1.1 §12.1).
func (r *liveRun) checkClosed(ctx context.Context, d *Document, open func() (io.ReadCloser, error)) error {
	rule := r.active("until-closes-document", r.kind)
	if rule == nil || d.Until.IsZero() {
		return nil
	}
	src, err := open()
	if err != nil {
		return err
	}
	defer src.Close()
	first, err := sumOf(newInput(ctx, src))
	if err != nil {
		return err
	}
	resp, err := r.l.Client.Document(ctx, r.uri, 0, fetch.Validators{})
	if err != nil {
		return r.unreached(ctx, r.uri, Finding{}, err)
	}
	defer resp.Body.Close()
	again, err := sumOf(resp.Body)
	if err != nil {
		return r.unreached(ctx, r.uri, Finding{}, err)
	}
	if first != again {
		r.report(rule, Finding{Line: r.seen.Line, Column: r.seen.Column, Message: fmt.Sprintf(
			"until=%q closes the document, but its bytes had changed when it was fetched again", d.Until)})
	}
	return nil
}

// sumOf returns the digest of the decompressed document, since the compressed bytes may
// differ in each response.
func sumOf(src io.Reader) (sum [sha256.Size]byte, err error) {
	h := sha256.New()
	head := make([]byte, 2)
	n, err := io.ReadFull(src, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return sum, err
	}
	src = io.MultiReader(bytes.NewReader(head[:n]), src)
	if string(head[:n]) == "\x1f\x8b" {
		if src, err = gzip.NewReader(src); err != nil {
			return sum, err
		}
	}
	_, err = io.Copy(h, io.LimitReader(src, mostBody))
	return [sha256.Size]byte(h.Sum(nil)), err
}
