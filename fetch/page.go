package fetch

import (
	"bytes"
	"net/http"
)

// PageHead is the number of bytes that IsPage and IsWall need from the beginning of a
// response.
const PageHead = 4 << 10

// IsPage reports whether a response that begins with head is an HTML page, regardless of
// its media type.
func IsPage(head []byte) bool {
	head = bytes.ToLower(bytes.TrimLeft(bytes.TrimPrefix(head[:min(len(head), 1<<10)], []byte("\xef\xbb\xbf")), " \t\r\n"))
	for _, begin := range []string{"<!doctype html", "<head", "<body", "<script", "<title"} {
		if bytes.HasPrefix(head, []byte(begin)) {
			return true
		}
	}
	return bytes.Contains(head, []byte("<html")) // a declaration or a comment may precede the html element
}

// wallSigns are words on the HTML pages that hosts send to blocked programs.
var wallSigns = []string{
	"just a moment", "captcha", "cf-challenge", "attention required", "access denied", "anubis", "are you a robot", "verify you are human",
}

// IsWall reports whether a host sent the HTML page that begins with head because it blocks
// programs. A later request, or a browser, may get the document instead.
func IsWall(head []byte) bool {
	lower := bytes.ToLower(head)
	for _, sign := range wallSigns {
		if bytes.Contains(lower, []byte(sign)) {
			return true
		}
	}
	return false
}

// Blocked returns the error for an HTML page that was sent with status 200 instead of a
// document. Its Kind is Temporary, because a later request may get the document.
func Blocked(uri string, head []byte) *Error {
	e := &Error{
		Op: "get", URL: uri, Kind: Temporary, Status: http.StatusOK, Page: true, Msg: "the server sent an HTML page instead of the document",
		Hint: "the site may block programs; ask its operator to allow this one",
	}
	if IsWall(head) {
		e.Page, e.Msg = false, "the server sent a page that blocks programs instead of the document"
	}
	return e
}
