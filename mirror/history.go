package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"path/filepath"
	"strings"
	"time"

	"instep/blob"
	"instep/destination"
	"instep/internal/catalog"
	"instep/resourcesync"
)

// KeptSet is the name of the set of resources that are held in an earlier state,
// whatever the Source says (Revert with Keep, Release).
const KeptSet = "instep:kept"

// FoundSet is the name of the set of files that were in the place of resources when the
// mirror was made of a directory with files (Options.Adopt). They are in the trash.
// OpenVersion reads them, and Revert does not bring them back: they are no resources.
const FoundSet = "instep:found"

// ErrFound is the reason for which Revert does not bring back a file of FoundSet.
var ErrFound = errors.New("it was no resource of the mirror")

// Version is a state of a resource in a set: an ended one, or the present one.
type Version struct {
	// SetURI is the URI of the Capability List of the set, or KeptSet or FoundSet.
	SetURI string
	// Held is the resource as it was then, without Due, Wanted and the moments of evidence.
	destination.Held

	// Since and Until are when the state began and ended, by the clock of the mirror. Since
	// is zero if it is unknown, Until if the state is the present one.
	Since, Until time.Time
	// Kept is the path of the bytes since they left Path; "" if they did not leave it.
	Kept string
	// Why is what ended the state: Updated or Deleted; "" of the present one.
	Why resourcesync.Change
	// Began and Ended are the numbers of the runs that began and ended it; 0 if they are
	// unknown, or if it has not ended.
	Began, Ended int64

	past      bool // it has ended
	overtaken bool // a later run changed what came after it
	set       catalog.SetID
	remainder string // as the catalog has it
}

// Present reports whether the state has not ended.
func (v *Version) Present() bool { return !v.past }

func versionOf(set string, v *catalog.Version) (Version, error) {
	held, err := heldOf(&v.Resource)
	return Version{
		SetURI: set, Held: held, Since: v.Since, Until: v.Until, Kept: v.Kept, Why: v.Why, Began: v.Began, Ended: v.Ended,
		past: v.ID != 0, overtaken: v.Overtaken, set: v.Set, remainder: v.Remainder,
	}, err
}

// Run is the work of one command on a mirror, or of one period of it (BeginRun).
type Run struct {
	ID                        int64     // ascending; 0 if it has changed nothing yet
	Begun                     time.Time // by the clock of the mirror
	What                      string    // the command
	Created, Updated, Deleted int64     // resources, counted in each set
}

// ErrNoVersion is returned where there is no such state, or none any more.
var ErrNoVersion = errors.New("no such state is kept")

// setNames returns the names of all sets.
func (m *Mirror) setNames(ctx context.Context) (map[catalog.SetID]string, error) {
	if m.cat == nil {
		return nil, nil
	}
	all, err := m.facts.Sets(ctx)
	names := make(map[catalog.SetID]string, len(all))
	for _, s := range all {
		names[s.ID] = s.Name
	}
	return names, err
}

// Sets returns the names of all sets that the mirror knows, in the order in which it met
// them, but for FoundSet.
func (m *Mirror) Sets(ctx context.Context) ([]string, error) {
	if m.cat == nil {
		return nil, nil
	}
	all, err := m.facts.Sets(ctx)
	names := make([]string, 0, len(all))
	for _, s := range all {
		if s.Name != FoundSet {
			names = append(names, s.Name)
		}
	}
	return names, err
}

