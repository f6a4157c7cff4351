package resourcesync

import (
	"fmt"
	"strings"
)

// Kind classifies a DecodeError. It is an error so that errors.Is(err,
// resourcesync.Incomplete) works.
type Kind uint8

// Values of Kind. After an error of kind BadEntry the Decoder can continue with the
// next entry; all other errors end the document.
const (
	NotWellFormed   Kind = iota + 1 // not well-formed XML with namespaces
	NotResourceSync                 // something other than a ResourceSync document
	LimitReached                    // the document exceeds one of the Limits
	Incomplete                      // the document is truncated, or followed by other content
	Refused                         // a value or structure that the Tolerance does not allow
	BadEntry                        // one entry that cannot be used; the entries after it can still be read
)

func (k Kind) Error() string {
	switch k {
	case NotWellFormed:
		return "not well-formed XML"
	case NotResourceSync:
		return "not a ResourceSync document"
	case LimitReached:
		return "limit reached"
	case Incomplete:
		return "incomplete document"
	case Refused:
		return "not allowed by the standard"
	case BadEntry:
		return "unusable entry"
	}
	return fmt.Sprintf("resourcesync.Kind(%d)", uint8(k))
}

// DecodeError is the error of a Decoder. errors.Is matches its Kind and the errors that
// Err wraps, such as an error of the underlying reader.
type DecodeError struct {
	Kind   Kind
	Line   int // the line of the error, counted from 1
	Column int // the column of the error, counted from 1, in bytes of UTF-8
	// Offset is the position at which the error was detected, which may be after the cause
	// of the error. It counts the bytes of the decompressed document as UTF-8 without byte
	// order mark, from 0.
	Offset int64
	Rule   string // id of the broken rule, as used by package lint; may be ""
	Quirk  Quirk  // the number of the known deviation that the error is about; 0 if none
	Msg    string
	Err    error // the underlying error, or nil
	Size   bool  // whether Limits.Bytes or Limits.Entries is too low for the document; Kind is then LimitReached
}

func (e *DecodeError) Error() string {
	s := fmt.Sprintf("line %d, column %d: %v: %s", e.Line, e.Column, e.Kind, e.Msg)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Is reports whether target is the Kind of e.
func (e *DecodeError) Is(target error) bool { return target == e.Kind }

// Unwrap returns e.Err, the underlying error.
func (e *DecodeError) Unwrap() error { return e.Err }

// clip shortens a value to 80 bytes, for a message.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…" // removes an incomplete character at the end
}
