package publish

import "instep/resourcesync"

// smallSet is the size up to which the Resource List is written anew with every
// change: it is one document then.
const smallSet = resourcesync.MaxEntries

// staleness: a Resource List of a large set is written anew when more than a tenth
// of the set changed since.
const staleness = 10

// situation is what a publication is decided on.
type situation struct {
	published bool  // there is a publication to go on from
	rebase    bool  // asked for, or needed because documents are missing
	resources int64 // in the set
	sinceList int64 // changes since the Resource List
	fresh     int64 // changes that no publication lists yet
	listed    int64 // changes the open Change List would have if it went on
	divided   int64 // of them, those that a new Change List would have
	max, hard int64 // changes of a list: by Options.ChangeListMax, and at the very most
}

// step is how a publication goes on. A later step takes more work and fits more.
type step int

const (
	nothing   step = iota // all is said
	extend                // the open Change List goes on
	divide                // the open Change List ends where this scan began, a new one begins there
	scanAgain             // what is not listed yet is too much for a list: scan again, begin after it
)

// decide chooses the step, and whether the Resource List is written anew.
func (s situation) decide() (next step, snapshot bool) {
	switch {
	case !s.published:
		return extend, true
	case s.fresh == 0 && !s.rebase:
		return nothing, false
	case s.divided > s.hard || s.listed-s.divided > s.hard: // the latter after a run that was interrupted
		return scanAgain, true
	case s.listed > s.max && s.divided < s.listed:
		// A Change List is linked alone, without those before it: the Resource List
		// has to be as young as it is, or there were a gap between them.
		return divide, true
	case s.listed > s.hard:
		return scanAgain, true
	}
	return extend, s.rebase || s.resources <= smallSet || s.sinceList*staleness > s.resources
}
