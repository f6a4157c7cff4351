// Package missed brings the states that resources had between two runs of a Destination, which
// the runs themselves pass over since only the last state counts (1.1 §14.6).
//
// A Log takes the changes as they are read. A Bringer fetches the version of each from where
// its entry links to, by "memento", "timemap" or "timegate", into a versions.Store. What proves
// the bytes is the SHA-256 of the entry, so a server that answers with anything else is found
// out and nothing of it is kept.
package missed

import (
	"errors"
	"iter"
	"time"

	"instep/harvest"
	"instep/internal/spool"
	"instep/resourcesync"
)

// Log has the changes of a run that link to versions, and deletions. It is not safe for
// concurrent use.
type Log struct {
	changes *spool.Sorter[change]
	n       int64
	brought int64 // changes that Bringer.Before has seen
	failed  error
}

// change is one change of a resource.
type change struct {
	URI     string
	Number  int64     // in the order in which they were read
	Since   time.Time // when the state began, by the Source
	Deleted bool

	Digests  resourcesync.Digests
	Length   resourcesync.Length
	Type     string
	Encoding string

	Memento, TimeMap, TimeGate string // "" is none
}

// NewLog returns an empty Log, of which all but a few records are in a directory of temporary
// files; "" is the system's.
func NewLog(dir string) *Log { return &Log{changes: spool.NewSorter[change](dir)} }

// Close frees the Log.
func (l *Log) Close() error { return l.changes.Close() }

// Add takes a change as it is read. It leaves out those without a known time, and those without
// a link to a version.
func (l *Log) Add(c *harvest.ChangeEntry) {
	if l.failed != nil || !c.Timed() {
		return
	}
	ch := change{
		URI: c.URI, Number: l.n, Since: c.Changed.Truncate(time.Microsecond), Deleted: c.Change == resourcesync.Deleted,
		Digests: c.Digests, Length: c.Length, Type: c.Type, Encoding: c.Encoding,
	}
	if !ch.Deleted {
		said, err := c.Remainder.Parse()
		if err != nil {
			l.failed = err
			return
		}
		ch.find(said.Links)
		if ch.Memento == "" && ch.TimeMap == "" && ch.TimeGate == "" {
			return
		}
	}
	l.n++
	l.failed = l.changes.Append(ch.URI+"\x00", ch) // the zero byte keeps one URI from being the beginning of another
}

// find takes the links to versions, the first of each relation.
func (c *change) find(links []resourcesync.Link) {
	for _, l := range links {
		var to *string
		switch l.Rel {
		case resourcesync.RelMemento:
			to = &c.Memento
		case resourcesync.RelTimeMap:
			to = &c.TimeMap
		case resourcesync.RelTimeGate:
			to = &c.TimeGate
		default:
			continue
		}
		if *to == "" && len(l.Href) <= harvest.MaxURI {
			*to = l.Href
		}
	}
}

// each yields the changes of each resource together, in the order in which they were read.
func (l *Log) each() iter.Seq2[[]change, error] {
	return func(yield func([]change, error) bool) {
		if l.failed != nil {
			yield(nil, l.failed)
			return
		}
		var of []change
		for c, err := range l.changes.All() {
			if err != nil {
				yield(nil, err)
				return
			}
			if len(of) > 0 && (of[0].URI != c.URI || len(of) == maxChanges) {
				if !yield(of, nil) {
					return
				}
				of = nil
			}
			of = append(of, c)
		}
		if len(of) > 0 {
			yield(of, nil)
		}
	}
}

// maxChanges bounds the changes of one resource that are in memory together.
const maxChanges = 10_000

// errUnproved is why a version without a SHA-256 or a length is not fetched.
var errUnproved = errors.New("its entry has no sha-256 or no length, so nothing would prove the bytes")
