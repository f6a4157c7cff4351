package publish

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"instep/blob"
	"instep/internal/catalog"
	"instep/internal/scan"
	"instep/internal/spool"
	"instep/internal/versions"
	"instep/resourcesync"
	"instep/source"
)

// KeepAll is the value of Set.KeepVersions that keeps versions for ever.
const KeepAll = time.Duration(math.MaxInt64)

// keptStep is the number of versions that are stored, and linked into the output, in one
// batch.
const keptStep = 500

// keepsBytes reports whether Change Dumps or versions need the bytes of each change of the
// set.
func (s *setState) keepsBytes() bool { return (s.Dumps || s.KeepVersions > 0) && s.content != nil }

const versionsName = "versions"

// openVersions opens the store of versions if a set of the site keeps versions now or kept
// versions earlier. A dry run does not open it.
func (s *Session) openVersions(ctx context.Context) error {
	_, err := os.Stat(filepath.Join(s.site.State, versions.FileName))
	s.hasVersions = err == nil || slices.ContainsFunc(s.sets, func(set *setState) bool { return set.KeepVersions > 0 })
	if !s.hasVersions || s.site.DryRun {
		return nil
	}
	// The files in this directory are hard-linked into the output, where a web server must
	// be able to read them.
	dir, err := s.openDir(ctx, filepath.Join(contentName, versionsName), true, blob.DirOptions{FileMode: 0o644})
	if err != nil {
		return err
	}
	if s.versions, err = versions.Open(ctx, s.site.State, dir); err != nil {
		return err
	}
	s.closers = append(s.closers, s.versions)
	return nil
}

// isVersionPath reports whether a path below the output is that of a version or of a
// directory of versions.
func (s *Session) isVersionPath(path string) bool {
	return s.hasVersions && s.isOut && strings.HasPrefix(path+"/", versions.Places)
}

// mementos adds to entries the links to stored versions of their resources (1.1 §14.6). The
// zero value adds no links.
type mementos struct {
	store *versions.Store // the store of versions; nil if no versions are kept
	base  string
	gates bool      // whether to add links to TimeGates and TimeMaps as well
	until time.Time // entries of changes do not link to versions that ended before this time, because these versions are removed after the publication
}

// addLinks links an entry to the version that was current at the given time, if that
// version has the digest of the entry.
func (m *mementos) addLinks(ctx context.Context, en *resourcesync.Entry, since time.Time) error {
	path, ok := scan.FileOf(m.base, en.Loc)
	if m.store == nil || !ok || en.Change == resourcesync.Deleted {
		return nil
	}
	v, err := m.store.At(ctx, path, since)
	if errors.Is(err, versions.ErrNoVersion) || err == nil && (v.Deleted || v.SHA256 != en.Digests.Get(resourcesync.SHA256)) {
		return nil
	}
	if err == nil && en.Change != "" && v.Since.Before(m.until) {
		var last versions.Version
		if last, err = m.store.At(ctx, path, m.until.Add(-time.Microsecond)); err == nil && last.Since.After(v.Since) {
			return nil
		}
	}
	if err != nil {
		return err
	}
	addLink(en, resourcesync.Link{
		Rel: resourcesync.RelMemento, Href: scan.URI(m.base, v.Place()), Modified: en.LastMod, Digests: en.Digests, Length: en.Length, Type: en.Type,
	})
	if m.gates {
		addLink(en, resourcesync.Link{Rel: resourcesync.RelTimeGate, Href: scan.URI(m.base, versions.TimeGate+path)})
		addLink(en, resourcesync.Link{Rel: resourcesync.RelTimeMap, Href: scan.URI(m.base, versions.TimeMap+path), Type: versions.TimeMapType})
	}
	return nil
}

// linkLength returns an upper estimate of the length of the links that addLinks will add to
// the entry of a change.
func (m *mementos) linkLength(ch *catalog.Change) int64 {
	const around = 260 // an estimate for one link: the names of its element and attributes, and the values other than the URI
	if m.store == nil || ch.Change == resourcesync.Deleted {
		return 0
	}
	uri := len(ch.URI) + 5*strings.Count(ch.URI, "&") + 5*strings.Count(ch.URI, "'")
	n := around + uri + len(ch.Type) + len(ch.Digests.String())
	if m.gates {
		n += 2 * (around + uri)
	}
	return int64(n)
}

