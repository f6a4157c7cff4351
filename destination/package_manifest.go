package destination

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

// This file reads what documents say of packages, and the manifests of packages as documents.

// manifestIn reads the manifest in a package, which has to be one of these capabilities.
func manifestIn(ctx context.Context, r *harvest.Reader, p *openedPackage, want ...resourcesync.Capability) (*harvest.Document, error) {
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
func (d *Destination) readManifest(ctx context.Context, r *harvest.Reader, ref *harvest.PackageRef, want resourcesync.Capability) (*harvest.Document, *openedPackage, error) {
	if ref.Contents != "" {
		doc, err := d.readCopy(ctx, r, ref, want)
		if err == nil || ctx.Err() != nil || !harvest.OfSource(err) {
			return doc, nil, err
		}
		d.copyIsNotUsed(ref, err)
	}
	p, err := d.packages().open(ctx, ref, ref.Alone && len(ref.Digests) > 0)
	if err != nil {
		return nil, nil, err
	}
	doc, err := manifestIn(ctx, r, p, want)
	if err != nil {
		return nil, nil, errors.Join(err, p.close())
	}
	return doc, p, nil
}

func (d *Destination) copyIsNotUsed(ref *harvest.PackageRef, why error) {
	d.quirk(resourcesync.QuirkManifestCopy, "", fmt.Sprintf("%s: the copy of its manifest is not used, but that in the package: %v", ref.URI, why))
}

// readCopy reads the copy of a manifest. Resources that a Resource Dump lacks are deleted,
// so its copy is compared with length and checksum of the manifest in the directory of the
// package, if the server gives parts of packages. Where nothing is held yet the run does that.
func (d *Destination) readCopy(ctx context.Context, r *harvest.Reader, ref *harvest.PackageRef, want resourcesync.Capability) (*harvest.Document, error) {
	if want != resourcesync.CapabilityResourceDumpManifest || ref.Harmless {
		doc, err := r.Read(ctx, ref.Contents, want)
		if err == nil {
			if err = harvest.EndsBefore(doc, ref.Until); err != nil {
				doc.Close()
			}
		}
		return doc, err
	}
	var p *openedPackage
	var wait sync.WaitGroup
	wait.Go(func() { p, _ = d.packages().openRemote(ctx, ref) }) // an error will show when members are taken out of it
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
	if err := errors.Join(err, p.close()); err != nil {
		return nil, err
	}
	return doc, nil
}

// compareManifest is an error unless a document is a copy of the manifest in the package.
func (p *openedPackage) compareManifest(copied *harvest.Document) error {
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

func checksumOf(doc *harvest.Document) (checksum, error) {
	sum := crc32.NewIEEE()
	n, err := io.Copy(sum, doc.Raw())
	return checksum{n, sum.Sum32()}, err
}

// packageManifests implements harvest.Manifests.
type packageManifests struct{ d *Destination }

// transferred is what the reading of a manifest has brought of its package.
type transferred struct {
	opened *openedPackage // nil: it did not have to be opened
	copied checksum       // of the copy of the manifest of a Resource Dump that was read
}

// transferOf is what was transferred of a package.
func transferOf(p *harvest.Package) *transferred {
	if t, ok := p.Transfer.(*transferred); ok {
		return t
	}
	return &transferred{}
}

// Open implements harvest.Transfer.
func (t *transferred) Open() bool { return t.opened != nil }

// Leave implements harvest.Transfer.
func (t *transferred) Leave() {
	if t.opened != nil {
		_ = t.opened.leave() // of no consequence
		t.opened = nil
	}
}

// Close implements harvest.Transfer.
func (t *transferred) Close() {
	if t.opened != nil {
		_ = t.opened.close() // a temporary file
		t.opened = nil
	}
}

// Manifest reads the manifest of a package. If the package had to be opened for that, it
// stays open for the run.
func (m packageManifests) Manifest(ctx context.Context, r *harvest.Reader, p *harvest.Package, want resourcesync.Capability) (*harvest.Document, error) {
	doc, opened, err := m.d.readManifest(ctx, r, p.Ref, want)
	if err != nil {
		return nil, err
	}
	p.Close()
	*p = harvest.Package{Ref: p.Ref}
	kept := &transferred{opened: opened}
	if opened == nil && want == resourcesync.CapabilityResourceDumpManifest {
		if kept.copied, err = checksumOf(doc); err != nil {
			doc.Close()
			return nil, err
		}
	}
	p.Transfer = kept
	return doc, nil
}
