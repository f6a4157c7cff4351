//go:build unix

package bench

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"instep/internal/catalog"
	"instep/internal/publish"
	"instep/internal/record"
	"instep/pack"
	"instep/resourcesync"
)

var sourceTable = flag.String("source", "", "measure the full sets and write the table of the Source to this file")

// sourceJob describes the sets of the table of the Source.
type sourceJob struct {
	Program string        // the binary
	Dir     string        // where everything lies
	Files   int           // small files of a tree
	Members int           // resources of a large set without files
	Changes int           // changes of one publication of it
	Pushing time.Duration // how long changes are pushed
}

func (j sourceJob) tree() string            { return filepath.Join(j.Dir, "tree") }
func (j sourceJob) path(name string) string { return filepath.Join(j.Dir, name) }

// sourceRow is a line of the table of the Source: a time, beside that of another row.
type sourceRow struct {
	name    string
	run     func(sourceJob) (sourceResult, error)
	beside  string // the row that it is compared with
	atMost  float64
	memory  uint64  // bound of the peak RSS in bytes; 0 is none
	atLeast float64 // changes a second; 0 is none
	once    bool

	times, ratios []float64 // of each repetition: seconds, and times that of the row beside
	rates         []float64 // of each repetition: changes a second
	last          sourceResult
	err           error
}

type sourceResult struct {
	Seconds      float64
	RSS          uint64
	Changes      int // that were pushed meanwhile, if the row is about that
	Publications int // of them
}

const (
	rowHashing  = "`sha256sum`, two processes"
	rowWalking  = "limit: a `stat` walk"
	rowRebase   = "**publish --rebase** of the large set"
	rowZip      = "`zip -0`"
	rowFirst    = "**publish**, first time, sha-256"
	rowAgain    = "**publish**, nothing changed"
	rowRecorded = "**publish** of recorded changes, without a scan"
	rowDump     = "**Resource Dump**, stored"
)

func sourceRows() []*sourceRow {
	return []*sourceRow{
		{name: rowHashing, run: wall(hashTree)},
		{name: rowFirst, run: wall(publishFirst), beside: rowHashing, atMost: 1.5},
		{name: rowWalking, run: own("walk")},
		{name: rowAgain, run: wall(publishAgain), beside: rowWalking, atMost: 2},
		{name: rowZip, run: wall(zipTree)},
		{name: rowDump, run: own("dump"), beside: rowZip, atMost: 1},
		{name: "a large set, made", run: own("enroll"), once: true},
		{name: rowRebase, run: own("rebase")},
		{name: "**record**, pushed as fast as they are taken, published each second", run: own("pushed"), atLeast: 5000},
		{name: rowRecorded, run: own("recorded"), beside: rowRebase, atMost: 1.0 / 50, memory: 200_000_000},
	}
}

// sourceParts are what a process of its own measures.
var sourceParts = map[string]func(context.Context, sourceJob) (sourceResult, error){
	"walk": timed(walkTree), "dump": timed(dumpTree), "enroll": timed(enroll), "rebase": timed(rebase),
	"recorded": timed(recorded), "pushed": pushed,
}

func timed(part func(context.Context, sourceJob) (time.Duration, error)) func(context.Context, sourceJob) (sourceResult, error) {
	return func(ctx context.Context, j sourceJob) (sourceResult, error) {
		took, err := part(ctx, j)
		return sourceResult{Seconds: took.Seconds()}, err
	}
}

// wall measures a command from its start to its end.
func wall(command func(sourceJob) (*exec.Cmd, error)) func(sourceJob) (sourceResult, error) {
	return func(j sourceJob) (r sourceResult, err error) {
		cmd, err := command(j)
		if err != nil {
			return r, err
		}
		begin := time.Now()
		_, err = output(cmd)
		r.Seconds = time.Since(begin).Seconds()
		return r, err
	}
}

// own measures a part in a process of its own, which tells how long it took.
func own(part string) func(sourceJob) (sourceResult, error) {
	return func(j sourceJob) (r sourceResult, err error) {
		arg, err := json.Marshal(j)
		if err != nil {
			return r, err
		}
		out, err := output(exec.Command(os.Args[0], string(arg)), sourceVariable+"="+part)
		if err != nil {
			return r, err
		}
		return r, json.Unmarshal(out, &r)
	}
}

