//go:build unix

package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"instep/resourcesync"
)

var tableFile = flag.String("table", "", "measure the full set and write the table to this file")

// A process with this in its environment measures the row named, of the set
// described by the arguments, and prints a result.
const rowVariable = "INSTEP_BENCH_ROW"

type job struct {
	Dir            string
	Lists, Entries int
	AtLeast        time.Duration
}

func TestMain(m *testing.M) {
	for variable, measure := range map[string]func(what, arg string) error{rowVariable: child, sourceVariable: sourceChild, hugeVariable: hugeChild} {
		what := os.Getenv(variable)
		if what == "" {
			continue
		}
		if err := measure(what, os.Args[1]); err != nil {
			fmt.Fprintf(os.Stderr, "measure %s: %v\n", what, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child(row, arg string) error {
	var j job
	if err := json.Unmarshal([]byte(arg), &j); err != nil {
		return err
	}
	r, err := measure(passes[row], set{j.Dir, j.Lists, j.Entries}, j.AtLeast)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// errMissing says how to get what is not installed.
type errMissing struct{ install string }

func (e errMissing) Error() string { return "not installed; " + e.install }

// program measures a row in a process of this program.
func program(row string) func(job) (result, error) {
	return func(j job) (r result, err error) {
		arg, err := json.Marshal(j)
		if err != nil {
			return r, err
		}
		out, err := output(exec.Command(os.Args[0], string(arg)), rowVariable+"="+row)
		if err != nil {
			return r, err
		}
		return r, json.Unmarshal(out, &r)
	}
}

func output(cmd *exec.Cmd, env ...string) ([]byte, error) {
	cmd.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}

// xmllint reads the list several times in one process, beside which its start does
// not count.
func xmllint(j job) (r result, err error) {
	const times = 5
	tool, err := exec.LookPath("xmllint")
	if err != nil {
		return r, errMissing{"apt-get install libxml2-utils"}
	}
	list := set{dir: j.Dir}.list(0)
	cmd := exec.Command(tool, append([]string{"--stream", "--noout"}, slices.Repeat([]string{list}, times)...)...)
	_, err = output(cmd)
	if err != nil {
		return r, err
	}
	r.Seconds = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds() / times
	return r, nil
}

// expat parses without handlers, in Python, which only hands it the bytes.
func expat(j job) (r result, err error) {
	const script = `
import json, sys, time
from xml.parsers import expat
def parse():
    parser = expat.ParserCreate(namespace_separator=" ")
    with open(sys.argv[1], "rb") as f:
        while chunk := f.read(1 << 16):
            parser.Parse(chunk, False)
    parser.Parse(b"", True)
parse()
start = time.process_time()
parse()
print(json.dumps({"Seconds": time.process_time() - start}))
`
	tool, err := exec.LookPath("python3")
	if err != nil {
		return r, errMissing{"apt-get install python3"}
	}
	out, err := output(exec.Command(tool, "-c", script, set{dir: j.Dir}.list(0)))
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(out, &r)
}

// row is a line of the table.
type row struct {
	name   string
	run    func(job) (result, error)
	bytes  func(set) (int64, error) // of XML that one pass reads or writes
	share  func(set) int            // its entries; nil: those of one list
	target []target
	once   bool // run once: its speed is not what it is about

	rates, ratios []float64 // MB/s, and times that of the row token, of each repetition
	last          result
	err           error
}

// entries is how many a pass has to find; programs of others don't tell how many
// they did.
func (r *row) entries(s set) int {
	if r.share == nil {
		return s.entries
	}
	return r.share(s)
}

// target is a bound that an issue sets.
type target struct {
	text string
	met  func(*row) bool
}

var (
	sixTimes   = target{"≥ 6 × Token", func(r *row) bool { return median(r.ratios) >= 6 }}
	halfGB     = target{"≥ 500 MB/s", func(r *row) bool { return median(r.rates) >= 500 }}
	fewAllocs  = target{"≤ 3 allocations", func(r *row) bool { return r.last.Mallocs <= 3 }}
	smallHeap  = target{"heap < 8 MB", func(r *row) bool { return r.last.Heap < 8_000_000 }}
	fiftyMB    = target{"RSS < 50 MB", func(r *row) bool { return r.last.RSS < 50_000_000 }}
	nameOfBase = "encoding/xml, Token"
)

func rows() []*row {
	size := func(name func(set) string) func(set) (int64, error) {
		return func(s set) (int64, error) {
			info, err := os.Stat(name(s))
			if err != nil {
				return 0, err
			}
			return info.Size(), nil
		}
	}
	list := size(set.firstList)
	all := func(s set) (sum int64, err error) {
		for i := range s.lists {
			n, e := size(func(s set) string { return s.list(i) })(s)
			sum, err = sum+n, errors.Join(err, e)
		}
		return sum, err
	}
	decode := &row{name: "**decode**", run: program("decode"), bytes: list, target: []target{sixTimes, halfGB, fewAllocs, smallHeap}}
	halfOfDecode := target{"≥ half of decode", func(r *row) bool { return 2*median(r.ratios) >= median(decode.ratios) }}
	return []*row{
		{name: nameOfBase, run: program("token"), bytes: list},
		decode,
		{name: "**decode**, strict", run: program("strict"), bytes: list},
		{name: "**decode**, compressed with gzip", run: program("packed"), bytes: list},
		{name: "**lint**", run: program("lint"), bytes: list, target: []target{halfOfDecode, fiftyMB}},
		{name: "**encode**", run: program("encode"), bytes: list, target: []target{halfGB}},
		{name: "encoding/xml, Unmarshal of each entry", run: program("unmarshal"), bytes: list},
		{name: "libxml2, `xmllint --stream --noout`", run: xmllint, bytes: list},
		{name: "expat without handlers, by Python", run: expat, bytes: list},
		{name: "limit: the same values without any check, by hand", run: program("bare"), bytes: list},
		{name: "limit: looking for each `<`", run: program("scan"), bytes: list},
		{name: "**decode**, a tenth of the entries", run: program("small"), bytes: size(set.small), share: func(s set) int { return s.entries / 10 }, target: []target{smallHeap}},
		{name: "**decode**, every entry twice", run: program("double"), bytes: func(s set) (int64, error) {
			n, err := list(s)
			return 2 * n, err
		}, share: func(s set) int { return 2 * s.entries }, target: []target{smallHeap}},
		{name: "**decode**, an index and all its lists", run: program("all"), bytes: all, share: func(s set) int { return s.lists * s.entries }, target: []target{smallHeap, fiftyMB}, once: true},
	}
}

// TestDocuments measures all rows, interleaved, and prints them as one table.
func TestDocuments(t *testing.T) {
	notShort(t)
	s := set{dir: t.TempDir(), lists: 2, entries: 500}
	repetitions, atLeast := 1, time.Duration(0)
	if *tableFile != "" {
		s.lists, s.entries, repetitions, atLeast = 20, resourcesync.MaxEntries, 7, 200*time.Millisecond
	}
	if err := s.write(); err != nil {
		t.Fatal(err)
	}
	all := rows()
	for i := range repetitions {
		if err := repeat(all, s, job{s.dir, s.lists, s.entries, atLeast}, i == 0); err != nil {
			t.Fatal(err)
		}
	}
	table := render(all, s)
	if *tableFile != "" {
		if err := os.WriteFile(*tableFile, []byte(table), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, want := strings.Count(table, "\n| "), 1+len(all); got != want {
		t.Errorf("got %d lines, want %d:\n%s", got, want, table)
	}
}

// notShort leaves the tables to runs without -short: even with small sets they build the
// program and start every other one.
func notShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED: a table takes a while; run without -short")
	}
}

// repeat runs each row once. A program that is not installed is no error.
func repeat(all []*row, s set, j job, first bool) error {
	var base float64
	for _, r := range all {
		if r.err != nil || r.once && !first {
			continue
		}
		size, err := r.bytes(s)
		if err != nil {
			return err
		}
		if r.last, r.err = r.run(j); r.err != nil {
			if _, missing := errors.AsType[errMissing](r.err); missing {
				continue
			}
			return r.err
		}
		if want := r.entries(s); r.last.Entries != want && r.last.Entries != 0 {
			return fmt.Errorf("%s: got %d entries, want %d", r.name, r.last.Entries, want)
		}
		rate := float64(size) / 1e6 / r.last.Seconds
		if r.name == nameOfBase {
			base = rate
		}
		r.rates, r.ratios = append(r.rates, rate), append(r.ratios, rate/base)
	}
	return nil
}

func render(all []*row, s set) string {
	var b strings.Builder
	fmt.Fprintf(&b, "A Resource List of %d entries with lastmod, length, type, md5 and sha-256; the index has %d such lists.\n", s.entries, s.lists)
	fmt.Fprintf(&b, "%s, %d cores. MB of XML for each second of CPU time of all threads, from files in the page cache;\n", runtime.Version(), runtime.NumCPU())
	b.WriteString("medians of interleaved runs, ratios within a run. Memory is in MB.\n\n")
	b.WriteString("| | MB/s | × Token | allocations per entry | peak heap | peak RSS | target |\n|---|---:|---:|---:|---:|---:|---|")
	for _, r := range all {
		b.WriteString("\n| " + r.name + " | ")
		if r.err != nil {
			b.WriteString(r.err.Error() + " | | | | | |")
			continue
		}
		fmt.Fprintf(&b, "%.0f | ", median(r.rates))
		if r.once {
			b.WriteString("– | ")
		} else {
			fmt.Fprintf(&b, "%.1f | ", median(r.ratios))
		}
		if r.last.Heap > 0 {
			fmt.Fprintf(&b, "%.2f | %.1f | ", r.last.Mallocs, float64(r.last.Heap)/1e6)
		} else {
			b.WriteString("– | – | ")
		}
		if r.last.RSS > 0 {
			fmt.Fprintf(&b, "%.0f | ", float64(r.last.RSS)/1e6)
		} else {
			b.WriteString("– | ")
		}
		b.WriteString(verdicts(r) + " |")
	}
	return b.String() + "\n"
}

func verdicts(r *row) string {
	var out []string
	for _, t := range r.target {
		verdict := "met"
		if !t.met(r) {
			verdict = "**not met**"
		}
		out = append(out, t.text+": "+verdict)
	}
	return strings.Join(out, "; ")
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}
