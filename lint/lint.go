package lint

import (
	"context"
	"fmt"
	"io"
	"slices"

	"instep/document"
	"instep/resourcesync"
)

// Level is the severity of a finding: Error for a violated requirement of the standard,
// Warning for a recommendation, Info for a remark.
type Level uint8

// The levels, in ascending order.
const (
	Info Level = iota
	Warning
	Error
)

var levels = []string{Info: "info", Warning: "warning", Error: "error"}

// String returns the name of the level, as used in commands and documents.
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

// Profile is the edition of the standard against which documents are checked. The zero
// value is Profile11.
type Profile string

// The profiles.
const (
	Profile11       Profile = "1.1"            // ANSI/NISO Z39.99-2017 and Archives 0.9.1
	Profile10       Profile = "1.0"            // ANSI/NISO Z39.99-2014 and Archives 0.9.1
	ProfileArchives Profile = "archives-0.9.1" // the same rules as Profile10
	ProfileMid2013  Profile = "mid-2013"       // the drafts of mid-2013, which are like 1.0, but have the attribute modified instead of at and from, and other link relations instead of up
	ProfileDLib     Profile = "dlib-2013"      // the proposal in D-Lib Magazine 19(1/2)
	ProfileORE      Profile = "ore-alpha"      // the alpha edition (2007) of the discovery of Resource Maps: see Checker.ResourceMaps
	ProfileAuto     Profile = "auto"           // the edition that the document itself indicates, otherwise 1.1
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

// Finding is one violation of a rule in a document.
type Finding struct {
	Rule    string // id of the rule; see Lookup
	Level   Level
	URI     string // URI of the document, as given
	Line    int    // line, from 1; 0 if the finding has none
	Column  int    // column, from 1, in bytes of UTF-8; 0 if unknown
	Entry   string // loc of the entry that the finding is about; "" if it is about the whole document
	Message string // a sentence for people
}

// Document describes a checked document.
type Document struct {
	URI        string
	Kind       string // kind, as in Rule.Kinds; "" if unknown
	Root       resourcesync.Root
	Capability resourcesync.Capability
	Entries    int

	At, Completed, From, Until resourcesync.Datetime
	Up, Index                  string // targets of the links with these relations

	Profile  Profile // the profile used; never ProfileAuto
	Complete bool    // read completely
	Head     bool    // only the beginning of the document was checked, because of WithHead
}

// Checker checks documents against the rules. It is safe for concurrent use if its function
// Report is.
type Checker struct {
	Profile Profile // "" is Profile11
	Derived bool    // also check recommendations that the standard only implies
	Limits  resourcesync.Limits

	// Report is called with each finding while the document is read; if nil, findings
	// are discarded.
	Report func(Finding)

	// Disabled names rules that are not checked.
	Disabled map[string]bool
}

// LimitsFor returns the Limits of a Checker for documents of up to the given number of
// bytes.
func LimitsFor(bytes int64) resourcesync.Limits {
	return resourcesync.Limits{Bytes: bytes, Entries: document.EntriesWithin(bytes)}
}

// KindSitemap is the kind of a plain Sitemap or of an index of plain Sitemaps.
const KindSitemap = "sitemap"

// Option is an option of Checker.Document.
type Option func(*run)

// WithKind sets the kind that a document must have because another document says so, for
// example "changelist" for a document that a Capability List lists as a Change List. If
// several kinds are given, the document may have any of them. An index counts as a document
// of the kind of its parts. KindSitemap is a sitemap for search engines, which should have
// no rs:md.
func WithKind(kinds ...string) Option { return func(r *run) { r.expected = kinds } }

// WithHead means that the reader contains only the beginning of a document, its root
// element and some entries. Then the missing rest is not a finding.
func WithHead() Option { return func(r *run) { r.doc.Head = true } }

// Document checks the document in r, which was retrieved from uri, as a stream. If its
// rs:md comes after its entries, r is read twice; if r is not an io.Seeker, only the
// rules for all kinds are applied to the entries. It returns errors of r or of ctx;
// defects of the document are findings.
func (c *Checker) Document(ctx context.Context, uri string, r io.Reader, opts ...Option) (Document, error) {
	run := newRun(c, uri)
	for _, o := range opts {
		o(run)
	}
	return run.read(ctx, r)
}
