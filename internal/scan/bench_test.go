package scan

import (
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const benchFiles = 20_000

func benchTree(b *testing.B) *fixture {
	b.Helper()
	f := setUp(b)
	f.Workers = 2
	f.Observe = nil
	for i := range benchFiles {
		f.write(fmt.Sprintf("d%02d/e%02d/file%05d.txt", i%20, i/20%20, i), strings.Repeat(fmt.Sprintf("line %d\n", i), 1+i%1000))
	}
	return f
}

func perFile(b *testing.B) {
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/benchFiles, "µs/file")
}

// BenchmarkFirstScan hashes and records 20,000 files.
func BenchmarkFirstScan(b *testing.B) {
	f := benchTree(b)
	for b.Loop() {
		c, set := newCatalog(b)
		f.Facts, f.Seen, f.Set = c.Facts, c.Publisher, set
		expect(b, f.scan(), benchFiles, 0, 0, 0)
	}
	perFile(b)
}

// BenchmarkIdleScan finds that nothing changed among 20,000 files.
func BenchmarkIdleScan(b *testing.B) {
	f := benchTree(b)
	f.scan()
	for b.Loop() {
		expect(b, f.scan(), 0, 0, 0, benchFiles)
	}
	perFile(b)
}

// BenchmarkPlainHashing is what FirstScan is compared with: WalkDir and SHA-256
// with two workers, nothing recorded.
func BenchmarkPlainHashing(b *testing.B) {
	f := benchTree(b)
	for b.Loop() {
		paths := make(chan string, 100)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for p := range paths {
					hashFile(b, p)
				}
			})
		}
		plainWalk(b, f.root, func(p string, _ fs.FileInfo) { paths <- p })
		close(paths)
		wg.Wait()
	}
	perFile(b)
}

// BenchmarkPlainWalk is what IdleScan is compared with: WalkDir and Lstat.
func BenchmarkPlainWalk(b *testing.B) {
	f := benchTree(b)
	for b.Loop() {
		plainWalk(b, f.root, func(string, fs.FileInfo) {})
	}
	perFile(b)
}

func plainWalk(b *testing.B, root string, file func(string, fs.FileInfo)) {
	err := filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		file(p, info)
		return err
	})
	if err != nil {
		b.Error(err)
	}
}

func hashFile(b *testing.B, path string) {
	r, err := os.Open(path)
	if err != nil {
		b.Error(err)
		return
	}
	defer r.Close()
	if _, err := io.Copy(sha256.New(), r); err != nil {
		b.Error(err)
	}
}
