package resourcesync

import (
	"encoding"
	"encoding/binary"
	"errors"
)

var errHasherState = errors.New("not the state of a Hasher for these algorithms")

// MarshalBinary returns the state of the Hasher. Another Hasher with the same
// algorithms can continue from that state. The format depends on the version of Go.
func (h *Hasher) MarshalBinary() ([]byte, error) {
	var b []byte
	for _, s := range h.sums {
		state, err := s.(encoding.BinaryMarshaler).MarshalBinary() // cannot panic: all hashes of the standard library have this method
		if err != nil {
			return nil, err
		}
		b = binary.AppendUvarint(b, uint64(len(state)))
		b = append(b, state...)
	}
	return b, nil
}

// UnmarshalBinary restores a state that MarshalBinary returned for a Hasher with the
// same algorithms in the same order. After an error the Hasher must not be used any
// more.
func (h *Hasher) UnmarshalBinary(b []byte) error {
	for _, s := range h.sums {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)-size) {
			return errHasherState
		}
		state := b[size : size+int(n)]
		b = b[size+int(n):]
		if err := s.(encoding.BinaryUnmarshaler).UnmarshalBinary(state); err != nil {
			return errors.Join(errHasherState, err)
		}
	}
	if len(b) > 0 {
		return errHasherState
	}
	return nil
}
