// Package oaipmh implements the Open Archives Initiative Protocol for Metadata
// Harvesting, version 2.0. A [Client] sends requests to a repository. A [Handler] answers
// requests, as a repository does.
//
// A Client reads a whole response, within limits, before it returns a part of it. It
// tolerates faults of real servers if the meaning is clear, and reports each as a [Note].
// [Client.Harvest] reads a whole list. A later process can continue the list from any
// [Position]. If resumption tokens fail or form a loop, Harvest requests smaller ranges
// of datestamps.
//
// Section numbers are those of http://www.openarchives.org/OAI/openarchivesprotocol.html.
package oaipmh

import (
	"fmt"
	"time"
)

// Namespace is the XML namespace of responses of version 2.0 (§3.2).
const Namespace = "http://www.openarchives.org/OAI/2.0/"

// Verb is a verb of the protocol: the kind of a request (§4).
type Verb string

// The verbs.
const (
	VerbIdentify    Verb = "Identify"
	VerbFormats     Verb = "ListMetadataFormats"
	VerbSets        Verb = "ListSets"
	VerbIdentifiers Verb = "ListIdentifiers"
	VerbRecords     Verb = "ListRecords"
	VerbRecord      Verb = "GetRecord"
)

// Code is the code of a protocol error (§3.6). A Code is an error itself, so that
// errors.Is(err, oaipmh.BadResumptionToken) works.
type Code string

// The codes.
const (
	BadArgument             Code = "badArgument"
	BadResumptionToken      Code = "badResumptionToken"
	BadVerb                 Code = "badVerb"
	CannotDisseminateFormat Code = "cannotDisseminateFormat"
	IDDoesNotExist          Code = "idDoesNotExist"
	NoRecordsMatch          Code = "noRecordsMatch"
	NoMetadataFormats       Code = "noMetadataFormats"
	NoSetHierarchy          Code = "noSetHierarchy"
)

// Error returns the code.
func (c Code) Error() string { return string(c) }

// Error is a protocol error, by which a repository refuses a request.
type Error struct {
	URL  string // URL of the request; "" in a Handler
	Code Code
	Msg  string // explanation by the repository
}

// Error returns the URL of the request, the code and the explanation by the repository.
func (e *Error) Error() string {
	return fmt.Sprintf("%s: the repository answered %s: %q", e.URL, e.Code, e.Msg)
}

// Is reports whether target is the Code of the error e.
func (e *Error) Is(target error) bool { return target == error(e.Code) }

// DeletedRecord says whether a repository lists deleted records, and how long (§2.5.1).
type DeletedRecord string

// The values.
const (
	DeletedNo         DeletedRecord = "no"
	DeletedTransient  DeletedRecord = "transient"
	DeletedPersistent DeletedRecord = "persistent"
)

// Identity is a repository's description of itself (§4.2).
type Identity struct {
	Name     string
	Earliest Stamp // earliestDatestamp: the repository claims that no record is older; zero if unreadable
	Deleted  DeletedRecord
	Days     bool // whether datestamps are days and not seconds
	Emails   []string
	Date     time.Time // time of the response (responseDate); zero if unreadable
}

// Format is a metadata format (§2.4).
type Format struct{ Prefix, Schema, Namespace string }

// Set is a set of a repository (§2.6). Colons in its Spec separate the levels of the set
// hierarchy.
type Set struct{ Spec, Name string }

// Header is the header of a record (§2.5).
type Header struct {
	Identifier string
	Datestamp  Stamp
	Sets       []string // the Spec of each set to which the record belongs
	Deleted    bool
}

// Record is a record in one metadata format. A deleted record has no Metadata.
type Record struct {
	Header
	// Metadata is the child of the "metadata" element, as a complete XML document in
	// UTF-8. The namespace declarations of enclosing elements are copied into it.
	Metadata []byte
}

// Stamp is a datestamp (§3.3): a day or a second in UTC. The zero value means that there
// is no datestamp.
type Stamp struct {
	Time time.Time
	Day  bool
}

// IsZero reports whether there is no datestamp.
func (s Stamp) IsZero() bool { return s.Time.IsZero() }

// String returns the datestamp as YYYY-MM-DD if it is a day, otherwise as
// YYYY-MM-DDThh:mm:ssZ; "" for the zero value.
func (s Stamp) String() string { return s.In(s.Day) }

// In returns the datestamp as YYYY-MM-DD if days is true, otherwise as
// YYYY-MM-DDThh:mm:ssZ; "" for the zero value.
func (s Stamp) In(days bool) string {
	switch {
	case s.IsZero():
		return ""
	case days:
		return s.Time.UTC().Format(time.DateOnly)
	}
	return s.Time.UTC().Format(secondsLayout)
}

const secondsLayout = "2006-01-02T15:04:05Z"

// ParseStamp parses a datestamp in one of the two forms that the protocol allows.
func ParseStamp(text string) (Stamp, error) {
	if t, err := time.Parse(time.DateOnly, text); err == nil {
		return Stamp{t, true}, nil
	}
	t, err := time.Parse(secondsLayout, text)
	if err != nil {
		return Stamp{}, fmt.Errorf("expected YYYY-MM-DD or YYYY-MM-DDThh:mm:ssZ, found %q", text)
	}
	return Stamp{Time: t}, nil
}

// layouts are forms of datestamps that the protocol does not allow, but that some
// servers write.
var layouts = []string{
	time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04:05.999999999", "2006-01-02T15:04:05-0700",
	"2006-01-02T15:04Z07:00", "2006-01-02 15:04:05", "2006-01-02 15:04:05Z07:00", "2006-01", "2006",
}

// parseAnyStamp parses a datestamp. If the protocol does not allow its form, but layouts
// has the form, parseAnyStamp returns strict=false.
func parseAnyStamp(text string) (s Stamp, strict bool, err error) {
	if s, err = ParseStamp(text); err == nil {
		return s, true, nil
	}
	for _, layout := range layouts {
		t, err := time.Parse(layout, text)
		if t = t.UTC(); err == nil && t.Year() > 0 && t.Year() <= 9999 {
			return Stamp{Time: t.Truncate(time.Second), Day: len(layout) < len(time.DateOnly)}, false, nil
		}
	}
	return Stamp{}, false, err
}

// Note describes a tolerated fault of a repository.
type Note struct {
	URL  string
	What string // the fault, described in a sentence
	N    int    // number of times that the response has the fault
}

func (n Note) String() string {
	if n.N > 1 {
		return fmt.Sprintf("%s: %s (%d times)", n.URL, n.What, n.N)
	}
	return n.URL + ": " + n.What
}
