package harvest

import (
	"errors"
	"fmt"
	"mime"
	"strings"

	"instep/pack"
	"instep/resourcesync"
)

// QuirkOf returns the habit of Sources that an error of a package comes from; 0 if none.
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

// OtherFormat returns the error of a package that is no ZIP file.
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
