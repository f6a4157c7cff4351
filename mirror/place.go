package mirror

import (
	"fmt"
	"iter"
	"strings"

	"instep/internal/catalog"
)

// unhashedPath returns the path without any added hash. A new URI gets this path unless a
// file or directory is already there.
func unhashedPath(segments []segment) string {
	if len(segments) == 1 {
		return segments[0].name(segments[0].level)
	}
	var b strings.Builder
	b.Grow(128) // enough for most paths, in bytes
	for i, s := range segments {
		if i > 0 {
			b.WriteByte('/')
		}
		b.WriteString(s.name(s.level))
	}
	return b.String()
}

// matchesPath reports whether path is a possible path for a URI with these segments,
// with or without hashes.
func matchesPath(segments []segment, path string) bool {
	names := strings.Split(path, "/")
	if len(names) != len(segments) {
		return false
	}
	for i, s := range segments {
		level := s.level
		for level <= maxLevel && s.name(level) != names[i] {
			level++
		}
		if level > maxLevel {
			return false
		}
	}
	return true
}

type placer struct {
	names   catalog.Names
	rules   *fileNames
	blocked func(path string, dir bool) (bool, error) // reports whether something that does not belong to the mirror occupies the path
	closed  func(dir string) (bool, error)            // reports whether a directory is closed to resources; nil if no directory is closed
	prefer  string                                    // a path to choose if it is free and fits the URI; "" if there is none
	place   catalog.Place
}

// put chooses a path for a URI. It uses an existing directory whose name the file
// system treats as equal, even if the spelling differs. If another file or directory
// has a name already, put adds a hash to the name, and lengthens the hash until the
// name is free.
func (p *placer) put(segments []segment) (catalog.Place, error) {
	last := len(segments) - 1
	dir := ""
	for _, s := range segments[:last] {
		var err error
		if dir, err = p.directory(dir, s); err != nil {
			return catalog.Place{}, err
		}
	}
	s := segments[last]
	for level := range p.levels(dir, s) {
		path := dir + s.name(level)
		fold := p.rules.key(path)
		free, err := p.freeForFile(path, fold)
		if err != nil {
			return catalog.Place{}, err
		}
		if free {
			p.place.Path = path
			return p.place, checkLength(path)
		}
	}
	return catalog.Place{}, fmt.Errorf("there is no free file name for %q in the directory %q", s.base, dir)
}

// levels yields the levels (lengths of the hash) to try for the name of a segment. It
// begins with the level that the name has in the preferred path.
func (p *placer) levels(dir string, s segment) iter.Seq[int] {
	return func(yield func(int) bool) {
		first := p.preferred(dir, s)
		if first >= 0 && !yield(first) {
			return
		}
		for level := s.level; level <= maxLevel; level++ {
			if level != first && !yield(level) {
				return
			}
		}
	}
}

func (p *placer) preferred(dir string, s segment) int {
	if p.prefer == "" {
		return -1
	}
	for level := s.level; level <= maxLevel; level++ {
		if strings.HasPrefix(p.prefer+"/", dir+s.name(level)+"/") {
			return level
		}
	}
	return -1
}

// checkLength returns an error for a path that is too long. That happens only if
// somebody has constructed URIs whose hashes begin with the same digits.
func checkLength(path string) error {
	if len(path) > maxPath {
		return fmt.Errorf("the path has %d bytes, expected at most %d: %q…", len(path), maxPath, path[:80])
	}
	return nil
}

func (p *placer) freeForFile(path string, fold string) (bool, error) {
	taken, err := p.names.File(fold)
	if err == nil && !taken {
		_, taken, err = p.names.Directory(fold)
	}
	if err == nil && !taken {
		taken, err = p.blocked(path, false)
	}
	return !taken, err
}

// directory returns the path of the directory for a segment. The directory is inside
// the directory dir. Both paths end with a slash, but dir may be "".
func (p *placer) directory(dir string, s segment) (string, error) {
	for level := range p.levels(dir, s) {
		path := dir + s.name(level)
		fold := p.rules.key(path)
		first, ok, err := p.names.Directory(fold)
		if err != nil {
			return "", err
		}
		taken := false
		if p.closed != nil {
			taken, err = p.closed(path)
		}
		if err == nil && ok && !taken {
			return first + "/", nil
		}
		if err == nil && !taken {
			taken, err = p.names.File(fold)
		}
		if err == nil && !taken {
			taken, err = p.blocked(path, true)
		}
		if err != nil {
			return "", err
		}
		if !taken {
			p.place.Directories = append(p.place.Directories, path)
			return path + "/", nil
		}
	}
	return "", fmt.Errorf("there is no free name for the directory %q in %q", s.base, dir)
}
