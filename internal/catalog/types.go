// Package catalog records sets of resources, in three stores of one database.
//
// Facts, for mirrors and publishers, stores sets, resources, members and the change
// log. Mirror stores the intents, cursors, evidence, earlier states and approvals of
// mirrors. Publisher stores publications and their documents. Each consumer defines its
// own interface for a store, and package catalogtest tests the contracts. A call of one
// store may write to the tables of another store in the same transaction. For example,
// recording a change of a file deletes the digests of scans that contain the file.
//
// Resources are ordered by the directories of their URIs and paths. So resources that
// follow each other in a list are near each other in the database, and a batch of them
// touches only a few pages, even in a large set. Listings read page by page. A
// transaction is durable when its method returns: SQLite runs in WAL mode with
// synchronous=FULL.
package catalog

import (
	"time"

	"instep/resourcesync"
)

// SetID identifies a set in one catalog.
type SetID int64

// Resource is a URI and the facts about the bytes at its path.
type Resource struct {
	ID       int64 // row number of the resource, greater than those of earlier resources; 0 if it is unknown
	URI      string
	Path     string // path relative to the root directory, slash-separated
	Stored   bool   // whether bytes are recorded; if not, only the path is reserved
	Length   resourcesync.Length
	Digests  resourcesync.Digests
	Verified bool
	Type     string
	Encoding string // content coding of the bytes at Path, such as "gzip"; "" if there is none
	Stat     string // size and times of the file, in a form that the catalog does not interpret; "" if the file has to be hashed again

	// The following fields describe the membership in the requested set. They are zero
	// if the resource is not a member.
	Member  bool
	Changed time.Time // time of the last change that was recorded (by a publisher) or applied (in a mirror), precise to microseconds
	LastMod resourcesync.Datetime
	// ChangeFreq says how often the bytes change, according to the set; "" if that is
	// unknown.
	ChangeFreq resourcesync.ChangeFreq
	Due        string // the reason why the bytes have to be fetched again (in a mirror) or checked again (at a publisher); "" if there is none
	Wanted     string // the last statement of the Source about the resource, as JSON; only set together with Due
	Remainder  string // further attributes of the resource in the set: the text of a resourcesync.Remainder
}

// Change is an entry of the change log.
type Change struct {
	Seq      int64     // number of the change, greater than those of all earlier changes in the catalog
	Datetime time.Time // time of recording in UTC, precise to microseconds: the same for all changes of one call of Record, and later than in earlier calls
	Change   resourcesync.Change
	Resource // the fields URI, LastMod, Length, Digests, Type, Encoding, ChangeFreq and Remainder; only URI if the resource was deleted
}
