package mirror

import (
	"cmp"
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
	"unicode/utf8"

	"instep/blob"
	"instep/destination"
	"instep/internal/catalog"
	"instep/resourcesync"
)

// KeptSet is the name of a set that belongs to the mirror and not to the Source. It has
// the resources that Revert has restored with the option Keep: they remain in their
// earlier states until Release is called.
const KeptSet = "instep:kept"

// FoundSet is the name of a set that belongs to the mirror and not to the Source. It has
// the files that Options.Adopt has moved to the trash because they were at the paths of
// resources. OpenVersion reads such a file. Revert does not restore it, since it was no
// resource.
const FoundSet = "instep:found"

// ErrFound is the reason why Revert skips a file of FoundSet, which was never the file
// of a resource.
var ErrFound = errors.New("the file was not a resource of the mirror")

// Version is one state of a resource in a set: the present state, or an earlier one.
type Version struct {
	// SetURI is the URI of the Capability List of the set, or KeptSet or FoundSet.
	SetURI string
	// Held describes the resource in this state. Due, Wanted and the times of evidence are
	// not set.
	destination.Held

	// Since and Until are the times at which the state began and ended, by the clock of the
	// mirror. Since is zero if the state began at an unknown time. Until is zero for the
	// present state.
	Since, Until time.Time
	// Kept is the path to which the bytes were moved when the state ended; "" if they were
	// not moved.
	Kept string
	// Why says which change ended the state: Updated or Deleted. It is "" for the present
	// state.
	Why resourcesync.Change
	// Began and Ended are the numbers of the runs in which the state began and ended. Began
	// is 0 if that run is unknown. Ended is 0 for the present state or if that run is
	// unknown.
	Began, Ended int64

	past      bool // whether the state has ended
	overtaken bool // whether a later run has changed the resource again
	set       catalog.SetID
	remainder string // the field Remainder in the form in which the catalog stores it
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

// Run is one command that changed a mirror. A long-running command can be divided into
// several Runs by BeginRun.
type Run struct {
	ID                        int64     // the number of the run, greater than those of earlier runs; 0 until the run changes something
	Begun                     time.Time // the time at which the run began, by the clock of the mirror
	What                      string    // the command line of the run
	Created, Updated, Deleted int64     // how many resources the run created, updated and deleted; a resource counts once for each of its sets
}

// ErrNoVersion means that the mirror never had the requested state, or has removed it.
var ErrNoVersion = errors.New("the mirror has no such state")

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

// Sets returns the names of all sets that the mirror knows, except FoundSet, in the
// order in which they were recorded.
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

// Find returns the URI of a resource that the user has named. The name is the URI, in
// which characters that are not ASCII need not be percent-encoded, or a path that the
// resource has or had in the mirror. Find returns ErrNoVersion for any other path.
func (m *Mirror) Find(ctx context.Context, name string) (uri string, err error) {
	if m.cat == nil {
		return "", fmt.Errorf("%w: of %q", ErrNoVersion, name)
	}
	if strings.Contains(name, "://") {
		for _, err := range m.History(ctx, name) {
			return name, err
		}
		return percentEncode(name, func(c byte) bool { return c >= utf8.RuneSelf }), nil // RFC 3987 §3.1 maps an IRI to a URI in this way
	}
	if below, err := filepath.Rel(m.o.Dir, name); err == nil && filepath.IsLocal(below) {
		name = below // the user gave a path that begins with the directory of the mirror
	}
	name = path.Clean(filepath.ToSlash(name))
	uri, ok, err := m.own.URIAt(ctx, name)
	if err == nil && !ok {
		err = fmt.Errorf("%w: no resource has the path %q", ErrNoVersion, name)
	}
	return uri, err
}

// History yields the states of a resource: first the present state in each set, then
// the states that have ended, beginning with the last.
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

// Ended yields the states of all resources that ended at the time start or later. It
// begins with the state that ended last.
func (m *Mirror) Ended(ctx context.Context, start time.Time) iter.Seq2[Version, error] {
	return m.labelled(ctx, func(h history) iter.Seq2[catalog.Version, error] { return h.Versions(ctx, start) })
}

// AsOf yields the state of each resource that was a member of the set at the given
// moment, in ascending order of the keys of the URIs ([resourcesync.KeyOf]). States may
// be missing if the moment is before the one that Known returns.
func (m *Mirror) AsOf(ctx context.Context, set string, moment time.Time) iter.Seq2[Version, error] {
	return func(yield func(Version, error) bool) {
		id, err := m.setID(ctx, set)
		if err != nil {
			yield(Version{}, err)
		}
		if id == 0 {
			return
		}
		m.labelled(ctx, func(h history) iter.Seq2[catalog.Version, error] { return h.AsOf(ctx, id, moment) })(yield)
	}
}

// Known returns the earliest moment from which on the mirror has all states of all
// resources; false if there is none.
func (m *Mirror) Known(ctx context.Context) (time.Time, bool, error) {
	if m.cat == nil {
		return time.Time{}, false, nil
	}
	return m.own.Known(ctx)
}

// Runs yields the runs that changed the mirror, beginning with the last.
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

// At returns the states that a resource had in its sets at the given moment. If the
// moment is zero, it returns the latest states whose bytes differ from the present
// ones. It returns a state in KeptSet only if there is no state in a set of the Source.
// It returns ErrNoVersion if there is no such state.
func (m *Mirror) At(ctx context.Context, uri string, moment time.Time) ([]Version, error) {
	var found []Version
	var present, kept *Version
	for v, err := range m.History(ctx, uri) {
		switch {
		case err != nil:
			return nil, err
		case moment.IsZero() && v.Present():
			present = &v
		case !moment.IsZero() && (v.Since.After(moment) || !v.Present() && !v.Until.After(moment)): // the state began after the moment, or had ended by then
		case v.SetURI == KeptSet: // a state in a set of the Source has the same bytes, and is preferred
			kept = cmp.Or(kept, &v)
		case moment.IsZero():
			if len(found) > 0 && (v.Until != found[0].Until || sum(&v) != sum(&found[0])) {
				return found, nil
			}
			if present == nil || sum(&v) != sum(present) {
				found = append(found, v)
			}
		default:
			found = append(found, v)
		}
	}
	switch {
	case len(found) > 0:
		return found, nil
	case kept != nil && (present == nil || sum(kept) != sum(present)):
		return []Version{*kept}, nil
	case present != nil:
		return nil, fmt.Errorf("%w: all earlier states have the same bytes as the present one", ErrNoVersion)
	}
	return nil, ErrNoVersion
}

func sum(v *Version) resourcesync.Digest { return v.Digests.Get(resourcesync.SHA256) }

// OpenVersion opens the bytes of a state, which may be in the mirror or in the trash. If
// the bytes have changed, reading them fails before the end with a
// *resourcesync.MismatchError. Reading also fails when ctx ends. If the bytes do not
// exist any more, OpenVersion returns fs.ErrNotExist.
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
	return nil, fmt.Errorf("the bytes that %q had until %s no longer exist: %w", v.URI, v.Until.Format(time.RFC3339), fs.ErrNotExist)
}

// places yields the paths at which the bytes of a state may be: its path in the trash,
// and the paths of other states and resources with the same SHA-256.
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

// HoldsBytes reports whether a resource has the given bytes in its present state.
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
