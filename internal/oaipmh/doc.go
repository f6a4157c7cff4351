// Package oaipmh speaks the Open Archives Initiative Protocol for Metadata Harvesting,
// version 2.0, on both sides: [Client] asks a repository, [Handler] answers as one.
//
// A Client reads one answer at a time, whole and within bounds, before it returns any of
// it. Faults of real servers are tolerated where the meaning is clear, each reported as a
// [Note]. [Client.Harvest] reads a list to its end: it can continue from any [Position] in
// a later process, detects resumption tokens that lead in circles or nowhere, and then
// divides the list by datestamps.
//
// Section numbers are those of http://www.openarchives.org/OAI/openarchivesprotocol.html.
package oaipmh

import (
	"fmt"
	"time"
)

// Namespace is the XML namespace of responses of version 2.0 (§3.2).
const Namespace = "http://www.openarchives.org/OAI/2.0/"

// Verb is a kind of request (§4).
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

// Code is the code of a protocol error (§3.6). It is itself an error, for
// errors.Is(err, oaipmh.BadResumptionToken).
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

// Error is a protocol error: the repository understood the request and refused it.
type Error struct {
	URL  string // URL of the request; "" in a server
	Code Code
	Msg  string // message of the repository
}

// Error contains the request, the code and the message of the repository.
func (e *Error) Error() string {
	return fmt.Sprintf("%s: the repository answered %s: %q", e.URL, e.Code, e.Msg)
}

// Is reports whether target is the Code of e.
func (e *Error) Is(target error) bool { return target == error(e.Code) }

// DeletedRecord is a repository's support for deletions (§2.5.1).
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
	BaseURL  string
	Earliest Stamp // lower bound of all datestamps; zero if unreadable
	Deleted  DeletedRecord
	Days     bool // datestamps have a granularity of days instead of seconds
	Emails   []string
	Date     time.Time // responseDate; zero if unreadable
}

// Format is a metadata format (§2.4).
type Format struct{ Prefix, Schema, Namespace string }

// Set is a set of a repository (§2.6). Colons in Spec separate the levels of a
// hierarchy.
type Set struct{ Spec, Name string }

// Header is the header of a record (§2.5).
type Header struct {
	Identifier string
	Datestamp  Stamp
	Sets       []string // their Spec
	Deleted    bool
}

// Record is a record in one format. A deleted record has no Metadata.
type Record struct {
	Header
	// Metadata is the content of a metadata element: one XML element as a complete
	// document in UTF-8, including the namespace declarations of the enclosing
	// elements.
	Metadata []byte
}

// Stamp is a UTCdatetime (§3.3): a day or a second in UTC. The zero value is absence.
type Stamp struct {
	Time time.Time
	Day  bool
}

// IsZero reports whether the Stamp is absent.
func (s Stamp) IsZero() bool { return s.Time.IsZero() }

// String returns the Stamp in its own granularity; "" if it is absent.
func (s Stamp) String() string { return s.In(s.Day) }

// In formats the Stamp with a granularity of days or of seconds; "" if it is absent.
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

// ParseStamp parses a UTCdatetime strictly.
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

// layouts are forms of datestamps that servers write although the protocol does not
// allow them.
var layouts = []string{
	time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04:05.999999999", "2006-01-02T15:04:05-0700",
	"2006-01-02T15:04Z07:00", "2006-01-02 15:04:05", "2006-01-02 15:04:05Z07:00", "2006-01", "2006",
}

// parseAnyStamp parses a datestamp leniently; strict is false if the protocol does not
// allow the form.
func parseAnyStamp(text string) (s Stamp, strict bool, err error) {
	if s, err = ParseStamp(text); err == nil {
		return s, true, nil
	}
	for _, layout := range layouts {
		if t, err := time.Parse(layout, text); err == nil && t.Year() > 0 && t.Year() <= 9999 {
			return Stamp{Time: t.UTC().Truncate(time.Second), Day: len(layout) < len(time.DateOnly)}, false, nil
		}
	}
	return Stamp{}, false, err
}

// Note is a violation of the protocol, or something unusual, that was tolerated.
type Note struct {
	URL  string
	What string // a sentence
	N    int    // number of occurrences in this response
}

func (n Note) String() string {
	if n.N > 1 {
		return fmt.Sprintf("%s: %s (%d times)", n.URL, n.What, n.N)
	}
	return n.URL + ": " + n.What
}
