package destination

import (
	"context"
	"errors"
	"io"
	"mime"

	"instep/fetch"
	"instep/internal/spool"
	"instep/pack"
	"instep/resourcesync"
)

// packageRef is a package as a dump names it (1.1 §11.1, §13.1).
type packageRef struct {
	uri         string
	mediaType   string
	length      resourcesync.Length
	digests     resourcesync.Digests
	contents    string                // URI of a copy of its manifest (rel="contents"); "" if there is none
	harmless    bool                  // nothing is deleted for what the copy lacks
	at          resourcesync.Datetime // of a Resource Dump
	from, until resourcesync.Datetime // of a Change Dump; until is zero while it is open
}

// packageError is an error of a package that comes from a known habit of Sources.
type packageError struct {
	quirk resourcesync.Quirk
	err   error
}

func (e *packageError) Error() string { return e.err.Error() }
func (e *packageError) Unwrap() error { return e.err }

// quirkOf returns the habit of Sources that an error of a package comes from; 0 if none.
func quirkOf(err error) resourcesync.Quirk {
	var pe *packageError
	switch {
	case errors.As(err, &pe):
		return pe.quirk
	case errors.Is(err, pack.ErrNoManifest):
		return resourcesync.QuirkManifest
	}
	return 0
}

// otherFormat returns the error of a package that is no ZIP file.
func otherFormat(uri, kind string) error {
	return &packageError{resourcesync.QuirkPackageFormat, &DocumentError{
		URI: uri, Reason: "is " + kind + " where a package in ZIP format was promised (1.1 §11.2)",
	}}
}

// otherFormats are media types of packages that are no ZIP file.
var otherFormats = map[string]string{
	"application/x-tar": pack.KindTar, "application/gzip": pack.KindGzip, "application/x-gzip": pack.KindGzip,
	"application/x-xz": pack.KindXZ, "application/x-bzip2": pack.KindBzip2, "application/zstd": pack.KindZstd,
	"application/x-7z-compressed": pack.Kind7z, "application/vnd.rar": pack.KindRAR, "text/html": pack.KindHTML,
}

// otherFormat returns an error if the media type of the package is that of another format.
func (ref *packageRef) otherFormat() error {
	mediaType, _, _ := mime.ParseMediaType(ref.mediaType)
	if kind := otherFormats[mediaType]; kind != "" {
		return otherFormat(ref.uri, kind)
	}
	return nil
}

// packages transfers and opens packages. It knows nothing of sets, plans and manifests.
type packages struct {
	client *fetch.Client
	dir    string // of temporary files
	parts  Parts  // keeps large packages for a later run; may be nil
}

func (d *Destination) packages() *packages {
	p := &packages{client: d.Client, dir: d.Spool}
	p.parts, _ = optional[Parts](d.Mirror)
	return p
}

// openedPackage is a package of which the directory was read.
type openedPackage struct {
	ref    packageRef
	zip    *pack.Package
	dir    string         // of temporary files
	bytes  Part           // of a package that is here, else nil
	remote *remotePackage // of one that is not, else nil
	spent  bool           // everything was taken out of it that is wanted
}

// open opens a package: the whole of it, which is transferred and verified before anything
// is read from it, or its directory alone. If a server gives no parts, the package is whole.
func (p *packages) open(ctx context.Context, ref *packageRef, whole bool) (*openedPackage, error) {
	if err := ref.otherFormat(); err != nil {
		return nil, err
	}
	if !whole {
		opened, err := p.openRemote(ctx, ref)
		if !errors.Is(err, errNoParts) {
			return opened, err
		}
	}
	return p.openWhole(ctx, ref)
}

// badPackage makes an error of the content of a package one of the Source. Other errors, of
// reading it, stay as they are.
func badPackage(uri string, err error) error {
	for _, wrong := range []error{pack.ErrNotZIP, pack.ErrAmbiguous, pack.ErrNoManifest, pack.ErrLimit} {
		if errors.Is(err, wrong) {
			return &DocumentError{URI: uri, Reason: "cannot be used as a package", Err: err}
		}
	}
	return err
}

// manifest copies the manifest in the package into a file; name is that of the member.
func (p *openedPackage) manifest(ctx context.Context) (name string, f *spool.File, err error) {
	b, err := p.zip.FindManifest()
	if err != nil {
		return "", nil, badPackage(p.ref.uri, err)
	}
	f = spool.NewFile(p.dir, maxTransfer)
	defer func() {
		if err != nil {
			err = errors.Join(badPackage(p.ref.uri, err), f.Close())
		}
	}()
	open := b.Open
	if p.remote != nil {
		s, err := p.remote.segment(ctx, spanOf(b), p.dir)
		defer s.free()
		if err != nil {
			return "", nil, err
		}
		open = func(most int64) (io.ReadCloser, error) { return b.OpenSpan(s, most) }
	}
	r, err := open(maxTransfer)
	if err != nil {
		return "", nil, err
	}
	defer r.Close()
	_, err = io.Copy(f, r)
	return b.Name(), f, err
}

// checksum identifies a manifest, as the directory of a package has it; the zero checksum is
// none.
type checksum struct {
	length int64
	crc    uint32
}

func (p *openedPackage) manifestChecksum() (checksum, error) {
	b, err := p.zip.FindManifest()
	if err != nil {
		return checksum{}, badPackage(p.ref.uri, err)
	}
	return checksum{b.Size(), b.Checksum()}, nil
}

// find finds a bitstream by its path. If a digest will prove the bytes, the path may be
// relative to another directory than the root of the package (quirk 53).
func (p *openedPackage) find(path string, proved bool) (pack.Bitstream, bool) {
	b, ok := p.zip.Find(path)
	if !ok && proved {
		b, ok = p.zip.FindBelow(path)
	}
	return b, ok
}

// close removes what is here of the package.
func (p *openedPackage) close() error {
	if p.bytes == nil {
		return nil
	}
	return p.bytes.Discard()
}

// leave is close, but keeps the bytes of a large package for a later run unless they are
// spent.
func (p *openedPackage) leave() error {
	if p.spent || p.bytes == nil {
		return p.close()
	}
	return p.bytes.Close()
}
