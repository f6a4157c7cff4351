package spool

import "iter"

// Batches yields the values of a sequence in slices of at most n values. A slice is
// valid only until the next one is yielded. If the sequence yields an error, Batches
// yields the error, but not the values after the last slice.
func Batches[V any](values iter.Seq2[V, error], n int) iter.Seq2[[]V, error] {
	return func(yield func([]V, error) bool) {
		var batch []V
		for v, err := range values {
			if err != nil {
				yield(nil, err)
				return
			}
			if batch = append(batch, v); len(batch) < n {
				continue
			}
			if !yield(batch, nil) {
				return
			}
			batch = batch[:0]
		}
		if len(batch) > 0 {
			yield(batch, nil)
		}
	}
}
