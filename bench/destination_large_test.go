//go:build unix

package bench

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"instep/destination"
	"instep/harvest"
	"instep/internal/catalog"
	"instep/mirror"
	"instep/resourcesync"
)

// hugeJob describes the large set: a mirror that knows many resources, and a Source
// that has changed some. There are no files, since a plan looks at none.
type hugeJob struct {
	Dir     string // of the mirror
	Docs    string // where its Source's documents are
	Base    string // URI below which they are
	Source  string // URI of its Capability List
	Members int
	Changes int
}

// A process with this in its environment makes what the hugeJob in its arguments describes.
const hugeVariable = "INSTEP_BENCH_HUGE"

// enrol makes the mirror and the Source, in a process of its own.
func (s *site) enrol() (spent, error) {
	dir := s.mirror(hugeSet)
	arg, err := json.Marshal(hugeJob{
		Dir: dir, Docs: filepath.Join(s.docs(hugeSet), "resourcesync"), Base: s.base(hugeSet), Source: s.source(hugeSet), Members: s.Members, Changes: s.Changes,
	})
	if err != nil {
		return spent{}, err
	}
	took, _, err := clock(exec.Command(s.tests, string(arg)), hugeVariable+"=make")
	return took, err
}

// planLarge plans the changes again and again: a plan changes nothing.
func (s *site) planLarge() (spent, error) {
	return s.sync(hugeSet, s.mirror(hugeSet), s.Changes, "-n")
}

func hugeChild(_, arg string) error {
	var j hugeJob
	if err := json.Unmarshal([]byte(arg), &j); err != nil {
		return err
	}
	ctx := context.Background()
	if err := j.publish(); err != nil {
		return err
	}
	if err := j.bind(ctx); err != nil {
		return err
	}
	c, err := catalog.Open(ctx, catalog.Options{Path: filepath.Join(j.Dir, ".instep", "catalog.db")})
	if err != nil {
		return err
	}
	return errors.Join(j.hold(ctx, c), c.Close())
}

// bind makes an empty mirror that has followed the set up to taken.
func (j hugeJob) bind(ctx context.Context) (err error) {
	m, err := mirror.Open(ctx, mirror.Options{Dir: j.Dir, Create: true, Now: time.Now})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if err := m.Bind(ctx, j.Source, j.Base); err != nil {
		return err
	}
	b, err := m.Begin(ctx)
	if err != nil {
		return err
	}
	return b.Commit(ctx, &destination.CursorMove{Set: j.Source, Cursor: destination.Cursor{Position: harvest.Position{At: taken}}})
}

// hold enters the members into the catalog of the mirror.
func (j hugeJob) hold(ctx context.Context, c *catalog.Catalog) error {
	set, err := c.Facts.Set(ctx, j.Source)
	if err != nil {
		return err
	}
	const some = 5000
	for first := 0; first < j.Members; first += some {
		var intents []catalog.Intent
		done := catalog.Outcome{}
		for i := first; i < min(first+some, j.Members); i++ {
			e := j.entry(i)
			intents = append(intents, catalog.Intent{URI: e.Loc, Length: e.Length, SHA256: e.Digests.Get(resourcesync.SHA256)})
			done.Stored = append(done.Stored, catalog.Resource{URI: e.Loc, Length: e.Length, Digests: e.Digests, Type: e.Type, Verified: true})
			done.Members = append(done.Members, catalog.Membership{Set: set, URI: e.Loc, Changed: taken, LastMod: e.LastMod})
		}
		err := c.Mirror.Intend(ctx, intents, &done, func(uri string, _ catalog.Names) (catalog.Place, error) {
			return catalog.Place{Path: uri}, nil
		})
		if err == nil {
			err = c.Mirror.Settle(ctx, done, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// entry is the i-th resource of the large set.
func (j hugeJob) entry(i int) resourcesync.Entry {
	e := entry(i)
	e.Loc = j.Base + e.Loc[len(host):]
	return e
}

// publish writes the documents of a Source whose Change List begins at taken.
func (j hugeJob) publish() error {
	if err := os.MkdirAll(j.Docs, 0o755); err != nil {
		return err
	}
	docs := j.Base + "resourcesync/"
	sets := []resourcesync.Entry{{Loc: j.Source, Metadata: resourcesync.Metadata{Capability: resourcesync.CapabilityCapabilityList}}}
	description := resourcesync.Header{Root: resourcesync.URLSet}
	description.Capability = resourcesync.CapabilityDescription
	offered := []resourcesync.Entry{
		{Loc: docs + "resourcelist.xml", Metadata: resourcesync.Metadata{Capability: resourcesync.CapabilityResourceList}},
		{Loc: docs + "changelist.xml", Metadata: resourcesync.Metadata{Capability: resourcesync.CapabilityChangeList}},
	}
	capabilities := resourcesync.Header{Root: resourcesync.URLSet, Links: []resourcesync.Link{{Rel: "up", Href: docs + "description.xml"}}}
	capabilities.Capability = resourcesync.CapabilityCapabilityList
	changes := resourcesync.Header{Root: resourcesync.URLSet, Links: []resourcesync.Link{{Rel: "up", Href: j.Source}}}
	changes.Capability, changes.From = resourcesync.CapabilityChangeList, resourcesync.DatetimeOf(taken)
	listed := func(entries []resourcesync.Entry) func(int) resourcesync.Entry {
		return func(i int) resourcesync.Entry { return entries[i] }
	}
	return errors.Join(
		writeDocument(filepath.Join(j.Docs, "description.xml"), description, 1, listed(sets)),
		writeDocument(filepath.Join(j.Docs, "capabilitylist.xml"), capabilities, len(offered), listed(offered)),
		writeDocument(filepath.Join(j.Docs, "changelist.xml"), changes, j.Changes, j.changed))
}

// changed is the i-th change.
func (j hugeJob) changed(i int) resourcesync.Entry {
	e, now := j.entry(i*(j.Members/j.Changes)), entry(j.Members+i)
	e.Change, e.Datetime = resourcesync.Updated, resourcesync.DatetimeOf(taken.Add(time.Duration(i+1)*time.Second))
	e.LastMod, e.Length, e.Digests = e.Datetime, now.Length, now.Digests
	return e
}
