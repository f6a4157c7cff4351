package main

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// calls counts what is written, and in how many calls.
type calls struct {
	bytes.Buffer
	n int
}

func (c *calls) Write(p []byte) (int, error) {
	c.n++
	return c.Buffer.Write(p)
}

// Records are written together, but nobody waits long for one.
func TestRecordsAreWrittenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out calls
		o := &output{stdout: &out, json: true}
		want := func(when string, lines, writes int) {
			t.Helper()
			synctest.Wait()
			if got := strings.Count(out.String(), "\n"); got != lines || out.n != writes {
				t.Errorf("%s: got %d records in %d writes, want %d in %d", when, got, out.n, lines, writes)
			}
		}
		for range 3 {
			o.record(&statusRecord{Message: "one"})
		}
		want("at once", 0, 0)
		time.Sleep(pendingTime)
		want("soon", 3, 1)

		o.record(&errorRecord{Message: strings.Repeat("long", pendingBytes)})
		want("of a long one", 4, 2)
		time.Sleep(pendingTime)
		want("after it", 4, 2)

		o.record(&statusRecord{Message: "another"})
		o.end(summary{Status: "ok"}, "")
		want("at the end", 6, 3)
		time.Sleep(pendingTime)
		want("after the end", 6, 3)
	})
}
