package lint

import (
	"context"
	"fmt"
	"io"
	"slices"

	"instep/document"
	"instep/resourcesync"
)

// Level is the severity of a finding: Error for the violation of a requirement of the
// standard, Warning for the violation of a recommendation, and Info for a remark.
type Level uint8

// The levels, in ascending order.
const (
	Info Level = iota
	Warning
	Error
)

var levels = []string{Info: "info", Warning: "warning", Error: "error"}

// String returns the name of the level, as it is used in commands and documents.
func (l Level) String() string {
	if int(l) < len(levels) {
		return levels[l]
	}
	return fmt.Sprintf("lint.Level(%d)", uint8(l))
}

// MarshalText returns the same text as String.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads the name of a level.
func (l *Level) UnmarshalText(text []byte) error {
	if i := slices.Index(levels, string(text)); i >= 0 {
		*l = Level(i)
		return nil
	}
	return fmt.Errorf("level %q: expected info, warning or error", text)
}

// Profile is the edition of the standard that documents are expected to follow. The
// zero value means Profile11.
type Profile string

// The profiles.
const (
	Profile11       Profile = "1.1"            // ANSI/NISO Z39.99-2017 and Archives 0.9.1
	Profile10       Profile = "1.0"            // ANSI/NISO Z39.99-2014 and Archives 0.9.1
	ProfileArchives Profile = "archives-0.9.1" // the same rules as Profile10
	ProfileMid2013  Profile = "mid-2013"       // the drafts of mid-2013: like 1.0, but with the attribute "modified" instead of "at" and "from", and with other link relations instead of "up"
	ProfileDLib     Profile = "dlib-2013"      // the proposal in D-Lib Magazine 19(1/2)
	ProfileORE      Profile = "ore-alpha"      // the alpha edition (2007) of the rules for the discovery of Resource Maps: see Checker.ResourceMaps
	ProfileAuto     Profile = "auto"           // the edition that the document itself shows; 1.1 if the document shows no edition
)

// ParseProfile returns the profile with the given name. The name "" means Profile11.
func ParseProfile(name string) (Profile, error) {
	switch p := Profile(name); p {
	case "":
		return Profile11, nil
	case Profile11, Profile10, ProfileArchives, ProfileMid2013, ProfileDLib, ProfileORE, ProfileAuto:
		return p, nil
	}
	return "", fmt.Errorf("profile %q: expected 1.1, 1.0, archives-0.9.1, mid-2013, dlib-2013, ore-alpha or auto", name)
}

// Finding is one violation of a rule in a document.
type Finding struct {
	Rule    string // the id of the violated rule: see Lookup
	Level   Level
	URI     string // the URI of the document, as it was given
	Line    int    // the number of the line, starting at 1; 0 if the finding is about no line
	Column  int    // the column in bytes of UTF-8, starting at 1; 0 if it is unknown
	Entry   string // the loc of the entry that the finding is about; "" if the finding is about the whole document
	Message string // the message for people, a sentence
}

// Document describes a checked document.
type Document struct {
	URI        string
	Kind       string // the kind of the document, as in Rule.Kinds; "" if it is unknown
	Root       resourcesync.Root
	Capability resourcesync.Capability
	Entries    int

	At, Completed, From, Until resourcesync.Datetime
	Up, Index                  string // the targets of the links with the relations "up" and "index"

	Profile  Profile // the profile with which the document was checked; never ProfileAuto
	Complete bool    // whether the document was read to its end
	// Requested is the number of entries whose resources were requested, and Existing is the
	// number of entries whose resources should exist. Both are 0 unless Live checked the document.
	Requested, Existing int

	Head bool // whether only the beginning of the document was checked, because of the option WithHead
}

// Checker checks documents against the rules. It is safe for concurrent use if its function
// Report is.
type Checker struct {
	Profile Profile // "" is Profile11
	Derived bool    // whether recommendations are checked that the standard implies without stating them
	Limits  resourcesync.Limits

	// Report is called with each finding while the document is read. If it is nil,
	// findings are discarded.
	Report func(Finding)

	// Disabled has the ids of rules that are not checked.
	Disabled map[string]bool
}

// LimitsFor returns limits with which a Checker accepts documents of up to the given
// number of bytes.
func LimitsFor(bytes int64) resourcesync.Limits {
	return resourcesync.Limits{Bytes: bytes, Entries: document.EntriesWithin(bytes)}
}

// KindSitemap is the kind of a plain Sitemap or of an index of plain Sitemaps.
const KindSitemap = "sitemap"

// Option is an option of Checker.Document.
type Option func(*run)

// WithKind sets the kind that a document must have because another document says so,
// for example "changelist" for a document that a Capability List lists as a Change
// List. If several kinds are given, the document may have any of them. An index must
// have parts of the given kind. KindSitemap means a Sitemap for search engines, which
// should have no rs:md.
func WithKind(kinds ...string) Option { return func(r *run) { r.expected = kinds } }

// WithHead means that the reader contains only the beginning of a document: the root
// element and some entries. There is no finding about the missing end.
func WithHead() Option { return func(r *run) { r.doc.Head = true } }

// Document checks the document at uri, which it reads from r as a stream. If the rs:md of
// the root comes after the entries, the document is read twice. If r is not an io.Seeker,
// it is read only once, and the entries are checked only with the rules for all kinds of
// documents. Document returns an error only if reading r fails or ctx is done: defects of
// the document are findings.
func (c *Checker) Document(ctx context.Context, uri string, r io.Reader, opts ...Option) (Document, error) {
	run := newRun(c, uri)
	for _, o := range opts {
		o(run)
	}
	return run.read(ctx, r)
}
