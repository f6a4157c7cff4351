package destination

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/url"
	"slices"
	"strings"
	"sync"

	"instep/resourcesync"
)

// This file reads what documents say of packages, and the manifests of packages as documents.

const relContents = "contents"

// packageOf returns the package that an entry of a dump names. It ignores a copy of its
// manifest at an origin that may not speak for the Source.
func (r *reader) packageOf(dump *document, e *resourcesync.Entry) (*packageRef, error) {
	uri, err := r.named(e.Loc, dump.base)
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
		if ref.contents, err = r.named(href, dump.base); err != nil {
			r.note("", fmt.Sprintf("%s: the copy of its manifest is not read: %v", uri, err))
		}
	}
	return ref, nil
}

// isLocal reports whether a package is named by a path on the Source's own machine.
func isLocal(loc string) bool {
	return strings.HasPrefix(strings.ToLower(loc), "file:") ||
		len(loc) > 2 && loc[1] == ':' && (loc[2] == '\\' || loc[2] == '/')
}

// manifestIn reads the manifest in a package, which has to be one of these capabilities.
func (d *Destination) manifestIn(ctx context.Context, p *openedPackage, want ...resourcesync.Capability) (*document, error) {
	base, err := url.Parse(p.ref.uri)
	if err != nil {
		return nil, err
	}
	name, f, err := p.manifest(ctx)
	if err != nil {
		return nil, err
	}
	doc := &document{uri: p.ref.uri + "!" + name, base: base, file: f, opts: d.decoderOptions()}
	err = d.scan(doc, f.Reader(), want[0])
	if got := doc.header.Capability; err == nil && !slices.Contains(want, got) {
		err = &DocumentError{URI: doc.uri, Reason: fmt.Sprintf("is a document of capability %q where %q was promised", got, want[0])}
	}
	if err != nil {
		doc.close()
		return nil, err
	}
	return doc, nil
}

// readManifest reads the manifest of a package from the cheapest place: its copy, a remote
// package, a whole one. It returns the package too if that was opened.
func (d *Destination) readManifest(ctx context.Context, ref *packageRef, want resourcesync.Capability) (*document, *openedPackage, error) {
	if ref.contents != "" {
		doc, err := d.readCopy(ctx, ref, want)
		if err == nil || ctx.Err() != nil || !ofSource(err) {
			return doc, nil, err
		}
		d.copyIsNotUsed(ref, err)
	}
	p, err := d.packages().open(ctx, ref, false)
	if err != nil {
		return nil, nil, err
	}
	doc, err := d.manifestIn(ctx, p, want)
	if err != nil {
		return nil, nil, errors.Join(err, p.close())
	}
	return doc, p, nil
}

func (d *Destination) copyIsNotUsed(ref *packageRef, why error) {
	d.quirk(resourcesync.QuirkManifestCopy, "", fmt.Sprintf("%s: the copy of its manifest is not used, but that in the package: %v", ref.uri, why))
}

// readCopy reads the copy of a manifest. Resources that a Resource Dump lacks are deleted,
// so its copy is compared with length and checksum of the manifest in the directory of the
// package, if the server gives parts of packages. Where nothing is held yet the run does that.
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
	wait.Go(func() { p, _ = d.packages().openRemote(ctx, ref) }) // an error will show when members are taken out of it
	doc, err := d.read(ctx, ref.contents, want)
	wait.Wait()
	if p == nil {
		return doc, err
	}
	if err == nil {
		if err = p.compareManifest(doc); err != nil {
			doc.close()
		}
	}
	if err := errors.Join(err, p.close()); err != nil {
		return nil, err
	}
	return doc, nil
}

// compareManifest is an error unless a document is a copy of the manifest in the package.
func (p *openedPackage) compareManifest(copied *document) error {
	here, err := p.manifestChecksum()
	if err != nil {
		return err
	}
	sum, err := copied.checksum()
	if err == nil && here != sum {
		err = &DocumentError{URI: copied.uri, Reason: "is another manifest than that in the package"}
	}
	return err
}

func (doc *document) checksum() (checksum, error) {
	sum := crc32.NewIEEE()
	n, err := io.Copy(sum, doc.file.Reader())
	return checksum{n, sum.Sum32()}, err
}
