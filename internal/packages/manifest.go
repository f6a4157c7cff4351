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

// This file reads package entries of documents, and the manifests of packages.

// manifestIn reads the manifest of a package, which must have one of these capabilities.
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

// readManifest reads the manifest of a package from the cheapest place: its copy, a remote
// package, a whole one. It returns the package too if that was opened. Where resources are
// deleted on its word alone, and the dump gives a digest of the package, that proves it: it is
// read whole.
func (t *Transport) readManifest(ctx context.Context, r *harvest.Reader, ref *harvest.Package, want resourcesync.Capability) (*harvest.Document, *Opened, error) {
	if ref.Contents != "" {
		doc, err := t.readCopy(ctx, r, ref, want)
		if err == nil || ctx.Err() != nil || !harvest.OfSource(err) {
			return doc, nil, err
		}
		t.copyIsNotUsed(ref, err)
	}
	p, err := t.open(ctx, ref, ref.Alone && len(ref.Digests) > 0)
	if err != nil {
		return nil, nil, err
	}
	doc, err := manifestIn(ctx, r, p, want)
	if err != nil {
		return nil, nil, errors.Join(err, p.Close())
	}
	return doc, p, nil
}

func (t *Transport) copyIsNotUsed(ref *harvest.Package, why error) {
	t.Tell(resourcesync.QuirkManifestCopy, "", fmt.Sprintf("%s: the copy of its manifest is not used, but that in the package: %v", ref.URI, why))
}

// readCopy reads the copy of a manifest. Resources that a Resource Dump lacks are deleted,
// so its copy is compared with length and Checksum of the manifest in the directory of the
// package, if the server gives parts of packages. Where nothing is held yet the run does that.
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
	wait.Go(func() { p, _ = t.openRemote(ctx, ref) }) // an error will show when members are taken from it
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

// compareManifest is an error unless a document is a copy of the manifest in the package.
func (p *Opened) compareManifest(copied *harvest.Document) error {
	here, err := p.manifestChecksum()
	if err != nil {
		return err
	}
	sum, err := checksumOf(copied)
	if err == nil && here != sum {
		err = &harvest.DocumentError{URI: copied.URI, Reason: "is another manifest than that in the package"}
	}
	return err
}

func checksumOf(doc *harvest.Document) (string, error) {
	sum := crc32.NewIEEE()
	n, err := io.Copy(sum, doc.Raw())
	return checksum(n, sum.Sum32()), err
}

var _ harvest.Manifests = (*Transport)(nil)

// Manifest implements [harvest.Manifests]. If the package had to be opened for that, it
// stays open for the run.
func (t *Transport) Manifest(ctx context.Context, r *harvest.Reader, p *harvest.Package, want resourcesync.Capability) (*harvest.Document, error) {
	doc, opened, err := t.readManifest(ctx, r, p, want)
	if err != nil {
		return nil, err
	}
	p.Close()
	p.Members, p.Listed, p.Unsized, p.Copied = 0, 0, false, ""
	switch {
	case opened != nil:
		p.Opened = opened
	case want == resourcesync.CapabilityResourceDumpManifest:
		if p.Copied, err = checksumOf(doc); err != nil {
			doc.Close()
			return nil, err
		}
	}
	return doc, nil
}
