package harvest

import "iter"

// Bounds on how far a sequence that runs beside its consumer is ahead of it.
const (
	chunkSize  = 64        // values
	chunkBytes = 256 << 10 // a chunk ends with the value that exceeds them
	chunks     = 3
)

// beside runs a sequence in a goroutine of its own, which has ended when the sequence
// that it returns has: so the next values are made while one is dealt with. size tells
// about how many bytes of memory a value needs.
func beside[V any](seq iter.Seq2[V, error], size func(*V) int) iter.Seq2[V, error] {
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
			some, bytes := <-used, 0
			for v, err := range seq {
				some = append(some, result{v, err})
				if bytes += size(&v); len(some) < chunkSize && bytes < chunkBytes {
					continue
				}
				select {
				case made <- some:
				case <-enough:
					return
				}
				select {
				case some = <-used:
					some, bytes = some[:0], 0
				case <-enough: // the consumer has ended, so no chunk comes back
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
			clear(some) // what it refers to may be large
			used <- some
		}
	}
}