// A process with this in its environment measures a part of the Source.
const sourceVariable = "INSTEP_BENCH_SOURCE"

func sourceChild(part, arg string) error {
	var j sourceJob
	if err := json.Unmarshal([]byte(arg), &j); err != nil {
		return err
	}
	r, err := sourceParts[part](context.Background(), j)
	if err != nil {
		return err
	}
	r.RSS = peakRSS()
	return json.NewEncoder(os.Stdout).Encode(r)
}

func hashTree(j sourceJob) (*exec.Cmd, error) {
	return exec.Command("sh", "-c", `find "$0" -type f -print0 | xargs -0 -P 2 -n 500 sha256sum >/dev/null`, j.tree()), nil
}

func zipTree(j sourceJob) (*exec.Cmd, error) {
	zip, err := exec.LookPath("zip")
	if err != nil {
		return nil, errMissing{"apt-get install zip"}
	}
	name := j.path("zip.zip")
	if err := os.RemoveAll(name); err != nil {
		return nil, err
	}
	return exec.Command(zip, "-0", "-q", "-r", name, j.tree()), nil
}

func publishFirst(j sourceJob) (*exec.Cmd, error) {
	for _, dir := range []string{"docs", "state"} {
		if err := os.RemoveAll(j.path(dir)); err != nil {
			return nil, err
		}
	}
	return publishAgain(j)
}

func publishAgain(j sourceJob) (*exec.Cmd, error) {
	return exec.Command(j.Program, "publish", j.tree(), "--base-url", host, "--out", j.path("docs"), "--state", j.path("state")), nil
}

func walkTree(_ context.Context, j sourceJob) (time.Duration, error) {
	begin := time.Now()
	err := filepath.WalkDir(j.tree(), func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			_, err = d.Info()
		}
		return err
	})
	return time.Since(begin), err
}

// recordedSite is a set that is nothing but what was recorded of it.
func recordedSite(j sourceJob) publish.Site {
	return publish.Site{
		Out: j.path("large-docs"), State: j.path("large-state"), BaseURL: host,
		Sets: []publish.Set{{}}, Generator: "instep", Now: time.Now, RebaseMin: time.Hour,
	}
}

func inSession(ctx context.Context, j sourceJob, do func(*publish.Session) error) error {
	s, err := publish.Open(ctx, recordedSite(j))
	if err != nil {
		return err
	}
	err = do(s)
	if e := s.Close(); err == nil {
		err = e
	}
	return err
}

