package resourcesync

import (
	"fmt"
	"strings"
)

// Kind classifies a DecodeError. It is an error so that errors.Is(err,
// resourcesync.Incomplete) works.
type Kind uint8

// The kinds of problem. All but BadEntry end the document.
const (
	NotWellFormed   Kind = iota + 1 // not well-formed XML with namespaces
	NotResourceSync                 // another kind of document, or none at all
	LimitReached                    // larger than Limits allow
	Incomplete                      // cut, or followed by something that does not belong to it
	Refused                         // a value or structure that the Tolerance given does not allow
	BadEntry                        // this entry cannot be used; the loop over Entries may continue
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

// DecodeError is the error of a Decoder. errors.Is finds its Kind and the errors that its
// Err wraps, such as that of the underlying reader.
type DecodeError struct {
	Kind   Kind
	Line   int    // from 1
	Column int    // from 1, in bytes of UTF-8
	Offset int64  // from 0, in bytes of the document as UTF-8, decompressed and without byte order mark; where the error was detected, if its cause is earlier
	Rule   string // id of the broken rule, as a linter names it; may be ""
	Quirk  Quirk  // the habit of Sources that it is; 0 if it is none
	Msg    string
	Err    error // the cause, if there is one beyond Msg
	Size   bool  // of LimitReached: the document has more bytes or entries than Limits allow
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

// clip shortens a value that goes into a message.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…" // it may have been cut within a character
}
