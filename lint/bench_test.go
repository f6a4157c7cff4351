package lint

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"instep/resourcesync"
)

const benchEntries = 50_000

// benchDocument is a Resource List of 50,000 entries with lastmod, length, type, md5
// and sha-256, about 20 MB, as that of the benchmark of the Decoder.
var benchDocument = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	enc, err := resourcesync.NewEncoder(&b, resourcesync.Header{
		Metadata: resourcesync.Metadata{
			Capability: resourcesync.CapabilityResourceList,
			At:         resourcesync.DatetimeOf(time.Date(2024, 5, 1, 9, 0, 0, 0, time.UTC)),
		},
		Links: []resourcesync.Link{{Rel: resourcesync.RelUp, Href: "https://museum.example.org/resourcesync/capabilitylist.xml"}},
	})
	for i := 0; i < benchEntries && err == nil; i++ {
		err = enc.Encode(benchEntry(i))
	}
	if err == nil {
		err = enc.Close()
	}
	if err != nil {
		panic(err)
	}
	return b.Bytes()
})

func benchEntry(i int) resourcesync.Entry {
	name := fmt.Sprintf("object-%06d", i)
	m, s := md5.Sum([]byte(name)), sha256.Sum256([]byte(name))
	weak, _ := resourcesync.NewDigest(resourcesync.MD5, m[:])
	strong, _ := resourcesync.NewDigest(resourcesync.SHA256, s[:])
	return resourcesync.Entry{
		Loc:     "https://museum.example.org/departments/paintings-and-drawings/rooms/17/cabinets/north-wall/drawers/04/" + name + ".html",
		LastMod: resourcesync.DatetimeOf(time.Date(2024, 4, 1, 0, 0, i, 0, time.UTC)),
		Metadata: resourcesync.Metadata{
			Digests: resourcesync.Digests{weak, strong}, Length: resourcesync.Bytes(int64(1000 + i*7)), Type: "application/vnd.example.object+xml",
		},
	}
}

// BenchmarkLint also reports how much longer checking takes than decoding alone.
func BenchmarkLint(b *testing.B) {
	doc := benchDocument()
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	var linting, decoding time.Duration
	for b.Loop() {
		start := time.Now()
		checkBench(b, doc)
		linting += time.Since(start)
		b.StopTimer()
		start = time.Now()
		decodeBench(b, doc)
		decoding += time.Since(start)
		b.StartTimer()
	}
	b.ReportMetric(float64(linting)/float64(decoding), "lint/decode")
}

func checkBench(b testing.TB, doc []byte) {
	c := Checker{Derived: true, Report: func(f Finding) { b.Errorf("%+v", f) }}
	d, err := c.Document(context.Background(), "https://museum.example.org/resourcelist.xml", bytes.NewReader(doc))
	if err != nil || d.Entries != benchEntries || !d.Complete {
		b.Fatalf("%+v, %v", d, err)
	}
}

func decodeBench(b testing.TB, doc []byte) {
	for _, err := range resourcesync.NewDecoder(bytes.NewReader(doc)).Entries() {
		if err != nil {
			b.Fatal(err)
		}
	}
}

// TestMemoryIsBounded: what is held of a long list does not grow with what it says.
func TestMemoryIsBounded(t *testing.T) {
	doc := benchDocument()
	var most uint64
	reads := &watched{r: bytes.NewReader(doc), every: 1 << 20, look: func() {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		most = max(most, m.HeapAlloc)
	}}
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	c := Checker{Derived: true}
	if _, err := c.Document(context.Background(), "https://museum.example.org/resourcelist.xml", reads); err != nil {
		t.Fatal(err)
	}
	const limit = 10 << 20
	if used := int64(most) - int64(before.HeapAlloc); used > limit {
		t.Errorf("%d bytes are held while %d entries are checked, want at most %d", used, benchEntries, limit)
	}
}

// watched calls look from time to time while it is read.
type watched struct {
	r           *bytes.Reader
	every, done int
	look        func()
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if w.done += n; w.done > w.every {
		w.done = 0
		w.look()
	}
	return n, err
}
