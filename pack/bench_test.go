package pack_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"instep/pack"
	"instep/resourcesync"
)

func noManifest(io.Writer) error { return nil }

// BenchmarkWrite packs files of 8 KiB from the page cache, with sha-256, without
// compression.
func BenchmarkWrite(b *testing.B) {
	dir := b.TempDir()
	var members []pack.Member
	content := bytes.Repeat([]byte{1, 2, 3, 4, 5, 6, 7}, 8<<10)[:8<<10]
	for i := range 2_000 {
		name := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(name, content, 0o644); err != nil {
			b.Fatal(err)
		}
		m := memberOf(fmt.Sprintf("https://example.org/%d.bin", i), string(content))
		m.Path, m.Type = pack.PathOf(i+1, m.Loc), "application/octet-stream"
		m.Open = func(context.Context) (io.ReadCloser, error) { return os.Open(name) }
		members = append(members, m)
	}
	var w pack.Writer
	b.SetBytes(int64(len(members) * len(content)))
	for b.Loop() {
		h := resourcesync.NewHasher(resourcesync.SHA256)
		if _, err := w.Write(b.Context(), h, noManifest, members); err != nil {
			b.Fatal(err)
		}
	}
}
