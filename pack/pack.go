// Package pack reads and writes the packages of a Resource Dump (1.1 §11) and of a Change
// Dump (1.1 §13): ZIP files that hold bitstreams and, at their top level, a manifest.xml
// that lists them.
//
// [Open] reads the directory of a package, [Package.Manifest] opens the manifest, and
// [Package.Find] finds a bitstream by the path in the manifest. No package is trusted.
// [Limits] bound the bytes that are read, no name in a package is ever used as a path of the
// file system, and no member is opened as a package. [Open] refuses a package that programs
// could read in different ways. Such a package has, for example, gaps or overlaps between
// its records, or two members with the same name.
package pack

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"
)

// ManifestName is the name of the manifest of a package (1.1 §11.2, §13.2).
const ManifestName = "manifest.xml"

// Errors about packages, for errors.Is.
var (
	ErrNotZIP     = errors.New("not a ZIP file, or a damaged ZIP file")
	ErrAmbiguous  = errors.New("not a ZIP file that all programs read in the same way")
	ErrNoManifest = errors.New("no manifest")
	ErrLimit      = errors.New("limit reached")
)

// Limits are limits for reading a package. Each field that is 0 stands for its default.
type Limits struct {
	Directory int64 // largest size of the directory in bytes; default 16 MiB
	Members   int   // largest number of members; default 100,000
	Total     int64 // largest size of all members together after decompression, as the directory states it; default 64 GiB
	Manifest  int64 // largest size of the manifest after decompression; default 200 MiB

	// Tolerant makes Open accept a package that programs could read in different ways, for
	// a caller that only inspects the package. [Package.Flaws] lists the problems. If the
	// headers of members contradict the directory at the end of the package, the directory
	// is used.
	Tolerant bool
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Directory: cmp.Or(max(l.Directory, 0), 16<<20),
		Members:   cmp.Or(max(l.Members, 0), 100_000),
		Total:     cmp.Or(max(l.Total, 0), 64<<30),
		Manifest:  cmp.Or(max(l.Manifest, 0), 200<<20),
		Tolerant:  l.Tolerant,
	}
}

// Package is a package whose directory has been read. It is safe for concurrent use.
type Package struct {
	r       io.ReaderAt
	lim     Limits
	members []member       // all members in the order of the directory
	names   map[string]int // indexes of members by their plain names (see plainName)
	flaws   []error

	byBase func() map[string]int // indexes of members by the last segment of the name; -1 if several names have the same last segment
}

// Open reads the directory of the package in r, which is size bytes long. The error wraps
// ErrNotZIP, ErrAmbiguous, ErrLimit or the error of r.
func Open(r io.ReaderAt, size int64, l Limits) (*Package, error) {
	p := &Package{r: r, lim: l.withDefaults(), names: map[string]int{}}
	p.byBase = sync.OnceValue(p.baseNames)
	if err := p.open(size); err != nil {
		return nil, fmt.Errorf("read the directory of the package: %w", err)
	}
	return p, nil
}

func (p *Package) open(size int64) error {
	end, err := p.readEnd(size)
	if err != nil {
		return err
	}
	if err := p.readDirectory(end); err != nil {
		return err
	}
	return p.checkLayout(end)
}

const maxFlaws = 20

// flaw makes an error for a flaw that lets programs read the package in different ways. With
// Limits.Tolerant it records the error and returns nil.
func (p *Package) flaw(format string, args ...any) error {
	err := fmt.Errorf("%w: %w", ErrAmbiguous, fmt.Errorf(format, args...))
	if !p.lim.Tolerant {
		return err
	}
	if len(p.flaws) < maxFlaws {
		p.flaws = append(p.flaws, err)
	}
	return nil
}

// Flaws returns the reasons why Open would refuse the package without Limits.Tolerant. It
// returns at most 20.
func (p *Package) Flaws() []error { return p.flaws }

// Members yields all bitstreams in the order of the directory, including the manifest
// and members that the manifest does not list.
func (p *Package) Members() iter.Seq[Bitstream] {
	return func(yield func(Bitstream) bool) {
		for i := range p.members {
			if !p.members[i].isDirectory() && !yield(Bitstream{p, i}) {
				return
			}
		}
	}
}

// Len returns the number of bitstreams that Members yields.
func (p *Package) Len() (n int) {
	for range p.Members() {
		n++
	}
	return n
}

// Manifest opens the manifest and returns its name as written: [ManifestName], or a variant
// with a slash, a backslash or capital letters. The error wraps ErrNoManifest if there is
// no manifest at the top level.
func (p *Package) Manifest() (name string, r io.ReadCloser, err error) {
	m, err := p.FindManifest()
	if err != nil {
		return "", nil, err
	}
	r, err = m.Open(p.lim.Manifest)
	return m.Name(), r, err
}

// FindManifest finds the manifest. The error wraps ErrNoManifest if there is no manifest,
// and ErrAmbiguous if there are several.
func (p *Package) FindManifest() (Bitstream, error) {
	best, nested, all := -1, -1, 0
	for i := range p.members {
		switch rank := rank(p.members[i].name); {
		case rank == noManifest:
			continue
		case rank == nestedManifest:
			nested = max(nested, i)
			continue
		case best < 0 || rank < p.rank(best):
			best = i
		}
		all++
	}
	switch {
	case all > 1 && !p.lim.Tolerant:
		return Bitstream{}, fmt.Errorf("%w: %d members are called %s", ErrAmbiguous, all, ManifestName)
	case best >= 0 && p.countRank(best) > 1:
		return Bitstream{}, fmt.Errorf("%w: %d members are called %q, expected one", ErrNoManifest, p.countRank(best), p.members[best].name)
	case best >= 0:
		return Bitstream{p, best}, nil
	case nested >= 0:
		return Bitstream{}, fmt.Errorf("%w: expected %s at the top level of the package, got %q", ErrNoManifest, ManifestName, p.members[nested].name)
	}
	return Bitstream{}, fmt.Errorf("%w: none of the %d members is called %s", ErrNoManifest, len(p.members), ManifestName)
}

func (p *Package) rank(i int) int { return rank(p.members[i].name) }

// countRank counts the members with the same rank as member i.
func (p *Package) countRank(i int) (n int) {
	for j := range p.members {
		if p.rank(j) == p.rank(i) {
			n++
		}
	}
	return n
}

// Ranks of names: the lower the rank, the more likely the member is the manifest.
const (
	asWritten      = iota // the name in the standard, manifest.xml
	rooted                // manifest.xml with a slash or backslash at the start
	otherCase             // manifest.xml with capital letters, with or without a slash at the start
	nestedManifest        // a manifest.xml in a subdirectory, which is never the manifest
	noManifest
)

func rank(name string) int {
	if name == ManifestName {
		return asWritten
	}
	if len(name) < len(ManifestName) || !strings.EqualFold(name[len(name)-len(ManifestName):], ManifestName) {
		return noManifest
	}
	parts := segments(name)
	switch {
	case len(parts) == 0 || !strings.EqualFold(parts[len(parts)-1], ManifestName):
		return noManifest
	case len(parts) > 1:
		return nestedManifest
	case parts[0] == ManifestName:
		return rooted
	}
	return otherCase
}
