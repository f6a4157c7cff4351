package scan

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"instep/blob"
	"instep/fetch"
	"instep/internal/catalog"
	"instep/resourcesync"
)

// Look reads one file as a scan would, and returns the resource. If keep is not nil, the
// bytes are copied to it, with KeepKey of their SHA-256 as the key. Look returns
// fs.ErrNotExist if the file does not exist or is not published.
func (d *Dir) Look(ctx context.Context, path string, keep blob.Batch) (catalog.Resource, error) {
	if err := checkPath(path); err != nil {
		return catalog.Resource{}, err
	}
	spelled, err := d.Spelled(ctx, []string{path})
	if err != nil {
		return catalog.Resource{}, err
	}
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	r := reader{d: d, buffer: *buffer}
	h := r.hash(ctx, item{Path: []byte(path), URI: spelled[path]}, keep)
	err = errors.Join(h.err, r.close())
	if err == nil && h.gone {
		err = fs.ErrNotExist
	}
	if err != nil {
		return catalog.Resource{}, d.fileError(path, err)
	}
	if h.kept != nil {
		keep.Put(h.kept, blob.Put{Key: KeepKey(h.sha256)})
	}
	return h.resource(), nil
}

// Has returns nil if a scan would publish the file at a path. It returns fs.ErrNotExist
// if the file does not exist or would not be published.
func (d *Dir) Has(path string) error {
	if err := checkPath(path); err != nil {
		return err
	}
	_, reason, err := d.locate(path)
	if err == nil && reason != "" {
		err = fmt.Errorf("%w: the file is not published (%s)", fs.ErrNotExist, reason)
	}
	if err != nil {
		return d.fileError(path, err)
	}
	return nil
}

func checkPath(path string) error {
	if !fs.ValidPath(path) || path == "." {
		return fmt.Errorf("path %q: expected a slash-separated path below the directory", path)
	}
	return nil
}

var buffers = sync.Pool{New: func() any {
	b := make([]byte, bufferSize)
	return &b
}}

// maxLength is the largest accepted length, a pebibyte: the sum of greater lengths
// could overflow.
const maxLength = 1 << 50

// maxLabels is the largest accepted length in bytes of type and encoding together. It
// is limited because programs that read documents limit the length of XML tags.
const maxLabels = 1 << 10

// Check returns an error for a resource that cannot be written as an entry of a Resource
// List or Change List. If such a resource were recorded, every publication would fail.
func (e *Listed) Check() error {
	if _, err := fetch.Parse(e.URI); err != nil {
		return err
	}
	if n := e.Length.Int64(); n > maxLength {
		return fmt.Errorf("expected a length of at most %d bytes, found %d", int64(maxLength), n)
	}
	if n := len(e.Type) + len(e.Encoding); n > maxLabels {
		return fmt.Errorf("expected a type and an encoding of at most %d bytes together, found %d", maxLabels, n)
	}
	said, err := resourcesync.ParseRemainder(e.Remainder)
	if err != nil {
		return err
	}
	said.Encoding, said.ChangeFreq = e.Encoding, e.ChangeFreq
	en := resourcesync.Entry{Loc: e.URI, LastMod: e.LastMod, Metadata: resourcesync.Metadata{Length: e.Length, Digests: e.Digests, Type: e.Type}}
	en.SetRemainder(said)
	return checkEntry(en)
}

func checkEntry(e resourcesync.Entry) error {
	enc, err := resourcesync.NewEncoder(io.Discard, checkHeader)
	if err != nil {
		return err
	}
	return enc.Encode(e)
}

// checkHeader is the header of a Resource List that is written only to check an entry: see
// checkEntry.
var checkHeader = resourcesync.Header{
	Metadata: resourcesync.Metadata{
		Capability: resourcesync.CapabilityResourceList,
		At:         resourcesync.DatetimeOf(time.Date(2014, 1, 1, 0, 0, 0, 0, time.UTC)),
	},
	Links: []resourcesync.Link{{Rel: "up", Href: "http://example.org/"}},
}
