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

// Package is a package that a dump lists (1.1 §11.1, §13.1), with the facts that the
// Reader finds out about it.
type Package struct {
	URI         string
	mediaType   string
	Length      resourcesync.Length
	Digests     resourcesync.Digests
	Contents    string                // URI of a copy of the manifest ("contents" link); "" if there is none
	Harmless    bool                  // no resource is deleted just because the manifest does not contain it
	Alone       bool                  // resources that are missing from the manifest are deleted even if no Resource List confirms the deletion
	at          resourcesync.Datetime // for a Resource Dump: time of the state that the package contains
	from, Until resourcesync.Datetime // for a Change Dump: the period of the changes in the package; Until is zero while the package is open

	Members int64  // number of manifest entries with a path
	Listed  int64  // total size in bytes of the members, with an estimate for those of unknown length
	Unsized bool   // the manifest does not give the length of every member
	Opened  Opened // the package, if it was opened to read its manifest; else nil
	Copied  string // for a Resource Dump: checksum of the copy of the manifest, if the copy was read; else ""
}

// Opened is an open package whose ZIP directory is in memory.
type Opened interface {
	Len() int
	Leave() error // closes the package; the bytes that were transferred may be kept for a later run
	Close() error // closes the package and removes the bytes that were transferred
}

// Location says where in a package the bytes of a resource are. It is zero if no
// package contains them.
type Location struct {
	Package *Package
	Path    string // rs:md/@path
	Offset  int64  // total size in bytes of the members before this one in the manifest
}

// Item is a Source's description of a resource, with the package of its bytes, if any.
type Item struct {
	Resource
	Location
	By     *Change   // the change that contains the description; nil if a list contains it
	Listed *Item     // the listed description, if it is unknown whether the list or the change is newer; else nil
	At     time.Time // time of the list, if documents contradict each other
	Or     *Resource // another version that may be the present one, if documents contradict each other; else nil
}

// countEntry counts an entry of the manifest, and returns where in the package its
// bytes are. If the entry has no path, or the package is nil, it returns the zero
// Location.
func (p *Package) countEntry(e *resourcesync.Entry) Location {
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

// maxKept limits how many packages stay open after their manifests were read: it is the
// maximum total of their members. Other packages are opened again when their bytes are
// needed. A package counts as at least leastKept members, so at most 64 packages stay
// open.
const (
	maxKept   = 1 << 18
	leastKept = maxKept / 64
)

// keepOpen adds the number of members of the package to opened, and closes the package
// if the sum is more than maxKept.
func (p *Package) keepOpen(opened *int) {
	if p.Opened == nil {
		return
	}
	if *opened += max(p.Opened.Len(), leastKept); *opened > maxKept {
		p.leave()
	}
}

func (p *Package) leave() {
	if p.Opened != nil {
		_ = p.Opened.Leave() // the error is harmless: bytes that were not kept are transferred again
		p.Opened = nil
	}
}

// Close closes the package and removes the bytes that were transferred.
func (p *Package) Close() {
	if p.Opened != nil {
		_ = p.Opened.Close()
		p.Opened = nil
	}
}

// QuirkOf returns the quirk that caused the error of a package; 0 if none did.
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

// packageOf returns the package of an entry. It ignores a copy of the manifest at an
// origin from which documents may not be read.
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

// isLocal reports whether the URI of a package is a path on the Source's own machine.
func isLocal(loc string) bool {
	return strings.HasPrefix(strings.ToLower(loc), "file:") ||
		len(loc) > 2 && loc[1] == ':' && (loc[2] == '\\' || loc[2] == '/')
}
