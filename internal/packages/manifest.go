package packages

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/url"
	"sync"

	"instep/harvest"
	"instep/resourcesync"
)

func manifestIn(ctx context.Context, r *harvest.Reader, p *Opened, want ...resourcesync.Capability) (*harvest.Document, error) {
	base, err := url.Parse(p.ref.URI)
	if err != nil {
		return nil, err
	}
	var doc *harvest.Document
	err = p.manifest(ctx, func(name string, body io.Reader) (err error) {
		doc, err = r.Keep(p.ref.URI+"!"+name, base, body, want...)
		return err
	})
	return doc, err
}

// readCopy reads the copy of a manifest outside the package. Because a Destination
// deletes resources that the manifests of a Resource Dump do not contain, readCopy
// compares the copy with the length and checksum in the package's ZIP directory. It
// does not compare them if the server does not support range requests, or if no
// deletion depends on the manifest (ref.Harmless).
func (t *Transport) readCopy(ctx context.Context, r *harvest.Reader, ref *harvest.Package, want resourcesync.Capability) (*harvest.Document, error) {
	if want != resourcesync.CapabilityResourceDumpManifest || ref.Harmless {
		doc, err := r.Read(ctx, ref.Contents, want)
		if err == nil {
			if err = harvest.EndsBefore(doc, ref.Until); err != nil {
				doc.Close()
			}
		}
		return doc, err
	}
	var p *Opened
	var wait sync.WaitGroup
	wait.Go(func() { p, _ = t.openRemote(ctx, ref) }) // the error is ignored here: it occurs again when members are taken from the package
	doc, err := r.Read(ctx, ref.Contents, want)
	wait.Wait()
	if p == nil {
		return doc, err
	}
	if err == nil {
		if err = p.compareManifest(doc); err != nil {
			doc.Close()
		}
	}
	if err := errors.Join(err, p.Close()); err != nil {
		return nil, err
	}
	return doc, nil
}

func (p *Opened) compareManifest(copied *harvest.Document) error {
	here, err := p.manifestChecksum()
	if err != nil {
		return err
	}
	sum, err := checksumOf(copied)
	if err == nil && here != sum {
		err = &harvest.DocumentError{URI: copied.URI, Reason: "differs from the manifest in the package"}
	}
	return err
}

func checksumOf(doc *harvest.Document) (string, error) {
	sum := crc32.NewIEEE()
	n, err := io.Copy(sum, doc.Raw())
	return checksum(n, sum.Sum32()), err
}

var _ harvest.Manifests = (*Transport)(nil)

// Manifest implements [harvest.Manifests]. It reads the manifest of a package in the
// cheapest possible way: from its copy, by range requests, or from the transferred
// package. If it opens the package, the package stays open for the run. If resources
// will be deleted because of this manifest alone, and the dump gives a digest of the
// package, Manifest transfers the whole package, so that the digest proves the
// manifest.
func (t *Transport) Manifest(ctx context.Context, r *harvest.Reader, ref *harvest.Package, want resourcesync.Capability) (doc *harvest.Document, err error) {
	if ref.Contents != "" {
		if doc, err = t.readCopy(ctx, r, ref, want); harvest.OfSource(err) && ctx.Err() == nil {
			t.Tell(resourcesync.QuirkManifestCopy, "", fmt.Sprintf("%s: the manifest in the package is used instead of its copy: %v", ref.URI, err))
			doc, err = nil, nil
		}
	}
	var opened *Opened
	if doc == nil && err == nil {
		if opened, err = t.open(ctx, ref, ref.Alone && len(ref.Digests) > 0); err == nil {
			if doc, err = manifestIn(ctx, r, opened, want); err != nil {
				err = errors.Join(err, opened.Close())
			}
		}
	}
	if err != nil {
		return nil, err
	}
	ref.Close()
	ref.Members, ref.Listed, ref.Unsized, ref.Copied = 0, 0, false, ""
	switch {
	case opened != nil:
		ref.Opened = opened
	case want == resourcesync.CapabilityResourceDumpManifest:
		if ref.Copied, err = checksumOf(doc); err != nil {
			doc.Close()
			return nil, err
		}
	}
	return doc, nil
}
