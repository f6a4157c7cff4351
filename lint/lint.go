package lint

import (
	"context"
	"fmt"
	"io"

	"instep/document"
	"instep/resourcesync"
)

// Level is the weight of a finding: an Error breaks a demand of the standard, a Warning a
// recommendation, an Info is a remark.
type Level uint8

// The levels, lightest first.
const (
	Info Level = iota
	Warning
	Error
)

// String returns the name of the level as commands and documents write it.
func (l Level) String() string {
	switch l {
	case Info:
		return "info"
	case Warning:
		return "warning"
	case Error:
		return "error"
	}
	return fmt.Sprintf("lint.Level(%d)", uint8(l))
}

// MarshalText returns the same text as String.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads the name of a level.
func (l *Level) UnmarshalText(text []byte) error {
	for _, level := range []Level{Info, Warning, Error} {
		if level.String() == string(text) {
			*l = level
			return nil
		}
	}
	return fmt.Errorf("level %q: expected info, warning or error", text)
}

// Profile is the edition of the standard that documents are checked against. The zero
// value is Profile11.
type Profile string

// The profiles.
const (
	Profile11       Profile = "1.1"            // ANSI/NISO Z39.99-2017 and Archives 0.9.1
	Profile10       Profile = "1.0"            // ANSI/NISO Z39.99-2014 and Archives 0.9.1
	ProfileArchives Profile = "archives-0.9.1" // the same rules as Profile10
	ProfileMid2013  Profile = "mid-2013"       // the drafts of mid-2013: as 1.0, but they write modified instead of at and from, and other relations instead of up
	ProfileDLib     Profile = "dlib-2013"      // the proposal in D-Lib Magazine 19(1/2)
	ProfileORE      Profile = "ore-alpha"      // the discovery of Resource Maps, in the alpha of 2007: see Checker.ResourceMaps
	ProfileAuto     Profile = "auto"           // the edition that the document itself shows, 1.1 if it shows none
)

// ParseProfile returns the profile of that name; "" is Profile11.
func ParseProfile(name string) (Profile, error) {
	switch p := Profile(name); p {
	case "":
		return Profile11, nil
	case Profile11, Profile10, ProfileArchives, ProfileMid2013, ProfileDLib, ProfileORE, ProfileAuto:
		return p, nil
	}
	return "", fmt.Errorf("profile %q: expected 1.1, 1.0, archives-0.9.1, mid-2013, dlib-2013, ore-alpha or auto", name)
}

// Finding is one place where a document does not follow a rule.
type Finding struct {
	Rule    string // id of the rule; see Lookup
	Level   Level
	URI     string // URI of the document, as given
	Line    int    // from 1; 0 if the finding has no place
	Column  int    // from 1, in bytes of UTF-8; 0 if it is not known
	Entry   string // loc of the entry concerned, "" if it is the whole document or unknown
	Message string // a sentence for people
}

// Document describes a checked document.
type Document struct {
	URI        string
	Kind       string // the kind, named as in Rule.Kinds; "" if it is not known
	Root       resourcesync.Root
	Capability resourcesync.Capability
	Entries    int

	At, Completed, From, Until resourcesync.Datetime
	Up, Index                  string // targets of the links of these relations

	Profile  Profile // the profile used: never ProfileAuto
	Complete bool    // read to its end
	Head     bool    // only its beginning was checked, as WithHead says
}

// Checker checks documents against the rules. It may be used by several goroutines if
// Report may.
type Checker struct {
	Profile Profile // Profile11 if empty
	Derived bool    // also the recommendations that the standard only implies
	Limits  resourcesync.Limits

	// Report is called with each finding, while the document is read; a nil Report
	// drops them.
	Report func(Finding)

	// Disabled names rules that are not checked.
	Disabled map[string]bool
}

// LimitsFor returns the Limits of a Checker for documents of up to n bytes.
func LimitsFor(bytes int64) resourcesync.Limits {
	return resourcesync.Limits{Bytes: bytes, Entries: document.EntriesWithin(bytes)}
}

// KindSitemap is the kind of a plain Sitemap or of an index of some.
const KindSitemap = "sitemap"

// Option is an option of Checker.Document.
type Option func(*run)

// WithKind sets the kind that a document must have, by the place where it was found, such
// as "changelist" for the target of an entry of a Capability List. If there are several
// kinds, any of them will do. An index has the kind of its parts. KindSitemap is a sitemap
// for search engines: it should have no rs:md.
func WithKind(kinds ...string) Option { return func(r *run) { r.expected = kinds } }

// WithHead means that r ends before the document: only its root element and the entries up
// to there are checked. The missing rest is not a finding.
func WithHead() Option { return func(r *run) { r.doc.Head = true } }

// Document checks the document of r, which is from uri. It is read as a stream. If its
// rs:md comes after its entries, r is read twice; if r is not an io.Seeker, the entries are
// then checked only by the rules for all kinds. The error is that of r or of ctx; flaws of
// the document are findings.
func (c *Checker) Document(ctx context.Context, uri string, r io.Reader, opts ...Option) (Document, error) {
	run := newRun(c, uri)
	for _, o := range opts {
		o(run)
	}
	return run.read(ctx, r)
}
