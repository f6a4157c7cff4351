package scan

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"instep/internal/catalog"
)

// piece is a part of a directory that was read at one time, without its
// directories. The catalog keeps the digest of each piece all of whose files are
// recorded as they were seen, and forgets it when anything is recorded of a file in
// that directory: as long as the digest is the same, no file of it needs a look.
type piece struct {
	catalog.Piece
	whole  bool  // all of it could be looked at, and there are files to publish
	asked  bool  // the digest was looked up in the catalog
	same   bool  // and has it
	number int64 // in the plan, if it is to be kept there, from 1
}

// identify computes the digest of what was seen: options, which say what is to be
// known of a file, and of each file its name and its stamp, or why it is not published.
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

// options identifies what is to be known of a file.
func (d *Dir) options() []byte {
	b := []byte(d.BaseURL + "\x00" + d.rulesDigest() + "\x00")
	for _, a := range d.algorithms() {
		b = append(append(b, a...), 0)
	}
	return b
}

// rulesDigest is "" if there are no rules.
func (d *Dir) rulesDigest() string {
	if len(d.Rules) == 0 {
		return ""
	}
	b := []byte("gitignore") // how they match; earlier versions matched from the root only
	for _, r := range d.Rules {
		for _, s := range []string{r.Match, r.Type, r.Encoding, string(r.ChangeFreq)} {
			b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
		}
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
