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

// Package is a package as a dump names it (1.1 §11.1, §13.1), with the facts that planning
// finds out.
type Package struct {
	URI         string
	mediaType   string
	Length      resourcesync.Length
	Digests     resourcesync.Digests
	Contents    string                // URI of a copy of its manifest (rel="contents"); "" if there is none
	Harmless    bool                  // no resource is deleted for missing in its manifest
	Alone       bool                  // resources that its manifest lacks are deleted, and there is no Resource List to confirm that
	at          resourcesync.Datetime // the at of a Resource Dump: its state is the one at this moment
	from, Until resourcesync.Datetime // the from and until of a Change Dump: its changes are of this period; Until is zero while it is open

	Members int64  // entries with a path in its manifest
	Listed  int64  // bytes of these members, as far as the manifest gives lengths
	Unsized bool   // some resources have no length
	Opened  Opened // since its manifest was read; nil: it is not open
	Copied  string // checksum of the copy of the manifest of a Resource Dump, if that was read; otherwise ""
}

// Opened is a package of which the directory is in memory, with so many members.
type Opened interface {
	Len() int
	Leave() error // closes it; the transferred part may be kept
	Close() error // closes it for good
}

// Location is the place of a resource's bytes in a package; the zero Location is none.
type Location struct {
	Package *Package
	Path    string // rs:md/@path
	Offset  int64  // bytes of the members before it
}

// Item is a Source's description of a resource, and the place of its bytes besides its URI.
type Item struct {
	Resource
	Location
	By     *Change   // the change that gives the description; nil if a list gives it
	Listed *Item     // the list's description, if a change names the resource too: it counts where the change is too old; nil: none
	At     time.Time // for a dispute: the moment of the list that names the resource, or lacks it
	Or     *Resource // for a dispute: another possible version; nil if there is none
}

// carries counts an entry of the manifest of p and returns the place of its bytes. An entry
// without a path has none; neither has any entry of a nil Package.
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

// UnknownLength is the assumed size of a resource of unknown length.
const UnknownLength = 1 << 20

// LengthOr returns a length, or UnknownLength.
func LengthOr(n resourcesync.Length) int64 {
	if n.Known() {
		return n.Int64()
	}
	return UnknownLength
}

// Size is the length of the package, or that of its members if the dump gives none.
func (p *Package) Size() int64 {
	if n := p.Length; n.Known() {
		return n.Int64()
	}
	return p.Listed
}

// maxKept bounds the packages that stay open from the plan to the run, in members; others are
// opened again. A package counts as leastKept at least, so that no more than 64 stay open.
const (
	maxKept   = 1 << 18
	leastKept = maxKept / 64
)

// keep keeps the package open unless too much is; opened counts that.
func (p *Package) keep(opened *int) {
	if p.Opened == nil {
		return
	}
	if *opened += max(p.Opened.Len(), leastKept); *opened > maxKept {
		p.leave()
	}
}

// leave gives the package back; it may be opened again.
func (p *Package) leave() {
	if p.Opened != nil {
		_ = p.Opened.Leave() // of no consequence
		p.Opened = nil
	}
}

// Close closes the package for good.
func (p *Package) Close() {
	if p.Opened != nil {
		_ = p.Opened.Close() // a temporary file
		p.Opened = nil
	}
}

// QuirkOf returns the habit of Sources that caused the error of a package; 0 if none.
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

// OtherFormat returns the error of a package that is not a ZIP file.
func OtherFormat(uri, kind string) error {
	return &DocumentError{URI: uri, Reason: "is " + kind + " where a package in ZIP format was promised (1.1 §11.2)", Quirk: resourcesync.QuirkPackageFormat}
}

// otherFormats are media types of packages that are no ZIP file.
var otherFormats = map[string]string{
	"application/x-tar": pack.KindTar, "application/gzip": pack.KindGzip, "application/x-gzip": pack.KindGzip,
	"application/x-xz": pack.KindXZ, "application/x-bzip2": pack.KindBzip2, "application/zstd": pack.KindZstd,
	"application/x-7z-compressed": pack.Kind7z, "application/vnd.rar": pack.KindRAR, "text/html": pack.KindHTML,
}

// OtherFormat returns an error if the media type of the package is that of another format.
func (p *Package) OtherFormat() error {
	mediaType, _, _ := mime.ParseMediaType(p.mediaType)
	if kind := otherFormats[mediaType]; kind != "" {
		return OtherFormat(p.URI, kind)
	}
	return nil
}

const relContents = "contents"

// packageOf returns the package that an entry of a dump names. It ignores a copy of its
// manifest at an origin that may not speak for the Source.
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

// isLocal reports whether a package is named by a path on the Source's own machine.
func isLocal(loc string) bool {
	return strings.HasPrefix(strings.ToLower(loc), "file:") ||
		len(loc) > 2 && loc[1] == ':' && (loc[2] == '\\' || loc[2] == '/')
}
