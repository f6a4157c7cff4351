package harvest

import "time"

// Position is how far the changes of a set were read (1.1 §12.1): whoever reads on from it hands
// it in again. It is kept in the transaction that keeps what was read.
type Position struct {
	At      time.Time // everything the Source recorded up to here was read; from the Source's documents, never our clock
	List    string    // URI of the Change List last read; "" after a baseline
	From    string    // its rs:md/@from as written
	Applied int       // how many of its entries were read
	Prefix  string    // digest over those entries, in hex
	Index   string    // the document that led to List as the last of several, and has nothing to add while List is open; "" if it may
	Asked   time.Time // when Index was read last, by our clock; zero if there is none
	Last    time.Time // the latest of their datetimes
	Changed time.Time // the moment of the latest change that was read; zero if none was, or an earlier version read the set last
	Ended   time.Time `json:",omitzero"` // the end of List, if it was read to that: the next list may begin there without a gap; zero while it is open
	Undated time.Time `json:",omitzero"` // until when the changes may have happened that were read and do not tell their time; zero: all do
	Left    time.Time // since when, by our clock, List stands open where its index says that it was closed; zero if it does not
}
