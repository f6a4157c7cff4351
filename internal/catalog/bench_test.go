package catalog

import (
	"fmt"
	"testing"

	"instep/resourcesync"
)

const benchRows = 20_000

// rowsOf makes creations like those of a first scan.
func rowsOf(b *testing.B, n int) []Change {
	b.Helper()
	changes := make([]Change, n)
	for i := range changes {
		path := fmt.Sprintf("d%02d/e%02d/file%05d.txt", i%20, i/20%20, i)
		changes[i] = change(b, resourcesync.Created, path, path)
		changes[i].Encoding, changes[i].Stat = "", "12345 1763700000123456789 1763700000123456789 12345678"
	}
	return changes
}

func perRow(b *testing.B) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchRows, "ns/row")
}

// BenchmarkEnroll records 20,000 members of a set that was never published.
func BenchmarkEnroll(b *testing.B) {
	changes := rowsOf(b, benchRows)
	for b.Loop() {
		c := open(b)
		s := set(b, c, "")
		for i := 0; i < benchRows; i += 4000 {
			if err := c.Enroll(b.Context(), s, changes[i:i+4000]); err != nil {
				b.Fatal(err)
			}
		}
	}
	perRow(b)
}

// BenchmarkMembers lists 20,000 members.
func BenchmarkMembers(b *testing.B) {
	c := open(b)
	s := set(b, c, "")
	if err := c.Enroll(b.Context(), s, rowsOf(b, benchRows)); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		n := 0
		for _, err := range c.Members(b.Context(), s) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != benchRows {
			b.Fatalf("%d members, want %d", n, benchRows)
		}
	}
	perRow(b)
}
