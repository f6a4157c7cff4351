package harvest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"time"

	"instep/fetch"
	"instep/internal/spool"
	"instep/resourcesync"
)

// Reader reads the documents of a Source. Each is fetched, kept in a temporary file and
// read to its end tag before anything acts on it.
type Reader struct {
	Client     *fetch.Client
	Spool      string          // directory of temporary files; "": the system's
	Strict     bool            // only documents without a flaw
	MaxChanges int             // changed resources of a set after which no further Change List is read
	Origins    map[string]bool // origins whose documents are followed
	Packages   Manifests
	Passed     func(*ChangeEntry)                           // called with each change that is read, also if a later one overtakes it; nil is none
	Tell       func(q resourcesync.Quirk, set, text string) // called with each tolerated deviation, in one sentence
	aside      *spool.Log[string]                           // remainders that are not held in memory; nil: none yet
	rivals     *spool.Log[Resource]                         // resources of torn deletions; nil: none yet
	spools     []io.Closer                                  // all of this reader
	until      time.Time                                    // nothing later counts (AsOf); zero: everything does
	inMemory   int                                          // changes of a list, or of all lists, that are in memory; 0: inMemory
}

// inMemory is how many changes of a list, or of all lists, are in memory: about 10 MB. A run with few
// changes makes no temporary file for them.
const inMemory = 10_000

func (r *Reader) held() int { return cmp.Or(r.inMemory, inMemory) }

// Close frees the changes and the remainders of all that was read.
func (r *Reader) Close() {
	for _, s := range r.spools {
		_ = s.Close() // a temporary file
	}
	r.aside, r.rivals, r.spools = nil, nil, nil
}

// keepRivals makes the log of the resources of torn deletions.
func (r *Reader) keepRivals() {
	if r.rivals == nil {
		r.rivals = spool.NewLog[Resource](r.Spool).Hold(r.held())
		r.spools = append(r.spools, r.rivals)
	}
}

// Lighten bounds the memory that a resource takes: it drops the duplicates that are not
// tried, and moves the remainder to a temporary file.
func (r *Reader) Lighten(w *Resource) error {
	w.Choose(r.Origins)
	if r.aside == nil {
		r.aside = spool.NewLog[string](r.Spool)
		r.spools = append(r.spools, r.aside)
	}
	return w.Remainder.setAside(r.aside)
}

// Manifests reads the manifests of packages of a dump (1.1 §11.2, §13.2).
type Manifests interface {
	// Manifest reads the manifest of a package by r; if it had to be opened for that, it is p.Opened.
	Manifest(ctx context.Context, r *Reader, p *Package, want resourcesync.Capability) (*Document, error)
}

// Now is the time by our clock.
func (r *Reader) Now() time.Time { return r.Client.Now() }

// Note reports something that is not a habit of Sources.
func (r *Reader) Note(set, text string) { r.Tell(0, set, text) }

// numbered are the words of a text that depend on its number.
var numbered = regexp.MustCompile(`\{([^|}]*)\|([^}]*)\}`)

// Counted formats a text about n things, in which {thing|things} stands for one or the other.
func Counted[N int | int64](n N, text string, args ...any) string {
	form := "$2"
	if n == 1 {
		form = "$1"
	}
	return fmt.Sprintf(numbered.ReplaceAllString(text, form), args...)
}

// named returns the URI of a document that the document at base names. It lies on an
// origin that may speak for the Source.
func (r *Reader) named(loc string, base *url.URL) (string, error) {
	u, err := fetch.ParseReference(loc)
	if err != nil {
		return "", &DocumentError{URI: base.String(), Reason: fmt.Sprintf("names %q, which is no URI", loc)}
	}
	if u, err = fetch.Parse(base.ResolveReference(u).String()); err != nil {
		return "", &DocumentError{URI: base.String(), Reason: "names a document that cannot be fetched", Err: err}
	}
	if o := fetch.Origin(u); !r.Origins[o] {
		return "", &DocumentError{URI: base.String(), Reason: fmt.Sprintf("names a document of another origin, %s; to follow it add --allow-origin %s", u, o)}
	}
	return u.String(), nil
}
