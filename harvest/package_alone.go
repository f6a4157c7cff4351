package harvest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"

	"instep/fetch"
	"instep/pack"
	"instep/resourcesync"
)

var manifestOf = map[resourcesync.Capability]resourcesync.Capability{
	resourcesync.CapabilityResourceDump: resourcesync.CapabilityResourceDumpManifest,
	resourcesync.CapabilityChangeDump:   resourcesync.CapabilityChangeDumpManifest,
}

func isPackage(body *bufio.Reader) bool {
	head, err := body.Peek(len("PK\x03\x04"))
	return err == nil && pack.Sniff(head) == pack.KindZIP
}

// onePackage is called if a link to a dump leads to a package instead (quirk 21). It
// returns a generated dump document with the package as its only entry.
func (r *Reader) onePackage(ctx context.Context, uri string, want resourcesync.Capability, resp *fetch.Response) (*Document, error) {
	p := &Package{URI: uri}
	if resp.ContentLength >= 0 {
		p.Length = resourcesync.Bytes(resp.ContentLength)
	}
	manifest, err := r.Packages.Manifest(ctx, r, p, manifestOf[want])
	if err != nil {
		return nil, err
	}
	of := manifest.Header.Metadata
	p.leave()
	manifest.Close()
	r.Tell(resourcesync.QuirkPackageLink, "", uri+": is a package instead of a document that names packages; read as the only package")
	h := resourcesync.Header{
		Metadata: resourcesync.Metadata{Capability: want, At: of.At, From: of.From, Until: of.Until},
		Links:    []resourcesync.Link{{Rel: "up", Href: uri}},
	}
	var dump bytes.Buffer
	enc, err := resourcesync.NewEncoder(&dump, h)
	if err == nil {
		err = enc.Encode(resourcesync.Entry{Loc: uri, Metadata: resourcesync.Metadata{
			Type: "application/zip", Length: p.Length, At: of.At, From: of.From, Until: of.Until,
		}})
	}
	if err == nil {
		err = enc.Close()
	}
	if err != nil {
		return nil, &DocumentError{URI: manifest.URI, Reason: "does not give its time", Err: err}
	}
	resp.Body = io.NopCloser(&dump)
	return r.decode(uri, resp, want)
}

// largePackage is called with the error of a dump (why). If the dump was too large for
// a document, its URI may lead to a package: largePackage requests the URI again, as
// the only package of the dump. If that is no package either, it returns why.
func (r *Reader) largePackage(ctx context.Context, uri string, want resourcesync.Capability, why error) (*Document, error) {
	if manifestOf[want] == "" || !errors.Is(why, fetch.TooLarge) {
		return nil, why
	}
	doc, err := r.onePackage(ctx, uri, want, &fetch.Response{URL: uri, ContentLength: -1})
	if errors.Is(err, pack.ErrNotZIP) {
		err = why
	}
	return doc, err
}
