package harvest

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"instep/resourcesync"
)

// countTo yields 1 to n, then err if there is one.
func countTo(n int, err error, ended *bool) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		defer func() { *ended = true }()
		for i := range n {
			if !yield(i+1, nil) {
				return
			}
		}
		if err != nil {
			yield(0, err)
		}
	}
}

func TestASequenceBesideItsConsumerIsTheSame(t *testing.T) {
	errBroken := errors.New("broken")
	for _, n := range []int{0, 1, chunkSize - 1, chunkSize, chunkSize + 1, 10*chunkSize + 7} {
		for _, want := range []error{nil, errBroken} {
			for _, take := range []int{1, 3, chunkSize, 2 * chunkSize, n + 1} {
				t.Run(fmt.Sprintf("%d, %v, until %d", n, want, take), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { checkBeside(t, n, want, take) })
				})
			}
		}
	}
}

func small(*int) int { return 8 }

// checkBeside takes so many of n values, and fails if a goroutine is left.
func checkBeside(t *testing.T, n int, want error, take int) {
	got, ended := 0, false
	var failed error
	for v, err := range prefetch(countTo(n, want, &ended), small) {
		if failed = err; err != nil {
			break
		}
		if got++; v != got {
			t.Fatalf("value %d is %d", got, v)
		}
		if got == take {
			break
		}
	}
	if !ended {
		t.Error("the sequence goes on")
	}
	if whole := got == n && take > n; got != min(n, take) || whole && !errors.Is(failed, want) {
		t.Errorf("got %d values and %v", got, failed)
	}
}

func TestASlowSequenceEndsWithItsConsumer(t *testing.T) {
	for range 50 { // it may notice at once, or after some more chunks
		synctest.Test(t, func(t *testing.T) {
			ended := false
			slow := func(yield func(int, error) bool) {
				defer func() { ended = true }()
				for i := range 10 * chunkSize {
					if i%chunkSize == 0 {
						time.Sleep(time.Second) // until the consumer waits for the end
					}
					if !yield(i, nil) {
						return
					}
				}
			}
			for range prefetch(slow, small) {
				break
			}
			if !ended {
				t.Error("the sequence goes on")
			}
		})
	}
}

func TestLargeValuesAreNotMadeFarAhead(t *testing.T) {
	for _, c := range []struct{ size, ahead int }{
		{8, chunks * chunkSize}, {chunkBytes / 2, chunks * 2}, {chunkBytes, chunks}, {10 * chunkBytes, chunks},
	} {
		synctest.Test(t, func(t *testing.T) {
			made, used := 0, 0
			values := func(yield func(int, error) bool) {
				for made = 1; made <= 10*chunkSize && yield(made, nil); made++ {
				}
			}
			for range prefetch(values, func(*int) int { return c.size }) {
				synctest.Wait() // until no more are made
				if got := made - used; got > c.ahead {
					t.Fatalf("of values of %d bytes %d were made before they were used, want at most %d", c.size, got, c.ahead)
				}
				used++
			}
		})
	}
}

// A Source may give each entry as many links as it likes.
func TestEntriesWithManyLinksAreLarge(t *testing.T) {
	lean := resourcesync.Entry{Loc: "http://example.org/a"}
	many := lean
	many.Links = make([]resourcesync.Link, 10_000)
	strange := lean
	strange.Foreign = strings.Repeat("<a/>", chunkBytes/4)
	for _, c := range []struct {
		e     resourcesync.Entry
		large bool
	}{{lean, false}, {many, true}, {strange, true}} {
		if got := sizeOf(&c.e); (got >= chunkBytes) != c.large {
			t.Errorf("%.20q with %d links: got %d bytes, want large: %v", c.e.Foreign, len(c.e.Links), got, c.large)
		}
	}
}