// recordEntries records n changes of the large set, the first of which is of member from.
func recordEntries(ctx context.Context, s *publish.Session, from, n, step int) error {
	batch := make([]catalog.Change, 0, catalog.MaxChanges)
	for i := range n {
		e := entry(from + i*step)
		batch = append(batch, catalog.Change{Resource: catalog.Resource{
			URI: e.Loc, Path: e.Loc, LastMod: e.LastMod, Length: e.Length, Type: e.Type,
			Digests: resourcesync.Digests{e.Digests.Get(resourcesync.SHA256)},
		}})
		if len(batch) == cap(batch) || i == n-1 {
			if err := s.Record(ctx, "", batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	return nil
}

func enroll(ctx context.Context, j sourceJob) (time.Duration, error) {
	begin := time.Now()
	err := inSession(ctx, j, func(s *publish.Session) error {
		if err := recordEntries(ctx, s, 0, j.Members, 1); err != nil {
			return err
		}
		_, err := s.Publish(ctx, publish.What{NoScan: true})
		return err
	})
	return time.Since(begin), err
}

func rebase(ctx context.Context, j sourceJob) (took time.Duration, err error) {
	err = inSession(ctx, j, func(s *publish.Session) error {
		begin := time.Now()
		rep, err := s.Publish(ctx, publish.What{NoScan: true, Rebase: true})
		took = time.Since(begin)
		if err == nil && rep.Resources != int64(j.Members) {
			err = fmt.Errorf("got %d resources, want %d", rep.Resources, j.Members)
		}
		return err
	})
	return took, err
}

// recorded records changes that lie all over the set and publishes them.
func recorded(ctx context.Context, j sourceJob) (took time.Duration, err error) {
	err = inSession(ctx, j, func(s *publish.Session) error {
		step := j.Members / j.Changes
		from := rand.IntN(step)
		begin := time.Now()
		if err := recordEntries(ctx, s, from, j.Changes, step); err != nil {
			return err
		}
		rep, err := s.Publish(ctx, publish.What{NoScan: true})
		took = time.Since(begin)
		if err == nil && (!rep.Published || rep.Rebased) {
			err = fmt.Errorf("published: %v, with a new Resource List: %v; want changes alone", rep.Published, rep.Rebased)
		}
		return err
	})
	return took, err
}

// pushed pushes changes of 20,000 resources as JSON Lines, as fast as they are taken,
// into a set that was published before, and publishes them every second. It ends when
// all of them are published.
func pushed(ctx context.Context, j sourceJob) (r sourceResult, err error) {
	state, err := os.MkdirTemp(j.Dir, "pushed-")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(state)) }()
	site := recordedSite(j)
	site.Out, site.State = filepath.Join(state, "docs"), filepath.Join(state, "state")
	s, err := publish.Open(ctx, site)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := recordEntries(ctx, s, 0, 1, 1); err != nil {
		return r, err
	}
	if _, err := s.Publish(ctx, publish.What{NoScan: true}); err != nil {
		return r, err
	}
	var refused, unpublished error // told by two goroutines
	into := record.Recorder{Session: s, Every: time.Second, Now: time.Now, Published: func(_ publish.Report, err error) {
		r.Publications++
		unpublished = errors.Join(unpublished, err)
	}}
	from, to := io.Pipe()
	defer from.Close()
	begin := time.Now()
	go func() { to.CloseWithError(pushLines(to, begin.Add(j.Pushing))) }()
	err = into.Run(ctx, func(ctx context.Context) error {
		return into.Read(ctx, from, func(a record.Answer) {
			if r.Changes++; !a.OK {
				refused = errors.New(a.Error)
			}
		})
	})
	r.Seconds = time.Since(begin).Seconds()
	return r, errors.Join(err, refused, unpublished)
}

// pushLines writes lines until a moment; each changes its resource.
func pushLines(to io.Writer, until time.Time) error {
	for i := 0; time.Now().Before(until); i++ {
		_, err := fmt.Fprintf(to, "{\"uri\":%q,\"hash\":\"sha-256:%064x\",\"length\":%d}\n", fmt.Sprintf("%sobjects/%d", host, i%20_000), i, i)
		if err != nil {
			return err
		}
	}
	return nil
}

// makeTree writes files of 1 to 20 KiB.
func (j sourceJob) makeTree() error {
	rng := rand.New(rand.NewPCG(1, 2))
	text := make([]byte, 20<<10)
	for i := range j.Files {
		for k := range text {
			text[k] = "abcdefghijklmnopqrstuvwxyz  \n"[rng.IntN(29)]
		}
		name := filepath.Join(j.tree(), fmt.Sprintf("d%03d", i%100), fmt.Sprintf("e%02d", i/100%10), fmt.Sprintf("f%05d.txt", i))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, text[:1024+rng.IntN(19<<10)], 0o644); err != nil {
			return err
		}
	}
	return nil
}

