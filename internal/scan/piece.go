package scan

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"instep/internal/catalog"
)

// piece is a part of a directory that was read at one time, without its subdirectories. The
// catalog stores the digest of each piece whose files are all recorded as seen, and forgets
// it when a file in that directory is recorded. While the digest stays the same no file of
// it has to be compared.
type piece struct {
	catalog.Piece
	whole  bool  // all of it could be examined, and there are files to publish
	asked  bool  // the digest was looked up in the catalog
	same   bool  // and has it
	number int64 // number in the plan, from 1, if the piece is to be stored
}

// identify computes the digest of a piece: the options, which define the recorded facts,
// and each file's name and stamp, or the reason why it is not published.
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

// options identifies the options that define the recorded facts of a file.
func (d *Dir) options() []byte {
	b := []byte(d.BaseURL + "\x00" + d.rulesDigest() + "\x00")
	for _, a := range d.algorithms() {
		b = append(append(b, a...), 0)
	}
	return b
}

// rulesDigest is "" if there are no rules.
func (d *Dir) rulesDigest() string {
	if len(d.Rules) == 0 && !d.LinkFiles {
		return ""
	}
	b := []byte("gitignore") // how globs match; earlier versions matched from the root only
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
