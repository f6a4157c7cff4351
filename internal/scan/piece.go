package scan

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"instep/internal/catalog"
)

// piece is a group of entries of one directory that were read together, without
// subdirectories. When all files of a piece are recorded as the scan found them, the
// catalog stores a digest of the piece. The catalog deletes this digest when it records
// another state of a file in the same directory. As long as a piece has the stored
// digest, its files need not be compared one by one.
type piece struct {
	catalog.Piece
	whole  bool  // whether every file in this part of the directory could be examined, and at least one of them is to be published
	asked  bool  // whether the digest of these files has been looked up in the catalog
	same   bool  // whether the catalog has the same digest of these files
	number int64 // the number that the piece has in the plan, counted from 1; 0 if the piece is not to be stored
}

// identify computes the digest of a piece (part of a directory). The digest depends on the
// options that affect the recorded facts, and for each file on its name, and its stamp or
// the reason why it is not published.
func (p *piece) identify(options []byte, dir string, part int, sights []observation) {
	h := sha256.New()
	b := append(make([]byte, 0, 512), options...)
	for i := range sights {
		s := &sights[i]
		b = append(append(b, s.name...), 0)
		switch {
		case s.err != nil:
			p.whole = false
			return
		case s.reason != "":
			b = append(append(b, s.reason...), 0)
		default:
			p.whole = true
			b = append(append(b, s.target...), 0)
			b = stampOf(s.info).appendTo(b)
		}
		h.Write(b) // never fails
		b = b[:0]
	}
	p.Dir, p.Part, p.Digest = catalog.SumOf(dir), int64(part), catalog.Sum(h.Sum(nil))
}

// options returns the options that affect the recorded facts about a file, encoded as
// input for a digest.
func (d *Dir) options() []byte {
	b := []byte(d.BaseURL + "\x00" + d.rulesDigest() + "\x00")
	for _, a := range d.algorithms() {
		b = append(append(b, a...), 0)
	}
	return b
}

func (d *Dir) rulesDigest() string {
	if len(d.Rules) == 0 && !d.LinkFiles {
		return ""
	}
	b := []byte("gitignore") // the present way to match globs: earlier versions of this program matched them only from the root of the directory
	for _, r := range d.Rules {
		for _, s := range []string{r.Match, r.Type, r.Encoding, string(r.ChangeFreq)} {
			b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
		}
	}
	for i, r := range d.Rules {
		for _, l := range r.Links {
			b = fmt.Appendf(b, "link %d %q %q %q %d at %q", i, l.Rel, l.Href, l.Type, l.Pri, d.BaseURL)
		}
	}
	if d.LinkFiles {
		b = append(b, "link files"...)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
