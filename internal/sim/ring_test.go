package sim

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/blob"
	"instep/destination"
	"instep/fetch"
	"instep/guard"
	"instep/mirror"
)

// copyOf is a mirror of a simulated Source.
type copyOf struct {
	t   *testing.T
	dir string
	d   *destination.Destination
	m   *mirror.Mirror

	patience time.Duration // for an answer; 0 is short
}

// newCopy opens a mirror whose waits are short.
func newCopy(t *testing.T, s *site) *copyOf {
	t.Helper()
	c := &copyOf{t: t, dir: t.TempDir()}
	var err error
	c.m, err = mirror.Open(t.Context(), mirror.Options{Dir: c.dir, Now: time.Now, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.m.Close(); err != nil {
			t.Error(err)
		}
	})
	c.d = &destination.Destination{Source: s.url + "resourcesync/description.xml", Mirror: c.m, Workers: 4, Observe: func(destination.Event) {}}
	c.connect()
	return c
}

// connect gives the mirror a client that remembers nothing, as in a new run.
func (c *copyOf) connect() {
	c.t.Helper()
	patience := max(c.patience, 300*time.Millisecond)
	client, err := fetch.New(fetch.Options{
		MaxRetries: 1, Backoff: time.Millisecond, BackoffMax: 5 * time.Millisecond, MaxWait: 20 * time.Millisecond,
		HeaderTimeout: patience, IdleTimeout: patience,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(client.Close)
	if err := client.TrustSource(c.t.Context(), c.d.Source); err != nil {
		c.t.Fatal(err)
	}
	c.d.Client = client
}

// sync follows the Source; an error may be due to the Source.
func (c *copyOf) sync() (*destination.Report, error) {
	plan, err := c.d.Plan(c.t.Context())
	if err != nil {
		return nil, err
	}
	defer plan.Close()
	if err := c.m.Bind(c.t.Context(), plan.Source, plan.Origin, plan.URIs()...); err != nil {
		return nil, err
	}
	return c.d.Apply(c.t.Context(), plan)
}

func (c *copyOf) mustSync() *destination.Report {
	c.t.Helper()
	rep, err := c.sync()
	if err != nil {
		c.t.Fatal(err)
	}
	return rep
}

// files are the mirrored files as the model tells of resources.
func (c *copyOf) files() map[string]string {
	c.t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(c.dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Name() == ".instep":
			return filepath.SkipDir
		case d.IsDir():
			return nil
		}
		body, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		below, err := filepath.Rel(c.dir, name)
		all[filepath.ToSlash(below)] = fmt.Sprintf("%d %x", len(body), sha256.Sum256(body))
		return err
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return all
}

func (c *copyOf) mustBeClean() {
	c.t.Helper()
	audit, err := c.d.Audit(c.t.Context())
	if err != nil || !audit.InSync() {
		c.t.Fatalf("audit: %+v, %v; want everything in sync", audit, err)
	}
}

func TestAMirrorFollowsTheSimulation(t *testing.T) {
	for _, sets := range []int{1, 3} {
		m := newModel(t, Config{Seed: 11, Resources: 200, Rate: 4, Hot: 0.3, Sets: sets, Size: Size{Kind: LogNormal, Low: 2000}})
		s := serve(t, Options{
			Model: m, Bucket: blob.NewMem(), Staging: blob.NewMem(), ChangeListMax: 30, MaxEntries: 50,
			RebaseEvery: 90 * time.Second, Keep: 10 * time.Minute,
		})
		c := newCopy(t, s)
		c.d.MaxDelete, _ = guard.ParseLimit("100%") // it deletes more than anybody would in a day
		c.mustSync()
		incremental := 0
		for round := range 20 {
			if _, err := s.Round(t.Context(), 5*time.Second); err != nil {
				t.Fatal(err)
			}
			if round%3 == 0 {
				continue // several publications go by unread
			}
			for _, set := range c.mustSync().Sets {
				if set.Mode == destination.Incremental {
					incremental++
				}
			}
			if diff := cmp.Diff(present(m), c.files()); diff != "" {
				t.Fatalf("%d sets, round %d (-truth +mirror):\n%s", sets, round, diff)
			}
		}
		c.mustBeClean()
		if incremental < 10*sets {
			t.Errorf("%d sets: only %d synchronisations were incremental", sets, incremental)
		}
	}
}

// notMirrored are the switches that take long to sit out, and those that give
// resources other names.
var notMirrored = []string{"slow", "drip", "fan-out", "40", "41", "44"}

// Whatever a Source does, no file of the mirror ever has bytes that its resource never
// had; and once the Source is well again, so is the mirror.
func TestNoSwitchMakesAMirrorWrong(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: a mirror beside each switch takes a while; run without -short")
	}
	for _, sw := range Switches() {
		if slices.Contains(notMirrored, sw.Name) {
			continue
		}
		t.Run(sw.Name, func(t *testing.T) {
			t.Parallel()
			m := newModel(t, Config{Seed: 3, Resources: 40, Rate: 2, Size: Size{Kind: Uniform, Low: 100, High: 3000}})
			s := serve(t, Options{
				Model: m, Bucket: blob.NewMem(), Staging: blob.NewMem(), ChangeListMax: 30, MaxEntries: 25, Keep: time.Hour,
			})
			c := newCopy(t, s)
			on := Switched{sw, min(1, 3*sw.Share)}
			for round := range 3 {
				if round > 0 { // the first synchronisation is with a Source that is well, the others are not
					s.Switch(on)
				}
				_, _ = c.sync() // whether it fails depends on the fault
				s.mustNeverHaveBeenOtherwise(c.files())
				if _, err := s.Round(t.Context(), 5*time.Second); err != nil {
					t.Fatal(err)
				}
			}
			s.Switch()
			if sw.Name != "32" { // what it says now is two hours older than what it said
				s.mustHeal(c)
			}
		})
	}
}

// mustNeverHaveBeenOtherwise checks that files are versions of the resources.
func (s *site) mustNeverHaveBeenOtherwise(files map[string]string) {
	s.t.Helper()
	buf := make([]byte, hashBuffer)
	for name, got := range files {
		id, ok := idOf(name)
		if !ok {
			s.t.Errorf("%q is no resource", name)
			continue
		}
		known := false
		for version := uint32(1); version <= s.o.Model.states[id].version && !known; version++ {
			content := s.o.Model.contentOf(id, version)
			known = got == fmt.Sprintf("%d %x", content.size, content.sum(buf))
		}
		if !known {
			s.t.Errorf("%q has bytes that it never had", name)
		}
	}
}

// mustHeal checks that a mirror gets in step again. What a Source said wrongly may be
// known after an audit only, and deletions may wait for consent.
func (s *site) mustHeal(c *copyOf) {
	s.t.Helper()
	c.connect()
	c.d.MaxDelete, _ = guard.ParseLimit("100%")
	var diff string
	for range 3 {
		if _, err := c.sync(); err != nil {
			s.t.Fatalf("a Source that is well again: %v", err)
		}
		if diff = cmp.Diff(present(s.o.Model), c.files()); diff == "" {
			return
		}
		if _, err := c.d.Audit(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
		if _, err := s.Round(s.t.Context(), 30*time.Second); err != nil {
			s.t.Fatal(err)
		}
	}
	s.t.Errorf("the mirror does not get well (-truth +mirror):\n%s", diff)
}
