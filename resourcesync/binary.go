package resourcesync

import (
	"encoding/binary"
	"errors"
	"time"
)

var errBinary = errors.New("not a binary form that this version of the program writes")

// MarshalBinary returns a binary form of d, which is empty for the zero value.
// Another version of this package may not be able to read it.
func (d Datetime) MarshalBinary() ([]byte, error) {
	if d.IsZero() {
		return nil, nil
	}
	b := append(make([]byte, 0, 24), d.prec)
	b = binary.AppendVarint(b, d.sec)
	b = binary.AppendVarint(b, int64(d.off))
	return binary.AppendVarint(b, d.frac), nil
}

// UnmarshalBinary parses the form that MarshalBinary returns.
func (d *Datetime) UnmarshalBinary(b []byte) error {
	if len(b) == 0 {
		*d = Datetime{}
		return nil
	}
	prec := b[0]
	sec, n := binary.Varint(b[1:])
	off, m := binary.Varint(b[1+max(n, 0):])
	frac, o := binary.Varint(b[1+max(n, 0)+max(m, 0):])
	switch {
	case n <= 0 || m <= 0 || o <= 0 || 1+n+m+o != len(b), prec == 0 || prec > precSecond+maxFraction, frac < 0 || frac >= perSecond,
		sec < firstSecond || sec > lastSecond, off != int64(offPlusZero) && off != int64(offMinusZero) && (off <= -24*60 || off >= 24*60):
		return errBinary
	}
	*d = Datetime{sec: sec, frac: frac, off: int16(off), prec: prec}
	return nil
}

// Every time in the years 0 to 9999, in any time zone, lies between firstSecond and
// lastSecond.
var (
	firstSecond = time.Date(-1, 12, 31, 0, 0, 0, 0, time.UTC).Unix()
	lastSecond  = time.Date(10_000, 1, 2, 0, 0, 0, 0, time.UTC).Unix()
)

// MarshalBinary returns a binary form of the digests without the absent (zero) ones.
// Another version of this package may not be able to read it.
func (ds Digests) MarshalBinary() ([]byte, error) {
	var b []byte
	for i := range ds {
		if d := &ds[i]; !d.IsZero() {
			b = append(append(b, d.alg), d.sum[:algorithms[d.alg].size]...)
		}
	}
	return b, nil
}

// UnmarshalBinary parses the form that MarshalBinary returns.
func (ds *Digests) UnmarshalBinary(b []byte) error {
	var all Digests
	for len(b) > 0 {
		d := Digest{alg: b[0]}
		if d.IsZero() || int(d.alg) >= len(algorithms) || len(b) <= algorithms[d.alg].size {
			return errBinary
		}
		size := algorithms[d.alg].size
		copy(d.sum[:], b[1:1+size])
		all, b = append(all, d), b[1+size:]
	}
	*ds = all
	return nil
}
