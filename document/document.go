// Package document reads the documents of a Source, from a server, a file or any other
// origin. A document is stored in a temporary file and read to its end tag before
// anything acts on it.
//
// A [Reader] has the options and the Fetcher. [Reader.Read] returns a [Document], or an
// [Error] that distinguishes failed transfers from unusable text. The caller handles
// everything that is specific to a kind of document, such as the order of entries.
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

// MaxEntries is the largest number of entries in a document of up to fetch.MaxDocument
// bytes.
const MaxEntries = 1_000_000

// EntriesWithin returns the largest number of entries in a document with the given number
// of bytes. A caller that reads larger documents only needs to raise the limit in bytes.
func EntriesWithin(bytes int64) int {
	return int(max(MaxEntries, float64(bytes)/fetch.MaxDocument*MaxEntries))
}

// Document is a completely read document. The caller must close it.
type Document struct {
	URI      string              // the requested URI
	Base     *url.URL            // URL of the response; nil if the document was not read from a URL
	Served   time.Time           // Date header of the response; zero if there was none
	Modified time.Time           // Last-Modified header of the response; zero if there was none
	Header   resourcesync.Header // the header, with the elements that come after the entries
	Bad      int                 // number of entries that cannot be used, so that their resources are unknown

	file *spool.File // temporary file with the bytes; empty if they were not stored
	opts []resourcesync.Option
}

// Entries yields the usable entries of the document, with absolute URIs. It may be called
// any number of times.
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

// Absolute resolves the loc of an entry against the URL of the document. It returns a
// loc unchanged if it is absolute or invalid, or if the document has no URL.
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
