package mirror

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"instep/blob"
	"instep/destination"
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
