package destination

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"instep/fetch"
	"instep/internal/spool"
	"instep/resourcesync"
)

// reader reads the documents of a Source. Each is fetched, kept in a temporary file and
// read to its end tag before anything acts on it.
type reader struct {
	client   *fetch.Client
	spool    string          // directory of temporary files; "": the system's
	strict   bool            // only documents without a flaw
	most     int             // changed resources of a set after which no further Change List is read
	origins  map[string]bool // whose documents are followed
	packages manifests
	tell     func(q resourcesync.Quirk, set, text string) // told what was tolerated, in one sentence each
	aside    *spool.Log[string]                           // remainders that are not held in memory; nil: none yet
}

// close frees the remainders of all that was read.
func (r *reader) close() {
	if r.aside != nil {
		_ = r.aside.Close() // a temporary file
		r.aside = nil
	}
}

// lighten bounds the memory that a resource takes: it drops the duplicates that are not
// tried, and moves the remainder to a temporary file.
func (r *reader) lighten(w *Wanted) error {
	w.choose(r.origins)
	if r.aside == nil {
		r.aside = spool.NewLog[string](r.spool)
	}
	return w.Remainder.setAside(r.aside)
}

// manifests reads what a package of a dump says that it holds (1.1 §11.2, §13.2).
type manifests interface {
	manifest(ctx context.Context, p *parcel, want resourcesync.Capability) (*document, error)
}

func (r *reader) now() time.Time { return r.client.Now() }

func (r *reader) note(set, text string) { r.tell(0, set, text) }

// named returns the URI of a document that the document at base names. It lies on an
// origin that may speak for the Source.
func (r *reader) named(loc string, base *url.URL) (string, error) {
	u, err := fetch.ParseReference(loc)
	if err != nil {
		return "", &DocumentError{URI: base.String(), Reason: fmt.Sprintf("names %q, which is no URI", loc)}
	}
	if u, err = fetch.Parse(base.ResolveReference(u).String()); err != nil {
		return "", &DocumentError{URI: base.String(), Reason: "names a document that cannot be fetched", Err: err}
	}
	if o := fetch.Origin(u); !r.origins[o] {
		return "", &DocumentError{URI: base.String(), Reason: fmt.Sprintf("names a document of another origin, %s; to follow it add --allow-origin %s", u, o)}
	}
	return u.String(), nil
}
