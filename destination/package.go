package destination

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"mime"
	"net/url"
	"strings"
	"sync"

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

const relContents = "contents"

// packageOf is the package that an entry of a dump names. A copy of its manifest for
// which the Source may not speak is left out: the manifest in the package counts.
func (d *Destination) packageOf(sc *scope, dump *document, e *resourcesync.Entry) (*packageRef, error) {
	uri, err := sc.document(e.Loc, dump.base.String())
	if err != nil {
		if isLocal(e.Loc) {
			err = &packageError{resourcesync.QuirkLocalPackage, err}
		}
		return nil, err
	}
	ref := &packageRef{
		uri: uri, mediaType: e.Type, length: e.Length, digests: e.Digests,
		at: e.At, from: e.From, until: e.Until,
	}
	if href := e.Link(relContents); href != "" {
		if ref.contents, err = sc.document(href, dump.base.String()); err != nil {
			d.note("", fmt.Sprintf("%s: the copy of its manifest is not read: %v", uri, err))
		}
	}
	return ref, nil
}

// isLocal reports whether a package is named by a path on the Source's own machine.
func isLocal(loc string) bool {
	return strings.HasPrefix(strings.ToLower(loc), "file:") ||
		len(loc) > 2 && loc[1] == ':' && (loc[2] == '\\' || loc[2] == '/')
}

// packageError is about a package that cannot be used, by a habit of Sources.
type packageError struct {
	quirk resourcesync.Quirk
	err   error
}

func (e *packageError) Error() string { return e.err.Error() }
func (e *packageError) Unwrap() error { return e.err }

// quirkOf is the habit of Sources that an error about a package comes from; 0 if none.
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

// otherFormat is the error for a package that is no ZIP file.
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

// otherFormat reports a package that says itself that it is no ZIP file; any other is
// looked at.
func (ref *packageRef) otherFormat() error {
	mediaType, _, _ := mime.ParseMediaType(ref.mediaType)
	if kind := otherFormats[mediaType]; kind != "" {
		return otherFormat(ref.uri, kind)
	}
	return nil
}

// openedPackage is a package of which the directory was read.
type openedPackage struct {
	ref    packageRef
	d      *Destination
	zip    *pack.Package
	bytes  packageBytes
	remote *remotePackage // nil if all bytes are here
	spent  bool           // everything was taken out of it that is wanted
}

// packageBytes are the bytes of a package that are here.
type packageBytes interface {
	io.ReaderAt
	io.Closer
}

// openPackage opens a package: the whole of it, transferred to its end and verified
// before anything is read from it, or some of its bytes, as they are needed. If a
// server can give only all of them, the package is whole.
func (d *Destination) openPackage(ctx context.Context, ref *packageRef, whole bool) (*openedPackage, error) {
	if err := ref.otherFormat(); err != nil {
		return nil, err
	}
	if !whole {
		p, err := d.openRemote(ctx, ref)
		if !errors.Is(err, errNoParts) {
			return p, err
		}
	}
	return d.openWhole(ctx, ref)
}

// badPackage tells what is wrong with a package from trouble with reading it.
func badPackage(uri string, err error) error {
	for _, wrong := range []error{pack.ErrNotZIP, pack.ErrAmbiguous, pack.ErrNoManifest, pack.ErrLimit} {
		if errors.Is(err, wrong) {
			return &DocumentError{URI: uri, Reason: "cannot be used as a package", Err: err}
		}
	}
	return err
}

// bring makes sure that the bytes of these bitstreams are here.
func (p *openedPackage) bring(ctx context.Context, all ...pack.Bitstream) error {
	if p.remote == nil {
		return nil
	}
	return p.remote.bring(ctx, spansOf(all))
}

func spansOf(all []pack.Bitstream) []span {
	spans := make([]span, len(all))
	for i, b := range all {
		off, n := b.Span()
		spans[i] = span{off, off + n}
	}
	return spans
}

// manifest reads the manifest in the package, which has to be one of these capabilities.
func (p *openedPackage) manifest(ctx context.Context, want ...resourcesync.Capability) (_ *document, err error) {
	b, err := p.zip.FindManifest()
	if err != nil {
		return nil, badPackage(p.ref.uri, err)
	}
	if err := p.bring(ctx, b); err != nil {
		return nil, err
	}
	base, err := url.Parse(p.ref.uri)
	if err != nil {
		return nil, err
	}
	doc := &document{uri: p.ref.uri + "!" + b.Name(), base: base, file: spool.NewFile(p.d.Spool, maxTransfer), opts: p.d.decoderOptions()}
	defer func() {
		if err != nil {
			doc.close()
		}
	}()
	r, err := b.Open(maxTransfer)
	if err != nil {
		return nil, badPackage(p.ref.uri, err)
	}
	defer r.Close()
	if _, err := io.Copy(doc.file, r); err != nil {
		return nil, badPackage(p.ref.uri, err)
	}
	return doc, p.d.scanManifest(doc, want)
}

