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

// Transport transfers and opens packages, whole or in parts. It does not depend on
// plans and mirrors.
type Transport struct {
	Client *fetch.Client
	Spool  string         // directory for temporary files; "" for the system's directory
	Parts  transfer.Parts // stores parts of large packages for a later run; may be nil
	Tell   func(q resourcesync.Quirk, set, text string)
}

// requestCost is the number of bytes whose transfer costs as much as one request.
const requestCost = 64 << 10

// Cost returns the cost of a transfer in bytes: the transferred ones, plus requestCost
// for each request.
func Cost(bytes, requests int64) int64 { return bytes + requests*requestCost }

// Opened is an open package whose ZIP directory was read.
type Opened struct {
	ref    *harvest.Package
	zip    *pack.Package
	dir    string         // directory for temporary files
	most   int64          // maximum size of the manifest in bytes
	bytes  transfer.Part  // the transferred package; nil if range requests read it
	remote *remotePackage // the package, if range requests read it; else nil
	spent  bool           // all wanted members have been taken, so the transferred bytes are of no further use
}

// open opens a package. If whole is false and the server supports range requests, it
// reads only the ZIP directory. Otherwise it transfers and verifies the whole package.
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

// badPackage turns an error about the content of a package into a DocumentError, so
// that the Source is blamed for it.
func badPackage(uri string, err error) error {
	for _, wrong := range []error{pack.ErrNotZIP, pack.ErrAmbiguous, pack.ErrNoManifest, pack.ErrLimit} {
		if errors.Is(err, wrong) {
			return &harvest.DocumentError{URI: uri, Reason: "cannot be used as a package", Err: err}
		}
	}
	return err
}

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

// manifestChecksum returns the length and CRC that the package's ZIP directory gives
// for the manifest.
func (p *Opened) manifestChecksum() (string, error) {
	b, err := p.zip.FindManifest()
	if err != nil {
		return "", badPackage(p.ref.URI, err)
	}
	return checksum(b.Size(), b.Checksum()), nil
}

func checksum(length int64, crc uint32) string { return fmt.Sprintf("%d bytes, CRC %08x", length, crc) }

// find returns the member at a path. If a digest will verify the bytes (proved), find
// also accepts a path that is not relative to the root of the package (quirk 53).
func (p *Opened) find(path string, proved bool) (pack.Bitstream, bool) {
	b, ok := p.zip.Find(path)
	if !ok && proved {
		b, ok = p.zip.FindBelow(path)
	}
	return b, ok
}

// fits returns an error if a member has more bytes than the limit, or takes more than
// twice the limit in the package. Headers and poor compression may double the space of
// a small member. A member that takes more comes from a forged ZIP directory, which may
// claim gigabytes of the package for a few bytes.
func (p *Opened) fits(b pack.Bitstream, limit int64) error {
	n := b.Size()
	if p.remote != nil {
		n = max(n, spanOf(b).size()/2)
	}
	if n <= limit {
		return nil
	}
	return badPackage(p.ref.URI, fmt.Errorf("open %q: %w: expected at most %d bytes, got %d", b.Name(), pack.ErrLimit, limit, n))
}

var _ harvest.Opened = (*Opened)(nil)

// Len returns the number of members.
func (p *Opened) Len() int { return p.zip.Len() }

// Here reports whether the whole package was transferred to this host.
func (p *Opened) Here() bool { return p.remote == nil }

// Close closes the package and removes its transferred bytes.
func (p *Opened) Close() error {
	if p.bytes == nil {
		return nil
	}
	return p.bytes.Discard()
}

// Leave closes the package. It keeps the bytes of a large package for a later run,
// unless all wanted members have been taken.
func (p *Opened) Leave() error {
	if p.spent || p.bytes == nil {
		return p.Close()
	}
	return p.bytes.Close()
}
