package resourcesync

import "slices"

// Quirk is the number of a known deviation of existing Sources from the standard. 0 means
// no known deviation.
type Quirk uint8

// Quirks that a Decoder recognises.
const (
	QuirkPrefix         Quirk = 1  // elements of the Sitemap protocol are written with a namespace prefix
	QuirkNamespace      Quirk = 2  // the ResourceSync namespace without the slash at its end
	QuirkDialect        Quirk = 3  // the dialects of the draft in D-Lib Magazine 2013
	QuirkMid2013        Quirk = 4  // the attribute "modified" on the rs:md of the root, or the relation "resourcesync" instead of "up"
	QuirkNested         Quirk = 5  // a urlset whose entries have the capability of the urlset itself
	QuirkPages          Quirk = 6  // pages linked by rel="next", without an index
	QuirkConcatenated   Quirk = 7  // several documents one after the other in one file
	QuirkElementOrder   Quirk = 8  // rs:md or rs:ln before the loc of an entry, or after the entries
	QuirkBrowser        Quirk = 9  // markup for browsers and validators: a style sheet or a schema
	QuirkEncoding       Quirk = 10 // an encoding other than UTF-8
	QuirkSpaceFirst     Quirk = 11 // white space before the XML declaration
	QuirkGzip           Quirk = 12 // a compressed document without a Content-Encoding header
	QuirkCapabilityCase Quirk = 17 // capability in camel or upper case
	QuirkCapabilityNew  Quirk = 18 // a capability that the standard does not define
	QuirkNoChange       Quirk = 22 // a change document whose entries have no attribute "change"
	QuirkLinkIncomplete Quirk = 25 // rs:ln without rel or href
	QuirkRelationCase   Quirk = 26 // a relation type with capital letters
	QuirkForeignAttr    Quirk = 27 // an attribute that the standard does not define
	QuirkMoment         Quirk = 28 // the time of a document (the attribute "at" or "from") is missing or misplaced
	QuirkDatePartial    Quirk = 30 // a datetime of reduced precision (year, month, day or minute), read as an interval
	QuirkDatetimeZone   Quirk = 31 // a datetime with an offset other than Z, without an offset (read as UTC), or with a space instead of T
	QuirkSpaceAround    Quirk = 39 // white space around a loc
	QuirkIRI            Quirk = 41 // a URI with characters that should have been escaped
	QuirkRelativeURI    Quirk = 42 // a relative URI, to be resolved against the URI of the document
	QuirkPathEscape     Quirk = 44 // a path that leads out of its package, or that no file can have
	QuirkHashSpelling   Quirk = 46 // another spelling of the name of a hash algorithm, such as SHA256 for sha-256
	QuirkHashBase64     Quirk = 47 // a digest in base64 or base64url
	QuirkHashSpace      Quirk = 48 // digests separated by white space other than spaces
	QuirkEmptyValue     Quirk = 49 // an attribute that is empty, read as absent
	QuirkPath           Quirk = 53 // a path without its leading slash
	QuirkTwoMetadata    Quirk = 61 // an entry with several rs:md that do not contradict each other
)

// Quirks that can be seen only by following links and fetching resources.
const (
	QuirkSourceLink    Quirk = 15 // a link rel="resourcesync" to a document other than a Capability List
	QuirkRobots        Quirk = 16 // a robots.txt whose Sitemap lines are misspelt or name plain Sitemaps
	QuirkNoCapability  Quirk = 20 // an entry of a Capability List without capability
	QuirkPackageLink   Quirk = 21 // a Capability List that links a package instead of a dump
	QuirkOtherDocument Quirk = 23 // a response that is not the linked document
	QuirkUp            Quirk = 24 // a link rel="up" that is missing, leads to the wrong document, or leads in a circle
	QuirkChangeTime    Quirk = 29 // a change without the attribute "datetime"
	QuirkClock         Quirk = 32 // changes with times from a wrong clock
	QuirkOrder         Quirk = 34 // changes that are not in chronological order
	QuirkWindow        Quirk = 35 // a Change List that contains only the latest changes
	QuirkStale         Quirk = 36 // a list that is older than the same list in an earlier request
	QuirkUnknownDelete Quirk = 38 // a deletion of a resource that was never listed
	QuirkListedTwice   Quirk = 45 // a resource listed more than once
	QuirkContentCoding Quirk = 51 // a length and hash of the compressed bytes instead of the decompressed bytes, or the reverse
	QuirkManifestCopy  Quirk = 54 // a manifest beside a package that differs from the manifest inside the package
	QuirkManifest      Quirk = 55 // a package without manifest, or with members that are missing in the manifest
	QuirkPackageFormat Quirk = 56 // a package in a format other than ZIP
	QuirkLocalPackage  Quirk = 58 // a package identified by a file path on the Source's machine
)

// Note describes something unusual that a Decoder read, and how it was interpreted.
type Note struct {
	Quirk  Quirk  // number of the known deviation; 0 if the note is about something else
	Rule   string // id of the rule, as used by package lint; may be ""
	Line   int    // line of the start tag of the element, counted from 1
	Column int    // column of this start tag, counted from 1, in bytes of UTF-8
	Legal  bool   // whether the standard allows what the note describes
	Msg    string // a text for people: what the document contains, and how it was read
}

// Tolerance decides for each note whether a Decoder continues. If it returns false, the
// document ends with an error of kind [Refused].
type Tolerance func(Note) bool

// Lenient tolerates everything. It is the default.
func Lenient(Note) bool { return true }

// Strict tolerates only what the standard allows.
func Strict(n Note) bool { return n.Legal }

// Except returns a Tolerance that refuses the given quirks, and is otherwise like t.
func (t Tolerance) Except(quirks ...Quirk) Tolerance {
	return func(n Note) bool { return t(n) && (n.Quirk == 0 || !slices.Contains(quirks, n.Quirk)) }
}

// And returns a Tolerance that tolerates the given quirks, and is otherwise like t.
func (t Tolerance) And(quirks ...Quirk) Tolerance {
	return func(n Note) bool { return t(n) || n.Quirk != 0 && slices.Contains(quirks, n.Quirk) }
}
