// Package catalog records sets of resources, in three stores of one database.
//
// Facts, for mirrors and publishers, has sets, resources, members and the change log.
// Mirror has intents, cursors, evidence, earlier states and approvals; Publisher has
// publications and their documents. Consumers define their own interface for each
// store, and package catalogtest has the contract tests. A call of one store may write
// to tables of another in the same transaction: for example, recording a change removes
// results of scans.
//
// Resources are keyed by the directories of their URI and path, so that neighbours in a
// list are neighbours in the database: a batch of neighbours costs a few pages,
// whatever the size of the set. Listings read page by page. A transaction is durable
// when its method returns (SQLite in WAL mode with synchronous=FULL).
package catalog

import (
	"time"

	"instep/resourcesync"
)

// SetID identifies a set in one catalog.
type SetID int64

// Resource is a URI and the facts about the bytes at its path.
type Resource struct {
	ID       int64 // row number, ascending in the order of recording; 0: unknown
	URI      string
	Path     string // relative to the root, slash-separated
	Stored   bool   // false: the path is reserved, and no bytes are recorded yet
	Length   resourcesync.Length
	Digests  resourcesync.Digests
	Verified bool
	Type     string
	Encoding string // content coding of the bytes at Path, such as "gzip"; "": none
	Stat     string // opaque; "": the file has to be hashed again

	// Fields of the membership in the requested set; zero if the resource is not a
	// member.
	Member  bool
	Changed time.Time // time of the last change that was recorded or applied, precise to microseconds
	LastMod resourcesync.Datetime
	// how often the bytes change, as stated by the set; "" is unknown
	ChangeFreq resourcesync.ChangeFreq
	Due        string // why a mirror has to fetch the bytes again, or a publisher has to check them again; "": it need not
	Wanted     string // while Due is set: the last statement of the Source (JSON)
	Remainder  string // further attributes in the set: the text of a resourcesync.Remainder
}

// Change is one entry of the change log.
type Change struct {
	Seq      int64     // strictly increasing over all sets
	Datetime time.Time // time of recording in UTC, precise to microseconds: the same for all changes of a call of Record, and increasing
	Change   resourcesync.Change
	Resource // URI, LastMod, Length, Digests, Type, Encoding, ChangeFreq, Remainder; only the URI if it is a deletion
}