// addLink adds a link to an entry, unless a rule has set a link with the same relation.
func addLink(en *resourcesync.Entry, l resourcesync.Link) {
	for i := range en.Links {
		if en.Links[i].Rel == l.Rel {
			return
		}
	}
	en.Links = append(en.Links[:len(en.Links):len(en.Links)], l)
}

// relations adds links to the entries of a publication, in addition to the links that rules
// set. A nil pointer or a zero value adds no links.
type relations struct {
	collections collections
	mementos    mementos
}

// addLinks links an entry to its Aggregations, and to the version that was current at the
// given time.
func (l *relations) addLinks(ctx context.Context, en *resourcesync.Entry, since time.Time) error {
	if l == nil {
		return nil
	}
	l.collections.addLinks(en)
	return l.mementos.addLinks(ctx, en, since)
}

// keepVersions stores versions, and places them in the output before any document links to
// them. The first time it stores the present state of every resource. Later it stores the
// states that came with the changes since the last publication.
func (r *run) keepVersions(ctx context.Context) error {
	r.mementos = mementos{}
	if r.KeepVersions == 0 || r.versions == nil {
		return nil
	}
	uuid, err := r.catalog.UUID(ctx)
	if err != nil {
		return err
	}
	log := uuid + " " + r.Name
	c, err := r.contents(ctx, time.Time{})
	if err != nil {
		return err
	}
	all, err := r.newStates(ctx, c, log)
	if err != nil {
		return err
	}
	for _, states := range all {
		if err := r.keepStates(ctx, states); err != nil {
			return fmt.Errorf("keeping versions: %w", err)
		}
	}
	if err := r.versions.SetThrough(ctx, log, r.seq); err != nil {
		return fmt.Errorf("keeping versions: %w", err)
	}
	if r.incomplete { // place all versions again: whoever removed the missing documents may have removed files of versions, too
		if err := r.placeVersions(ctx); err != nil {
			return fmt.Errorf("placing the files of versions again: %w", err)
		}
	}
	until, err := r.versionsExpireBefore(ctx)
	r.mementos = mementos{store: r.versions, base: r.site.BaseURL, gates: r.TimeGates, until: until}
	return err
}

// newStates returns the states of resources to store as versions. The first time these are
// the present states of all resources, later the states that came with the changes since
// the last stored version. If some of these changes may be missing from the log, it
// returns the present states as well.
func (r *run) newStates(ctx context.Context, c *contents, log string) (all []iter.Seq2[versions.State, error], err error) {
	through, begun, err := r.versions.Through(ctx, log)
	if err != nil {
		return nil, err
	}
	present := c.presentStates(ctx, r.site.BaseURL)
	if !begun {
		return append(all, present), nil
	}
	all = append(all, c.changedStates(ctx, r.site.BaseURL, through, r.seq))
	before, err := c.firstChange(ctx, 0, through)
	if err != nil || before.Seq > 0 { // an older change is still in the log, so no later one was removed, because the oldest changes are removed first
		return all, err
	}
	if forgotten, err := r.facts.Forgotten(ctx, r.id); err != nil || forgotten.IsZero() {
		return all, err
	}
	return append(all, present), nil
}

func (r *run) keepStates(ctx context.Context, states iter.Seq2[versions.State, error]) error {
	lost := 0
	for batch, err := range spool.Batches(states, keptStep) {
		if err != nil {
			return err
		}
		gone, err := r.versions.Keep(ctx, batch)
		if err != nil {
			return err
		}
		lost += len(gone)
		all := make([]versions.Version, len(batch))
		for i := range batch {
			all[i] = batch[i].Version
		}
		if err := r.versions.Place(ctx, r.bucket, all); err != nil {
			return err
		}
	}
	if lost > 0 {
		r.note("%s could not be kept, since the bytes no longer exist", english.Plural(lost, "version", ""))
	}
	return nil
}

