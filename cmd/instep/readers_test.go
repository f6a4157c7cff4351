//go:build unix

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"instep/internal/conformance/replay"
)

// versioned is a directory whose files say which version of themselves they are, so
// that any bytes a reader gets can be told from any others.
type versioned struct {
	dir   string
	rng   *rand.Rand
	files map[string]int // the last version of each; 0 is gone
}

func versionOf(path string, version int) []byte {
	return fmt.Appendf(nil, "%s %d\n%s", path, version, strings.Repeat("- ", version%50))
}

func newVersioned(t *testing.T, dir string, rng *rand.Rand, files int) *versioned {
	v := &versioned{dir: dir, rng: rng, files: map[string]int{}}
	for i := range files {
		v.write(t, fmt.Sprintf("%s/%03d.txt", []string{"images", "texts"}[i%2], i))
	}
	return v
}

// write makes the next version of a file, whole or not at all.
func (v *versioned) write(t *testing.T, path string) {
	v.files[path]++
	name := filepath.Join(v.dir, path)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	temp := filepath.Join(v.dir, ".next")
	if err := os.WriteFile(temp, versionOf(path, v.files[path]), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temp, name); err != nil {
		t.Fatal(err)
	}
}

// edit changes up to four files, makes one now and then, and takes one away now and then.
func (v *versioned) edit(t *testing.T, round int) {
	paths := slices.Sorted(maps.Keys(v.files))
	for range 1 + v.rng.IntN(4) {
		v.write(t, paths[v.rng.IntN(len(paths))])
	}
	if v.rng.IntN(4) == 0 {
		v.write(t, fmt.Sprintf("texts/new-%d.txt", round))
	}
	if path := paths[v.rng.IntN(len(paths))]; v.rng.IntN(4) == 0 && strings.HasPrefix(path, "texts/new-") {
		if err := os.Remove(filepath.Join(v.dir, path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		delete(v.files, path)
	}
}

// state is what a set of these files has to be.
func (v *versioned) state(t *testing.T, base string, in func(path string) bool) replay.State {
	t.Helper()
	s := replay.State{}
	for path := range listTree(v.dir) {
		if !in(path) || strings.HasPrefix(path, ".") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(v.dir, path))
		if err != nil {
			t.Fatal(err)
		}
		s[base+path] = sumOf(data)
	}
	return s
}

func sumOf(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])
}

// fullConfig publishes two sets, each with every capability and the four archives.
const fullConfig = `base_url: %s
dir: %s
out: %s
state: %s
source:
  title: The collection of an example museum
  description: Pictures and the texts about them
  contact: mailto:registrar@example.org
  licence: https://creativecommons.org/publicdomain/zero/1.0/
sets:
  - name: images
    title: Pictures
    include: ["images/**"]
    change_list_max: 7
    dumps: {every: 1s, package_size: 4KiB}
    archive: {every: 1s, count: %d}
  - name: everything
    title: All of it
    change_list_max: 11
    dumps: {every: 2s}
    archive: {count: %d}
`

// fullSite is a directory with the configuration above.
type fullSite struct {
	*versioned
	base, docs, config string
}

