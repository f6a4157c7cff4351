package harvest

import "iter"

// These constants limit how far the function prefetch runs ahead of its consumer.
const (
	chunkSize  = 64        // maximum number of values in a chunk
	chunkBytes = 256 << 10 // a chunk with this many bytes or more is full
	chunks     = 3         // number of chunks in memory: one in use, one ready, one being filled
)

// prefetch runs a sequence in a goroutine, so that the next values are computed while
// the consumer uses one. When the returned sequence ends, the goroutine has ended too.
// size returns the approximate memory of a value in bytes.
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
			for range made { // waits until the goroutine has ended
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
