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

// Held is what a mirror knows of one URI, seen from one set.
type Held struct {
	URI      string // "" : the URI is unknown to the mirror
	Path     string // where the bytes are, for people
	Stored   bool   // the mirror has bytes for the URI
	Length   resourcesync.Length
	Digests  resourcesync.Digests // of the bytes as they were when stored
	Type     string
	Verified bool // a length or a digest given by the Source was checked

	Proof resourcesync.Algorithm // of the strongest digest of the Source's that was checked when the bytes were stored; "": none, or unknown
	Stamp string                 // by which the Mirror knows again bytes that nobody has touched; see Prober

	Member  bool                  // the URI belongs to the set that was asked for
	LastMod resourcesync.Datetime // as the Source last gave it
	Changed time.Time             // last change applied: never replaced or deleted by a list older than this
	Told    bool                  // Changed is of a change, not of a list
	Until   time.Time             // of a change whose time is unknown: at the latest then, and at Changed at the earliest; else zero
	Came    time.Time             // when the bytes came, by the clock of their server; zero if that is unknown, or if a list tells enough
	Gone    time.Time             // no member: the deletion that was applied, unless a newer list was read since; zero if there is none
	Due     string                // why the bytes must be fetched again; "" = good
	Wanted  harvest.Resource      // while Due: what the Source last said

	Remainder harvest.Remainder // links and other attributes that the Source gave of the stored bytes
}

// Cursor is how far a set has been followed (1.1 §12.1). It never goes back.
type Cursor struct {
	harvest.Position
	Looked   time.Time // when this was found, by our clock; where nothing changes the cursor moves for its sake alone, every few hours
	Listed   time.Time // the `at` of the newest Resource List or Resource Dump that was read
	Sure     time.Time `json:",omitzero"` // while Listed is still to come by our clock: the newest one that was not
	Baseline time.Time // when the last baseline was made, by the Source's own clock; zero if that is unknown
	Alone    Alone     // what was left alone since the last baseline
	Silent   bool      `json:",omitzero"` // the newest list did not tell its moment: it is read in each run
	Scope    string    // the choice of resources by which some were left out on the way; "" if none were
}

// ahead reports whether the cursor does not cover what was applied of a resource: a run has applied it
// that left the cursor where it was.
func (c Cursor) ahead(h *Held) bool {
	return h.Changed.After(c.At) || h.Gone.After(c.At) || h.Until.After(c.Undated)
}

// Alone counts resources that were left alone though nobody asked for that: the mirror lacks
// them, or has older bytes, until something else is asked for or another baseline is made.
type Alone struct{ Origin, Unsupported, Weak int64 }

// and counts what a plan leaves alone, too.
func (a Alone) and(skipped map[Skip]int64) Alone {
	return Alone{a.Origin + skipped[SkipOrigin], a.Unsupported + skipped[SkipUnsupported], a.Weak + skipped[SkipWeak]}
}

// each yields the counts by their reasons.
func (a Alone) each() map[Skip]int64 {
	return map[Skip]int64{SkipOrigin: a.Origin, SkipUnsupported: a.Unsupported, SkipWeak: a.Weak}
}

// covers reports whether what earlier runs left out is left out by this choice of
// resources as well.
func (c Cursor) covers(choice string) bool { return c.Scope == "" || c.Scope == choice }

// Mirror is a held copy of one Source. The package instep/mirror keeps it
// in a directory; a harvester with a store of its own implements this, and may implement
// Parts and Adopter as well. A Mirror that wraps another one has a method Unwrap() Mirror,
// so that these are found.
//
// All methods are safe for concurrent use. set is the URI of a Capability List.
type Mirror interface {
	// Bind refuses a Source that is not the mirror's, by its URI, its origin and its
	// sets, and takes the first one that comes.
	Bind(ctx context.Context, source, origin string, sets ...string) error
	// Sets returns the URIs of all sets that the Mirror knows.
	Sets(ctx context.Context) ([]string, error)
	// Documents are the documents of the Source that are kept from one run to the next;
	// nil if none are.
	Documents() fetch.Cache
	// Recall returns what was remembered under a name; false if nothing was.
	Recall(ctx context.Context, name string) (value string, ok bool, err error)
	// Remember keeps a value of at most 64 KiB; "" forgets it.
	Remember(ctx context.Context, name, value string) error

	// Lookup returns what is held for each URI, in the order asked; the zero Held
	// for one that is unknown. Callers ask in batches of at most 1,000.
	Lookup(ctx context.Context, set string, uris []string) ([]Held, error)
	// Open reads the stored bytes of what Lookup or Members returned, no longer than ctx.
	// Absent bytes, or ones that left their place since: fs.ErrNotExist.
	Open(ctx context.Context, h *Held) (io.ReadCloser, error)
	// Untouched reports whether the bytes of a resource held are those that were stored, as far
	// as that can be told without reading them. Absent bytes: fs.ErrNotExist.
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
	// Losses returns what a set has lost in the last 24 hours.
	Losses(ctx context.Context, set string) (Losses, error)
	// Withhold remembers a plan that a guard held, so that it can be approved.
	Withhold(ctx context.Context, set, hash, summary string) error
	// Approved reports whether the plan of that hash was approved and the approval still holds.
	Approved(ctx context.Context, hash string) (bool, error)
	// Begin starts a batch of changes. One batch may be filled while another commits;
	// the caller commits one at a time.
	Begin(ctx context.Context) (Batch, error)
}

