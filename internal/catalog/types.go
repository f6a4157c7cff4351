// Package catalog records sets of resources, in three stores of one database.
//
// Facts has sets, resources, members and the change log, for both roles. Mirror has
// intended changes of files, cursors, evidence, earlier states and approvals; Publisher has
// publications and their documents. Users take each by their own interface, and
// catalogtest tests all of these contracts. A call of one store may write to the tables of
// another in its transaction: recording a change forgets results of scans.
//
// Resources are keyed by the directory of their URI and of their path, so that neighbours
// in a list are neighbours here: a batch of neighbours costs a few pages, whatever the size
// of the set. Every listing streams. A transaction that acknowledges work is durable when
// its method returns (SQLite in WAL mode with synchronous=FULL).
package catalog

import (
	"time"

	"instep/resourcesync"
)

// SetID names a set inside one catalog.
type SetID int64

// Resource is one URI and the bytes at its path.
type Resource struct {
	ID       int64 // row number, ascending in the order of recording; 0: unknown
	URI      string
	Path     string // below the root, slash-separated
	Stored   bool   // false: the path is reserved, the bytes are not acknowledged yet
	Length   resourcesync.Length
	Digests  resourcesync.Digests
	Verified bool
	Type     string
	Encoding string // content coding of the bytes at Path, as "gzip"; "" is none
	Stat     string // opaque; "" = the bytes have to be hashed again

	// Fields of the requested membership; zero if the resource is not a member of the set.
	Member  bool
	Changed time.Time // last change recorded or applied, in microseconds
	LastMod resourcesync.Datetime
	// How often the bytes change, according to the set; "" is unknown.
	ChangeFreq resourcesync.ChangeFreq
	Due        string // why the bytes have to be fetched, or at a Source looked at, again; "" = good
	Wanted     string // while due: the last statement of the Source (JSON)
	Remainder  string // further attributes in the set: the text of a resourcesync.Remainder
}

// Change is one entry of the change log.
type Change struct {
	Seq      int64     // strictly increasing over all sets
	Datetime time.Time // time of recording, UTC, in microseconds; one for each call of Record, increasing
	Change   resourcesync.Change
	Resource // URI, LastMod, Length, Digests, Type, Encoding, ChangeFreq, Remainder; of a deletion the URI
}
