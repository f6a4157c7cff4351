package resourcesync

import "fmt"

// Dialect is a form in which documents have been written. Whatever the dialect,
// a Decoder returns what it reads in the terms of 1.1.
type Dialect uint8

// The dialects.
const (
	Dialect11      Dialect = iota // ANSI/NISO Z39.99-2017 (1.1)
	Dialect10                     // ANSI/NISO Z39.99-2014 (1.0): lastmod is the time of a change; see AsDialect
	DialectMid2013                // drafts of the middle of 2013: modified on rs:md, rel="resourcesync" for up
	DialectDLib                   // D-Lib Magazine 19(1/2), 2013: another namespace, modified, etag, top
	DialectAtom                   // the two Atom forms of its appendix: by link and by content
	DialectResync                 // the XML of its own, <resync>, of its appendix
)

// String returns the name of the dialect as commands take it, such as "dlib-2013".
func (d Dialect) String() string {
	switch d {
	case Dialect11:
		return "1.1"
	case Dialect10:
		return "1.0"
	case DialectMid2013:
		return "mid-2013"
	case DialectDLib:
		return "dlib-2013"
	case DialectAtom:
		return "dlib-2013-atom"
	case DialectResync:
		return "dlib-2013-resync"
	}
	return fmt.Sprintf("resourcesync.Dialect(%d)", uint8(d))
}