// placeVersions writes the missing files of all stored versions to the output.
func (r *run) placeVersions(ctx context.Context) error {
	for batch, err := range spool.Batches(r.versions.After(ctx, time.Time{}), keptStep) {
		if err != nil {
			return err
		}
		if err := r.versions.Place(ctx, r.bucket, batch); err != nil {
			return err
		}
	}
	return nil
}

// presentStates yields the recorded state of each resource that is below the base URL.
func (c *contents) presentStates(ctx context.Context, base string) iter.Seq2[versions.State, error] {
	return func(yield func(versions.State, error) bool) {
		for m, err := range c.facts.Members(ctx, c.id) {
			st, ok := c.stateOf(&m, base, m.Changed)
			if (ok || err != nil) && !yield(st, err) {
				return
			}
		}
	}
}

// changedStates yields the states that resources got by the changes with after < Seq <=
// through.
func (c *contents) changedStates(ctx context.Context, base string, after, through int64) iter.Seq2[versions.State, error] {
	return func(yield func(versions.State, error) bool) {
		for ch, err := range c.facts.Changes(ctx, c.id, after, through) {
			st, ok := c.stateOf(&ch.Resource, base, ch.Datetime)
			if ch.Change == resourcesync.Deleted {
				path, below := scan.FileOf(base, ch.URI)
				st, ok = versions.State{Version: versions.Version{Path: path, Since: ch.Datetime, Deleted: true}}, below
			}
			if (ok || err != nil) && !yield(st, err) {
				return
			}
		}
	}
}

// stateOf returns the state that a resource has had since the given time. It returns false
// if the resource is not below the base URL, or its digest or length is unknown.
func (c *contents) stateOf(m *catalog.Resource, base string, since time.Time) (versions.State, bool) {
	path, ok := scan.FileOf(base, m.URI)
	sum := m.Digests.Get(resourcesync.SHA256)
	if !ok || sum.IsZero() || !m.Length.Known() {
		return versions.State{}, false
	}
	r := *m
	return versions.State{
		Version: versions.Version{Path: path, Since: since, SHA256: sum, Length: m.Length.Int64(), Type: m.Type, Encoding: m.Encoding},
		Open:    func(ctx context.Context) (io.ReadCloser, error) { return c.open(ctx, r) },
	}, true
}

// versionsExpireBefore returns the time before which a version must have ended so that it
// may be removed. This is the earlier of two times: the present time minus the longest
// KeepVersions of all sets, and the time of the oldest state that a published document
// lists, because its entries link to versions. It is zero if no version may be removed.
func (r *run) versionsExpireBefore(ctx context.Context) (until time.Time, err error) {
	keep := time.Duration(0)
	for _, set := range r.sets {
		keep = max(keep, set.KeepVersions)
	}
	if r.versions == nil || keep == 0 || keep == KeepAll {
		return until, nil
	}
	until = r.site.Now().Add(-keep)
	for _, set := range r.sets {
		for _, kind := range source.ListKinds {
			begun, err := r.oldestState(ctx, set, kind)
			if err != nil {
				return time.Time{}, err
			}
			if !begun.IsZero() && begun.Before(until) {
				until = begun
			}
		}
	}
	return until, nil
}

// oldestState returns the time of the oldest state in the published documents of a kind.
// It is zero if there are no such documents. The open Change List of the run's set does
// not count, because it is written again before versions are removed.
func (r *run) oldestState(ctx context.Context, set *setState, kind source.ItemKind) (time.Time, error) {
	for it, err := range r.pub.Journal.Items(ctx, set.Name, kind, 0) {
		switch {
		case err != nil:
			return time.Time{}, fmt.Errorf("reading which documents link to versions: %w", err)
		case kind == source.ItemChangeList && it.Until.IsZero() && (it.Entries == 0 || set == r.setState):
			continue
		case it.From.IsZero():
			return it.Completed, nil
		}
		return it.From, nil
	}
	return time.Time{}, nil
}

func (r *run) expireVersions(ctx context.Context) error {
	if r.mementos.until.IsZero() {
		return nil
	}
	return r.versions.Expire(ctx, r.bucket, r.mementos.until)
}
