package resourcesync

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"encoding/xml"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"time"
)

const benchEntries = 50_000

// benchDocument is a Resource List of 50,000 entries with lastmod, length, type,
// md5 and sha-256, about 20 MB.
var benchDocument = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	enc, err := NewEncoder(&b, benchHeader())
	if err != nil {
		panic(err)
	}
	for i := range benchEntries {
		if err := enc.Encode(benchEntry(i)); err != nil {
			panic(err)
		}
	}
	if err := enc.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
})

func benchHeader() Header {
	at := DatetimeOf(time.Date(2024, 5, 1, 9, 0, 0, 0, time.UTC))
	return Header{
		Metadata: Metadata{Capability: CapabilityResourceList, At: at},
		Links:    []Link{{Rel: "up", Href: "https://example.org/resourcesync/capabilitylist.xml"}},
	}
}

func benchEntry(i int) Entry {
	name := fmt.Sprintf("object-%06d", i)
	m, s := md5.Sum([]byte(name)), sha256.Sum256([]byte(name))
	d5, _ := NewDigest(MD5, m[:])
	d256, _ := NewDigest(SHA256, s[:])
	return Entry{
		Loc:     "https://collection.example.org/departments/paintings-and-drawings/rooms/17/cabinets/north-wall/drawers/04/" + name + ".html",
		LastMod: DatetimeOf(time.Date(2024, 4, 1, 0, 0, i, 0, time.UTC)),
		Metadata: Metadata{
			Digests: Digests{d5, d256}, Length: Bytes(int64(1000 + i*7)), Type: "application/vnd.example.object+xml",
		},
	}
}

func BenchmarkDecode(b *testing.B)       { benchDecode(b) }
func BenchmarkDecodeStrict(b *testing.B) { benchDecode(b, WithTolerance(Strict)) }

// benchDecode also reports how much heap was in use at most, beyond what was
// before, and the allocations for each entry.
func benchDecode(b *testing.B, opts ...Option) {
	doc := benchDocument()
	decode := func(look func()) {
		n := 0
		for _, err := range NewDecoder(bytes.NewReader(doc), opts...).Entries() {
			if err != nil {
				b.Fatal(err)
			}
			if n++; n%1000 == 0 {
				look()
			}
		}
		if n != benchEntries {
			b.Fatalf("got %d entries, want %d", n, benchEntries)
		}
	}
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		decode(func() {})
	}
	runtime.GC()
	var before, m runtime.MemStats
	runtime.ReadMemStats(&before)
	peak := before.HeapInuse
	defer debug.SetGCPercent(debug.SetGCPercent(5)) // or the document itself would allow for garbage of its size
	decode(func() {
		runtime.ReadMemStats(&m)
		peak = max(peak, m.HeapInuse)
	})
	b.ReportMetric(float64(peak-before.HeapInuse)/1e6, "peak-heap-MB")
	b.ReportMetric(float64(m.Mallocs-before.Mallocs)/benchEntries, "allocs/entry")
}

// BenchmarkEncodingXML reads the tokens of the same document with the standard
// library, for comparison: no values, no checks.
func BenchmarkEncodingXML(b *testing.B) {
	doc := benchDocument()
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		dec := xml.NewDecoder(bytes.NewReader(doc))
		for {
			if _, err := dec.Token(); err == io.EOF {
				break
			} else if err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkScan looks at each byte once for the begin of a tag: what no reader
// can beat.
func BenchmarkScan(b *testing.B) {
	doc := benchDocument()
	b.SetBytes(int64(len(doc)))
	for b.Loop() {
		tags := 0
		for rest := doc; ; tags++ {
			i := bytes.IndexByte(rest, '<')
			if i < 0 {
				break
			}
			rest = rest[i+1:]
		}
		if tags < benchEntries {
			b.Fatalf("got %d tags", tags)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	doc := benchDocument()
	entries := make([]Entry, 1000)
	for i := range entries {
		entries[i] = benchEntry(i)
	}
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		enc, err := NewEncoder(io.Discard, benchHeader())
		if err != nil {
			b.Fatal(err)
		}
		for i := range benchEntries {
			if err := enc.Encode(entries[i%len(entries)]); err != nil {
				b.Fatal(err)
			}
		}
		if err := enc.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseDatetime(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseDatetime("2024-05-01T09:00:00.123456Z"); err != nil {
			b.Fatal(err)
		}
	}
}
