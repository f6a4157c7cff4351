package fetch

import (
	"fmt"
	"strings"
	"time"
)

// Kind is a class of failed requests. A Kind is itself an error, so that callers can use
// errors.Is(err, fetch.NotFound).
type Kind uint8

// Values of Kind.
const (
	Temporary Kind = iota + 1 // the host is unreachable, too slow or busy (429, 5xx), or a body is truncated: a later request may succeed
	Refused                   // the Client does not accept the scheme, address, redirect or certificate, and has read no body
	NotFound                  // the resource does not exist (404 or 410)
	Denied                    // the host denies access (401, 403, 407 or 451)
	TooLarge                  // the response is larger than allowed
	Protocol                  // the response violates HTTP, or has a status that would not change after a retry
)

var kindNames = [...]string{"", "temporary failure", "refused", "not found", "denied", "too large", "unusable answer"}

// Error returns the name of the kind.
func (k Kind) Error() string { return kindNames[k] }

// Error describes a failed request. After a redirect, URL is the target of the redirect
// and not the requested URI.
type Error struct {
	Op     string // the failed operation: "get", "read", "resolve"
	URL    string
	Kind   Kind
	Status int    // HTTP status; 0 without a response
	Msg    string // what was expected and what the server sent instead
	Hint   string // advice for the user; may be empty
	Err    error  // the underlying error, or nil

	RetryAfter   time.Duration // how long the host asks clients to wait; 0 if the host does not ask
	AllowOrigin  string        // origin that the user can allow to permit the redirect; "" if the request failed for another reason
	AllowPrivate string        // host:port that the user can allow to permit the private address; "" if the request failed for another reason
	Authorized   bool          // whether the client has credentials for the origin that denied the request
	Requests     int           // number of HTTP requests that were sent, including those without a response
	Page         bool          // whether the server sent an HTML page, and none that is known to block programs
	Restart      bool          // whether the body broke off and cannot be continued; the caller may request it again from the beginning

	delay time.Duration // pause before the request is sent again
	retry bool          // whether the client may send the request again
}

// Error returns the operation, the URL, the message, the cause and the advice.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %q: %s", e.Op, e.URL, e.Msg)
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	if e.Hint != "" {
		fmt.Fprintf(&b, " (%s)", e.Hint)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is the Kind of e.
func (e *Error) Is(target error) bool {
	k, ok := target.(Kind)
	return ok && k == e.Kind
}
