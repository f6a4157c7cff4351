package fetch

import (
	"bytes"
	"net/http"
)

// PageHead is the number of bytes at the start of a response that IsPage needs.
const PageHead = 4 << 10

// IsPage reports whether a response that begins with head is an HTML page, whatever its
// media type.
func IsPage(head []byte) bool {
	head = bytes.ToLower(bytes.TrimLeft(bytes.TrimPrefix(head[:min(len(head), 1<<10)], []byte("\xef\xbb\xbf")), " \t\r\n"))
	for _, begin := range []string{"<!doctype html", "<head", "<body", "<script", "<title"} {
		if bytes.HasPrefix(head, []byte(begin)) {
			return true
		}
	}
	return bytes.Contains(head, []byte("<html")) // the element may come after a declaration or a comment
}

// wallSigns are words on pages with which hosts block programs.
var wallSigns = []string{
	"just a moment", "captcha", "cf-challenge", "attention required", "access denied", "anubis", "are you a robot", "verify you are human",
}

// IsWall reports whether a page that begins with head is a bot wall: the document
// behind it may be available later, or to a browser.
func IsWall(head []byte) bool {
	lower := bytes.ToLower(head)
	for _, sign := range wallSigns {
		if bytes.Contains(lower, []byte(sign)) {
			return true
		}
	}
	return false
}

// Blocked returns the error for a page with status 200 that was served instead of a
// document. Its Kind is Temporary, as for a host that is too busy: the Source may serve
// the document at another time.
func Blocked(uri string, head []byte) *Error {
	e := &Error{
		Op: "get", URL: uri, Kind: Temporary, Status: http.StatusOK, Msg: "a page for people answered, not the document",
		Hint: "the site may block programs; ask its operator to let this one in",
	}
	if IsWall(head) {
		e.Msg = "a page that keeps programs out answered, not the document"
	}
	return e
}
