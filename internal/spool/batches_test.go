package spool

import (
	"errors"
	"fmt"
	"iter"
	"testing"
)

func TestBatches(t *testing.T) {
	broken := errors.New("broken")
	count := func(n int, err error) iter.Seq2[int, error] {
		return func(yield func(int, error) bool) {
			for i := range n {
				if !yield(i, nil) {
					return
				}
			}
			if err != nil {
				yield(0, err)
			}
		}
	}
	for _, c := range []struct {
		values iter.Seq2[int, error]
		stop   int // batches after which the reader stops; 0 if it reads all
		want   string
	}{
		{count(0, nil), 0, ""},
		{count(2, nil), 0, "[0 1]"},
		{count(3, nil), 0, "[0 1 2]"},
		{count(7, nil), 0, "[0 1 2][3 4 5][6]"},
		{count(7, nil), 2, "[0 1 2][3 4 5]"},
		{count(4, broken), 0, "[0 1 2]broken"},
		{count(0, broken), 0, "broken"},
	} {
		got, read := "", 0
		for batch, err := range Batches(c.values, 3) {
			if err != nil {
				got += err.Error()
				continue
			}
			got += fmt.Sprint(batch)
			if read++; read == c.stop {
				break
			}
		}
		if got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}
