package packages

import (
	"context"
	"errors"
	"fmt"
	"io"

	"instep/fetch"
	"instep/harvest"
	"instep/pack"
	"instep/resourcesync"
	"instep/transfer"
)

// Transport transfers and opens packages, whole or by parts. It is independent of plans and
// mirrors.
type Transport struct {
	Client *fetch.Client
	Spool  string         // directory of temporary files; "": the system's
	Parts  transfer.Parts // keeps large packages for a later run; may be nil
	Tell   func(q resourcesync.Quirk, set, text string)
}

// requestCost is the cost of a request, in bytes, in addition to the bytes that it
// transfers.
const requestCost = 64 << 10

// Cost is the measure by which ways of transfer are compared.
func Cost(bytes, requests int64) int64 { return bytes + requests*requestCost }

// Opened is a package of which the directory was read.
type Opened struct {
	ref    *harvest.Package
	zip    *pack.Package
	dir    string         // of temporary files
	most   int64          // bytes of its manifest
	bytes  transfer.Part  // part of a transferred package, else nil
	remote *remotePackage // connection to a package that was not transferred, else nil
	spent  bool           // all wanted members have been taken
}

// open opens a package: all of it, which is transferred and verified before it is read, or
// its directory alone. If a server does not support ranges, the package is transferred
// whole.
func (p *Transport) open(ctx context.Context, ref *harvest.Package, whole bool) (*Opened, error) {
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

// badPackage marks an error of the content of a package as one of the Source. Other read
// errors stay as they are.
func badPackage(uri string, err error) error {
	for _, wrong := range []error{pack.ErrNotZIP, pack.ErrAmbiguous, pack.ErrNoManifest, pack.ErrLimit} {
		if errors.Is(err, wrong) {
			return &harvest.DocumentError{URI: uri, Reason: "cannot be used as a package", Err: err}
		}
	}
	return err
}

// manifest passes the manifest in the package to take; name is that of the member.
func (p *Opened) manifest(ctx context.Context, take func(name string, body io.Reader) error) error {
	b, err := p.zip.FindManifest()
	if err != nil {
		return badPackage(p.ref.URI, err)
	}
	open := b.Open
	if err := p.fits(b, p.most); err != nil {
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
	r, err := open(p.most)
	if err != nil {
		return badPackage(p.ref.URI, err)
	}
	defer r.Close()
	return badPackage(p.ref.URI, take(b.Name(), r))
}

// manifestChecksum identifies the manifest, as the directory of the package has it.
func (p *Opened) manifestChecksum() (string, error) {
	b, err := p.zip.FindManifest()
	if err != nil {
		return "", badPackage(p.ref.URI, err)
	}
	return checksum(b.Size(), b.Checksum()), nil
}

func checksum(length int64, crc uint32) string { return fmt.Sprintf("%d bytes, CRC %08x", length, crc) }

// find finds a bitstream by its path. If a digest will prove the bytes, the path may be
// relative to another directory than the root of the package (quirk 53).
func (p *Opened) find(path string, proved bool) (pack.Bitstream, bool) {
	b, ok := p.zip.Find(path)
	if !ok && proved {
		b, ok = p.zip.FindBelow(path)
	}
	return b, ok
}

// fits returns an error if a member has more than most bytes, or is transferred by more than
// twice as many: headers and poor compression may double a small member, but one of a few bytes
// may also take gigabytes of the package.
func (p *Opened) fits(b pack.Bitstream, most int64) error {
	n := b.Size()
	if p.remote != nil {
		n = max(n, spanOf(b).size()/2)
	}
	if n <= most {
		return nil
	}
	return badPackage(p.ref.URI, fmt.Errorf("open %q: %w: expected at most %d bytes, got %d", b.Name(), pack.ErrLimit, most, n))
}

var _ harvest.Opened = (*Opened)(nil)

// Len is how many members there are.
func (p *Opened) Len() int { return p.zip.Len() }

// Here reports whether the whole of the package was transferred.
func (p *Opened) Here() bool { return p.remote == nil }

// Close removes the transferred part of the package.
func (p *Opened) Close() error {
	if p.bytes == nil {
		return nil
	}
	return p.bytes.Discard()
}

// Leave is Close, but keeps the bytes of a large package for a later run unless they are
// spent.
func (p *Opened) Leave() error {
	if p.spent || p.bytes == nil {
		return p.Close()
	}
	return p.bytes.Close()
}