// Losses are what a set has lost in a window: the last 24 hours, or more where the clock
// leaves that in doubt. In a mirror that is younger the window begins when its set was in
// step for the first time.
type Losses struct {
	Members int64                              // that the set had when the window began
	Lost    int64                              // members deleted since without Consent that are no members again
	Each    iter.Seq2[Loss, error]             // these; nil if there are none
	Joined  iter.Seq2[resourcesync.Key, error] // members that came since and are not among what was deleted and came back, in ascending order; nil if there are none
}

// Loss is a member that was deleted.
type Loss struct {
	SHA256 resourcesync.Digest // of its bytes; zero if there were none
	Old    bool                // it was a member when the window began
}

// ErrOccupied is what Put and Copy return (wrapped, naming the path) when something
// that the mirror did not put there stands where the bytes belong. It is never
// replaced; the resource fails and everything else goes on.
var ErrOccupied = errors.New("occupied by a file that is not the mirror's")

// ErrStale is what Put, Copy and Mark return (wrapped) for a state older than the one
// that the mirror holds for the set. It is left alone. A moment that is still to come makes
// nothing else older ([evidence.ToCome]).
var ErrStale = errors.New("older than what the mirror holds")

// ErrNotHeld is what Mark returns (wrapped) where the bytes described are not those
// that the mirror holds. They have to be fetched.
var ErrNotHeld = errors.New("not what the mirror holds")

// ErrNoPlace is what Put, Copy and Mark return (wrapped) for a URI of which the mirror
// can make no path. The resource fails and everything else goes on.
var ErrNoPlace = errors.New("the mirror has no place for it")

// Batch collects changes to a mirror. Nothing of it is visible through the Mirror
// before Commit, and all of it is durable when Commit has returned nil: bytes
// first, then, in one transaction, what is known of them and the cursor. An error
// from Commit leaves for every URI either the old or the new bytes, whole, and
// applying the same changes again is harmless.
//
// Put, PutPart, Copy and Adopt may be called concurrently with each other; the rest may not.
type Batch interface {
	// Expect says of which resources of a set, at most 1,000, the batch is about to be
	// told, so that they are looked up together. Nobody else changes them until the batch
	// has been committed.
	Expect(ctx context.Context, set string, uris []string) error
	// Put reads r to its end into the mirror. r verifies: if it fails, nothing of
	// this resource is kept and its error is returned. verified says that r checked
	// a length or a digest.
	Put(ctx context.Context, set string, w harvest.Resource, r io.Reader, verified bool) (n int64, err error)
	// PutPart is Put of a [transfer.Part] that was verified: its bytes are not copied. The Part
	// is spent unless an error is returned: an ErrNotHeld if it does not hold the bytes
	// of w, as where the disk has damaged it. It is called only for a Mirror with Parts.
	PutPart(ctx context.Context, set string, w harvest.Resource, p transfer.Part, verified bool) (n int64, err error)
	// Adopt makes the file at path, which Stray has found, the bytes of w without
	// copying them, if they are verified. Bytes that are not those of w are an
	// ErrNotHeld and stay where they are. It is called only for an Adopter.
	Adopt(ctx context.Context, set string, w harvest.Resource, path string) (n int64, err error)
	// Copy is Put from the stored bytes of another URI, checked again while copied.
	Copy(ctx context.Context, set string, w harvest.Resource, from string) (n int64, err error)
	// Mark makes a URI whose bytes are stored and right a member of set with the
	// state w, without touching the bytes. Other bytes, or none, are an ErrNotHeld.
	Mark(ctx context.Context, set string, w harvest.Resource) error
	// Due records that the bytes of w.URI have to be fetched, and why. What is stored stays.
	Due(ctx context.Context, set string, w harvest.Resource, reason string) error
	// Delete ends the membership of a URI in set; the bytes go to the trash when
	// no set holds the URI. If a change tells of the deletion, when is its moment, which is
	// kept as Held.Gone, also of a URI that is no member; else it is zero.
	Delete(ctx context.Context, set, uri string, when time.Time) error
	// Consent says that a person has consented to the deletions in the batch: they are
	// no Losses.
	Consent()
	// Sync makes durable what was put so far, so that Commit need not. Another batch may
	// commit meanwhile. An error means that this one must not be committed.
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
	// Stray finds a file that may hold the bytes of w: where they belong, or where
	// other programs that mirror would have put them. h is what Lookup has of w.URI. Only
	// names and sizes are looked at.
	Stray(ctx context.Context, w *harvest.Resource, h *Held) (path string, ok bool, err error)
}

// Hashed may be implemented by a reader that is given to a Batch: it has hashed what was
// read, so that the Batch need not do it again.
type Hashed interface {
	// Digests are those of the bytes read so far. Their algorithms do not change.
	Digests() resourcesync.Digests
}

// optional finds what a Mirror, or one that it wraps, implements besides.
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
