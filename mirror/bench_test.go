package mirror

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"instep/blob"
	"instep/destination"
	"instep/harvest"
)

const (
	benchFiles = 20_000
	benchBatch = 250
)

func benchName(i int) string { return fmt.Sprintf("d%02d/file%05d", i%16, i) }

func benchBody(i int) string { return strings.Repeat("x", 4092) + fmt.Sprintf("%04x", i) }

// parallel does what a transfer with 8 workers does.
func parallel(do func(i int) error) error {
	var g errgroup.Group
	g.SetLimit(8)
	for i := range benchBatch {
		g.Go(func() error { return do(i) })
	}
	return g.Wait()
}

// BenchmarkBaseline compares a mirror with the bucket below it: 20,000 files of
// 4 KiB in batches of 250.
func BenchmarkBaseline(b *testing.B) {
	b.Run("bucket", func(b *testing.B) {
		for b.Loop() {
			fillBucket(b)
		}
		b.ReportMetric(benchFiles*float64(b.N)/b.Elapsed().Seconds(), "files/s")
	})
	b.Run("mirror", func(b *testing.B) {
		for b.Loop() {
			fillMirror(b)
		}
		b.ReportMetric(benchFiles*float64(b.N)/b.Elapsed().Seconds(), "files/s")
	})
}

func fillMirror(b *testing.B) {
	m := openMirror(b, options(b.TempDir()))
	for first := 0; first < benchFiles; first += benchBatch {
		commit(b, m, func(batch destination.Batch) error {
			return parallel(func(i int) error { return put(batch, set, benchName(first+i), benchBody(first+i), noon) })
		})
	}
	if err := m.Close(); err != nil {
		b.Fatal(err)
	}
}

func fillBucket(b *testing.B) {
	bucket, err := blob.OpenDir(b.TempDir(), blob.DirOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer bucket.Close()
	ctx := context.Background()
	for first := 0; first < benchFiles; first += benchBatch {
		batch, err := bucket.Begin(ctx)
		if err != nil {
			b.Fatal(err)
		}
		var objects [benchBatch]blob.Object
		err = parallel(func(i int) (err error) {
			if objects[i], err = batch.Create(ctx); err != nil {
				return err
			}
			if _, err := objects[i].Write([]byte(benchBody(first + i))); err != nil {
				return err
			}
			return objects[i].Close()
		})
		if err != nil {
			b.Fatal(err)
		}
		for i, o := range objects {
			batch.Put(o, blob.Put{Key: benchName(first + i), IfAbsent: true})
		}
		if err := batch.Commit(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPublishedCommit compares commits of 250 replaced files in a mirror that nobody
// publishes with the same in one whose log is written, in pairs. It reports the median of each
// and of their ratio.
func BenchmarkPublishedCommit(b *testing.B) {
	var mirrors [2]*Mirror
	for i := range mirrors {
		dir := b.TempDir()
		mirrors[i] = openMirror(b, options(dir))
		for first := 0; first < benchFiles; first += benchBatch {
			commit(b, mirrors[i], func(batch destination.Batch) error {
				return parallel(func(k int) error { return put(batch, set, benchName(first+k), benchBody(first+k), noon) })
			})
		}
		move := &destination.CursorMove{Set: set, Cursor: destination.Cursor{Position: harvest.Position{At: noon}}}
		if err := tryCommit(mirrors[i], move, func(destination.Batch) error { return nil }); err != nil {
			b.Fatal(err)
		}
		if i == 1 {
			if err := Register(b.Context(), dir, "one", 0, noon); err != nil {
				b.Fatal(err)
			}
		}
	}
	var took [2][]float64
	var ratio []float64
	for n := 0; b.Loop(); n++ {
		var one [2]float64
		for k := range mirrors {
			i := (n + k) % 2 // each is the first in turn
			began := time.Now()
			commit(b, mirrors[i], func(batch destination.Batch) error {
				return parallel(func(k int) error {
					return put(batch, set, benchName((n*benchBatch+k)%benchFiles), fmt.Sprint(benchBody(k), n), noon)
				})
			})
			one[i] = time.Since(began).Seconds() * 1000
			took[i] = append(took[i], one[i])
		}
		ratio = append(ratio, one[1]/one[0])
	}
	median := func(all []float64) float64 {
		slices.Sort(all)
		return all[len(all)/2]
	}
	b.ReportMetric(median(took[0]), "ms-unpublished")
	b.ReportMetric(median(took[1]), "ms-published")
	b.ReportMetric(median(ratio), "ratio")
}
