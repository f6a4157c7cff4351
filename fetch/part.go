package fetch

import (
	"fmt"
	"math"
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// Part is a range of the bytes of a resource.
type Part struct {
	From, Length int64 // offset and number of the bytes; Length 0 means all bytes up to the end, and From -1 the last Length bytes
	// IfRange is the strong ETag of the version from which the bytes must come. A server
	// that has another version sends all its bytes. With ResumeVerified, IfRange may
	// also be a Last-Modified time, although two versions can have the same time.
	IfRange string
}

// Strong returns the ETag if it is strong, otherwise "". Only a strong ETag proves that
// the bytes of two responses belong to the same version (RFC 9110 §8.8.3, §13.1.5).
func (v Validators) Strong() string {
	if isStrong(v.ETag) {
		return v.ETag
	}
	return ""
}

func isStrong(tag string) bool {
	return len(tag) >= 2 && tag[0] == '"' && tag[len(tag)-1] == '"'
}

// header returns the value of the Range header field. It returns an error if the Part
// cannot be requested.
func (p *Part) header(how Resume) (string, error) {
	switch {
	case p.Length < 0, p.From < -1, p.From == -1 && p.Length == 0, p.From > math.MaxInt64-p.Length:
		return "", fmt.Errorf("a range of %d bytes at offset %d cannot be requested", p.Length, p.From)
	case p.IfRange != "" && !isStrong(p.IfRange) && (how != ResumeVerified || !isTime(p.IfRange)):
		return "", fmt.Errorf("the validator %q does not distinguish two versions", p.IfRange)
	case p.From == -1:
		return fmt.Sprintf("bytes=-%d", p.Length), nil
	case p.Length == 0:
		return fmt.Sprintf("bytes=%d-", p.From), nil
	}
	return fmt.Sprintf("bytes=%d-%d", p.From, p.From+p.Length-1), nil
}

func isTime(s string) bool {
	_, err := http.ParseTime(s)
	return err == nil
}

type byteRange struct {
	first, length int64 // offset and number of the bytes; a length of -1 is unknown
	total         int64 // length of the whole resource in bytes; -1 if the response does not state it
}

func wholeRange(resp *http.Response) byteRange {
	return byteRange{0, resp.ContentLength, resp.ContentLength}
}

// check returns the range of a response with status 206. It returns an error unless the
// response has exactly the requested range of the requested version.
func (p *Part) check(resp *http.Response) (byteRange, error) {
	if t, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err == nil && t == "multipart/byteranges" {
		return byteRange{}, fmt.Errorf("expected one range of bytes, got several (multipart/byteranges)")
	}
	field := resp.Header.Get("Content-Range")
	first, last, total, ok := parseContentRange(field)
	if !ok {
		return byteRange{}, fmt.Errorf("expected a Content-Range, got %q", shorten(field))
	}
	if want, ok := p.rangeIn(total); !ok || first != want.first || (want.length >= 0 && last-first+1 != want.length) {
		return byteRange{}, fmt.Errorf("expected %s, got the bytes %q", p, shorten(field))
	}
	if n := resp.ContentLength; n >= 0 && n != last-first+1 {
		return byteRange{}, fmt.Errorf("expected %d bytes according to the Content-Range %q, got %d", last-first+1, shorten(field), n)
	}
	if err := p.checkVersion(resp); err != nil {
		return byteRange{}, err
	}
	return byteRange{first, last - first + 1, total}, nil
}

// checkVersion returns an error if the range belongs to another version than the
// requested one. A response to If-Range must have an ETag (RFC 9110 §15.3.7): without an
// ETag, the server may have ignored If-Range.
func (p *Part) checkVersion(resp *http.Response) error {
	tag, when := resp.Header.Get("Etag"), resp.Header.Get("Last-Modified")
	switch {
	case isStrong(p.IfRange) && tag != p.IfRange:
		return fmt.Errorf("expected bytes of the version with the ETag %s, got bytes of the version with the ETag %q", p.IfRange, shorten(tag))
	case isTime(p.IfRange) && when != "" && when != p.IfRange:
		return fmt.Errorf("expected bytes of the version with the Last-Modified %q, got bytes of the version with the Last-Modified %q", p.IfRange, shorten(when))
	}
	return nil
}

// rangeIn returns the requested range of a resource with the given length, which is -1 if
// unknown. It returns false if the resource has no such range.
func (p *Part) rangeIn(total int64) (byteRange, bool) {
	s := byteRange{p.From, p.Length, total}
	if p.From == -1 {
		s.first = max(total-p.Length, 0)
	}
	switch {
	case total >= 0 && p.Length == 0:
		s.length = total - s.first
	case total >= 0:
		s.length = min(p.Length, total-s.first)
	case p.From == -1:
		return s, false
	case p.Length == 0:
		s.length = -1
	}
	return s, true
}

func (p *Part) String() string {
	switch {
	case p.From == -1:
		return fmt.Sprintf("the last %d bytes", p.Length)
	case p.Length == 0:
		return fmt.Sprintf("the bytes from offset %d to the end", p.From)
	}
	return fmt.Sprintf("the bytes %d-%d", p.From, p.From+p.Length-1)
}

// parseContentRange parses "bytes first-last/total" (RFC 9110 §14.4). For a total of "*" it
// returns -1.
func parseContentRange(s string) (first, last, total int64, ok bool) {
	s, ok = strings.CutPrefix(s, "bytes ")
	span, size, ok1 := strings.Cut(s, "/")
	a, b, ok2 := strings.Cut(span, "-")
	first, ok3 := digits(a)
	last, ok4 := digits(b)
	total, ok5 := int64(-1), true
	if size != "*" {
		total, ok5 = digits(size)
	}
	ok = ok && ok1 && ok2 && ok3 && ok4 && ok5 && first <= last && last < math.MaxInt64 && (total < 0 || last < total)
	return first, last, total, ok
}

func digits(s string) (int64, bool) {
	n, err := strconv.ParseUint(s, 10, 63) // ParseUint does not accept a sign, unlike ParseInt
	return int64(n), err == nil
}
