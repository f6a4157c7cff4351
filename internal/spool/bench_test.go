package spool

import "testing"

func BenchmarkLog(b *testing.B) {
	type work struct {
		URI, Path, Type string
		Size, Mod       int64
		Sum             []byte
		Digests         []string
	}
	w := work{
		"http://example.org/some/path/to/a/file.html", "some/path/to/a/file.html", "text/html", 12_345, 1, make([]byte, 32),
		[]string{"sha-256:854f61290e2e197a11bc91063afce22e43f8ccc655237050ace766adc68dc784"},
	}
	const n = 20_000
	for b.Loop() {
		l := NewLog[work](b.TempDir())
		for range n {
			if err := l.Append(w); err != nil {
				b.Fatal(err)
			}
		}
		for _, err := range l.All() {
			if err != nil {
				b.Fatal(err)
			}
		}
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/record")
}

func BenchmarkKeys(b *testing.B) {
	const n = 1_000_000
	for b.Loop() {
		s := NewKeys(b.TempDir(), n/10)
		for i := range n {
			if err := s.Add(scattered(i)); err != nil {
				b.Fatal(err)
			}
		}
		for _, err := range s.Sorted() {
			if err != nil {
				b.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/key")
}
