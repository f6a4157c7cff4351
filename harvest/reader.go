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

// Reader reads the documents of a Source. It stores each document in a temporary file
// and reads it to its end tag before the entries take effect.
type Reader struct {
	Client     *fetch.Client
	Spool      string          // directory for temporary files; "" for the system's directory
	Strict     bool            // accept only documents without errors
	MaxChanges int             // number of changed resources of a set after which no further Change List is read
	Origins    map[string]bool // origins from which documents may be read
	Packages   Manifests
	Passed     func(*ChangeEntry)                           // called with each change, even if a later change supersedes it; may be nil
	Tell       func(q resourcesync.Quirk, set, text string) // called with one sentence for each tolerated deviation
	aside      *spool.Log[string]                           // texts of Remainders in a temporary file; nil until the first text is stored
	rivals     *spool.Log[Resource]                         // further descriptions of resources about which documents contradict each other; nil until keepRivals is called
	spools     []io.Closer                                  // all temporary files of this reader
	until      time.Time                                    // moment given to Offer.AsOf, after which changes and lists are ignored; zero if AsOf was not called
	inMemory   int                                          // maximum number of changes in memory; 0 for the value of the constant inMemory
}

// inMemory is the maximum number of changes in memory (about 10 MB), both for the list
// that is being read and for all lists together. A run with fewer changes creates no
// temporary file for them.
const inMemory = 10_000

func (r *Reader) held() int { return cmp.Or(r.inMemory, inMemory) }

// Close removes the temporary files with the changes and Remainders that were read.
func (r *Reader) Close() {
	for _, s := range r.spools {
		_ = s.Close()
	}
	r.aside, r.rivals, r.spools = nil, nil, nil
}

func (r *Reader) keepRivals() {
	if r.rivals == nil {
		r.rivals = spool.NewLog[Resource](r.Spool).Hold(r.held())
		r.spools = append(r.spools, r.rivals)
	}
}

// Lighten reduces the memory of a resource: it drops the duplicates that will not be
// fetched, and moves the text of the Remainder to a temporary file.
func (r *Reader) Lighten(w *Resource) error {
	w.Choose(r.Origins)
	if r.aside == nil {
		r.aside = spool.NewLog[string](r.Spool)
		r.spools = append(r.spools, r.aside)
	}
	return w.Remainder.setAside(r.aside)
}

// Manifests reads the manifests of a dump's packages (1.1 §11.2, §13.2).
type Manifests interface {
	// Manifest reads the manifest of the package p with r. If it opens the package, it
	// stores the open package in p.Opened.
	Manifest(ctx context.Context, r *Reader, p *Package, want resourcesync.Capability) (*Document, error)
}

// Now returns the time by our clock.
func (r *Reader) Now() time.Time { return r.Client.Now() }

// Note reports a deviation that is not a known quirk.
func (r *Reader) Note(set, text string) { r.Tell(0, set, text) }

var numbered = regexp.MustCompile(`\{([^|}]*)\|([^}]*)\}`)

// Counted formats a text about n things. It replaces {thing|things} by the first form
// if n is 1, else by the second.
func Counted[N int | int64](n N, text string, args ...any) string {
	form := "$2"
	if n == 1 {
		form = "$1"
	}
	return fmt.Sprintf(numbered.ReplaceAllString(text, form), args...)
}

// named returns the absolute URI of a reference. It returns an error if documents may
// not be read from the origin of the URI.
func (r *Reader) named(loc string, base *url.URL) (string, error) {
	u, err := fetch.ParseReference(loc)
	if err != nil {
		return "", &DocumentError{URI: base.String(), Reason: fmt.Sprintf("names %q, which is not a URI", loc)}
	}
	if u, err = fetch.Parse(base.ResolveReference(u).String()); err != nil {
		return "", &DocumentError{URI: base.String(), Reason: "names a document that cannot be fetched", Err: err}
	}
	if o := fetch.Origin(u); !r.Origins[o] {
		return "", &DocumentError{URI: base.String(), Reason: fmt.Sprintf("names a document of another origin, %s; to follow it add --allow-origin %s", u, o)}
	}
	return u.String(), nil
}
