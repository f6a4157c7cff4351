package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"time"

	"instep/resourcesync"
)

// Snapshot is the state of a set for a Resource List (1.1 §10).
type Snapshot struct {
	At, Completed time.Time                            // every change before At is in; Completed is when the last resource was read
	Through       int64                                // the caller's number of the last change that is in; kept in the Publication, not interpreted
	Resources     iter.Seq2[resourcesync.Entry, error] // loc, lastmod, rs:md with hash, length, type; ranged over more than once, alike each time
}

// Window is the open Change List of a set (1.1 §12): everything from From on.
type Window struct {
	Name    string    // names its document for life: changes/<Name>.xml
	From    time.Time // changes at this moment or later
	Until   time.Time // zero while open; then changes before this moment only
	Through int64     // the caller's number of the last change that is in; kept in the Publication, not interpreted
	Changes iter.Seq2[resourcesync.Entry, error]
}

// Update is what one publication of a set says anew. What is nil stays as the last publication left it.
type Update struct {
	Set      string // "" is the default set
	Snapshot *Snapshot
	Changes  *Window
	Closing  *Window // a Change List that gets its until and is linked no more
}

// Sum is a SHA-256 that is written as hex.
type Sum [sha256.Size]byte

// MarshalText writes the sum as hex.
func (s Sum) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, s[:]), nil }

// UnmarshalText reads what MarshalText writes.
func (s *Sum) UnmarshalText(text []byte) error {
	if hex.DecodedLen(len(text)) != len(s) {
		return fmt.Errorf("expected %d hex digits of a SHA-256, found %q", hex.EncodedLen(len(s)), text)
	}
	_, err := hex.Decode(s[:], text)
	return err
}

// Document is one file of a publication.
type Document struct {
	Key       string // in the bucket
	Length    int64
	SHA256    Sum
	Immutable bool   // its bytes never change at this key
	Rank      int    // documents of one rank do not depend on each other, only on those of lower ranks
	Of        string // the key of the document that this is a byte copy of; "" = of none
}

// Publication is one committed publication: everything needed to write it out again.
type Publication struct {
	ID        int64
	Set       string
	Made      time.Time
	Documents []Document // by rank, the order in which they appear: nothing is linked before it is there
	Retired   []string   // keys nothing links any more since this publication
	Closed    []string   // Change Lists closed by this publication: the next one retires them
	Notes     []string   // what a person should know about where things went
	Written   []string   `json:"-"` // keys whose bytes were not there yet, in order

	// What the Capability List names, carried from publication to publication.
	ResourceList, ChangeList string // URIs; "" = none
	ListAt                   time.Time
	ListThrough              int64    // Snapshot.Through
	ListKeys                 []string // of the Resource List: its parts, then the list or the index
	SitemapKeys              []string // of the plain sitemap: its parts, then the sitemap or its index
	Generations              []int64  // the publications of the last Resource Lists, oldest first
	Resources                int64    // entries of the Resource List
	ChangesName              string   // Window.Name
	ChangesFrom              time.Time
	ChangesThrough           int64 // Window.Through
	Changes                  int64 // entries of the Change List
}

// Journal remembers publications (one committed row each) and the files we wrote.
// All methods are durable when they return.
type Journal interface {
	// Begin returns the id of the publication to come: greater than any before.
	Begin(ctx context.Context, set string) (int64, error)
	// Commit records p as the publication to finish, whatever happens next.
	Commit(ctx context.Context, p Publication) error
	// Done records that every document of p is in its place: the documents are ours
	// from now on, and those of p.Retired are due for removal.
	Done(ctx context.Context, p Publication) error
	// Last returns the last committed publication of a set and whether it is done; a
	// zero Publication if there is none.
	Last(ctx context.Context, set string) (p Publication, done bool, err error)
	// Document returns what we wrote last at key; false if the key was never ours.
	Document(ctx context.Context, key string) (Document, bool, error)
	// Expired yields the retired keys that may be removed now: older than before, by publications before p.
	Expired(ctx context.Context, before time.Time, p int64) iter.Seq2[string, error]
	// Forget records that the file at key is gone.
	Forget(ctx context.Context, key string) error
}
