//go:build unix

package bench

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

var (
	earlier   = flag.String("earlier", "", "compare the Destination with the binaries instep and bench.test of an earlier state in this directory")
	members   = flag.Int("members", 0, "resources of the large set of which pairs are measured; 0 is that of the table of all rows")
	pairTable = flag.String("pairs", "", "measure the full sets and write the table of that to this file")
)

// worse is the ratio beyond which a row has become slower: the machine alone makes smaller
// differences.
const worse = 1.1

// TestDestinationPairs measures the rows of the Destination with this program and with an
// earlier one, in turns, at one Source.
func TestDestinationPairs(t *testing.T) {
	notShort(t)
	now, repetitions := newSite(t, *pairTable != "")
	repetitions += repetitions % 2 // or one of the two would come first more often
	if *members > 0 {
		now.Members = *members
	}
	if err := now.open(t); err != nil {
		t.Fatal(err)
	}
	was := *now
	was.side, was.latest = "earlier-", map[string]string{}
	if *earlier != "" {
		was.program, was.tests = filepath.Join(*earlier, "instep"), filepath.Join(*earlier, "bench.test")
	}
	rows := slices.DeleteFunc(destinationRows(now), func(r *destinationRow) bool { return !r.own })
	all := make([]pair, len(rows))
	for i := range repetitions {
		for j, r := range rows {
			if err := all[j].measure(r, now, &was, i); err != nil {
				t.Fatalf("%s: %v", r.name, err)
			}
		}
	}
	table := renderPairs(rows, all, now)
	if *pairTable == "" {
		if got, want := strings.Count(table, "\n| "), 1+len(all); got != want {
			t.Errorf("got %d lines, want %d:\n%s", got, want, table)
		}
		return
	}
	if err := os.WriteFile(*pairTable, []byte(table), 0o644); err != nil {
		t.Fatal(err)
	}
}

// pair is what a row took with two programs.
type pair struct{ now, was []spent }

// measure runs a row with both programs, in a repetition of all rows: short ones several times.
func (p *pair) measure(r *destinationRow, now, was *site, repetition int) error {
	if r.once && repetition > 0 {
		return nil
	}
	for range max(1, r.times) {
		if err := p.once(r, now, was); err != nil {
			return err
		}
	}
	return nil
}

// once runs a row with both programs, now the one first and now the other.
func (p *pair) once(r *destinationRow, now, was *site) error {
	if r.before != nil {
		if err := r.before(now); err != nil {
			return err
		}
	}
	order := []*site{now, was}
	if len(p.now)%2 == 1 {
		slices.Reverse(order)
	}
	for _, s := range order {
		took, err := r.run(s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.program, err)
		}
		if s == now {
			p.now = append(p.now, took)
		} else {
			p.was = append(p.was, took)
		}
	}
	return nil
}

func renderPairs(rows []*destinationRow, all []pair, s *site) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d cores; medians, ratios within a pair. %d resources are in the large set. Served by %s.\n\n", runtime.Version(), runtime.NumCPU(), s.Members, s.server)
	b.WriteString("| | earlier, s | now, s | ratio | pairs, and the middle half of their ratios | RSS, MB: earlier, now |\n|---|---:|---:|---:|---|---|")
	for i, r := range rows {
		was, now := destinationRow{taken: all[i].was}, destinationRow{taken: all[i].now}
		ratios := make([]float64, len(now.taken))
		for j := range ratios {
			ratios[j] = now.taken[j].Seconds / was.taken[j].Seconds
		}
		sorted := slices.Sorted(slices.Values(ratios))
		verdict := "met"
		if median(ratios) > worse {
			verdict = "**not met**"
		}
		fmt.Fprintf(&b, "\n| %s | %.3f | %.3f | %.2f, ≤ %.1f: %s | %d, %.2f to %.2f | %.0f, %.0f |", r.name, was.seconds(), now.seconds(),
			median(ratios), worse, verdict, len(ratios), sorted[len(sorted)/4], sorted[len(sorted)-1-len(sorted)/4], float64(was.rss())/1e6, float64(now.rss())/1e6)
	}
	return b.String() + "\n"
}
