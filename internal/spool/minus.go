package spool

import (
	"errors"
	"fmt"
	"iter"
)

// ErrOrder is wrapped by what Minus yields if a sequence doesn't ascend.
var ErrOrder = errors.New("keys are not in ascending order")

// Minus yields the keys of a that are not in b. Both ascend; a key that comes
// twice in a row counts once. The first error of either ends the sequence.
func Minus(a, b iter.Seq2[Key, error]) iter.Seq2[Key, error] {
	return func(yield func(Key, error) bool) {
		next, stop := iter.Pull2(ascending("left", a))
		defer stop()
		nextB, stopB := iter.Pull2(ascending("right", b))
		defer stopB()
		kb, err, more := nextB()
		for {
			ka, errA, ok := next()
			if !ok {
				return
			}
			for errA == nil && err == nil && more && kb < ka {
				kb, err, more = nextB()
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

// ascending yields the keys of s once each, or an error where the order breaks.
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
				yield("", fmt.Errorf("%s side: %w: %q after %q", side, ErrOrder, k, last))
				return
			}
			if (first || k != last) && !yield(k, nil) {
				return
			}
			first, last = false, k
		}
	}
}
