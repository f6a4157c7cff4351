// Package missed fetches the states that resources had between two runs of a Destination
// (1.1 §14.6). The runs themselves skip these states, since they fetch only the last state
// of a resource. A Log collects the changes that a run reads. A Bringer follows the links of
// each change, "memento", "timemap" or "timegate", to a version of the resource. It stores
// the version in a versions.Store if the bytes have the SHA-256 that the change states.
package missed

import (
	"errors"
	"iter"
	"time"

	"instep/harvest"
	"instep/internal/spool"
	"instep/resourcesync"
)

// Log collects the changes of a run that link to a version of the resource, and the
// deletions. It is not safe for concurrent use.
type Log struct {
	changes *spool.Sorter[change]
	n       int64
	brought int64 // number of changes at the last call of Bringer.Before
	failed  error
}

type change struct {
	URI     string
	Number  int64     // the number of changes that were added to the Log before this one
	Since   time.Time // the time of the change, according to the Source
	Deleted bool

	Digests  resourcesync.Digests
	Length   resourcesync.Length
	Type     string
	Encoding string

	Memento, TimeMap, TimeGate string // the targets of the links rel="memento", "timemap" and "timegate"; "" if there is no such link
}

// NewLog returns an empty Log, which writes all but a few changes to temporary files in dir;
// "" means the directory of the system for temporary files.
func NewLog(dir string) *Log { return &Log{changes: spool.NewSorter[change](dir)} }

// Close removes the temporary files of the Log.
func (l *Log) Close() error { return l.changes.Close() }

// Add adds a change. It skips a change whose time is unknown, and a change without a link to
// a version unless it is a deletion.
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
		ch.setLinks(said.Links)
		if ch.Memento == "" && ch.TimeMap == "" && ch.TimeGate == "" {
			return
		}
	}
	l.n++
	l.failed = l.changes.Append(ch.URI+"\x00", ch) // the zero byte at the end ensures that no key is a prefix of another one
}

// setLinks stores the target of the first link of each relation.
func (c *change) setLinks(links []resourcesync.Link) {
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

// byResource yields the changes of each resource as a slice, in the order in which they were
// read. If there are more than maxChanges, it yields several slices.
func (l *Log) byResource() iter.Seq2[[]change, error] {
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

// maxChanges is the largest number of changes of a resource that are in memory at a time.
const maxChanges = 10_000

var errUnproved = errors.New("the entry of the version has no sha-256 or no length, so its bytes cannot be verified")
