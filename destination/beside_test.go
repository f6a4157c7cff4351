package destination

import (
	"errors"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"
	"time"
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

// checkBeside takes so many of n values, and fails if a goroutine is left.
func checkBeside(t *testing.T, n int, want error, take int) {
	got, ended := 0, false
	var failed error
	for v, err := range beside(countTo(n, want, &ended)) {
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
			for range beside(slow) {
				break
			}
			if !ended {
				t.Error("the sequence goes on")
			}
		})
	}
}
