// Package document reads a document of a Source, wherever it comes from: it is fetched or opened,
// kept in a temporary file, and read to its end tag before anything acts on it.
//
// A [Reader] says where documents come from and how they are read; [Reader.Read] gives a
// [Document], or an [Error] that tells bytes that did not come from a text that cannot be used. What
// is about one kind of document, such as the order of the entries of a list, is left to the caller.
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

// EntriesWithin is the number of entries that a document of so many bytes may have. It
// grows with the bytes, so that one limit suffices for those who read larger documents.
func EntriesWithin(bytes int64) int {
	return int(max(MaxEntries, float64(bytes)/fetch.MaxDocument*MaxEntries))
}

// Document is a document that was read to its end tag. Close it.
type Document struct {
	URI      string              // the URI of the request
	Base     *url.URL            // where it came from; nil if it did not come from a URI
	Served   time.Time           // the Date that it was sent with; zero if there was none
	Modified time.Time           // its Last-Modified; zero if there was none
	Header   resourcesync.Header // the header as known at the end of the document
	Bad      int                 // entries without a usable URI: what they speak of is unknown

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

// Absolute returns a loc as it is written, unless it is relative to the document. One
// that is no URI at all is left for others to refuse.
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

// Raw returns the bytes of the document as they came.
func (d *Document) Raw() io.Reader { return d.file.Reader() }

// Close removes the temporary file.
func (d *Document) Close() { _ = d.file.Close() }
