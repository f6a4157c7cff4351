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

// Held is a mirror's record of one URI and its membership in one set.
type Held struct {
	URI      string // URI of the resource; "" if the mirror has no record of it
	Path     string // path of the bytes, for display
	Stored   bool   // the mirror has bytes for the URI
	Length   resourcesync.Length
	Digests  resourcesync.Digests // digests of the bytes when they were stored
	Type     string
	Verified bool // the bytes were verified against a length or a digest of the Source

	Proof resourcesync.Algorithm // strongest digest of the Source that verified the stored bytes; "" if unknown
	Stamp string                 // value by which Mirror.Untouched recognises unchanged bytes

	Member  bool                  // the URI belongs to the requested set
	LastMod resourcesync.Datetime // "lastmod" in the Source's latest description
	Changed time.Time             // time of the last change or list applied to the resource; an older list never replaces or deletes the resource
	Told    bool                  // set if Changed is the time of a change, and not of a list
	Until   time.Time             // latest possible time of a change of unknown time, for which Changed is the earliest possible time; else zero
	Came    time.Time             // time at which the bytes arrived, by their server's clock; zero if unknown or not needed
	Unnamed bool                  // set if a person has restored the resource although the last lists did not contain it
	Gone    time.Time             // time of a reported deletion; zero for a Member, or if a newer list was read since
	Due     string                // reason why the bytes must be fetched again; "" if they need not be
	Wanted  harvest.Resource      // the Source's latest description of the resource, if Due is set

	Remainder harvest.Remainder // links and other attributes that the Source gave for the stored bytes
}

// Cursor records how far a set has been followed (1.1 §12.1). It never moves back.
type Cursor struct {
	harvest.Position
	Looked   time.Time // time, by our clock, of the run that wrote the cursor; renewed every 6 hours even without changes
	Listed   time.Time // time ("at" attribute) of the newest Resource List or Resource Dump that was read
	Sure     time.Time `json:",omitzero"` // if Listed is in the future by our clock: its last value that was not
	Baseline time.Time // time of the last baseline, by the Source's clock; zero if unknown
	Alone    Alone     // numbers of resources that were left out since the last baseline although no filter excludes them
	Silent   bool      `json:",omitzero"` // set if the newest list does not state its time, so that each run must read it again
	Scope    string    // identifier of the filters that left resources out; "" if they left none out
}

// ahead reports whether the mirror's state of a resource is later than the cursor. This
// is so after a run that applied the state but did not move the cursor.
func (c Cursor) ahead(h *Held) bool {
	return h.Changed.After(c.At) || h.Gone.After(c.At) || h.Until.After(c.Undated)
}

// Alone has the numbers of resources that were left out although no filter of the
// caller excludes them: because of their origin, their URI, or a missing strong digest.
// The mirror does not have these resources, or has older bytes, until the options
// change or another baseline is made.
type Alone struct{ Origin, Unsupported, Weak int64 }

func (a Alone) plus(skipped map[Skip]int64) Alone {
	return Alone{a.Origin + skipped[SkipOrigin], a.Unsupported + skipped[SkipUnsupported], a.Weak + skipped[SkipWeak]}
}

func (a Alone) bySkip() map[Skip]int64 {
	return map[Skip]int64{SkipOrigin: a.Origin, SkipUnsupported: a.Unsupported, SkipWeak: a.Weak}
}

// ScopeRestored is the Scope that a Mirror writes into a Cursor after restoring earlier
// states. It differs from every identifier of filters, so the next run compares
// everything.
const ScopeRestored = "restored"

// covers reports whether the filters with the given identifier leave out every resource
// that earlier runs left out.
func (c Cursor) covers(choice string) bool { return c.Scope == "" || c.Scope == choice }

// Mirror is a copy of one Source. The package instep/mirror stores it in a directory; a
// harvester with its own store implements this interface.
//
// All methods are safe for concurrent use. The parameter set is the URI of a Capability
// List.
type Mirror interface {
	// Bind records the Source of the mirror at the first call. A later call with another
	// Source returns an error. The URI, the origin and the sets together identify a
	// Source.
	Bind(ctx context.Context, source, origin string, sets ...string) error
	// Sets returns the URIs of all sets that the Mirror knows.
	Sets(ctx context.Context) ([]string, error)
	// Documents returns the cache of the Source's documents; nil if there is none.
	Documents() fetch.Cache
	// Recall returns the value stored under a name; false if there is none.
	Recall(ctx context.Context, name string) (value string, ok bool, err error)
	// Remember stores a value of at most 64 KiB under a name; "" deletes it.
	Remember(ctx context.Context, name, value string) error

	// Lookup returns the record of each URI, in the order of uris. For an unknown URI it
	// returns the zero Held. Callers pass at most 1,000 URIs.
	Lookup(ctx context.Context, set string, uris []string) ([]Held, error)
	// Open opens the stored bytes of a record that Lookup returned. They can be
	// read until ctx ends. Open returns fs.ErrNotExist if the bytes do not exist or have
	// moved since.
	Open(ctx context.Context, h *Held) (io.ReadCloser, error)
	// Untouched reports whether the stored bytes of a resource are unchanged, as far as
	// that is known without reading the bytes. If there are no bytes, it returns
	// fs.ErrNotExist.
	Untouched(ctx context.Context, h *Held) (bool, error)
	// Stray finds a file that the Mirror did not store and that may contain the bytes of w:
	// at the path where the Mirror would store them, or at a path where other mirroring
	// programs store them. h is the result of Lookup for w.URI. Stray compares only name and
	// size, because Batch.Adopt verifies the bytes. A Mirror that adopts no files returns
	// false.
	Stray(ctx context.Context, w *harvest.Resource, h *Held) (path string, ok bool, err error)
	transfer.Parts
	// FindContent finds a resource, in any set, whose stored bytes have this digest
	// (sha-256 or stronger) and length.
	FindContent(ctx context.Context, d resourcesync.Digest, length int64) (Held, bool, error)
	// Keys yields the keys of the URIs of all members of a set in ascending order.
	Keys(ctx context.Context, set string) iter.Seq2[resourcesync.Key, error]
	// Count returns the number of members of a set.
	Count(ctx context.Context, set string) (int64, error)
	// Due yields the members of a set whose bytes must be fetched again. It may leave Told,
	// Until, Came and Unnamed unset.
	Due(ctx context.Context, set string) iter.Seq2[Held, error]
	// Cursor returns the cursor of a set. It returns false until the first baseline is
	// complete.
	Cursor(ctx context.Context, set string) (Cursor, bool, error)
	// Losses returns how many members a set has lost in the last 24 hours.
	Losses(ctx context.Context, set string) (Losses, error)
	// Withhold stores the hash and summary of a plan with withheld deletions, so that a
	// person can approve it.
	Withhold(ctx context.Context, set, hash, summary string) error
	// Approved reports whether the plan with this hash was approved and the approval is
	// still valid.
	Approved(ctx context.Context, hash string) (bool, error)
	// Begin starts a batch of changes. One batch may be filled while another commits; the
	// caller commits one at a time.
	Begin(ctx context.Context) (Batch, error)
}

