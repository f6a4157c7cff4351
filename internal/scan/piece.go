package scan

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"instep/internal/catalog"
)

// piece is a part of a directory listing, read at one time, without subdirectories. The
// catalog stores the digest of a piece when all its files are recorded as seen, and
// deletes it when a file in that directory is recorded. While the digest is unchanged
// the files of the piece need not be compared.
type piece struct {
	catalog.Piece
	whole  bool  // everything in it could be examined, and it has files to publish
	asked  bool  // the digest was looked up in the catalog
	same   bool  // the catalog contains the digest
	number int64 // number in the plan, from 1, if the piece is to be stored
}

// identify computes the digest of a piece: of the options that affect the recorded
// facts, and of the name of each file with its stamp or the reason why it is not
// published.
func (p *piece) identify(options []byte, dir string, part int, sights []sight) {
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

// options returns the options that affect the recorded facts of a file, encoded for a
// digest.
func (d *Dir) options() []byte {
	b := []byte(d.BaseURL + "\x00" + d.rulesDigest() + "\x00")
	for _, a := range d.algorithms() {
		b = append(append(b, a...), 0)
	}
	return b
}

// rulesDigest returns a digest of the rules; "" if there are none.
func (d *Dir) rulesDigest() string {
	if len(d.Rules) == 0 && !d.LinkFiles {
		return ""
	}
	b := []byte("gitignore") // how globs match; earlier versions matched only from the root
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
