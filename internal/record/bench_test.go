package record

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"instep/internal/publish"
)

// BenchmarkRecord pushes changes as fast as they are taken, while they are published
// every second, into a set that was published before.
func BenchmarkRecord(b *testing.B) {
	w := newWorld(b)
	w.Every = time.Second
	w.push(`{"uri":"https://example.org/first"}`)
	from, to := io.Pipe()
	b.ResetTimer()
	go func() {
		for i := range b.N {
			fmt.Fprintf(to, "{\"uri\":\"https://example.org/objects/%d\",\"hash\":\"sha-256:%064x\",\"length\":%d}\n", i%20_000, i, i)
		}
		to.Close()
	}()
	err := w.Run(b.Context(), func(ctx context.Context) error { return w.Read(ctx, from, func(Answer) {}) })
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "changes/s")
	b.ReportMetric(float64(len(w.published)), "publications")
	if rep, err := w.session.Publish(b.Context(), publish.What{NoScan: true}); err != nil || rep.Published {
		b.Errorf("after the end %+v, %v is left to publish", rep.SetReport, err)
	}
}