// Losses are the members of a set that were deleted within a period: the last 24 hours,
// or longer if a changed clock makes that uncertain. In a younger mirror the period
// begins when the set was in step for the first time.
type Losses struct {
	Members int64                              // number of members of the set at the beginning of the period
	Lost    int64                              // number of members deleted in the period, except those deleted with Consent or added again
	Each    iter.Seq2[Loss, error]             // the deleted members that Lost counts; nil if there are none
	Joined  iter.Seq2[resourcesync.Key, error] // keys of the members that were added in the period and are neither deleted nor restored, in ascending order; may be nil
}

// Loss is a deleted member.
type Loss struct {
	SHA256 resourcesync.Digest // digest of the member's bytes; zero if there were none
	Old    bool                // the resource was a member at the beginning of the period of the Losses
}

// ErrOccupied is returned by Put and Copy (wrapped, with the path) if the path of the
// bytes has a file that the mirror did not store. The mirror never replaces such a
// file; the resource fails and the run continues.
var ErrOccupied = errors.New("occupied by a file that the mirror did not store")

// ErrStale is returned by Put, Copy and Mark (wrapped) if the mirror already holds a
// newer state of the resource in the set. The newer state stays. A state with a time in the
// future does not count as newer ([evidence.ToCome]).
var ErrStale = errors.New("older than what the mirror holds")

// ErrNotHeld is returned by Mark (wrapped) if the mirror does not hold the described
// bytes. Then they must be fetched.
var ErrNotHeld = transfer.ErrNotHeld

// ErrNoPlace is returned by Put, Copy and Mark (wrapped) if the mirror cannot make a
// valid path for a URI. The resource fails and the run continues.
var ErrNoPlace = errors.New("the mirror has no valid path for it")

// Batch collects changes to a mirror. No change is visible through the Mirror before
// Commit. When Commit has returned nil, all changes are durable: first the bytes, then,
// in one transaction, the records and the cursor. After an error of Commit each URI has
// either its old or its new bytes, complete, and the same changes may be applied again.
//
// Put, PutPart, Copy and Adopt may be called concurrently with each other; other
// methods may not.
type Batch interface {
	// Expect announces at most 1,000 resources of a set, so that the batch can look them
	// up together. Only this batch may change them until it is committed.
	Expect(ctx context.Context, set string, uris []string) error
	transfer.Store
	// Adopt takes over the file at the given path, found by Mirror.Stray, as the bytes of
	// w, without copying it. If the file has other bytes, Adopt returns ErrNotHeld and
	// does not touch the file.
	Adopt(ctx context.Context, set string, w harvest.Resource, path string) (n int64, err error)
	// Copy puts the stored bytes of another URI, like Put, and verifies them again.
	Copy(ctx context.Context, set string, w harvest.Resource, from string) (n int64, err error)
	// Mark makes the URI of w a member of the set, and records the other fields of w. If
	// the mirror does not have the bytes of w, Mark returns ErrNotHeld. It never changes
	// bytes.
	Mark(ctx context.Context, set string, w harvest.Resource) error
	// Due records the reason why the bytes of w.URI must be fetched again. Bytes that are
	// already stored stay.
	Due(ctx context.Context, set string, w harvest.Resource, reason string) error
	// Delete removes a URI from the given set. When no set contains the URI any more, the
	// bytes move to the trash. If a change reported the deletion, moment is its time, and
	// the mirror stores it as Held.Gone, even for a URI that is not a member. Otherwise
	// moment is zero.
	Delete(ctx context.Context, set, uri string, moment time.Time) error
	// Consent records that a person has consented to the deletions in the batch, so that
	// they do not count as Losses.
	Consent()
	// Sync makes the bytes put so far durable, so that Commit has less to do. Another
	// batch may commit meanwhile. After an error of Sync this batch must not be committed.
	Sync(ctx context.Context) error
	// Commit makes the batch durable and moves the cursor of a set unless move is nil.
	Commit(ctx context.Context, move *CursorMove) error
	// Discard removes the batch without applying it. After Commit it does nothing.
	Discard() error
}

// CursorMove moves the cursor of a set.
type CursorMove struct {
	Set string
	Cursor
}