func newFullSite(t *testing.T, files, archived int, base string, rng *rand.Rand) *fullSite {
	t.Helper()
	dir := t.TempDir()
	s := &fullSite{base: base, docs: filepath.Join(dir, "docs"), config: filepath.Join(dir, "site.yaml")}
	s.versioned = newVersioned(t, filepath.Join(dir, "site"), rng, files)
	text := fmt.Sprintf(fullConfig, base, s.dir, s.docs, filepath.Join(dir, "state"), archived, archived)
	if err := os.WriteFile(s.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// states are what the sets have to be, by the ends of the URIs of their Capability Lists.
func (s *fullSite) states(t *testing.T) map[string]replay.State {
	return map[string]replay.State{
		"sets/images/capabilitylist.xml":     s.state(t, s.base, func(path string) bool { return strings.HasPrefix(path, "images/") }),
		"sets/everything/capabilitylist.xml": s.state(t, s.base, func(string) bool { return true }),
	}
}

// readHTTP reads a URI as a harvester does.
func readHTTP(ctx context.Context) replay.Reader {
	return func(uri string) ([]byte, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, uri, nil)
		if err != nil {
			return nil, err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("%s: %s", uri, resp.Status)
		}
		return io.ReadAll(resp.Body)
	}
}

// checkServed takes some resources of a set and compares what is served with what is
// listed: the same version, or a later one that is still to be published.
func checkServed(read replay.Reader, base string, s *replay.Set, rng *rand.Rand) error {
	list := s.Lists[len(s.Lists)-1]
	for _, part := range list.Parts {
		for range min(5, len(part.URLs)) {
			e := part.URLs[rng.IntN(len(part.URLs))]
			body, err := read(e.Loc)
			if err != nil {
				continue // deleted since
			}
			if err := sameOrLater(strings.TrimPrefix(e.Loc, base), strings.TrimPrefix(e.MD.Hash, "sha-256:"), body); err != nil {
				return fmt.Errorf("%s: %w", e.Loc, err)
			}
		}
	}
	return nil
}

func sameOrLater(path, listed string, body []byte) error {
	fields := strings.Fields(string(body))
	version, err := strconv.Atoi(fields[1])
	if err != nil || !slices.Equal(body, versionOf(path, version)) {
		return fmt.Errorf("these are no bytes of any version: %q", body)
	}
	for ; version > 0; version-- {
		if sumOf(versionOf(path, version)) == listed {
			return nil
		}
	}
	return fmt.Errorf("sha-256 %s is listed, but no version up to the one served has it", listed)
}

// readerRounds are how many publications the readers see, and how many of them are killed.
func readerRounds() (publications, kills int) {
	switch {
	case os.Getenv("INSTEP_LONG") != "":
		return 2000, 200
	case testing.Short():
		return 20, 4
	}
	return 40, 8
}

// TestReadersNeverSeeAHalfPublication has eight readers walk the tree in a loop
// while publications run, some of which are killed.
func TestReadersNeverSeeAHalfPublication(t *testing.T) {
	rng := killRandom(t)
	c := newCounter(t)
	s := newFullSite(t, 60, 12, c.URL+"/", rng)
	begin := time.Now()
	mustDo(t, "publish", "-c", s.config)
	whole := time.Since(begin)
	backend, _ := serveSite(t, s.dir, s.docs)
	c.forward(backend)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var walks, documents atomic.Int64
	readers, ctx := errgroup.WithContext(ctx)
	for i := range 8 {
		own := rand.New(rand.NewPCG(rng.Uint64(), uint64(i)))
		readers.Go(func() error {
			for ctx.Err() == nil {
				n, err := walkOnce(ctx, s.base, own)
				if err != nil {
					if ctx.Err() != nil {
						return nil
					}
					return err
				}
				walks.Add(1)
				documents.Add(int64(n))
			}
			return nil
		})
	}
	publications, kills := readerRounds()
	killedSoFar := 0
	for round := range publications {
		if ctx.Err() != nil {
			break // a reader has found something
		}
		s.edit(t, round)
		if killedSoFar*publications < kills*(round+1) {
			if killed(t, time.Duration(rng.Int64N(int64(2*whole))), "publish", "-c", s.config) {
				killedSoFar++
			}
			continue
		}
		publishPatiently(t, s.config)
	}
	publishPatiently(t, s.config)
	stop()
	if err := readers.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d publications, %d killed; %d walks of %d documents", publications, killedSoFar, walks.Load(), documents.Load())
	if killedSoFar < kills*3/4 || walks.Load() < 8 {
		t.Errorf("got %d kills and %d walks: too few to show anything", killedSoFar, walks.Load())
	}
	checkReplay(t, s)
}

// publishPatiently publishes; a run that was killed may hold its lock for a moment longer.
func publishPatiently(t *testing.T, config string) {
	t.Helper()
	mustDo(t, "publish", "-c", config)
}

// walkOnce walks everything once and returns how many documents there were.
func walkOnce(ctx context.Context, base string, rng *rand.Rand) (int, error) {
	read := readHTTP(ctx)
	tree, err := replay.Walk(read, base+"resourcesync/description.xml")
	if err != nil {
		return 0, err
	}
	for _, set := range tree.Sets {
		if err := checkServed(read, base, set, rng); err != nil {
			return 0, err
		}
		if _, err := set.ReplayOne(rng.IntN(len(set.Lists) + len(set.Dumps))); err != nil {
			return 0, err
		}
	}
	return len(tree.Documents), nil
}

// checkReplay rebuilds every set from every snapshot that was kept.
func checkReplay(t *testing.T, s *fullSite) {
	t.Helper()
	tree, err := replay.Walk(readHTTP(t.Context()), s.base+"resourcesync/description.xml")
	if err != nil {
		t.Fatal(err)
	}
	want := s.states(t)
	if len(tree.Sets) != len(want) {
		t.Fatalf("got %d sets, want %d", len(tree.Sets), len(want))
	}
	for _, set := range tree.Sets {
		key := strings.TrimPrefix(set.CapabilityList, s.base+"resourcesync/")
		all, err := set.Replay()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range all {
			if diff := differences(r.State, want[key]); diff != "" {
				t.Errorf("set %s from %s of %v:\n%s", key, r.URI, r.At, diff)
			}
		}
		t.Logf("set %s: rebuilt from %d Resource Lists and %d Resource Dumps with %d Change Lists and %d Change Dumps",
			key, len(set.Lists), len(set.Dumps), len(set.Changes), len(set.ChangeDumps))
	}
}

func differences(got, want replay.State) string {
	var b strings.Builder
	for uri, sum := range want {
		if got[uri] != sum {
			fmt.Fprintf(&b, "%s: got sha-256 %q, want %q\n", uri, got[uri], sum)
		}
	}
	for uri := range got {
		if want[uri] == "" {
			fmt.Fprintf(&b, "%s is rebuilt, but is no resource\n", uri)
		}
	}
	return b.String()
}

// packageTools are programs of others that test a ZIP.
var packageTools = []struct {
	name string
	args []string
}{
	{"unzip", []string{"-tqq"}},
	{"7z", []string{"t", "-bso0"}},
	{"bsdtar", []string{"-tf"}},
	{"python3", []string{"-m", "zipfile", "-t"}},
}

// TestEveryCapability publishes two sets with every capability and the four
// archives, and holds all of it against our linter, other people's ZIP programs,
// and a reader that shares no code with us.
func TestEveryCapability(t *testing.T) {
	rng := killRandom(t)
	c := newCounter(t)
	s := newFullSite(t, 60, 0, c.URL+"/", rng)
	mustDo(t, "publish", "-c", s.config)
	backend, _ := serveSite(t, s.dir, s.docs)
	c.forward(backend)
	rounds := 25
	if testing.Short() {
		rounds = 10
	}
	for round := range rounds {
		s.edit(t, round)
		mustDo(t, "publish", "-c", s.config)
	}
	checkReplay(t, s)
	var documents, packages []string
	for path := range listTree(s.docs) {
		switch filepath.Ext(path) {
		case ".xml":
			documents = append(documents, filepath.Join(s.docs, path))
		case ".zip":
			packages = append(packages, filepath.Join(s.docs, path))
		}
	}
	mustDo(t, append([]string{"lint", "--fail-on", "warning"}, append(documents, packages...)...)...)
	checkPackages(t, packages)
	t.Logf("%d documents and %d packages", len(documents), len(packages))
}

func checkPackages(t *testing.T, packages []string) {
	t.Helper()
	var wg sync.WaitGroup
	for _, tool := range packageTools {
		program, err := exec.LookPath(tool.name)
		if err != nil {
			t.Logf("SKIPPED: %s is not installed", tool.name)
			continue
		}
		wg.Go(func() {
			for _, p := range packages {
				if out, err := exec.Command(program, append(slices.Clone(tool.args), p)...).CombinedOutput(); err != nil {
					t.Errorf("%s %s: %v\n%s", tool.name, p, err, out)
				}
			}
		})
	}
	wg.Wait()
}
