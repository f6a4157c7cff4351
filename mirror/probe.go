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

// minLongest is the length in bytes that a file system must allow for names: enough for
// the whole hash, the extension and some readable text.
const minLongest = 100

// punctuation has the printable ASCII characters except letters, digits, and the slash,
// which no name may have.
const punctuation = " !\"#$%&'()*+,-.:;<=>?@[\\]^_`{|}~"

// probeNames determines which names the file system accepts and distinguishes, by
// creating files in a directory in .instep.
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
		if made == nil { // only if probeNames has created this directory, since otherwise another process may use it
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

// prober creates and removes files with different names in a directory of its own.
type prober struct {
	root *os.Root
	err  error // the first error that is not caused by the name of a file
}

func (p *prober) names() *fileNames {
	n := &fileNames{Longest: maxName, Devices: runtime.GOOS == "windows" || !p.accepts("con.txt")}
	if !p.accepts("x" + punctuation + "x") {
		for _, c := range punctuation {
			if !p.accepts("x" + string(c) + "x") {
				n.Refused += string(c)
			}
		}
	}
	for _, c := range []string{" ", "."} {
		if !p.accepts("x" + c) {
			n.Ends += c
		}
	}
	if !p.accepts(strings.Repeat("x", maxName)) {
		n.Longest = sort.Search(maxName, func(i int) bool { return !p.accepts(strings.Repeat("x", i+1)) })
	}
	n.Case = p.isSame("case", "CASE")
	n.Form = p.isSame("\u00e9", "e\u0301") || p.isSame("a\u200db", "ab")
	return n
}

// accepts reports whether a file can be created with the given name, and is then listed
// with that name.
func (p *prober) accepts(name string) bool {
	if p.err != nil || p.make(name) != nil {
		return false
	}
	names, err := p.list()
	p.note(errors.Join(err, p.root.Remove(name)))
	return slices.Contains(names, name)
}

// isSame creates a file with the first name, and reports whether the file can also be
// opened by the second name.
func (p *prober) isSame(name, other string) bool {
	if p.err != nil || p.make(name) != nil {
		return false
	}
	_, err := p.root.Lstat(other)
	p.note(p.root.Remove(name))
	return err == nil
}

// make creates an empty file. If that fails, make tries a plain name to find out
// whether the name is the cause. If the plain name fails, too, make records the error.
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
