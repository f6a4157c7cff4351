package destination

import "iter"

// A sequence that runs beside its consumer is this far ahead of him at most.
const (
	chunkSize = 64 // values
	chunks    = 3
)

// beside runs a sequence in a goroutine of its own, which has ended when the sequence
// that it returns has: so the next values are made while one is dealt with.
func beside[V any](seq iter.Seq2[V, error]) iter.Seq2[V, error] {
	type result struct {
		v   V
		err error
	}
	return func(yield func(V, error) bool) {
		made, used, enough := make(chan []result), make(chan []result, chunks), make(chan struct{})
		for range chunks {
			used <- nil
		}
		go func() {
			defer close(made)
			some := <-used
			for v, err := range seq {
				if some = append(some, result{v, err}); len(some) < chunkSize {
					continue
				}
				select {
				case made <- some:
				case <-enough:
					return
				}
				select {
				case some = <-used:
					some = some[:0]
				case <-enough: // nobody gives one back any more
					return
				}
			}
			select {
			case made <- some:
			case <-enough:
			}
		}()
		defer func() {
			close(enough)
			for range made { // until it has ended
			}
		}()
		for some := range made {
			for i := range some {
				if !yield(some[i].v, some[i].err) {
					return
				}
			}
			used <- some
		}
	}
}
