// Package pack reads and writes the packages of a Resource Dump (1.1 §11) and of a Change Dump
// (1.1 §13): ZIP files that hold resources and, at their top level, a manifest.xml
// that says what is what.
//
// [Open] reads the directory of a package, [Package.Manifest] the manifest. Nothing
// in a package is believed: what can be read is bounded by [Limits], no name in it is
// ever used as a path, and the manifest fails before io.EOF if its checksum is wrong.
package pack

import (
	"archive/zip"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// ManifestName is the name of the manifest of a package (1.1 §11.2, §13.2).
const ManifestName = "manifest.xml"

// What is wrong with a package; errors.Is finds them.
var (
	ErrNotZIP     = errors.New("not a ZIP file, or a damaged one")
	ErrNoManifest = errors.New("no manifest")
	ErrLimit      = errors.New("limit reached")
)

// Limits bound what is read of a package. A field that is 0 takes its default.
type Limits struct {
	Directory int64 // bytes of the list of its members; default 16 MiB, room for some 100,000
	Manifest  int64 // bytes of the manifest, decompressed; default 100 MiB
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Directory: cmp.Or(max(l.Directory, 0), 16<<20),
		Manifest:  cmp.Or(max(l.Manifest, 0), 100<<20),
	}
}

// Package is a package whose directory was read.
type Package struct {
	zip *zip.Reader
	lim Limits
}

// Open reads the directory of the package that r holds, size bytes long. The error
// wraps ErrNotZIP, ErrLimit or that of r.
func Open(r io.ReaderAt, size int64, l Limits) (*Package, error) {
	l = l.withDefaults()
	b := &budget{r: r, left: l.Directory}
	z, err := zip.NewReader(b, size)
	switch {
	case b.err != nil:
		return nil, fmt.Errorf("read the directory of the package: %w", b.err)
	case errors.Is(err, zip.ErrInsecurePath): // names are compared, never used
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrNotZIP, err)
	}
	b.opened = true
	return &Package{zip: z, lim: l}, nil
}

// budget counts what is read until the package is open. Only the directory is, so it
// can be no larger than the budget.
type budget struct {
	r      io.ReaderAt
	left   int64
	opened bool
	err    error // of r, or ErrLimit
}

func (b *budget) ReadAt(p []byte, off int64) (int, error) {
	if b.opened {
		return b.r.ReadAt(p, off)
	}
	if b.left -= int64(len(p)); b.left < 0 {
		b.err = fmt.Errorf("%w: it is too large", ErrLimit)
		return 0, b.err
	}
	n, err := b.r.ReadAt(p, off)
	if err != nil && err != io.EOF {
		b.err = err
	}
	return n, err
}

// Manifest opens the manifest. name is that of the member as written, which is
// [ManifestName] unless somebody wrote a slash, a backslash or capitals. The error
// wraps ErrNoManifest if there is none at the top level.
func (p *Package) Manifest() (name string, r io.ReadCloser, err error) {
	f, err := p.findManifest()
	if err != nil {
		return "", nil, err
	}
	if f.Flags&1 != 0 {
		return "", nil, fmt.Errorf("open %q: it is encrypted; expected a member that anybody can read", f.Name)
	}
	if f.UncompressedSize64 > uint64(p.lim.Manifest) {
		return "", nil, fmt.Errorf("open %q: %w: expected at most %d bytes, got %d", f.Name, ErrLimit, p.lim.Manifest, f.UncompressedSize64)
	}
	m, err := f.Open() // yields no more than the size just checked
	if err != nil {
		return "", nil, fmt.Errorf("open %q: %w", f.Name, err)
	}
	return f.Name, m, nil
}

// findManifest finds the member that is spelled best.
func (p *Package) findManifest() (*zip.File, error) {
	var best, nested *zip.File
	same := 0
	for _, f := range p.zip.File {
		switch rank(f.Name) {
		case noManifest:
			continue
		case nestedManifest:
			nested = cmp.Or(nested, f)
			continue
		}
		switch {
		case best == nil || rank(f.Name) < rank(best.Name):
			best, same = f, 1
		case rank(f.Name) == rank(best.Name):
			same++
		}
	}
	switch {
	case same > 1:
		return nil, fmt.Errorf("%w: %d members are called %q, expected one", ErrNoManifest, same, best.Name)
	case best != nil:
		return best, nil
	case nested != nil:
		return nil, fmt.Errorf("%w: expected %s at the top level of the package, got %q", ErrNoManifest, ManifestName, nested.Name)
	}
	return nil, fmt.Errorf("%w: none of the %d members is called %s", ErrNoManifest, len(p.zip.File), ManifestName)
}

// How well a member is named as a manifest, best first.
const (
	asWritten      = iota // as the standard writes it
	rooted                // with a slash or backslash before it
	otherCase             // in capitals, with or without that
	nestedManifest        // in a directory: not the manifest
	noManifest
)

func rank(name string) int {
	if name == ManifestName {
		return asWritten
	}
	parts := strings.FieldsFunc(name, func(r rune) bool { return r == '/' || r == '\\' })
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "." })
	switch {
	case len(parts) == 0 || !strings.EqualFold(parts[len(parts)-1], ManifestName) || strings.HasSuffix(name, "/"):
		return noManifest
	case len(parts) > 1:
		return nestedManifest
	case parts[0] == ManifestName:
		return rooted
	}
	return otherCase
}
