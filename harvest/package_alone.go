package harvest

import (
	"bufio"
	"context"
	"errors"
	"net/url"

	"instep/fetch"
	"instep/internal/spool"
	"instep/pack"
	"instep/resourcesync"
)

// manifestOf is the capability of the manifests of a dump.
var manifestOf = map[resourcesync.Capability]resourcesync.Capability{
	resourcesync.CapabilityResourceDump: resourcesync.CapabilityResourceDumpManifest,
	resourcesync.CapabilityChangeDump:   resourcesync.CapabilityChangeDumpManifest,
}

// isPackage reports whether an answer is a package, where a document was expected.
func isPackage(body *bufio.Reader) bool {
	head, err := body.Peek(len("PK\x03\x04"))
	return err == nil && pack.Sniff(head) == pack.KindZIP
}

// onePackage handles a link to a package in the place of its dump (quirk 21). It writes into
// doc the missing dump: with this package alone, and the moments of its manifest.
func (r *Reader) onePackage(ctx context.Context, doc *Document, length int64, want resourcesync.Capability) error {
	ref := &PackageRef{URI: doc.URI}
	if length >= 0 {
		ref.Length = resourcesync.Bytes(length)
	}
	p := &Package{Ref: ref}
	manifest, err := r.Packages.Manifest(ctx, p, manifestOf[want])
	if err != nil {
		return err
	}
	of := manifest.Header.Metadata
	p.leave()
	if err := manifest.file.Close(); err != nil {
		return err
	}
	r.Tell(resourcesync.QuirkPackageLink, "", doc.URI+": a package where a document that names packages was promised; read as its only one")
	h := resourcesync.Header{
		Metadata: resourcesync.Metadata{Capability: want, At: of.At, From: of.From, Until: of.Until},
		Links:    []resourcesync.Link{{Rel: "up", Href: doc.URI}},
	}
	enc, err := resourcesync.NewEncoder(doc.file, h)
	if err == nil {
		err = enc.Encode(resourcesync.Entry{Loc: doc.URI, Metadata: resourcesync.Metadata{
			Type: "application/zip", Length: ref.Length, At: of.At, From: of.From, Until: of.Until,
		}})
	}
	if err == nil {
		err = enc.Close()
	}
	if err != nil {
		return &DocumentError{URI: manifest.URI, Reason: "does not say of when it is", Err: err}
	}
	return r.scan(doc, doc.file.Reader(), want)
}

// largePackage reads an answer that is too large for a document as the only package of a
// dump. If it is none, the error is why.
func (r *Reader) largePackage(ctx context.Context, uri string, want resourcesync.Capability, why error) (*Document, error) {
	base, err := url.Parse(uri)
	if err != nil || manifestOf[want] == "" || !errors.Is(why, fetch.TooLarge) {
		return nil, why
	}
	doc := &Document{URI: uri, base: base, file: spool.NewFile(r.Spool, MaxDocument), opts: r.decoderOptions()}
	if err := r.onePackage(ctx, doc, -1, want); err != nil {
		doc.Close()
		if errors.Is(err, pack.ErrNotZIP) {
			err = why
		}
		return nil, err
	}
	return doc, nil
}
