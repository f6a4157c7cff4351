package destination_test

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"instep/destination"
)

// manyChanges serves a Change List of n changes, of three resources in ten changes each named
// several times. In the end some of the resources exist and the others are deleted.
func (s *aSource) manyChanges(n, exist int) {
	uris := n * 3 / 10
	s.put("/one", []byte("the same for all"))
	same := s.entry("/one")
	s.answer("/changes.xml", func(w http.ResponseWriter, _ *http.Request) {
		b := bufio.NewWriter(w)
		fmt.Fprintf(b, `<urlset xmlns=%q xmlns:rs=%q><rs:ln rel="up" href=%q/><rs:md capability="changelist" from=%q/>`,
			"http://www.sitemaps.org/schemas/sitemap/0.9", "http://www.openarchives.org/rs/terms/", s.uri("/caps.xml"), at(0))
		for i := range n {
			u, last := i%uris, i+uris >= n
			what := `change="updated"`
			switch {
			case last && u >= exist:
				what = `change="deleted"`
			case last:
				what += fmt.Sprintf(` hash=%q length="%d"`, same.Digests, same.Length.Int64())
			}
			fmt.Fprintf(b, `<url><loc>%s/many/%d/item</loc><rs:md %s datetime=%q/></url>`, s.srv.URL, u, what, at(1+i/1000))
		}
		fmt.Fprint(b, `</urlset>`)
		_ = b.Flush()
	})
	for u := range exist {
		s.answer(fmt.Sprintf("/many/%d/item", u), serving([]byte("the same for all")))
	}
}

// syncChanges makes a mirror, has it follow a Change List of n changes and returns how far that
// lets the heap grow.
func syncChanges(t *testing.T, n int) (growth uint64) {
	const exist = 40
	s := newSource(t)
	s.offer("/list.xml", "/changes.xml")
	s.list(0)
	s.changes(0)
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 0, 0, 0)
	s.manyChanges(n, exist)

	runtime.GC()
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(heap)
	before := heap[0].Value.Uint64()
	done, peak := make(chan struct{}), make(chan uint64)
	go func() {
		most := before
		for {
			metrics.Read(heap)
			most = max(most, heap[0].Value.Uint64())
			select {
			case <-done:
				peak <- most
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	m.mustSync(destination.Incremental, 0, exist, 0, 0)
	close(done)
	growth = <-peak - before
	if got := len(m.files()); got != exist {
		t.Errorf("%d changes: %d files are here, want %d", n, got, exist)
	}
	return growth
}

// A Change List of 200,000 changes, or of a million if INSTEP_LONG is set, is read and applied in the
// memory that one of 10,000 takes.
func TestManyChangesNeedLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: takes a minute; run without -short")
	}
	n := 200_000
	if os.Getenv("INSTEP_LONG") != "" {
		n = 1_000_000
	}
	defer debug.SetGCPercent(debug.SetGCPercent(20)) // what is in use, hardly what waits to be collected
	few, many := syncChanges(t, 10_000), syncChanges(t, n)
	t.Logf("heap: %d KiB for 10,000 changes, %d KiB for %d", few>>10, many>>10, n)
	if most := few + 20<<20; many > most {
		t.Errorf("heap: got %d MiB for %d changes, want at most %d: 10,000 take %d", many>>20, n, most>>20, few>>20)
	}
}

// Few changes cost no more for it that there may be many.
func BenchmarkChanges(b *testing.B) {
	for _, n := range []int{1_600, 16_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			d := newVast(b, n)
			b.ReportAllocs()
			for b.Loop() {
				planVast(b, d, n)
			}
		})
	}
}
