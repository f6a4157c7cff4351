package publish

import (
	"time"

	"instep/resourcesync"
)

// smallSet is the largest number of resources in a set that gets a new Resource List for
// every change. The Resource List of such a set is a single document.
const smallSet = resourcesync.MaxEntries

// staleness is the divisor of a limit: a new Resource List or Resource Dump is made when
// more than 1/staleness of the resources (a tenth) have changed since the last one.
const staleness = 10

// situation has the facts on which a decision depends: the state of a set, its last
// publication and the options.
type situation struct {
	published bool      // whether there is an earlier publication
	asked     bool      // whether the caller requested a new snapshot
	rewrite   bool      // whether documents are missing or outdated, and all must be written again
	reword    bool      // whether the description of the set in the documents has changed
	relabel   bool      // whether the Resource List has outdated labels (type, encoding, changefreq)
	now       time.Time // present time; later than all recorded changes
	resources int64     // number of resources in the set
	fresh     bool      // whether there are unpublished changes

	listAt    time.Time // time of the Resource List (attribute "at")
	sinceList int64     // number of changes since the Resource List

	dumps     bool      // whether the set is configured to have a Resource Dump and Change Dumps
	dumping   bool      // whether a Resource Dump and Change Dumps exist, and the Change Dumps have every change since the Resource Dump
	dumpAt    time.Time // time of the Resource Dump (attribute "at")
	sinceDump int64     // number of changes since the Resource Dump

	openFrom time.Time // start time of the open Change List
	listed   int64     // number of changes in the open Change List

	rest        time.Duration // minimum time between two Resource Lists or Resource Dumps
	rebaseEvery time.Duration
	dumpEvery   time.Duration
	rotateEvery time.Duration
	keepChanges time.Duration // how long a Change List is kept after readers of the last Resource List no longer need it
}

type decision struct {
	publish  bool
	snapshot bool // whether to write a new Resource List
	dump     bool // whether to write a new Resource Dump
	dumps    bool // write Change Dumps
	rotate   bool // whether to close the open Change List because of its age
}

// decide chooses which documents to publish, so that the cost of most publications depends
// on the number of changes and not on the size of the set.
func (s situation) decide() decision {
	d := decision{snapshot: !s.published || s.asked || s.rewrite || s.listDue(), rotate: s.rotationDue()}
	d.dump = s.dumps && (s.asked || s.rewrite || s.dumpDue() || !s.dumping && s.hasRested(s.dumpAt))
	d.dumps = s.dumps && (s.dumping || d.dump)
	d.publish = d.snapshot || d.dump || d.rotate || s.fresh || s.reword
	return d
}

// listDue reports whether a new Resource List must be written. The reason can be the age of
// the last list, the number of changes since then, any change of a small set, or outdated
// types and encodings in the list, which Change Lists cannot correct.
func (s situation) listDue() bool {
	return s.isDue(s.listAt, s.sinceList, s.rebaseEvery) || s.hasRested(s.listAt) && (s.relabel || s.sinceList > 0 && s.resources <= smallSet)
}

// dumpDue reports whether a new Resource Dump must be written. Unlike a Resource List, a
// dump has all bytes of the set, so even a small set does not get a new dump for every
// change.
func (s situation) dumpDue() bool { return s.isDue(s.dumpAt, s.sinceDump, s.dumpEvery) }

func (s situation) isDue(at time.Time, since int64, every time.Duration) bool {
	age := s.now.Sub(at)
	return since > 0 && s.hasRested(at) &&
		(since > s.resources/staleness || every > 0 && age >= every || age > s.keepChanges)
}

func (s situation) hasRested(at time.Time) bool { return s.now.Sub(at) >= s.rest }

func (s situation) rotationDue() bool {
	return s.published && s.rotateEvery > 0 && s.listed > 0 && s.now.Sub(s.openFrom) >= s.rotateEvery
}
