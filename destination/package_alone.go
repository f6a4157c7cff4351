package destination

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

// manifestOf is what the packages of a dump have for a manifest.
var manifestOf = map[resourcesync.Capability]resourcesync.Capability{
	resourcesync.CapabilityResourceDump: resourcesync.CapabilityResourceDumpManifest,
	resourcesync.CapabilityChangeDump:   resourcesync.CapabilityChangeDumpManifest,
}

// isPackage reports whether a package begins where a document was expected.
func isPackage(body *bufio.Reader) bool {
	head, err := body.Peek(len("PK\x03\x04"))
	return err == nil && pack.Sniff(head) == pack.KindZIP
}

// onePackage writes into doc the dump that a Source left out which leads to a package
// itself (quirk 21): of this package, and of the moment of its manifest.
func (d *Destination) onePackage(ctx context.Context, doc *document, length int64, want resourcesync.Capability) error {
	ref := &packageRef{uri: doc.uri}
	if length >= 0 {
		ref.length = resourcesync.Bytes(length)
	}
	manifest, p, err := d.readManifest(ctx, ref, manifestOf[want])
	if err != nil {
		return err
	}
	of := manifest.header.Metadata
	if err := errors.Join(p.leave(), manifest.file.Close()); err != nil {
		return err
	}
	d.quirk(resourcesync.QuirkPackageLink, "", doc.uri+": a package where a document that names packages was promised; read as its only one")
	h := resourcesync.Header{
		Metadata: resourcesync.Metadata{Capability: want, At: of.At, From: of.From, Until: of.Until},
		Links:    []resourcesync.Link{{Rel: "up", Href: doc.uri}},
	}
	enc, err := resourcesync.NewEncoder(doc.file, h)
	if err == nil {
		err = enc.Encode(resourcesync.Entry{Loc: doc.uri, Metadata: resourcesync.Metadata{
			Type: "application/zip", Length: ref.length, At: of.At, From: of.From, Until: of.Until,
		}})
	}
	if err == nil {
		err = enc.Close()
	}
	if err != nil {
		return &DocumentError{URI: manifest.uri, Reason: "does not say of when it is", Err: err}
	}
	return d.scan(doc, doc.file.Reader(), want)
}

// largePackage reads what is too large for a document as the only package of a dump, if
// that is what it can be. Else it returns why it could not be read.
func (d *Destination) largePackage(ctx context.Context, uri string, want resourcesync.Capability, why error) (*document, error) {
	base, err := url.Parse(uri)
	if err != nil || manifestOf[want] == "" || !errors.Is(why, fetch.TooLarge) {
		return nil, why
	}
	doc := &document{uri: uri, base: base, file: spool.NewFile(d.Spool, maxTransfer), opts: d.decoderOptions()}
	if err := d.onePackage(ctx, doc, -1, want); err != nil {
		doc.close()
		if errors.Is(err, pack.ErrNotZIP) {
			err = why
		}
		return nil, err
	}
	return doc, nil
}
