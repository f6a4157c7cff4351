package mirror

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"sort"
	"strings"
)

// minLongest is the smallest acceptable limit of a file system for the length of names
// in bytes. A name needs room for the whole hash, the extension and some readable text.
const minLongest = 100

// punctuation is all printable ASCII except letters, digits, and characters that are
// never allowed in a name.
const punctuation = " !\"#$%&'()*+,-.:;<=>?@[\\]^_`{|}~"

// probeNames determines which names the file system of a mirror accepts. It creates
// files in our own directory and removes them.
func probeNames(root *os.Root) (n *fileNames, err error) {
	const dir = tempKey + "/names"
	made := root.Mkdir(tempKey, oursMode)
	if made != nil && !errors.Is(made, fs.ErrExist) {
		return nil, made
	}
	if err := errors.Join(root.RemoveAll(dir), root.Mkdir(dir, oursMode)); err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, root.RemoveAll(dir))
		if made == nil { // otherwise the directory is in use
			err = errors.Join(err, root.Remove(tempKey))
		}
	}()
	at, err := root.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	p := prober{root: at}
	n = p.names()
	if err := errors.Join(p.err, at.Close()); err != nil {
		return nil, err
	}
	if n.Longest < minLongest {
		return nil, fmt.Errorf("expected a file system that accepts names of %d bytes, found one that accepts %d", minLongest, n.Longest)
	}
	return n, nil
}

// prober tries out names in a directory of its own.
type prober struct {
	root *os.Root
	err  error // the first error that was not caused by a name
}

func (p *prober) names() *fileNames {
	n := &fileNames{Longest: maxName, Devices: runtime.GOOS == "windows" || !p.takes("con.txt")}
	if !p.takes("x" + punctuation + "x") {
		for _, c := range punctuation {
			if !p.takes("x" + string(c) + "x") {
				n.Refused += string(c)
			}
		}
	}
	for _, c := range []string{" ", "."} {
		if !p.takes("x" + c) {
			n.Ends += c
		}
	}
	if !p.takes(strings.Repeat("x", maxName)) {
		n.Longest = sort.Search(maxName, func(i int) bool { return !p.takes(strings.Repeat("x", i+1)) })
	}
	n.Case = p.same("case", "CASE")
	n.Form = p.same("\u00e9", "e\u0301") || p.same("a\u200db", "ab")
	return n
}

// takes reports whether a file can be created with a name and is listed under it.
func (p *prober) takes(name string) bool {
	if p.err != nil || p.make(name) != nil {
		return false
	}
	names, err := p.list()
	p.note(errors.Join(err, p.root.Remove(name)))
	return slices.Contains(names, name)
}

// same reports whether a file with one name is found by another.
func (p *prober) same(name, other string) bool {
	if p.err != nil || p.make(name) != nil {
		return false
	}
	_, err := p.root.Lstat(other)
	p.note(p.root.Remove(name))
	return err == nil
}

// make creates an empty file. If that fails but a file with a plain name can be
// created, the name is the cause.
func (p *prober) make(name string) error {
	const plain = "plain"
	err := p.create(name)
	if err != nil && name != plain {
		plainly := p.create(plain)
		if plainly == nil {
			plainly = p.root.Remove(plain)
		}
		p.note(plainly)
	}
	return err
}

func (p *prober) create(name string) error {
	f, err := p.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

func (p *prober) list() ([]string, error) {
	f, err := p.root.Open(".")
	if err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(-1)
	return names, errors.Join(err, f.Close())
}

func (p *prober) note(err error) {
	if p.err == nil {
		p.err = err
	}
}
