package resourcesync

import (
	"encoding/binary"
	"errors"
	"math"
)

// Binary forms are for reading by the same program only: another version of this
// package may use different ones.

var errBinary = errors.New("not a binary form of this version")

// AppendBinary implements [encoding.BinaryAppender]. It never fails.
func (d Datetime) AppendBinary(b []byte) ([]byte, error) {
	if d.IsZero() {
		return b, nil
	}
	b = binary.AppendVarint(append(b, d.prec), d.sec)
	b = binary.AppendVarint(b, int64(d.off))
	b = binary.AppendUvarint(b, uint64(d.nsec))
	return binary.AppendUvarint(b, uint64(d.asec)), nil
}

// MarshalBinary returns the same bytes as AppendBinary to nil.
func (d Datetime) MarshalBinary() ([]byte, error) { return d.AppendBinary(nil) }

// UnmarshalBinary parses the form that MarshalBinary returns.
func (d *Datetime) UnmarshalBinary(b []byte) error {
	if len(b) == 0 {
		*d = Datetime{}
		return nil
	}
	prec := b[0]
	sec, n := binary.Varint(b[1:])
	off, m := binary.Varint(b[1+max(n, 0):])
	if n <= 0 || m <= 0 || off < math.MinInt16 || off > math.MaxInt16 {
		return errBinary
	}
	b = b[1+n+m:]
	nsec, n := binary.Uvarint(b)
	asec, m := binary.Uvarint(b[max(n, 0):])
	const fraction = 1_000_000_000
	first, last := (daysSince1970(0, 1, 1)-1)*secondsPerDay, (daysSince1970(10_000, 1, 1)+1)*secondsPerDay // local times in every zone on earth must be in range
	switch {
	case n <= 0 || m <= 0 || n+m != len(b), prec == 0 || prec > precSecond+maxFraction, nsec >= fraction || asec >= fraction,
		sec < first || sec > last, off != int64(offPlusZero) && off != int64(offMinusZero) && (off <= -24*60 || off >= 24*60):
		return errBinary
	}
	*d = Datetime{sec: sec, nsec: int32(nsec), asec: int32(asec), off: int16(off), prec: prec}
	return nil
}

// AppendBinary implements [encoding.BinaryAppender]. It never fails.
func (ds Digests) AppendBinary(b []byte) ([]byte, error) {
	for i := range ds {
		if d := &ds[i]; !d.IsZero() {
			b = append(append(b, d.alg), d.sum[:algorithms[d.alg].size]...)
		}
	}
	return b, nil
}

// MarshalBinary returns the same bytes as AppendBinary to nil.
func (ds Digests) MarshalBinary() ([]byte, error) { return ds.AppendBinary(nil) }

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
