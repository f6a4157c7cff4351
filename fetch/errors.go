package fetch

import (
	"fmt"
	"strings"
	"time"
)

// Kind classifies an [Error]. A Kind is itself an error, for errors.Is(err,
// fetch.NotFound).
type Kind uint8

// The kinds of failure.
const (
	Temporary Kind = iota + 1 // not reachable, too slow, cut off or busy (429, 5xx): another time may work
	Refused                   // our own policy refuses the scheme, address, redirect or certificate; nothing was read
	NotFound                  // 404 or 410
	Denied                    // 401, 403, 407 or 451
	TooLarge                  // more bytes than allowed
	Protocol                  // the answer breaks the protocol, or another try would not change it
)

var kindNames = [...]string{"", "temporary failure", "refused", "not found", "denied", "too large", "unusable answer"}

// Error names the kind.
func (k Kind) Error() string { return kindNames[k] }

// Error is a request that failed. URL is the URI at which it failed, which after a
// redirect is not the one asked for.
type Error struct {
	Op     string // the operation: "get", "read", "resolve"
	URL    string
	Kind   Kind
	Status int    // HTTP status; 0 if there was no answer
	Msg    string // the expectation and the answer, in words
	Hint   string // the next step for the user; may be empty
	Err    error  // the cause, if there is one

	RetryAfter   time.Duration // how long the host asked to wait; 0 if it did not
	AllowOrigin  string        // origin to allow; "" if another origin is not the cause
	AllowPrivate string        // host:port to allow; "" if a private address is not the cause
	Requests     int           // requests made, answered or not
	Restart      bool          // a body broke off and cannot be continued; requesting all of it again may help

	delay time.Duration // pause before the next try
	retry bool          // another try may help
}

// Error is a failed request: the operation, the answer, and the next step.
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
