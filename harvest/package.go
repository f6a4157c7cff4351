package harvest

import (
	"errors"
	"fmt"
	"mime"
	"strings"
	"time"

	"instep/pack"
	"instep/resourcesync"
)

// Package is a package that a dump lists (1.1 §11.1, §13.1), with the facts that
// planning finds out.
type Package struct {
	URI         string
	mediaType   string
	Length      resourcesync.Length
	Digests     resourcesync.Digests
	Contents    string                // URI of a copy of the manifest (rel="contents"); "" if there is none
	Harmless    bool                  // no resource is deleted because it is missing from the manifest
	Alone       bool                  // resources missing from the manifest are deleted, and no Resource List can confirm that
	at          resourcesync.Datetime // the at of a Resource Dump: the package shows the state at this time
	from, Until resourcesync.Datetime // period of the changes in a Change Dump's package; Until is zero while it is open

	Members int64  // the number of manifest entries with a path
	Listed  int64  // total size in bytes of the Members, as far as the manifest gives lengths
	Unsized bool   // some resources have no length
	Opened  Opened // the open package, if reading its manifest opened it; else nil
	Copied  string // checksum of the copied manifest of a Resource Dump, if the copy was read; else ""
}

// Opened is an open package whose ZIP directory is in memory.
type Opened interface {
	Len() int
	Leave() error // closes the package; the transferred part may be kept for a later run
	Close() error // closes the package and removes what was transferred
}

// Location is the place of a resource's bytes in a package; zero for none.
type Location struct {
	Package *Package
	Path    string // rs:md/@path
	Offset  int64  // total size in bytes of the earlier members of the package
}

// Item is a Source's description of a resource, with the package of its bytes, if any.
type Item struct {
	Resource
	Location
	By     *Change   // the change that gives the description; nil if a list gives it
	Listed *Item     // if a change may be too old: the description of the list, kept beside it; else nil
	At     time.Time // for a dispute: time of the list that contains the resource or lacks it
	Or     *Resource // for a dispute: another possible version; nil if there is none
}

// carries adds an entry of p's manifest to the totals of p and returns the place of its
// bytes. It returns the zero Location for an entry without a path and for a nil
// Package.
func (p *Package) carries(e *resourcesync.Entry) Location {
	if p == nil || e.Path == "" {
		return Location{}
	}
	c := Location{p, e.Path, p.Listed}
	p.Members++
	p.Listed += LengthOr(e.Length)
	p.Unsized = p.Unsized || !e.Length.Known()
	return c
}

// UnknownLength is the assumed size in bytes of a resource of unknown length.
const UnknownLength = 1 << 20

// LengthOr returns the length n in bytes, or UnknownLength if n is unknown.
func LengthOr(n resourcesync.Length) int64 {
	if n.Known() {
		return n.Int64()
	}
	return UnknownLength
}

// Size returns the length of the package in bytes, or the total size of its members if
// the dump gives no length.
func (p *Package) Size() int64 {
	if n := p.Length; n.Known() {
		return n.Int64()
	}
	return p.Listed
}

// maxKept is the maximum number of members in packages that stay open between planning
// and the run; other packages are opened again. Each package counts as at least
// leastKept members, so no more than 64 packages stay open.
const (
	maxKept   = 1 << 18
	leastKept = maxKept / 64
)

// keep keeps the package open unless too many members are open already. It updates
// their number in opened.
func (p *Package) keep(opened *int) {
	if p.Opened == nil {
		return
	}
	if *opened += max(p.Opened.Len(), leastKept); *opened > maxKept {
		p.leave()
	}
}

// leave closes the package, which may be opened again.
func (p *Package) leave() {
	if p.Opened != nil {
		_ = p.Opened.Leave() // what is not kept is transferred again
		p.Opened = nil
	}
}

// Close closes the package and removes what was transferred.
func (p *Package) Close() {
	if p.Opened != nil {
		_ = p.Opened.Close() // closes a temporary file
		p.Opened = nil
	}
}

// QuirkOf returns the quirk that caused a package's error; 0 if none did.
func QuirkOf(err error) resourcesync.Quirk {
	var de *DocumentError
	switch {
	case errors.As(err, &de) && de.Quirk != 0:
		return de.Quirk
	case errors.Is(err, pack.ErrNoManifest):
		return resourcesync.QuirkManifest
	}
	return 0
}

// OtherFormat returns the error for a package that is not a ZIP file.
func OtherFormat(uri, kind string) error {
	return &DocumentError{URI: uri, Reason: "is " + kind + " where a package in ZIP format was promised (1.1 §11.2)", Quirk: resourcesync.QuirkPackageFormat}
}

// otherFormats maps media types of other archive formats to names of formats.
var otherFormats = map[string]string{
	"application/x-tar": pack.KindTar, "application/gzip": pack.KindGzip, "application/x-gzip": pack.KindGzip,
	"application/x-xz": pack.KindXZ, "application/x-bzip2": pack.KindBzip2, "application/zstd": pack.KindZstd,
	"application/x-7z-compressed": pack.Kind7z, "application/vnd.rar": pack.KindRAR, "text/html": pack.KindHTML,
}

// OtherFormat returns an error if the package's media type is that of a format other
// than ZIP.
func (p *Package) OtherFormat() error {
	mediaType, _, _ := mime.ParseMediaType(p.mediaType)
	if kind := otherFormats[mediaType]; kind != "" {
		return OtherFormat(p.URI, kind)
	}
	return nil
}

const relContents = "contents"

// packageOf returns the package of a dump's entry. It ignores a copy of the manifest at
// an origin that may not speak for the Source.
func (r *Reader) packageOf(dump *Document, e *resourcesync.Entry) (*Package, error) {
	uri, err := r.named(e.Loc, dump.Base)
	if err != nil {
		if de := (*DocumentError)(nil); isLocal(e.Loc) && errors.As(err, &de) {
			de.Quirk = resourcesync.QuirkLocalPackage
		}
		return nil, err
	}
	p := &Package{
		URI: uri, mediaType: e.Type, Length: e.Length, Digests: e.Digests,
		at: e.At, from: e.From, Until: e.Until,
	}
	if p.at.IsZero() {
		p.at = dump.Header.At
	}
	if href := e.Link(relContents); href != "" {
		if p.Contents, err = r.named(href, dump.Base); err != nil {
			r.Note("", fmt.Sprintf("%s: the copy of its manifest is not read: %v", uri, err))
		}
	}
	return p, p.OtherFormat()
}

// isLocal reports whether a package's URI is a path on the Source's own machine.
func isLocal(loc string) bool {
	return strings.HasPrefix(strings.ToLower(loc), "file:") ||
		len(loc) > 2 && loc[1] == ':' && (loc[2] == '\\' || loc[2] == '/')
}
