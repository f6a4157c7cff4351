package resourcesync

import "slices"

// Quirk numbers a habit of existing Sources that breaks the standard and is understood. 0
// is none.
type Quirk uint8

// The quirks that a Decoder knows.
const (
	QuirkPrefix         Quirk = 1  // elements of the Sitemap protocol with a prefix
	QuirkNamespace      Quirk = 2  // ResourceSync namespace without the slash at its end
	QuirkDialect        Quirk = 3  // the dialects of D-Lib Magazine 2013
	QuirkMid2013        Quirk = 4  // modified on the rs:md of the root, or resourcesync for up
	QuirkNested         Quirk = 5  // a urlset lists documents of its own capability
	QuirkPages          Quirk = 6  // pages that lead to each other by rel="next", without an index
	QuirkConcatenated   Quirk = 7  // several documents, one after the other
	QuirkElementOrder   Quirk = 8  // rs:md or rs:ln before the loc of an entry, or after the entries
	QuirkBrowser        Quirk = 9  // markup for browsers and validators: a style sheet, a schema
	QuirkEncoding       Quirk = 10 // another encoding than UTF-8
	QuirkSpaceFirst     Quirk = 11 // white space before the XML declaration
	QuirkGzip           Quirk = 12 // the document is compressed, though the server does not say so
	QuirkCapabilityCase Quirk = 17 // capability in camel or upper case
	QuirkCapabilityNew  Quirk = 18 // a capability that the standard does not define
	QuirkNoChange       Quirk = 22 // a change document whose entries have no change
	QuirkLinkIncomplete Quirk = 25 // rs:ln without rel or href
	QuirkRelationCase   Quirk = 26 // relation type with capital letters
	QuirkForeignAttr    Quirk = 27 // an attribute that the standard does not define
	QuirkMoment         Quirk = 28 // at or from is missing or misplaced
	QuirkDatePartial    Quirk = 30 // a year, month, day or minute: the interval it denotes
	QuirkDatetimeZone   Quirk = 31 // no offset, read as UTC, or one other than Z, or a blank for the T
	QuirkSpaceAround    Quirk = 39 // white space around a loc
	QuirkIRI            Quirk = 41 // a URI with characters that should have been escaped
	QuirkRelativeURI    Quirk = 42 // a URI is relative to that of the document
	QuirkPathEscape     Quirk = 44 // a path that leads out of its package, or none that a file has
	QuirkHashSpelling   Quirk = 46 // SHA256 or another spelling for sha-256
	QuirkHashBase64     Quirk = 47 // digest in base64 or base64url
	QuirkHashSpace      Quirk = 48 // digests with other white space than blanks between them
	QuirkEmptyValue     Quirk = 49 // attribute present but empty, read as absent
	QuirkPath           Quirk = 53 // path without its leading slash
	QuirkTwoMetadata    Quirk = 61 // an entry with several rs:md that do not contradict each other
)

// Quirks that are visible only by following documents and fetching resources.
const (
	QuirkSourceLink    Quirk = 15 // a link rel="resourcesync" to another document than a Capability List
	QuirkRobots        Quirk = 16 // Sitemap lines of robots.txt in another form, or for plain Sitemaps
	QuirkNoCapability  Quirk = 20 // an entry of a Capability List has no capability
	QuirkPackageLink   Quirk = 21 // a Capability List that leads to a package in place of a dump
	QuirkOtherDocument Quirk = 23 // a document was promised, and the answer is something else
	QuirkUp            Quirk = 24 // rel="up" is missing, leads to another document or in a circle
	QuirkChangeTime    Quirk = 29 // a change without datetime
	QuirkClock         Quirk = 32 // changes dated by a clock that was wrong
	QuirkOrder         Quirk = 34 // changes that are not in the order in which they happened
	QuirkWindow        Quirk = 35 // a Change List that keeps the last changes only
	QuirkStale         Quirk = 36 // a list older than the one read before
	QuirkUnknownDelete Quirk = 38 // a resource is deleted that was never listed
	QuirkListedTwice   Quirk = 45 // a resource listed more than once
	QuirkContentCoding Quirk = 51 // length and hash of the body with or without its content coding
	QuirkManifestCopy  Quirk = 54 // the manifest beside a package says something else than the one in it
	QuirkManifest      Quirk = 55 // a package without manifest, or with members that the manifest does not list
	QuirkPackageFormat Quirk = 56 // a package in another format than ZIP
	QuirkLocalPackage  Quirk = 58 // a package named by a path on the Source's machine
)

// Note is something unusual that a Decoder read, and how it read it.
type Note struct {
	Quirk  Quirk  // 0 if it is no habit but a plain mistake
	Rule   string // id of the rule, as a linter names it; may be ""
	Line   int    // line of the element, from 1
	Column int    // column of its start tag, from 1, in bytes of UTF-8
	Legal  bool   // the standard allows it
	Msg    string // a sentence: the text found and how it was read
}

// Tolerance is the policy of a Decoder: it is called with each note, and if it returns
// false the document ends with an error of kind [Refused].
type Tolerance func(Note) bool

// Lenient reads everything that can be understood. It is the default.
func Lenient(Note) bool { return true }

// Strict accepts only what the standard allows.
func Strict(n Note) bool { return n.Legal }

// Except is the policy t without the quirks given: they are refused.
func (t Tolerance) Except(quirks ...Quirk) Tolerance {
	return func(n Note) bool { return t(n) && (n.Quirk == 0 || !slices.Contains(quirks, n.Quirk)) }
}

// And returns the policy t that also tolerates the given quirks.
func (t Tolerance) And(quirks ...Quirk) Tolerance {
	return func(n Note) bool { return t(n) || n.Quirk != 0 && slices.Contains(quirks, n.Quirk) }
}
