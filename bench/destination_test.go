//go:build unix

package bench

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

var destinationTable = flag.String("destination", "", "measure the full sets and write the table of the Destination to this file")

// destinationRow is a line of the table of the Destination: what a program took from
// its start to its end.
type destinationRow struct {
	name   string
	before func(*site) error // what happens at the Source first; may be nil
	run    func(*site) (spent, error)
	beside []beside // the first is the ratio that is shown
	bounds []bound
	once   bool
	own    bool // it is about this program
	times  int  // how often it is measured in each repetition beside an earlier program; 0 is once

	taken  []spent // in each repetition
	ratios map[string][]float64
	err    error
}

// spent is what a run took.
type spent struct {
	Seconds  float64
	RSS      uint64 // most bytes of the process that were resident; 0: unknown
	Requests int64  // 0: unknown
}

// beside is a row to compare with, in the same repetition; 0 is no bound of the ratio.
type beside struct {
	row    string
	atMost float64
}

// bound is a bound that an issue sets on the row alone.
type bound struct {
	text string
	met  func(*destinationRow) bool
}

func (r *destinationRow) seconds() float64 {
	return median(r.all(func(s spent) float64 { return s.Seconds }))
}

func (r *destinationRow) all(of func(spent) float64) (v []float64) {
	for _, s := range r.taken {
		v = append(v, of(s))
	}
	return v
}

func (r *destinationRow) rss() uint64 {
	return uint64(median(r.all(func(s spent) float64 { return float64(s.RSS) })))
}

func (r *destinationRow) requests() int64 {
	return int64(median(r.all(func(s spent) float64 { return float64(s.Requests) })))
}

func within(seconds float64) bound {
	return bound{fmt.Sprintf("≤ %.2g s", seconds), func(r *destinationRow) bool { return r.seconds() <= seconds }}
}

func lean(megabytes uint64) bound {
	return bound{fmt.Sprintf("RSS < %d MB", megabytes), func(r *destinationRow) bool { return r.rss() < megabytes*1_000_000 }}
}

func asking(most int64) bound {
	return bound{fmt.Sprintf("≤ %d requests", most), func(r *destinationRow) bool { return r.requests() <= most }}
}

func atRate(records, least int) bound {
	return bound{fmt.Sprintf("≥ %d/s", least), func(r *destinationRow) bool { return float64(records)/r.seconds() >= float64(least) }}
}

const (
	rowCurl       = "`curl --parallel-max 32`, then `sync -f`"
	rowReference  = "the reference client in Python, unverified, not synced"
	rowBare       = "bare Go: `net/http`, sha-256, a file each, then `sync -f`; no list, no state"
	rowBaseline   = "**sync**, baseline, verified and durable, 32 workers"
	rowAuditSoon  = "**audit** right after that **sync**"
	rowAuditLater = "**audit** later, when all of the mirror was read"
	rowPacked     = "**sync**, baseline where there is a Resource Dump"
	rowCurlLarge  = "large files: `curl --parallel-max 32`, then `sync -f`"
)

func destinationRows(s *site) []*destinationRow {
	return []*destinationRow{
		{name: rowCurl, run: (*site).curlSmall},
		{name: rowReference, run: (*site).reference},
		{name: "`wget -i`", run: (*site).wget},
		{name: "`rclone copy`, 32 transfers, no HEAD", run: (*site).rclone},
		{name: rowBare, run: (*site).bareSmall, beside: []beside{{rowCurl, 0}}},
		{own: true, name: rowBaseline, run: (*site).baseline, beside: []beside{{rowCurl, 1}, {rowReference, 1.0 / 6}}, bounds: []bound{lean(200)}},
		{own: true, name: rowAuditSoon, run: (*site).auditSoon, beside: []beside{{rowAuditLater, 1.1}}},
		{own: true, name: rowAuditLater, run: (*site).auditLater},
		{own: true, name: rowPacked, times: 3, run: (*site).baselinePacked, beside: []beside{{rowCurl, 1}, {rowReference, 1.0 / 6}}, bounds: []bound{lean(200)}},
		{own: true, name: "**sync**, 1 % changed", times: 4, before: (*site).change, run: (*site).incremental, beside: []beside{{rowBaseline, 1.0 / 20}}, bounds: []bound{asking(219)}},
		{own: true, name: "**sync**, nothing changed", times: 8, run: (*site).idle, bounds: []bound{asking(3), within(0.050)}},
		{name: rowCurlLarge, run: (*site).curlLarge},
		{own: true, name: "large files: **sync**, baseline", times: 3, run: (*site).baselineLarge, beside: []beside{{rowCurlLarge, 1 / 0.8}}, bounds: []bound{lean(200)}},
		{own: true, name: "50 ms away: **sync** by GET, 32 workers", run: (*site).farByGet, bounds: []bound{atRate(s.Far, 400)}},
		{own: true, name: "50 ms away: **sync** from a Resource Dump", run: (*site).farByDump, bounds: []bound{atRate(s.Far, 5000)}},
		{own: true, name: "a mirror of a large set, made", run: (*site).enrol, once: true},
		{own: true, name: fmt.Sprintf("**sync -n** of it with %d changes", s.Changes), times: 4, run: (*site).planLarge, bounds: []bound{within(3), lean(200)}},
	}
}