// scanManifest reads a manifest to its end tag.
func (d *Destination) scanManifest(doc *document, want []resourcesync.Capability) error {
	if err := d.scan(doc, doc.file.Reader(), want[0]); err != nil {
		return err
	}
	for _, c := range want {
		if doc.header.Capability == c {
			return nil
		}
	}
	return &DocumentError{URI: doc.uri, Reason: fmt.Sprintf("is a document of capability %q where %q was promised", doc.header.Capability, want[0])}
}

// readManifest reads the manifest of a package in the cheapest way that there is: its
// copy, some bytes of the package, the whole package. A package that had to be opened
// for it comes along; else it is nil.
func (d *Destination) readManifest(ctx context.Context, ref *packageRef, want resourcesync.Capability) (*document, *openedPackage, error) {
	if ref.contents != "" {
		doc, err := d.readCopy(ctx, ref, want)
		if err == nil || ctx.Err() != nil || !ofSource(err) {
			return doc, nil, err
		}
		d.copyIsNotUsed(ref, err)
	}
	p, err := d.openPackage(ctx, ref, false)
	if err != nil {
		return nil, nil, err
	}
	doc, err := p.manifest(ctx, want)
	if err != nil {
		return nil, nil, errors.Join(err, p.close())
	}
	return doc, p, nil
}

func (d *Destination) copyIsNotUsed(ref *packageRef, why error) {
	d.quirk(resourcesync.QuirkManifestCopy, "", fmt.Sprintf("%s: the copy of its manifest is not used, but that in the package: %v", ref.uri, why))
}

// readCopy reads the copy of a manifest. That of a Resource Dump tells what is not in
// the set any more, so it has to be the one in the package, as far as a server gives
// parts of packages: their directory has length and checksum of the manifest. Where
// nothing is held yet, that is left to the run, which reads the package anyway.
func (d *Destination) readCopy(ctx context.Context, ref *packageRef, want resourcesync.Capability) (*document, error) {
	if want != resourcesync.CapabilityResourceDumpManifest || ref.harmless {
		doc, err := d.read(ctx, ref.contents, want)
		if err == nil {
			if err = endsBefore(doc, ref.until); err != nil {
				doc.close()
			}
		}
		return doc, err
	}
	var p *openedPackage
	var wait sync.WaitGroup
	wait.Go(func() { p, _ = d.openRemote(ctx, ref) }) // what is wrong shows when members are taken out of it
	doc, err := d.read(ctx, ref.contents, want)
	wait.Wait()
	if p == nil {
		return doc, err
	}
	if err == nil {
		if _, err = p.compareManifest(doc); err != nil {
			doc.close()
		}
	}
	if err := errors.Join(err, p.close()); err != nil {
		return nil, err
	}
	return doc, nil
}

// compareManifest compares the manifest in the package with a copy of it, and returns what
// they have in common.
func (p *openedPackage) compareManifest(copied *document) (checksum, error) {
	here, err := p.manifestChecksum()
	if err != nil {
		return checksum{}, err
	}
	sum, err := copied.checksum()
	if err == nil && here != sum {
		err = &DocumentError{URI: copied.uri, Reason: "is another manifest than that in the package"}
	}
	return sum, err
}

// checksum is what the directory of a package tells of a member; the zero checksum is of
// no manifest.
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

func (doc *document) checksum() (checksum, error) {
	sum := crc32.NewIEEE()
	n, err := io.Copy(sum, doc.file.Reader())
	return checksum{n, sum.Sum32()}, err
}

// find finds a bitstream by its path. A path that is relative to another directory
// than the root of the package (quirk 53) is taken for meant if a digest will prove it.
func (p *openedPackage) find(path string, proved bool) (pack.Bitstream, bool) {
	b, ok := p.zip.Find(path)
	if !ok && proved {
		b, ok = p.zip.FindBelow(path)
	}
	return b, ok
}

// memberReader tells what is wrong with a member from trouble with reading it.
type memberReader struct {
	io.ReadCloser
	uri string
}

func (m *memberReader) Read(b []byte) (int, error) {
	n, err := m.ReadCloser.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		err = badPackage(m.uri, err)
	}
	return n, err
}

// close gives the package back. What a mirror keeps of it is of no more use.
func (p *openedPackage) close() error {
	if part, ok := p.bytes.(Part); ok {
		return part.Discard()
	}
	return p.bytes.Close()
}

// leave is close, but a mirror keeps the bytes for a later run unless they are spent.
func (p *openedPackage) leave() error {
	if p.spent {
		return p.close()
	}
	return p.bytes.Close()
}
