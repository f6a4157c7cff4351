package fetch

import (
	"fmt"
	"strings"
	"time"
)

// Kind is a class of failed requests. It is itself an error, for errors.Is(err,
// fetch.NotFound).
type Kind uint8

// Values of Kind.
const (
	Temporary Kind = iota + 1 // the host is unreachable, too slow or busy (429, 5xx), or a body is truncated: a later attempt may succeed
	Refused                   // the Client does not accept the scheme, address, redirect or certificate, and has read no body
	NotFound                  // the resource does not exist (404 or 410)
	Denied                    // the host denies access (401, 403, 407 or 451)
	TooLarge                  // the response is larger than allowed
	Protocol                  // the response violates HTTP, or has a status for which a retry does not help
)

var kindNames = [...]string{"", "temporary failure", "refused", "not found", "denied", "too large", "unusable answer"}

// Error returns the name of the kind.
func (k Kind) Error() string { return kindNames[k] }

// Error describes a failed request. After a redirect, URL is the target of the redirect
// and not the requested URI.
type Error struct {
	Op     string // the operation that failed: "get", "read", "resolve"
	URL    string
	Kind   Kind
	Status int    // HTTP status; 0 without a response
	Msg    string // what was expected and what the server sent, in words
	Hint   string // advice for the user; may be empty
	Err    error  // the cause, or nil

	RetryAfter   time.Duration // time for which the host asks clients to wait; 0 if it does not ask
	AllowOrigin  string        // origin that the user would have to allow because a redirect leads to it; "" if the request failed for another reason
	AllowPrivate string        // host:port that the user would have to allow because its address is private; "" if the request failed for another reason
	Requests     int           // number of requests that were sent, including those without response
	Restart      bool          // whether a body broke off and cannot be continued, but may be requested again from its beginning

	delay time.Duration // pause before the request is sent again
	retry bool          // whether to send the request again
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
