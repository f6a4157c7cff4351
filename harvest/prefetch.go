package harvest

import "iter"

// Bounds on how far prefetch is ahead of its consumer.
const (
	chunkSize  = 64        // values
	chunkBytes = 256 << 10 // a chunk ends with the value that exceeds them
	chunks     = 3         // in memory: one is used, one is ready, one is being made
)

// prefetch runs a sequence in a goroutine, so that the next values are made while the
// consumer works on one. The goroutine has ended when the returned sequence ends. size
// returns the approximate memory of a value in bytes.
func prefetch[V any](seq iter.Seq2[V, error], size func(*V) int) iter.Seq2[V, error] {
	type result struct {
		v   V
		err error
	}
	return func(yield func(V, error) bool) {
		made, enough := make(chan []result, chunks-2), make(chan struct{})
		go func() {
			defer close(made)
			var some []result
			bytes := 0
			send := func() bool {
				select {
				case made <- some:
					some, bytes = make([]result, 0, chunkSize), 0
					return true
				case <-enough:
					return false
				}
			}
			for v, err := range seq {
				some = append(some, result{v, err})
				if bytes += size(&v); (len(some) == chunkSize || bytes >= chunkBytes) && !send() {
					return
				}
			}
			send()
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
		}
	}
}