// labelled yields states of a catalog with the names of their sets.
func (m *Mirror) labelled(ctx context.Context, states func(history) iter.Seq2[catalog.Version, error]) iter.Seq2[Version, error] {
	return func(yield func(Version, error) bool) {
		if m.cat == nil {
			return
		}
		names, err := m.setNames(ctx)
		if err != nil {
			yield(Version{}, err)
			return
		}
		for row, err := range states(m.own) {
			var v Version
			if err == nil {
				v, err = versionOf(names[row.Set], &row)
			}
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// Find returns the URI of the resource that a URI or a path in the mirror names, at
// present or in an earlier state. If there is none: ErrNoVersion.
func (m *Mirror) Find(ctx context.Context, name string) (uri string, err error) {
	if m.cat == nil {
		return "", fmt.Errorf("%w: of %q", ErrNoVersion, name)
	}
	if strings.Contains(name, "://") {
		return name, nil
	}
	if below, err := filepath.Rel(m.dir, name); err == nil && filepath.IsLocal(below) {
		name = below // as a shell completes it
	}
	name = path.Clean(filepath.ToSlash(name))
	uri, ok, err := m.own.URIAt(ctx, name)
	if err == nil && !ok {
		err = fmt.Errorf("%w: %q is no path of a resource", ErrNoVersion, name)
	}
	return uri, err
}

// History yields the states of a resource: the present one of each set, if there is
// one, and then those that ended, the last first.
func (m *Mirror) History(ctx context.Context, uri string) iter.Seq2[Version, error] {
	return m.labelled(ctx, func(h history) iter.Seq2[catalog.Version, error] {
		return func(yield func(catalog.Version, error) bool) {
			present, err := h.Present(ctx, uri)
			if err != nil {
				yield(catalog.Version{}, err)
				return
			}
			for _, v := range present {
				if !yield(v, nil) {
					return
				}
			}
			for v, err := range h.VersionsOf(ctx, uri) {
				if !yield(v, err) {
					return
				}
			}
		}
	})
}

// Ended yields the states that ended at a moment or after it, the last first.
func (m *Mirror) Ended(ctx context.Context, since time.Time) iter.Seq2[Version, error] {
	return m.labelled(ctx, func(h history) iter.Seq2[catalog.Version, error] { return h.Versions(ctx, since) })
}

// AsOf yields what a set held at a moment, in ascending order of [resourcesync.KeyOf] the
// URIs. It is complete for moments since the one that Known returns.
func (m *Mirror) AsOf(ctx context.Context, set string, at time.Time) iter.Seq2[Version, error] {
	return func(yield func(Version, error) bool) {
		id, err := m.set(ctx, set)
		if err != nil {
			yield(Version{}, err)
		}
		if id == 0 {
			return
		}
		m.labelled(ctx, func(h history) iter.Seq2[catalog.Version, error] { return h.AsOf(ctx, id, at) })(yield)
	}
}

// Known returns the moment since which all states are known; false if none is.
func (m *Mirror) Known(ctx context.Context) (time.Time, bool, error) {
	if m.cat == nil {
		return time.Time{}, false, nil
	}
	return m.own.Known(ctx)
}

// Runs yields the runs that changed the mirror, the last first.
func (m *Mirror) Runs(ctx context.Context) iter.Seq2[Run, error] {
	return func(yield func(Run, error) bool) {
		if m.cat == nil {
			return
		}
		for r, err := range m.own.Runs(ctx) {
			run := Run{ID: r.ID, Begun: r.Begun, What: r.What, Created: r.Created, Updated: r.Updated, Deleted: r.Deleted}
			if !yield(run, err) {
				return
			}
		}
	}
}

// LastRun returns the number of the last run that changed the mirror; 0 if there is none.
func (m *Mirror) LastRun(ctx context.Context) (int64, error) {
	for r, err := range m.Runs(ctx) {
		return r.ID, err
	}
	return 0, nil
}

// At returns the states of a resource in sets at a moment. The zero time means the last
// ones with other bytes than the present. If there are none: ErrNoVersion.
func (m *Mirror) At(ctx context.Context, uri string, at time.Time) ([]Version, error) {
	var found []Version
	var present *Version
	for v, err := range m.History(ctx, uri) {
		switch {
		case err != nil:
			return nil, err
		case at.IsZero() && v.Present():
			present = &v
		case at.IsZero():
			if len(found) > 0 && (v.Until != found[0].Until || sum(&v) != sum(&found[0])) {
				return found, nil
			}
			if present == nil || sum(&v) != sum(present) {
				found = append(found, v)
			}
		case !v.Since.After(at) && (v.Present() || v.Until.After(at)):
			found = append(found, v)
		}
	}
	if len(found) == 0 {
		return nil, ErrNoVersion
	}
	return found, nil
}

func sum(v *Version) resourcesync.Digest { return v.Digests.Get(resourcesync.SHA256) }

// OpenVersion opens the bytes of a state, wherever they are now. A read fails before the
// end if the bytes have changed (resourcesync.MismatchError), and ends with ctx.
// fs.ErrNotExist: the bytes no longer exist.
func (m *Mirror) OpenVersion(ctx context.Context, v *Version) (io.ReadCloser, error) {
	for place, err := range m.places(ctx, v) {
		if err != nil {
			return nil, err
		}
		r, info, err := m.bucket.Get(ctx, place, 0, -1)
		switch {
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, blob.ErrForeign):
			continue
		case err != nil:
			return nil, fmt.Errorf("earlier bytes of %q: %w", v.URI, err)
		case v.Length.Known() && info.Size != v.Length.Int64():
			if err := r.Close(); err != nil {
				return nil, err
			}
			continue
		}
		checked := resourcesync.NewVerifyReader(&contextReader{ctx, r}, v.Length.Int64(), v.Digests)
		return &opened{contextReader{ctx, checked}, r}, nil
	}
	return nil, fmt.Errorf("the bytes that %q had until %s are gone: %w", v.URI, v.Until.Format(time.RFC3339), fs.ErrNotExist)
}

// places yields where the bytes of a state may be: they are known by their sha-256.
func (m *Mirror) places(ctx context.Context, v *Version) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if v.Kept != "" && !yield(v.Kept, nil) {
			return
		}
		for other, err := range m.History(ctx, v.URI) {
			if err != nil {
				yield("", err)
				return
			}
			place := other.Kept
			if other.Present() {
				place = other.Path
			}
			if place != "" && place != v.Kept && sum(&other) == sum(v) && !yield(place, nil) {
				return
			}
		}
		same, ok, err := m.FindContent(ctx, sum(v), v.Length.Int64())
		if ok || err != nil {
			yield(same.Path, err)
		}
	}
}

// HoldsBytes reports whether the present state of a resource has these bytes, in any set.
func (m *Mirror) HoldsBytes(ctx context.Context, uri string, sha256 resourcesync.Digest) (bool, error) {
	for v, err := range m.History(ctx, uri) {
		if err != nil || !v.Present() {
			return false, err
		}
		if sum(&v) == sha256 {
			return true, nil
		}
	}
	return false, nil
}
