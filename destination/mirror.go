package destination

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"instep/fetch"
	"instep/harvest"
	"instep/resourcesync"
	"instep/transfer"
)

// Held is a mirror's record of one URI, as seen from one set.
type Held struct {
	URI      string // "" : the URI is unknown to the mirror
	Path     string // path of the bytes, for people
	Stored   bool   // the mirror has bytes for the URI
	Length   resourcesync.Length
	Digests  resourcesync.Digests // digests of the bytes when they were stored
	Type     string
	Verified bool // a length or a digest given by the Source was checked

	Proof resourcesync.Algorithm // strongest digest of the Source that was verified when the bytes were stored; "": none, or unknown
	Stamp string                 // stamp by which the Mirror recognises untouched bytes; see Prober

	Member  bool                  // the URI belongs to the set that was asked for
	LastMod resourcesync.Datetime // the Source's last lastmod
	Changed time.Time             // last change applied: never replaced or deleted by a list older than this
	Told    bool                  // Changed is of a change, not of a list
	Until   time.Time             // latest possible time of a change whose time is unknown, with Changed the earliest; else zero
	Came    time.Time             // arrival time of the bytes, by their server's clock; zero if unknown, or unnecessary beside a list
	Gone    time.Time             // if Member is false: time of the deletion that a change told of; zero if none did, or a newer list was read since
	Due     string                // why the bytes must be fetched again; "" = good
	Wanted  harvest.Resource      // while Due: the Source's last description

	Remainder harvest.Remainder // links and other attributes that the Source gave of the stored bytes
}

// Cursor is how far a set has been followed (1.1 §12.1). It never goes back.
type Cursor struct {
	harvest.Position
	Looked   time.Time // time, by our clock, of the run that moved the cursor; while nothing changes, the cursor moves every 6 hours only to renew it
	Listed   time.Time // the `at` of the newest Resource List or Resource Dump that was read
	Sure     time.Time `json:",omitzero"` // set while Listed is in the future by our clock: the newest earlier Listed that is not
	Baseline time.Time // time of the last baseline, by the Source's own clock; zero if unknown
	Alone    Alone     // resources left alone since the last baseline
	Silent   bool      `json:",omitzero"` // the newest list did not tell its moment: it is read in each run
	Scope    string    // the choice of resources by which some were left out on the way; "" if none were
}

// ahead reports whether the cursor does not cover the applied state of a resource, since
// the run that applied it did not move the cursor.
func (c Cursor) ahead(h *Held) bool {
	return h.Changed.After(c.At) || h.Gone.After(c.At) || h.Until.After(c.Undated)
}

// Alone counts resources that were left alone though nobody asked for that: the mirror lacks
// them, or has older bytes, until something else is asked for or another baseline is made.
type Alone struct{ Origin, Unsupported, Weak int64 }

func (a Alone) and(skipped map[Skip]int64) Alone {
	return Alone{a.Origin + skipped[SkipOrigin], a.Unsupported + skipped[SkipUnsupported], a.Weak + skipped[SkipWeak]}
}

func (a Alone) each() map[Skip]int64 {
	return map[Skip]int64{SkipOrigin: a.Origin, SkipUnsupported: a.Unsupported, SkipWeak: a.Weak}
}

// ScopeRestored is the Scope that a Mirror gives a Cursor when it brings back earlier states:
// no choice of resources is that, so the next run compares everything.
const ScopeRestored = "restored"

// covers reports whether this choice of resources excludes all that earlier runs left out.
func (c Cursor) covers(choice string) bool { return c.Scope == "" || c.Scope == choice }

// Mirror is a held copy of one Source. The package instep/mirror keeps it
// in a directory; a harvester with its own store implements this, and may implement
// Parts and Adopter as well. A Mirror that wraps another one has a method Unwrap() Mirror,
// so that these are found.
//
// All methods are safe for concurrent use. set is the URI of a Capability List.
type Mirror interface {
	// Bind ties the mirror to its Source at the first call. A later call with another
	// Source, judged by its URI, its origin and its sets, returns an error.
	Bind(ctx context.Context, source, origin string, sets ...string) error
	// Sets returns the URIs of all sets that the Mirror knows.
	Sets(ctx context.Context) ([]string, error)
	// Documents returns the cache of the Source's documents; nil if there is none.
	Documents() fetch.Cache
	// Recall returns the value remembered under a name; false if there is none.
	Recall(ctx context.Context, name string) (value string, ok bool, err error)
	// Remember keeps a value of at most 64 KiB; "" forgets it.
	Remember(ctx context.Context, name, value string) error

	// Lookup returns the record of each URI, in the order of the URIs; the zero Held for an
	// unknown one. Callers ask in batches of at most 1,000.
	Lookup(ctx context.Context, set string, uris []string) ([]Held, error)
	// Open reads the stored bytes of a result of Lookup or Members, until ctx ends.
	// fs.ErrNotExist: they do not exist, or have moved since.
	Open(ctx context.Context, h *Held) (io.ReadCloser, error)
	// Untouched reports whether the held bytes of a resource are those that were stored, as
	// far as that is known without reading them. Absent bytes: fs.ErrNotExist.
	Untouched(ctx context.Context, h *Held) (bool, error)
	// FindContent finds a resource, of any set, whose stored bytes have this digest
	// (sha-256 or stronger) and length.
	FindContent(ctx context.Context, d resourcesync.Digest, length int64) (Held, bool, error)
	// Members yields all members of a set in ascending order of [resourcesync.KeyOf] their URIs. It
	// may leave out Told, Until and Came, as Due may.
	Members(ctx context.Context, set string) iter.Seq2[Held, error]
	// Count returns how many members a set has.
	Count(ctx context.Context, set string) (int64, error)
	// Due yields the members of a set whose bytes have to be fetched again.
	Due(ctx context.Context, set string) iter.Seq2[Held, error]
	// Cursor returns how far a set was followed; false before its first complete baseline.
	Cursor(ctx context.Context, set string) (Cursor, bool, error)
	// Losses returns the losses of a set in the last 24 hours.
	Losses(ctx context.Context, set string) (Losses, error)
	// Withhold stores a plan that a guard withheld, so that it can be approved.
	Withhold(ctx context.Context, set, hash, summary string) error
	// Approved reports whether the plan of that hash was approved and the approval still holds.
	Approved(ctx context.Context, hash string) (bool, error)
	// Begin starts a batch of changes. One batch may be filled while another commits;
	// the caller commits one at a time.
	Begin(ctx context.Context) (Batch, error)
}

