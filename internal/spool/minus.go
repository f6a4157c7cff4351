package spool

import (
	"errors"
	"fmt"
	"iter"
)

// ErrOrder means that a sequence passed to Minus is not in ascending order.
var ErrOrder = errors.New("keys are not in ascending order")

// Minus yields the keys of sequence a that are not in sequence b. Both sequences must
// be in ascending order. It yields a key that occurs several times only once. The first
// error of either sequence ends the result.
func Minus(a, b iter.Seq2[Key, error]) iter.Seq2[Key, error] {
	return MinusOf(a, own, b)
}

func own(k *Key) Key { return *k }

// MinusOf is like Minus, but sequence a consists of values. The function key returns
// the key of a value.
func MinusOf[V any](a iter.Seq2[V, error], key func(*V) Key, b iter.Seq2[Key, error]) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		var zero V
		next, stop := iter.Pull2(ascending("right", b, own))
		defer stop()
		kb, err, more := next()
		for v, errA := range ascending("left", a, key) {
			ka := key(&v)
			for errA == nil && err == nil && more && kb < ka {
				kb, err, more = next()
			}
			if err := errors.Join(errA, err); err != nil {
				yield(zero, err)
				return
			}
			if more && ka == kb {
				continue
			}
			if !yield(v, nil) {
				return
			}
		}
	}
}

// ascending yields one value of a sequence for each key. It yields an error when a key
// is less than the key before it.
func ascending[V any](side string, s iter.Seq2[V, error], key func(*V) Key) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		var zero V
		var last Key
		first := true
		for v, err := range s {
			if err != nil {
				yield(zero, err)
				return
			}
			k := key(&v)
			if !first && k < last {
				yield(zero, fmt.Errorf("%s side: %w: %q after %q", side, ErrOrder, k, last))
				return
			}
			if (first || k != last) && !yield(v, nil) {
				return
			}
			first, last = false, k
		}
	}
}
