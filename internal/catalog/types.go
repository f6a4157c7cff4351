// Package catalog keeps what is known of sets of resources, in three stores of one database.
//
// Facts has sets, resources, members and the change log, for both roles. Mirror has files that
// are about to change, cursors, evidence, earlier states and approvals, and Publisher has
// publications and their documents. Users take each by an interface of their own, and
// catalogtest holds an implementation against all of them. A call of one store may write to the
// tables of another in its transaction: recording a change forgets what a scan has seen.
//
// Resources are found by the directory of their URI and by that of their path, so that
// what stands together in a list stands together here: a batch of neighbours costs a few
// pages, whatever the size of the set. Every listing streams. A transaction that
// acknowledges work is durable when its method returns (SQLite in WAL mode with
// synchronous=FULL).
package catalog

import (
	"time"

	"instep/resourcesync"
)

// SetID names a set inside one catalog.
type SetID int64

// Resource is one URI and the bytes that stand at its path.
type Resource struct {
	ID       int64 // in the order of recording; 0: unknown
	URI      string
	Path     string // below the root, slash-separated
	Stored   bool   // false: the path is reserved, the bytes are not acknowledged yet
	Length   resourcesync.Length
	Digests  resourcesync.Digests
	Verified bool
	Type     string
	Encoding string // content coding of the bytes at Path, as "gzip"; "" is none
	Stat     string // opaque; "" = the bytes have to be hashed again

	// Of the membership asked for; zero if the resource is not a member of the set.
	Member  bool
	Changed time.Time // last change recorded or applied, in microseconds
	LastMod resourcesync.Datetime
	// How often the bytes change, as the set says; "" says nothing.
	ChangeFreq resourcesync.ChangeFreq
	Due        string // why the bytes have to be fetched, or at a Source looked at, again; "" = good
	Wanted     string // while due: what the Source last said (JSON)
	Remainder  string // what else the set says of it: the text of a resourcesync.Remainder
}

// Change is one entry of the change log.
type Change struct {
	Seq      int64     // strictly increasing over all sets
	Datetime time.Time // when it was recorded, UTC, in microseconds; one for each call of Record, increasing
	Change   resourcesync.Change
	Resource // URI, LastMod, Length, Digests, Type, Encoding, ChangeFreq, Remainder; of a deletion the URI
}
