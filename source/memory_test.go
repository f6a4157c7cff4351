package source

import (
	"fmt"
	"os"
	"runtime"
	"testing"

	"instep/blob"
	"instep/resourcesync"
)

// TestManyResourcesNeedLittleMemory publishes 200,000 resources, or a million if
// INSTEP_LONG is set, into directories and looks at the heap while it continues.
func TestManyResourcesNeedLittleMemory(t *testing.T) {
	n, limit := 200_000, uint64(16<<20)
	if os.Getenv("INSTEP_LONG") != "" {
		n = 1_000_000
	}
	s := newSite(t)
	s.bucket, s.staging = openDir(t), openDir(t)
	s.reopen()
	s.p.MaxEntries = 0
	digests := digestsOf("the same for all")
	var peak uint64
	var m runtime.MemStats
	u := s.first()
	u.Snapshot.Resources = func(yield func(resourcesync.Entry, error) bool) {
		for i := range n {
			if i%10_000 == 0 {
				runtime.GC() // what is in use, not what waits to be collected
				runtime.ReadMemStats(&m)
				peak = max(peak, m.HeapAlloc)
			}
			en := resourcesync.Entry{Loc: fmt.Sprintf("%sroom/%d/item.txt", testBase, i), LastMod: resourcesync.DatetimeOf(testStart)}
			en.Digests, en.Length, en.Type = digests, resourcesync.Bytes(16), "text/plain"
			if !yield(en, nil) {
				return
			}
		}
	}
	pub := s.publish(u)
	want := n/resourcesync.MaxEntries + 1
	if pub.Resources != int64(n) || len(pub.ListKeys) != want || len(pub.SitemapKeys) != want {
		t.Errorf("got %d resources in %d documents and a sitemap of %d, want %d in %d each",
			pub.Resources, len(pub.ListKeys), len(pub.SitemapKeys), n, want)
	}
	if peak > limit {
		t.Errorf("the heap grew to %d MiB, want at most %d", peak>>20, limit>>20)
	}
	t.Logf("heap at most %d MiB", peak>>20)
}

func openDir(t *testing.T) *blob.Dir {
	t.Helper()
	d, err := blob.OpenDir(t.TempDir(), blob.DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}
