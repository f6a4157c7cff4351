//go:build unix

package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"instep/resourcesync"
)

// stage is one holder of the resources in a chain: the first Source, or a mirror.
type stage struct {
	*counter
	dir, docs string
	args      []string // of publish
	stop      func()   // serving; nil: it is not served yet
}

// chain is Source, mirror, mirror and mirror, each of the one before, and all but the last
// published.
type chain struct {
	t      *testing.T
	rng    *rand.Rand
	stages []*stage
	last   string // the mirror that is not published
	next   int    // number of the next file

	carried               bool // the last round came to the last mirror
	kept                  int  // rounds whose changes are in the log of the first mirror, and not published
	kills, fetches, again int
	read                  int64 // bytes of mirrored files that publish has read
}

// TestRingOfMirrors changes a Source, and carries the changes over two aggregators
// (1.1 §14.8) to the last mirror, with kills and restarts on the way. The first of them
// publishes every other round, so that a resource has several states between.
func TestRingOfMirrors(t *testing.T) {
	rounds, perRound, files := 3, 100, 300
	if os.Getenv("INSTEP_LONG") != "" {
		rounds, perRound, files = 50, 100, 3000
	}
	c := newChain(t, files)
	c.incomplete()
	c.carry(false, true)
	c.fetched(files, 1)
	for n := range rounds {
		kills := c.kills
		c.change(perRound)
		c.carry(n%4 < 2, n%2 == 1 || n == rounds-1)
		c.fetched(perRound*3/4, c.kills-kills)
		if n%5 == 4 {
			c.restart()
		}
	}
	c.carry(false, true)
	c.fetched(0, 0)
	c.check()
	c.checkStates()
	t.Logf("%d changes, %d kills, %d resources fetched from the three stages, %d of them again after a kill", rounds*perRound, c.kills, c.fetches, c.again)
}

func newChain(t *testing.T, files int) *chain {
	c := &chain{t: t, rng: killRandom(t), next: files}
	dir := t.TempDir()
	for _, name := range []string{"site", "mirror1", "mirror2"} {
		s := &stage{counter: newCounter(t), dir: filepath.Join(dir, name), docs: filepath.Join(dir, "documents-"+name)}
		s.args = []string{"publish", s.dir, "--base-url", s.URL + "/", "--out", s.docs, "--state", filepath.Join(dir, "state-"+name), "--max-delete", "100%"}
		c.stages = append(c.stages, s)
	}
	c.last = filepath.Join(dir, "mirror3")
	makeSite(t, c.stages[0].dir, files)
	mustDo(t, c.stages[0].args...)
	c.serve(c.stages[0])
	return c
}

// serve serves what a stage publishes.
func (c *chain) serve(s *stage) {
	backend, stop := serveSite(c.t, s.dir, s.docs)
	s.stop = func() { stop() }
	s.forward(backend)
}

func (c *chain) restart() {
	for _, s := range c.stages {
		s.stop()
		c.serve(s)
	}
}

// stuck answers no request for some of the resources.
type stuck struct{ asked chan struct{} }

// RoundTrip implements http.RoundTripper.
func (s *stuck) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasPrefix(r.URL.Path, "/d39/") {
		return http.DefaultTransport.RoundTrip(r)
	}
	select {
	case s.asked <- struct{}{}:
	default:
	}
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// incomplete kills the first synchronization of the first mirror in the middle. Nothing of
// the mirror is published, neither while that runs nor after it.
func (c *chain) incomplete() {
	c.t.Helper()
	from, to := c.stages[0], c.stages[1]
	hold := &stuck{asked: make(chan struct{}, 1)}
	from.proxy.Transport = hold
	cmd := command(c.t, "sync", from.URL+"/", to.dir)
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	<-hold.asked
	c.publishesNothing(to)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	c.publishesNothing(to)
	from.proxy.Transport = nil
}

func (c *chain) publishesNothing(s *stage) {
	c.t.Helper()
	o := instep(c.t, s.args...)
	if o.code != exitTemporary || !strings.Contains(o.stderr, "is not complete") {
		c.t.Errorf("a mirror in the middle of its first baseline: exit code %d, %s; want %d", o.code, o.stderr, exitTemporary)
	}
	if found := leftovers(c.t, s.docs); len(found) > 0 {
		c.t.Errorf("of a mirror in the middle of its first baseline it published %q", found)
	}
}

