package harvest

import (
	"fmt"
	"testing"
	"time"
)

// An index names as many lists as it likes, and each as often: what is kept of them is
// bounded, and so is the time.
func TestIndexOfManyLists(t *testing.T) {
	const n, again = maxDocuments - 1, 400_000
	c := (&Reader{}).newSequence("set", "Change List")
	uris := make([]string, n)
	begin := time.Now()
	for i := range uris {
		uris[i] = fmt.Sprintf("http://example.org/changes/%06d", i)
		c.add(window{uri: uris[i]})
	}
	for i := range again {
		c.add(window{uri: uris[i%n]})
	}
	if got, want := c.windows[(again-1)%n].place, n+again; len(c.windows) != n || got != want {
		t.Errorf("got %d lists, the last of them at %d; want %d, at %d", len(c.windows), got, n, want)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	for i := range again {
		c.add(window{uri: fmt.Sprint(i)})
	}
	if len(c.windows) != maxDocuments+1 {
		t.Errorf("got %d lists, want one more than %d", len(c.windows), maxDocuments)
	}
}