// Losses are the losses of a set in a window: the last 24 hours, or more if the clock
// leaves that in doubt. In a younger mirror the window begins when its set was in step for
// the first time.
type Losses struct {
	Members int64                              // members that the set had when the window began
	Lost    int64                              // members deleted since without Consent that are no members again
	Each    iter.Seq2[Loss, error]             // the members that Lost counts; nil if there are none
	Joined  iter.Seq2[resourcesync.Key, error] // members that were added in the window and are not among the deleted and restored ones, in ascending order; nil if there are none
}

// Loss is a member that was deleted.
type Loss struct {
	SHA256 resourcesync.Digest // digest of its bytes; zero if there were none
	Old    bool                // it was a member when the window began
}

// ErrOccupied is what Put and Copy return (wrapped, naming the path) when something
// that the mirror did not put there stands where the bytes belong. It is never
// replaced; the resource fails and everything else goes on.
var ErrOccupied = errors.New("occupied by a file that is not the mirror's")

// ErrStale is what Put, Copy and Mark return (wrapped) for a state older than the one that
// the mirror holds for the set, which stays. A moment in the future makes nothing else
// older ([evidence.ToCome]).
var ErrStale = errors.New("older than what the mirror holds")

// ErrNotHeld is what Mark returns (wrapped) where the bytes described are not those
// that the mirror holds. They have to be fetched.
var ErrNotHeld = transfer.ErrNotHeld

// ErrNoPlace is what Put, Copy and Mark return (wrapped) for a URI for which the mirror has
// no valid path. The resource fails and everything else continues.
var ErrNoPlace = errors.New("the mirror has no place for it")

// Batch collects changes to a mirror. Nothing of it is visible through the Mirror
// before Commit, and all of it is durable when Commit has returned nil: bytes
// first, then, in one transaction, what is known of them and the cursor. An error
// from Commit leaves for every URI either the old or the new bytes, whole, and
// applying the same changes again is harmless.
//
// Put, PutPart, Copy and Adopt may be called concurrently with each other; the rest may not.
type Batch interface {
	// Expect announces resources of a set, at most 1,000, for the batch, so that they are
	// looked up together. Nobody else changes them until the batch has been committed.
	Expect(ctx context.Context, set string, uris []string) error
	transfer.Store
	// Adopt makes the file at path, which Stray has found, the bytes of w without
	// copying them, if they are verified. Bytes that are not those of w are an
	// ErrNotHeld and stay where they are. It is called only for an Adopter.
	Adopt(ctx context.Context, set string, w harvest.Resource, path string) (n int64, err error)
	// Copy is Put from the stored bytes of another URI, checked again while copied.
	Copy(ctx context.Context, set string, w harvest.Resource, from string) (n int64, err error)
	// Mark makes a URI whose bytes are stored and right a member of set with the
	// state w, without touching the bytes. Other bytes, or none, are an ErrNotHeld.
	Mark(ctx context.Context, set string, w harvest.Resource) error
	// Due records that the bytes of w.URI have to be fetched, and why. Stored bytes stay.
	Due(ctx context.Context, set string, w harvest.Resource, reason string) error
	// Delete ends the membership of a URI in set; the bytes go to the trash when
	// no set holds the URI. If a change tells of the deletion, when is its moment, which is
	// kept as Held.Gone, also of a URI that is no member; else it is zero.
	Delete(ctx context.Context, set, uri string, when time.Time) error
	// Consent says that a person has consented to the deletions in the batch: they are
	// no Losses.
	Consent()
	// Sync makes everything put so far durable, so that Commit need not. Another batch may
	// commit meanwhile. After an error this one must not be committed.
	Sync(ctx context.Context) error
	// Commit makes the batch durable and, if move is not nil, moves the cursor of its set.
	Commit(ctx context.Context, move *CursorMove) error
	// Discard drops the batch. After Commit it does nothing.
	Discard() error
}

// CursorMove moves the cursor of a set.
type CursorMove struct {
	Set string
	Cursor
}

// Adopter is implemented by a Mirror that can take over files which are there already
// and which it did not put there.
type Adopter interface {
	// Stray finds a file that may hold the bytes of w: at their path, or where other
	// mirroring programs would have stored them. h is the result of Lookup for w.URI. Names
	// and sizes are enough evidence, since Batch.Adopt verifies the bytes.
	Stray(ctx context.Context, w *harvest.Resource, h *Held) (path string, ok bool, err error)
}

// optional finds the optional interfaces of a Mirror, or of one that it wraps.
func optional[T any](m Mirror) (t T, ok bool) {
	for m != nil {
		if t, ok = m.(T); ok {
			return t, true
		}
		w, wraps := m.(interface{ Unwrap() Mirror })
		if !wraps {
			break
		}
		m = w.Unwrap()
	}
	return t, false
}
