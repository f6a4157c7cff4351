package lint

import (
	"context"
	"fmt"
	"io"

	"instep/document"
	"instep/resourcesync"
)

// Level is how much a finding weighs: an Error is what the standard forbids or
// demands, a Warning what it recommends or advises against, an Info a remark.
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

// MarshalText returns what String returns.
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
	ProfileMid2013  Profile = "mid-2013"       // the drafts of the middle of 2013: 1.0 with modified for at and from, and other words for up
	ProfileDLib     Profile = "dlib-2013"      // the proposal in D-Lib Magazine 19(1/2)
	ProfileORE      Profile = "ore-alpha"      // the discovery of Resource Maps, in the alpha of 2007: see Checker.ResourceMaps
	ProfileAuto     Profile = "auto"           // what the document itself shows, 1.1 if it shows nothing
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
	URI     string // of the document, as it was given
	Line    int    // from 1; 0 if the finding has no place
	Column  int    // from 1, in bytes of UTF-8; 0 if it is not known
	Entry   string // loc of the entry concerned, "" if it is the whole document or unknown
	Message string // a sentence for people
}

// Document is what a document that was checked says of itself.
type Document struct {
	URI        string
	Kind       string // the kind, named as in Rule.Kinds; "" if it is not known
	Root       resourcesync.Root
	Capability resourcesync.Capability
	Entries    int

	At, Completed, From, Until resourcesync.Datetime
	Up, Index                  string // where the links of these relations lead

	Profile  Profile // the profile used: never ProfileAuto
	Complete bool    // read to its end
	Head     bool    // only its beginning was checked, as WithHead says
}

// Checker holds documents against the rules. It may be used by several goroutines
// if Report may.
type Checker struct {
	Profile Profile // Profile11 if empty
	Derived bool    // also the recommendations that the text of the standard only implies
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

// WithKind tells what a document has to be, by the place where it was found, such
// as "changelist" for the target of an entry of a Capability List. Of several kinds
// any will do. An index is of the kind of its parts. KindSitemap is what is offered to
// search engines: it needs no rs:md, and better has none.
func WithKind(kinds ...string) Option { return func(r *run) { r.expected = kinds } }

// WithHead says that r ends before the document does: its root element and the entries
// up to there are checked. That the document is cut off is no finding.
func WithHead() Option { return func(r *run) { r.doc.Head = true } }

// Document checks the document of r, which came from uri. It is read as a stream. If
// its rs:md stands after its entries, as it may, r is read twice; where r is no
// io.Seeker, the entries are checked by the rules for all kinds alone.
// The error concerns the reading alone: that of r, or of ctx. What is wrong with
// the document are findings.
func (c *Checker) Document(ctx context.Context, uri string, r io.Reader, opts ...Option) (Document, error) {
	run := newRun(c, uri)
	for _, o := range opts {
		o(run)
	}
	return run.read(ctx, r)
}
