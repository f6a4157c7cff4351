package fetch

import (
	"fmt"
	"strings"
	"time"
)

// Kind classifies an [Error]. A Kind is itself an error, for errors.Is(err,
// fetch.NotFound).
type Kind uint8

// Values of Kind.
const (
	Temporary Kind = iota + 1 // unreachable, too slow, truncated or busy (429, 5xx): a later attempt may succeed
	Refused                   // refused by our own policy: scheme, address, redirect or certificate; nothing was read
	NotFound                  // 404 or 410
	Denied                    // 401, 403, 407 or 451
	TooLarge                  // larger than allowed
	Protocol                  // the response violates the protocol, or retrying would not help
)

var kindNames = [...]string{"", "temporary failure", "refused", "not found", "denied", "too large", "unusable answer"}

// Error returns the name of the kind.
func (k Kind) Error() string { return kindNames[k] }

// Error is a failed request. URL is the URI at which it failed, which after a redirect
// is not the requested one.
type Error struct {
	Op     string // the operation: "get", "read", "resolve"
	URL    string
	Kind   Kind
	Status int    // HTTP status; 0 without a response
	Msg    string // what was expected and what came, in words
	Hint   string // what the user can do next; may be empty
	Err    error  // the cause, or nil

	RetryAfter   time.Duration // how long the host asked us to wait; 0 if it did not
	AllowOrigin  string        // origin that would have to be allowed; "" if that is not the cause
	AllowPrivate string        // host:port that would have to be allowed; "" if a private address is not the cause
	Requests     int           // number of requests sent, with or without response
	Restart      bool          // a body broke off and cannot be continued; requesting all of it again may help

	delay time.Duration // pause before the next try
	retry bool          // retrying may help
}

// Error describes the failed request: the operation, the response, and what to do next.
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