// TestDestination measures all rows, interleaved, and prints them as one table.
func TestDestination(t *testing.T) {
	notShort(t)
	s, repetitions := newSite(t, *destinationTable != "")
	if err := s.open(t); err != nil {
		t.Fatal(err)
	}
	all := destinationRows(s)
	for i := range repetitions {
		if err := repeatDestination(all, s, i == 0); err != nil {
			t.Fatal(err)
		}
	}
	table := renderDestination(all, s)
	if *destinationTable != "" {
		if err := os.WriteFile(*destinationTable, []byte(table), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, want := strings.Count(table, "\n| "), 1+len(all); got != want {
		t.Errorf("got %d lines, want %d:\n%s", got, want, table)
	}
}

// newSite is one of the sizes that count, or of small ones, and how often it is measured.
func newSite(t *testing.T, full bool) (*site, int) {
	if full {
		return &site{Dir: t.TempDir(), Small: 20_000, Large: 200, Far: 2000, Members: 2_600_000, Changes: 1600}, 5
	}
	return &site{Dir: t.TempDir(), Small: 300, Large: 3, Far: 20, Members: 5000, Changes: 10}, 1
}

func repeatDestination(all []*destinationRow, s *site, first bool) error {
	now := map[string]float64{}
	for _, r := range all {
		if r.err != nil || r.once && !first {
			continue
		}
		if r.before != nil {
			if err := r.before(s); err != nil {
				return err
			}
		}
		took, err := r.run(s)
		if errors.As(err, new(errMissing)) {
			r.err = err
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		now[r.name] = took.Seconds
		r.taken = append(r.taken, took)
	}
	for _, r := range all {
		r.compare(now)
	}
	return nil
}

// compare adds the ratios of one repetition, in which the rows took the seconds of now.
func (r *destinationRow) compare(now map[string]float64) {
	for _, b := range r.beside {
		own, other := now[r.name], now[b.row]
		if own == 0 || other == 0 {
			continue
		}
		if r.ratios == nil {
			r.ratios = map[string][]float64{}
		}
		r.ratios[b.row] = append(r.ratios[b.row], own/other)
	}
}

func renderDestination(all []*destinationRow, s *site) string {
	var b strings.Builder
	fmt.Fprintf(&b, "A tree of %d files of 1 to 20 KiB, %d large files of 5 MiB, %d files served 50 ms late, and a set of %d resources of which %d change.\n",
		s.Small, s.Large, s.Far, s.Members, s.Changes)
	fmt.Fprintf(&b, "%s, %d cores; medians of interleaved runs, ratios within a run. Served by %s.\n\n", runtime.Version(), runtime.NumCPU(), s.server)
	b.WriteString("| | seconds | ratio | beside | peak RSS, MB | requests | target |\n|---|---:|---:|---|---:|---:|---|")
	for _, r := range all {
		b.WriteString("\n| " + r.name + " | " + r.line() + " |")
	}
	b.WriteString("\n\nEach run, in seconds:\n")
	for _, r := range all {
		if r.err == nil {
			fmt.Fprintf(&b, "\n- %s: %.3f", r.name, r.all(func(s spent) float64 { return s.Seconds }))
		}
	}
	return b.String() + "\n\n" + versions() + "\n"
}

func (r *destinationRow) line() string {
	if r.err != nil {
		return r.err.Error() + " | | | | |"
	}
	ratio, name := "–", ""
	if len(r.beside) > 0 {
		if v := r.ratios[r.beside[0].row]; len(v) > 0 {
			ratio, name = fmt.Sprintf("%.3f", median(v)), r.beside[0].row
		}
	}
	rss, requests := "–", "–"
	if n := r.rss(); n > 0 {
		rss = fmt.Sprintf("%.0f", float64(n)/1e6)
	}
	if n := r.requests(); n > 0 {
		requests = fmt.Sprint(n)
	}
	return fmt.Sprintf("%.3f | %s | %s | %s | %s | %s", r.seconds(), ratio, name, rss, requests, r.verdicts())
}

func (r *destinationRow) verdicts() string {
	var out []string
	say := func(text string, met bool) {
		verdict := "met"
		if !met {
			verdict = "**not met**"
		}
		out = append(out, text+": "+verdict)
	}
	for i, b := range r.beside {
		v := r.ratios[b.row]
		if len(v) == 0 {
			continue
		}
		if b.atMost == 0 {
			continue
		}
		text := fmt.Sprintf("≤ %.3g", b.atMost)
		if i > 0 {
			text = fmt.Sprintf("%.3f of %s, %s", median(v), b.row, text)
		}
		say(text, median(v) <= b.atMost)
	}
	for _, b := range r.bounds {
		say(b.text, b.met(r))
	}
	return strings.Join(out, "; ")
}

// versions says which programs were found.
func versions() string {
	var all []string
	for _, p := range [][]string{{"curl", "--version"}, {"wget", "--version"}, {"rclone", "version"}, {"sync", "--version"}} {
		out, err := output(exec.Command(p[0], p[1]))
		if err == nil {
			first, _, _ := strings.Cut(string(out), "\n")
			all = append(all, first)
		}
	}
	return "With " + strings.Join(all, "; ") + "."
}
