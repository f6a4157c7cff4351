package destination

import (
	"context"
	"errors"
	"fmt"
	"io"

	"instep/fetch"
	"instep/harvest"
	"instep/pack"
	"instep/transfer"
)

// packages transfers and opens packages. It knows nothing of sets, plans and manifests.
type packages struct {
	client *fetch.Client
	dir    string         // of temporary files
	parts  transfer.Parts // keeps large packages for a later run; may be nil
}

func (d *Destination) packages() *packages {
	p := &packages{client: d.Client, dir: d.Spool}
	p.parts, _ = optional[transfer.Parts](d.Mirror)
	return p
}

// openedPackage is a package of which the directory was read.
type openedPackage struct {
	ref    harvest.PackageRef
	zip    *pack.Package
	dir    string         // of temporary files
	bytes  transfer.Part  // of a package that is here, else nil
	remote *remotePackage // of one that is not, else nil
	spent  bool           // everything was taken out of it that is wanted
}

// open opens a package: the whole of it, which is transferred and verified before anything
// is read from it, or its directory alone. If a server gives no parts, the package is whole.
func (p *packages) open(ctx context.Context, ref *harvest.PackageRef, whole bool) (*openedPackage, error) {
	if err := ref.OtherFormat(); err != nil {
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
			return &harvest.DocumentError{URI: uri, Reason: "cannot be used as a package", Err: err}
		}
	}
	return err
}

// manifest hands the manifest in the package to take; name is that of the member.
func (p *openedPackage) manifest(ctx context.Context, take func(name string, body io.Reader) error) error {
	b, err := p.zip.FindManifest()
	if err != nil {
		return badPackage(p.ref.URI, err)
	}
	open := b.Open
	if err := p.fits(b, harvest.MaxDocument); err != nil {
		return err
	}
	if p.remote != nil {
		s, err := p.remote.segment(ctx, spanOf(b), p.dir)
		defer s.free()
		if err != nil {
			return badPackage(p.ref.URI, err)
		}
		open = func(most int64) (io.ReadCloser, error) { return b.OpenSpan(s, most) }
	}
	r, err := open(harvest.MaxDocument)
	if err != nil {
		return badPackage(p.ref.URI, err)
	}
	defer r.Close()
	return badPackage(p.ref.URI, take(b.Name(), r))
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
		return checksum{}, badPackage(p.ref.URI, err)
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

// fits returns an error if a member has more than most bytes, or is transferred by more than
// twice as many: headers and poor compression may double a small member, but one of a few bytes
// may also take gigabytes of the package.
func (p *openedPackage) fits(b pack.Bitstream, most int64) error {
	n := b.Size()
	if p.remote != nil {
		n = max(n, spanOf(b).size()/2)
	}
	if n <= most {
		return nil
	}
	return badPackage(p.ref.URI, fmt.Errorf("open %q: %w: expected at most %d bytes, got %d", b.Name(), pack.ErrLimit, most, n))
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