// change changes files of the Source and publishes it.
func (c *chain) change(n int) {
	c.t.Helper()
	site := c.stages[0].dir
	var paths []string
	for path := range listTree(site) {
		if strings.HasSuffix(path, ".txt") {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	paths = paths[:min(len(paths), 2*n)] // some change again and again
	c.rng.Shuffle(len(paths), func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
	for i := range n {
		var err error
		c.next++
		switch text := fmt.Appendf(nil, "edition %d of %d\n", c.next, c.rng.Int()); i % 4 {
		case 0:
			err = os.WriteFile(filepath.Join(site, "d00", fmt.Sprintf("new %d.txt", c.next)), text, 0o644)
		case 1:
			err = os.Remove(filepath.Join(site, paths[i]))
		default:
			err = os.WriteFile(filepath.Join(site, paths[i]), text, 0o644)
		}
		if err != nil {
			c.t.Fatal(err)
		}
	}
	mustDo(c.t, c.stages[0].args...)
}

// carry brings what the Source publishes to the first mirror, and if that is to publish to
// the last one. A round with kills kills each command once, at a moment by chance, before it
// runs to its end.
func (c *chain) carry(kills, publish bool) {
	c.t.Helper()
	from := c.stages[0]
	c.kept++
	c.carried = publish
	for _, to := range c.stages[1:] {
		c.run(kills, "sync", from.URL+"/", to.dir, "--max-delete", "100%")
		if !publish {
			return
		}
		o := c.run(kills, to.args...)
		c.read += *o.Bytes
		if to.stop == nil {
			c.serve(to)
		}
		from = to
	}
	c.run(kills, "sync", from.URL+"/", c.last, "--max-delete", "100%")
}

func (c *chain) run(kill bool, args ...string) outcome {
	c.t.Helper()
	if kill && killed(c.t, time.Duration(c.rng.IntN(120))*time.Millisecond, args...) {
		c.kills++
	}
	return mustDo(c.t, args...)
}

// check holds every stage against the Source.
func (c *chain) check() {
	c.t.Helper()
	site := c.stages[0].dir
	for _, mirror := range []string{c.stages[1].dir, c.stages[2].dir, c.last} {
		sameTrees(c.t, site, mirror)
	}
	if c.read != 0 {
		c.t.Errorf("publishing the mirrors read %d bytes of their files, want 0", c.read)
	}
	for _, s := range c.stages[1:] {
		c.checkOrigins(s)
		if o := instep(c.t, "lint", s.URL+"/"); o.code != 0 {
			c.t.Errorf("lint of %s: exit code %d, %+v %s", s.URL, o.code, o.records, o.stderr)
		}
	}
}

// fetched checks how many resources were asked of each stage since the last call: each that
// changed once, and what a killed run had not committed once more. Those that the first mirror
// publishes may be of several rounds.
func (c *chain) fetched(changed, kills int) {
	c.t.Helper()
	most := changed
	for _, s := range c.stages {
		hits, _ := s.take()
		n := bodiesOf(hits)
		if n < changed || n > most+kills*most {
			c.t.Errorf("%s: %d resources were fetched for %d to %d changes with %d kills", s.dir, n, changed, most, kills)
		}
		c.fetches += n
		c.again += max(0, n-most)
		if !c.carried {
			return
		}
		most = changed * c.kept
	}
	c.kept = 0
}

// checkStates checks that the first mirror publishes every state that the Source published
// since its first list, in the same order, and that no stage publishes one twice.
func (c *chain) checkStates() {
	c.t.Helper()
	want := c.states(c.stages[0])
	several := 0
	for i, s := range c.stages[1:] {
		got := c.states(s)
		for name, states := range got {
			if twice := len(slices.Compact(slices.Clone(states))); twice != len(states) {
				c.t.Errorf("%s: %s has the states %q, want none twice", s.docs, name, states)
			}
		}
		if i > 0 {
			continue
		}
		for name, states := range want {
			if several = max(several, len(states)); !slices.Equal(got[name], states) {
				c.t.Errorf("%s: %s has the states %q, want %q", s.docs, name, got[name], states)
			}
		}
	}
	if several < 2 {
		c.t.Error("no resource changed more than once")
	}
}

// states are the states that the Change Lists of a stage give each resource, in their order.
func (c *chain) states(s *stage) map[string][]string {
	c.t.Helper()
	all := map[string][]string{}
	var lists []string
	for path := range listTree(s.docs) {
		if strings.Contains(path, "/changes/") && strings.HasSuffix(path, ".xml") {
			lists = append(lists, path)
		}
	}
	slices.SortFunc(lists, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }) // by first number
	for _, path := range lists {
		_, entries := readDocument(c.t, s.docs, path)
		for i := range entries {
			e := &entries[i]
			name := strings.TrimPrefix(e.Loc, s.URL+"/")
			all[name] = append(all[name], strings.TrimSpace(string(e.Change)+" "+e.Digests.String()))
		}
	}
	return all
}

// checkOrigins checks that every entry that a mirror publishes names the first Source.
func (c *chain) checkOrigins(s *stage) {
	c.t.Helper()
	origin, docs := c.stages[0].URL+"/", s.docs
	entries := 0
	for path := range listTree(docs) {
		if !strings.HasSuffix(path, ".xml") || !strings.Contains(path, "/changes/") && !strings.Contains(path, "/lists/") {
			continue
		}
		h, all := readDocument(c.t, docs, path)
		for i := range all {
			if e := &all[i]; h.Root == resourcesync.URLSet && e.Change != resourcesync.Deleted {
				entries++
				c.checkOrigin(path, e, origin, s.URL+"/")
			}
		}
	}
	if entries == 0 {
		c.t.Errorf("%s has no entries", docs)
	}
}

func (c *chain) checkOrigin(path string, e *resourcesync.Entry, origin, base string) {
	var via []resourcesync.Link
	for _, l := range e.Links {
		if l.Rel == resourcesync.RelVia {
			via = append(via, l)
		}
	}
	if len(via) != 1 || via[0].Href != origin+strings.TrimPrefix(e.Loc, base) || !strings.HasPrefix(e.Loc, base) {
		c.t.Fatalf("%s: %s: via %+v, want one to %s", path, e.Loc, via, origin)
	}
	v := via[0]
	if v.Length != e.Length || fmt.Sprint(v.Digests) != fmt.Sprint(e.Digests) || v.Modified != e.LastMod || v.Type != e.Type {
		c.t.Fatalf("%s: %s: via %+v does not say what the origin does: %+v", path, e.Loc, v, e)
	}
}
