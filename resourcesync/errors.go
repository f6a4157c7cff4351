package resourcesync

import (
	"fmt"
	"strings"
)

// Kind classifies a DecodeError. It is an error so that errors.Is(err,
// resourcesync.Incomplete) works.
type Kind uint8

// Values of Kind. All but BadEntry end the document.
const (
	NotWellFormed   Kind = iota + 1 // not well-formed XML with namespaces
	NotResourceSync                 // something other than a ResourceSync document
	LimitReached                    // larger than Limits allow
	Incomplete                      // truncated, or followed by other content
	Refused                         // a value or structure that the Tolerance does not allow
	BadEntry                        // an entry cannot be used, but the loop over Entries may continue
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
// Err wraps, such as that of the underlying reader.
type DecodeError struct {
	Kind   Kind
	Line   int    // from 1
	Column int    // from 1, in bytes of UTF-8
	Offset int64  // where the error was detected, which may be after its cause: from 0, in bytes of the decompressed document as UTF-8 without byte order mark
	Rule   string // id of the broken rule, as used by package lint; may be ""
	Quirk  Quirk  // number of the known deviation; 0 if the error is about none
	Msg    string
	Err    error // a further cause, or nil
	Size   bool  // with kind LimitReached: the document has more bytes or entries than Limits allow
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

// Unwrap returns the cause.
func (e *DecodeError) Unwrap() error { return e.Err }

// clip shortens a value for a message to 80 bytes.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…" // because the cut may be inside a character
}