// TestSource measures all rows, interleaved, and prints them as one table.
func TestSource(t *testing.T) {
	notShort(t)
	j := sourceJob{Dir: t.TempDir(), Files: 200, Members: 5000, Changes: 10, Pushing: 100 * time.Millisecond}
	repetitions := 1
	if *sourceTable != "" {
		j.Files, j.Members, j.Changes, j.Pushing, repetitions = 20_000, 2_600_000, 1_600, 10*time.Second, 5
	}
	j.Program = j.path("instep")
	if _, err := output(exec.Command("go", "build", "-o", j.Program, "instep/cmd/instep")); err != nil {
		t.Fatal(err)
	}
	if err := j.makeTree(); err != nil {
		t.Fatal(err)
	}
	all := sourceRows()
	for i := range repetitions {
		if err := repeatSource(all, j, i == 0); err != nil {
			t.Fatal(err)
		}
	}
	table := renderSource(all, j)
	if *sourceTable != "" {
		if err := os.WriteFile(*sourceTable, []byte(table), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, want := strings.Count(table, "\n| "), 1+len(all); got != want {
		t.Errorf("got %d lines, want %d:\n%s", got, want, table)
	}
}

func repeatSource(all []*sourceRow, j sourceJob, first bool) error {
	now := map[string]float64{}
	for _, r := range all {
		if r.err != nil || r.once && !first {
			continue
		}
		if r.last, r.err = r.run(j); r.err != nil {
			if _, ok := r.err.(errMissing); ok {
				continue
			}
			return fmt.Errorf("%s: %w", r.name, r.err)
		}
		now[r.name] = r.last.Seconds
		r.times = append(r.times, r.last.Seconds)
		if r.last.Changes > 0 {
			r.rates = append(r.rates, float64(r.last.Changes)/r.last.Seconds)
		}
		if beside := now[r.beside]; beside > 0 {
			r.ratios = append(r.ratios, r.last.Seconds/beside)
		}
	}
	return nil
}

func renderSource(all []*sourceRow, j sourceJob) string {
	var b strings.Builder
	fmt.Fprintf(&b, "A tree of %d files of 1 to 20 KiB, and a set of %d resources without files, of which %d change.\n", j.Files, j.Members, j.Changes)
	fmt.Fprintf(&b, "%s, %d cores; medians of interleaved runs, ratios within a run.\n\n", runtime.Version(), runtime.NumCPU())
	b.WriteString("| | seconds | ratio | beside | peak RSS, MB | target |\n|---|---:|---:|---|---:|---|")
	for _, r := range all {
		b.WriteString("\n| " + r.name + " | ")
		if r.err != nil {
			b.WriteString(r.err.Error() + " | | | | |")
			continue
		}
		fmt.Fprintf(&b, "%.3f | ", median(r.times))
		if len(r.ratios) > 0 {
			fmt.Fprintf(&b, "%.3f | %s | ", median(r.ratios), r.beside)
		} else {
			b.WriteString("– | | ")
		}
		if r.last.RSS > 0 {
			fmt.Fprintf(&b, "%.0f | ", float64(r.last.RSS)/1e6)
		} else {
			b.WriteString("– | ")
		}
		b.WriteString(r.verdicts() + " |")
	}
	return b.String() + "\n"
}

func (r *sourceRow) verdicts() string {
	verdict := func(met bool) string {
		if met {
			return "met"
		}
		return "**not met**"
	}
	var out []string
	if r.atMost > 0 && len(r.ratios) > 0 {
		out = append(out, fmt.Sprintf("≤ %.3g: %s", r.atMost, verdict(median(r.ratios) <= r.atMost)))
	}
	if r.atLeast > 0 && len(r.rates) > 0 {
		rate := median(r.rates)
		out = append(out, fmt.Sprintf("%.0f changes a second in %d publications, ≥ %.0f: %s", rate, r.last.Publications, r.atLeast, verdict(rate >= r.atLeast)))
	}
	if r.memory > 0 {
		out = append(out, fmt.Sprintf("RSS < %d MB: %s", r.memory/1_000_000, verdict(r.last.RSS < r.memory)))
	}
	return strings.Join(out, "; ")
}

// dumpTree packs the tree into one package. Lengths and digests are known before, as
// they are to a Source; the bytes are held against them.
func dumpTree(ctx context.Context, j sourceJob) (took time.Duration, err error) {
	var members []pack.Member
	err = filepath.WalkDir(j.tree(), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		h := resourcesync.NewHasher(resourcesync.SHA256)
		h.Write(data) // never fails
		e := resourcesync.Entry{Loc: host + filepath.ToSlash(name)}
		e.Digests, e.Length, e.Type = h.Digests(), resourcesync.Bytes(int64(len(data))), "text/plain"
		e.Path = pack.PathOf(len(members)+1, e.Loc)
		members = append(members, pack.Member{Entry: e, Open: func(context.Context) (io.ReadCloser, error) { return os.Open(name) }})
		return nil
	})
	if err != nil {
		return 0, err
	}
	f, err := os.Create(j.path("dump.zip"))
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	w := pack.Writer{StoreOnly: true}
	_, err = w.Write(ctx, f, func(out io.Writer) error { return writeManifest(out, members) }, members)
	if e := f.Close(); err == nil {
		err = e
	}
	return time.Since(begin), err
}

func writeManifest(out io.Writer, members []pack.Member) error {
	h := header(resourcesync.URLSet)
	h.Capability = resourcesync.CapabilityResourceDumpManifest
	enc, err := resourcesync.NewEncoder(out, h)
	for i := 0; err == nil && i < len(members); i++ {
		err = enc.Encode(members[i].Entry)
	}
	if err != nil {
		return err
	}
	return enc.Close()
}
