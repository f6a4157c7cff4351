package spool

import (
	"errors"
	"fmt"
	"iter"
)

// ErrOrder means that a sequence passed to Minus is not in ascending order.
var ErrOrder = errors.New("keys are not in ascending order")

// Minus yields the keys of sequence a that are not in sequence b. Both sequences must
// be in ascending order. Minus yields a repeated key only once. It ends with the first
// error of either sequence.
func Minus(a, b iter.Seq2[Key, error]) iter.Seq2[Key, error] {
	return func(yield func(Key, error) bool) {
		next, stop := iter.Pull2(ascending("right", b))
		defer stop()
		kb, err, more := next()
		for ka, errA := range ascending("left", a) {
			for errA == nil && err == nil && more && kb < ka {
				kb, err, more = next()
			}
			if err := errors.Join(errA, err); err != nil {
				yield("", err)
				return
			}
			if more && ka == kb {
				continue
			}
			if !yield(ka, nil) {
				return
			}
		}
	}
}

// ascending yields each key of a sequence once. It yields an error when a key is less than
// the key before it.
func ascending(side string, s iter.Seq2[Key, error]) iter.Seq2[Key, error] {
	return func(yield func(Key, error) bool) {
		var last Key
		first := true
		for k, err := range s {
			if err != nil {
				yield("", err)
				return
			}
			if !first && k < last {
				yield("", fmt.Errorf("%s sequence: %w: %q after %q", side, ErrOrder, k, last))
				return
			}
			if (first || k != last) && !yield(k, nil) {
				return
			}
			first, last = false, k
		}
	}
}
