// Package document reads a document of a Source from any origin: it is fetched or opened,
// stored in a temporary file, and read to its end tag before anything acts on it.
//
// A [Reader] has the origin of documents and the options; [Reader.Read] returns a
// [Document], or an [Error] that distinguishes failed transfers from unusable text. The
// caller handles everything that is specific to a kind of document, such as the order of
// entries.
package document

import (
	"errors"
	"io"
	"iter"
	"net/url"
	"strings"
	"time"

	"instep/fetch"
	"instep/internal/spool"
	"instep/resourcesync"
)

// MaxEntries is how many entries a document of up to fetch.MaxDocument may have.
const MaxEntries = 1_000_000

// EntriesWithin is the number of entries that a document of that many bytes may have. It
// grows with the bytes, so that one limit suffices for readers of larger documents.
func EntriesWithin(bytes int64) int {
	return int(max(MaxEntries, float64(bytes)/fetch.MaxDocument*MaxEntries))
}

// Document is a document that was read to its end tag. Close it.
type Document struct {
	URI      string              // the URI of the request
	Base     *url.URL            // URL of the document; nil if it has none
	Served   time.Time           // the Date that it was sent with; zero if there was none
	Modified time.Time           // its Last-Modified; zero if there was none
	Header   resourcesync.Header // the header as known at the end of the document
	Bad      int                 // number of entries without a usable URI: their resources are unknown

	file *spool.File // empty if the bytes were not kept
	opts []resourcesync.Option
}

// Entries yields the usable entries of the document, any number of times, with absolute URIs.
func (d *Document) Entries() iter.Seq2[resourcesync.Entry, error] {
	return func(yield func(resourcesync.Entry, error) bool) {
		for e, err := range resourcesync.NewDecoder(d.file.Reader(), d.opts...).Entries() {
			if errors.Is(err, resourcesync.BadEntry) {
				continue
			}
			e.Loc = d.Absolute(e.Loc)
			if !yield(e, err) {
				return
			}
		}
	}
}

// Absolute resolves a relative loc against the document and returns others unchanged, also
// one that is not a URI.
func (d *Document) Absolute(loc string) string {
	if strings.HasPrefix(loc, "http://") || strings.HasPrefix(loc, "https://") {
		return loc
	}
	u, err := fetch.ParseReference(loc)
	if err != nil || u.IsAbs() || loc == "" || d.Base == nil {
		return loc
	}
	return d.Base.ResolveReference(u).String()
}

// Raw returns the unparsed bytes of the document.
func (d *Document) Raw() io.Reader { return d.file.Reader() }

// Close removes the temporary file.
func (d *Document) Close() { _ = d.file.Close() }
