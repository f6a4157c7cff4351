//go:build unix

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"instep/resourcesync"
)

// A batch is what may be fetched twice after a crash.
const batchResources = 500

// killRounds is how often each kill test kills: a few times on every run, 70 times on "make kill".
func killRounds() int {
	if os.Getenv("INSTEP_LONG") != "" {
		return 70
	}
	return 2
}

// killRandom draws from a seed that a failing run names.
func killRandom(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("INSTEP_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("seed: INSTEP_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// makeSite writes n files with content of their own.
func makeSite(t *testing.T, dir string, n int) {
	t.Helper()
	for i := range n {
		path := filepath.Join(dir, fmt.Sprintf("d%02d", i%40), fmt.Sprintf("f%05d.txt", i))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.Repeat(fmt.Sprintf("file %d\n", i), 1+i%900)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// publishedSite publishes n files and serves them behind a counter; dir is a directory for more.
func publishedSite(t *testing.T, n int, options ...string) (c *counter, site, dir string) {
	t.Helper()
	dir = t.TempDir()
	site, docs := filepath.Join(dir, "site"), filepath.Join(dir, "docs")
	makeSite(t, site, n)
	c = newCounter(t)
	mustDo(t, append([]string{"publish", site, "--base-url", c.URL + "/", "--out", docs, "--state", filepath.Join(dir, "state")}, options...)...)
	backend, _ := serveSite(t, site, docs)
	c.forward(backend)
	return c, site, dir
}

// killed runs a command and kills it after d; false if it had ended before.
func killed(t *testing.T, d time.Duration, args ...string) bool {
	t.Helper()
	cmd := command(t, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(d, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	return cmd.Wait() != nil
}

// leftovers are files below dir that no run should leave.
func leftovers(t *testing.T, dirs ...string) (found []string) {
	t.Helper()
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				found = append(found, path)
			}
			if os.IsNotExist(err) {
				return nil
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

func TestKillBaseline(t *testing.T) {
	k := newKiller(t, "list")
	k.rounds(func() string { return filepath.Join(k.dir, "mirror") }, nil)
}

// What of a package was not committed is transferred once more at most, in whichever
// parts.
func TestKillBaselineByDump(t *testing.T) {
	k := newKiller(t, "dump", "--dump")
	packages, err := filepath.Glob(filepath.Join(k.dir, "docs", "resourcesync", "dumps", "*", "*.zip"))
	if err != nil || len(packages) != 1 {
		t.Fatalf("packages %v, %v; want one", packages, err)
	}
	info, err := os.Stat(packages[0])
	if err != nil {
		t.Fatal(err)
	}
	k.pack = info.Size()
	k.rounds(func() string { return filepath.Join(k.dir, "mirror") }, nil)
}

func TestKillIncremental(t *testing.T) {
	k := newKiller(t, "list")
	kept := filepath.Join(k.dir, "kept")
	mustDo(t, append([]string{"sync", k.base, kept}, k.options...)...)
	k.rounds(func() string { return kept }, func() { k.change(1200) })
}

// killer kills synchronisations with a published site.
type killer struct {
	t               *testing.T
	c               *counter
	rng             *rand.Rand
	base, site, dir string
	options         []string
	edition         int

	kills, worst int
	pack         int64   // bytes of the package; 0: there is none
	parts        float64 // how much of the package was transferred, at worst
}

func newKiller(t *testing.T, prefer string, publish ...string) *killer {
	t.Helper()
	k := &killer{t: t, rng: killRandom(t), options: []string{"--prefer", prefer}}
	k.c, k.site, k.dir = publishedSite(t, 3000, publish...)
	k.base = k.c.URL + "/"
	return k
}

// change changes n files and publishes them.
func (k *killer) change(n int) {
	k.t.Helper()
	k.edition++
	for _, i := range k.rng.Perm(3000)[:n] {
		path := filepath.Join(k.site, fmt.Sprintf("d%02d/f%05d.txt", i%40, i))
		body := strings.Repeat(fmt.Sprintf("file %d, edition %d\n", i, k.edition), 1+i%900)
		if err := os.WriteFile(path, []byte(body), 0o644); err != nil {
			k.t.Fatal(err)
		}
	}
	mustDo(k.t, "publish", k.site, "--base-url", k.base, "--out", filepath.Join(k.dir, "docs"), "--state", filepath.Join(k.dir, "state"))
}

// rounds kills a synchronisation of the mirror that place names at a random moment, and
// looks at what the next one makes of it; prepare gives it something to do. A mirror
// that is made anew needs no preparation.
func (k *killer) rounds(place func() string, prepare func()) {
	t := k.t
	t.Helper()
	sync := func(mirror string) []string { return append([]string{"sync", k.base, mirror}, k.options...) }
	fresh := prepare == nil
	begin := time.Now()
	if fresh {
		mustDo(t, sync(filepath.Join(k.dir, "whole"))...)
	} else {
		prepare()
		mustDo(t, sync(place())...)
	}
	whole := time.Since(begin)
	for round := 0; k.kills < killRounds(); round++ {
		mirror := place()
		if !fresh {
			prepare()
		}
		k.c.take()
		after := time.Duration(k.rng.Int64N(int64(whole)))
		if killed(t, after, sync(mirror)...) {
			k.kills++
		}
		o := mustDo(t, sync(mirror)...)
		sameTrees(t, k.site, mirror)
		k.count(after)
		if found := leftovers(t, filepath.Join(mirror, ".instep", "tmp"), filepath.Join(mirror, ".instep", "parts")); len(found) > 0 {
			t.Errorf("killed after %s: left over: %v", after, found)
		}
		if round == 0 {
			mustDo(t, "audit", k.base, mirror)
		}
		t.Logf("round %d: killed after %s, then same=%d created=%d updated=%d", round, after.Round(time.Millisecond), *o.Same, *o.Created, *o.Updated)
		if !fresh {
			continue
		}
		if err := os.RemoveAll(mirror); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d runs were killed before their end; at most %d resources fetched twice, %.2f times the package transferred", k.kills, k.worst, k.parts)
}

// count counts what was fetched twice.
func (k *killer) count(after time.Duration) {
	hits, sent := k.c.take()
	twice := 0
	for path, n := range hits {
		if strings.HasSuffix(path, ".txt") {
			twice += n - 1
		}
	}
	k.worst = max(k.worst, twice)
	k.countPackages(after, sent)
	if twice > batchResources {
		k.t.Errorf("killed after %s: %d resources were fetched twice, want at most %d", after, twice, batchResources)
	}
}

// directory is what may be read of a package to learn which parts are wanted, in bytes.
const directory = 1 << 20

// countPackages counts how much of the package was transferred, before the kill and after it.
func (k *killer) countPackages(after time.Duration, sent map[string]int64) {
	if k.pack == 0 {
		return
	}
	var all int64
	for path, n := range sent {
		if strings.HasSuffix(path, ".zip") {
			all += n
		}
	}
	k.parts = max(k.parts, float64(all)/float64(k.pack))
	if all < k.pack/2 || all > 2*k.pack+directory {
		k.t.Errorf("killed after %s: %d bytes of a package of %d were transferred, want it once or twice", after, all, k.pack)
	}
}

func TestKillPublish(t *testing.T) {
	rng := killRandom(t)
	dir := t.TempDir()
	site := filepath.Join(dir, "site")
	makeSite(t, site, 3000)
	base := "http://museum.example.org/"
	args := func(round int) []string {
		out := filepath.Join(dir, fmt.Sprint("docs", round))
		return []string{"publish", site, "--base-url", base, "--out", out, "--state", filepath.Join(dir, fmt.Sprint("state", round)), "--fixed-changes"}
	}
	begin := time.Now()
	mustDo(t, args(0)...)
	whole := time.Since(begin)
	kills, changed := 0, map[string]resourcesync.Change{}
	for round := 1; kills < killRounds(); round++ {
		a := args(round)
		docs, state := a[5], a[7]
		if round%2 == 0 { // a publication of changes is killed, not the first one
			a = args(0)
			docs, state = a[5], a[7]
			touch(t, site, rng, changed)
		}
		after := time.Duration(rng.Int64N(int64(whole)))
		if killed(t, after, a...) {
			kills++
		}
		checkFixedChanges(t, docs, false)
		mustDo(t, a...)
		checkPublication(t, site, docs, base)
		checkFixedChanges(t, docs, true)
		if found := leftovers(t, filepath.Join(docs, "resourcesync", ".tmp"), filepath.Join(state, "staging")); len(found) > 0 {
			t.Errorf("killed after %s: left over: %v", after, found)
		}
		t.Logf("round %d: killed after %s", round, after.Round(time.Millisecond))
	}
	checkChangeList(t, filepath.Join(dir, "docs0"), base, changed)
	t.Logf("%d runs were killed before their end", kills)
}

// checkFixedChanges holds the Change List at a fixed name against the one that is open: it
// comes last, so it may lack what is new there, until a run has ended.
func checkFixedChanges(t *testing.T, docs string, ended bool) {
	t.Helper()
	key := filepath.Join("resourcesync", "changelist.xml")
	if _, err := os.Stat(filepath.Join(docs, key)); errors.Is(err, fs.ErrNotExist) && !ended {
		return
	}
	lists, err := filepath.Glob(filepath.Join(docs, "resourcesync", "changes", "*.xml"))
	if err != nil || len(lists) != 1 {
		t.Fatalf("Change Lists: got %v, %v; want one", lists, err)
	}
	_, open := readDocument(t, docs, filepath.Join("resourcesync", "changes", filepath.Base(lists[0])))
	_, fixed := readDocument(t, docs, key)
	if len(fixed) > len(open) || ended && len(fixed) < len(open) {
		t.Fatalf("the Change List at a fixed name has %d changes, the open one %d; ended: %v", len(fixed), len(open), ended)
	}
	for i, e := range fixed {
		if o := open[i]; e.Loc != o.Loc || e.Datetime != o.Datetime {
			t.Fatalf("change %d at a fixed name: %s at %s, in the open list %s at %s", i, e.Loc, e.Datetime, o.Loc, o.Datetime)
		}
	}
}

// touch changes 20 files that were not changed before.
func touch(t *testing.T, site string, rng *rand.Rand, changed map[string]resourcesync.Change) {
	t.Helper()
	for n := 0; n < 20; {
		i := rng.IntN(3000)
		path := fmt.Sprintf("d%02d/f%05d.txt", i%40, i)
		if changed[path] != "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(site, path), fmt.Appendf(nil, "changed %d\n", i), 0o644); err != nil {
			t.Fatal(err)
		}
		changed[path] = resourcesync.Updated
		n++
	}
}

// checkPublication follows every link from the well-known URI and checks that the
// Resource List describes the files as they are.
func checkPublication(t *testing.T, site, docs, base string) {
	t.Helper()
	key := func(uri string) string {
		k, ok := strings.CutPrefix(uri, base)
		if !ok {
			t.Fatalf("%s is not below %s", uri, base)
		}
		return filepath.FromSlash(k)
	}
	_, sets := readDocument(t, docs, filepath.Join(".well-known", "resourcesync"))
	_, lists := readDocument(t, docs, key(sets[0].Loc))
	files := listTree(site)
	for _, l := range lists {
		h, entries := readDocument(t, docs, key(l.Loc))
		if h.Capability != resourcesync.CapabilityResourceList {
			continue
		}
		if len(entries) != len(files) {
			t.Errorf("Resource List: %d entries, want %d", len(entries), len(files))
		}
		for _, e := range entries {
			f, err := os.ReadFile(filepath.Join(site, key(e.Loc)))
			if err != nil {
				t.Fatal(err)
			}
			hasher := resourcesync.NewHasher(resourcesync.SHA256)
			_, _ = hasher.Write(f)
			if got := e.Digests.Get(resourcesync.SHA256); got != hasher.Digests().Get(resourcesync.SHA256) {
				t.Errorf("%s: listed with %s, which is not that of the file", e.Loc, got)
			}
		}
	}
}
