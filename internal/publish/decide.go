package publish

import (
	"time"

	"instep/resourcesync"
)

// smallSet is the size up to which every change writes a new Resource List: it is one
// document then.
const smallSet = resourcesync.MaxEntries

// staleness: a snapshot is written again when more than a tenth of the set has changed
// since.
const staleness = 10

// situation is the input of decide.
type situation struct {
	published bool      // there is an earlier publication
	asked     bool      // a snapshot of everything was asked for
	rewrite   bool      // the documents say less or other than they should
	reword    bool      // the description of the set in the documents has changed
	relabel   bool      // the Resource List has outdated labels (type, encoding, changefreq)
	now       time.Time // present time by the clock of the change log
	resources int64     // in the set
	fresh     bool      // there are changes that no publication lists yet

	listAt    time.Time // moment of the Resource List
	sinceList int64     // changes since

	dumps     bool      // Resource Dump and Change Dumps are wanted
	dumping   bool      // there are both, without a gap between them
	dumpAt    time.Time // moment of the Resource Dump
	sinceDump int64     // changes since

	openFrom time.Time // start of the open Change List
	listed   int64     // changes in it

	rest        time.Duration // least time between two snapshots
	rebaseEvery time.Duration
	dumpEvery   time.Duration
	rotateEvery time.Duration
	keepChanges time.Duration // how long a Change List stays that nothing needs
}

// decision is the output of decide: which documents to publish.
type decision struct {
	publish  bool
	snapshot bool // a new Resource List
	dump     bool // a new Resource Dump
	dumps    bool // continue Change Dumps, or begin them
	rotate   bool // the open Change List is closed because of its age
}

// decide chooses the documents to publish, so that the cost grows with the changes.
func (s situation) decide() decision {
	d := decision{snapshot: !s.published || s.asked || s.rewrite || s.listDue(), rotate: s.rotationDue()}
	d.dump = s.dumps && (s.asked || s.rewrite || s.dumpDue() || !s.dumping && s.rested(s.dumpAt))
	d.dumps = s.dumps && (s.dumping || d.dump)
	d.publish = d.snapshot || d.dump || d.rotate || s.fresh || s.reword
	return d
}

// listDue reports whether a new Resource List saves readers work: too many changes since
// the last one, Change Lists that are kept only for it, or outdated labels, which no change
// can express.
func (s situation) listDue() bool {
	return s.due(s.listAt, s.sinceList, s.rebaseEvery) || s.rested(s.listAt) && (s.relabel || s.sinceList > 0 && s.resources <= smallSet)
}

// dumpDue is listDue for the Resource Dump. A dump costs as much as the bytes of the set,
// so a small set does not get a new one with every change.
func (s situation) dumpDue() bool { return s.due(s.dumpAt, s.sinceDump, s.dumpEvery) }

func (s situation) due(at time.Time, since int64, every time.Duration) bool {
	age := s.now.Sub(at)
	return since > 0 && s.rested(at) &&
		(since > s.resources/staleness || every > 0 && age >= every || age > s.keepChanges)
}

func (s situation) rested(at time.Time) bool { return s.now.Sub(at) >= s.rest }

func (s situation) rotationDue() bool {
	return s.published && s.rotateEvery > 0 && s.listed > 0 && s.now.Sub(s.openFrom) >= s.rotateEvery
}
