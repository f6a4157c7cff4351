package mirror

import (
	"os"
	"testing"
)

// BenchmarkProbe finds out what the file system takes, as each opening for writing does
// where it was not found out before.
func BenchmarkProbe(b *testing.B) {
	dir := b.TempDir()
	if err := os.Mkdir(dir+"/"+ours, 0o700); err != nil {
		b.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer root.Close()
	for b.Loop() {
		if _, err := probeNames(root); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOpen opens and closes a mirror that has some resources.
func BenchmarkOpen(b *testing.B) {
	o := options(b.TempDir())
	for b.Loop() {
		m, err := Open(b.Context(), o)
		if err == nil {
			err = m.Close()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
