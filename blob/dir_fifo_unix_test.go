//go:build unix

package blob_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"instep/blob"
)

// A directory that was used before is a FIFO now: nobody waits for who writes to it.
func TestDirWaitsForNoFIFOInThePlaceOfADirectory(t *testing.T) {
	for name, do := range map[string]func(b blob.Batch) error{
		"delete": func(b blob.Batch) error { b.Delete("d/a"); return nil },
		"move":   func(b blob.Batch) error { b.Move("d/a", "other"); return nil },
		"put": func(b blob.Batch) error {
			o, err := b.Create(t.Context())
			if err == nil {
				err = o.Close()
			}
			b.Put(o, blob.Put{Key: "d/b"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			d, err := blob.OpenDir(dir, blob.DirOptions{Temp: ".tmp"})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			if _, err := blob.Write(t.Context(), d, strings.NewReader("a"), blob.Put{Key: "d/a"}); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(filepath.Join(dir, "d")); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Mkfifo(filepath.Join(dir, "d"), 0o600); err != nil {
				t.Fatal(err)
			}
			b, err := d.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := do(b); err != nil {
				t.Fatal(err)
			}
			if err := b.Commit(t.Context()); err == nil {
				t.Error("got no error")
			}
		})
	}
}
