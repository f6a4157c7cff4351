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

// minLongest is the length in bytes that a file system must allow for names. A name of
// this length has room for the whole hash, the extension and some readable text.
const minLongest = 100

// punctuation has all printable ASCII characters except letters, digits, and characters
// that no name may have.
const punctuation = " !\"#$%&'()*+,-.:;<=>?@[\\]^_`{|}~"

// probeNames determines which names the file system of a mirror accepts and
// distinguishes. It creates and removes files in a directory in .instep.
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
		if made == nil { // removes the directory only if probeNames has created it; otherwise it may be in use
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
		return nil, fmt.Errorf("the file system accepts names of at most %d bytes, but the mirror needs names of %d bytes", n.Longest, minLongest)
	}
	return n, nil
}

// prober creates and removes files with different names in a directory of its own, to
// find out which names the file system accepts.
type prober struct {
	root *os.Root
	err  error // the first error that had another cause than the name of a file
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

// takes reports whether a file can be created with the given name, and whether a listing
// of the directory then shows that name.
func (p *prober) takes(name string) bool {
	if p.err != nil || p.make(name) != nil {
		return false
	}
	names, err := p.list()
	p.note(errors.Join(err, p.root.Remove(name)))
	return slices.Contains(names, name)
}

// same reports whether a file that was created with the first name can be opened by the
// second name.
func (p *prober) same(name, other string) bool {
	if p.err != nil || p.make(name) != nil {
		return false
	}
	_, err := p.root.Lstat(other)
	p.note(p.root.Remove(name))
	return err == nil
}

// make creates an empty file. If that fails, it tries to create a file with a plain name.
// If that works, the name was the cause. Otherwise it records the error.
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
