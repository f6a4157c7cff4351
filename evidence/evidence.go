// Package evidence decides how a Source's statement about one URI applies to the mirror
// (1.1 §5.2). Every kind of synchronisation uses it: a baseline by list or by dump, an
// increment, an archive, an audit, and the search for resources that are no longer listed.
// It does no input or output; docs/promise.md explains the consequences.
//
// The order of evidence, in short: a document that is older than what was applied changes
// nothing. Of two statements the later one counts, by position where both come from one
// Change List, else by time. A list of a moment tells what was before that moment, so a
// change of the same moment comes after it. Where time and position disagree, or neither
// is known, and a deletion depends on it, the URI itself is asked. A change of unknown time
// happened between two moments: nothing that is of a moment between them is placed beside it.
package evidence

import (
	"time"
)

// Kind is the kind of a statement about a URI.
type Kind uint8

// The kinds of statement.
const (
	Listed  Kind = iota // a Resource List or a Resource Dump names it (1.1 §10, §11)
	Absent              // a complete list does not name it
	Created             // so says a Change List or a Change Dump (1.1 §12, §13)
	Updated             // likewise
	Deleted             // likewise
	Kinds               // number of kinds
)

func (k Kind) String() string {
	return [...]string{"listed", "absent", "created", "updated", "deleted"}[k]
}

// change reports whether a Change List or Change Dump says it.
func (k Kind) change() bool { return k >= Created }

// Match compares the held bytes with those that a statement describes.
type Match uint8

// The matches.
const (
	Untied  Match = iota // nothing ties them: there are none, or the Source gives nothing to compare
	Differs              // they are others
	Same                 // a digest proves them, or as much as the Source gives of them
	matches              // number of matches
)

// Statement is one document's statement about one URI.
type Statement struct {
	Kind   Kind
	Old    bool      // the document is older than what was applied: see Snapshot and Span
	Again  bool      // for a list: a list of the same moment was applied before
	From   time.Time // the statement is not from before this moment; zero: unknown
	To     time.Time // nor of a later one; zero: unknown. A statement with a time has it in both
	Last   bool      // by its position it is after all entries of its Change List that were applied
	Torn   bool      // its document contradicts itself: neither times nor positions show which statement is the last
	Denied bool      // if Torn: one of the contradicting statements is that the URI does not exist, which an answer can confirm
	Bytes  Match
}

// Held is the evidence that a mirror has of one URI in one set.
type Held struct {
	Member   bool
	Due      bool      // the bytes have to be fetched again, although the recorded facts stay
	At       time.Time // the moment of the last statement that was applied
	Until    time.Time // its time is unknown: at the latest then, and at At at the earliest; zero: At is its time
	Change   bool      // that was a change
	Ahead    bool      // a run has applied that and left the cursor before it, so position is no evidence
	Misdated bool      // dated in the future: a clock was wrong, and At is zero
	Gone     bool      // that was a deletion, and no newer list was read since: not with Member
}

// Decision is the action that a statement demands.
type Decision uint8

// The decisions.
const (
	Keep      Decision = iota // the held state stays
	Retry                     // it stays, and bytes that are due are fetched as recorded
	Confirm                   // the held bytes are right; update the recorded facts
	Fetch                     // fetch the bytes
	Remove                    // it is deleted
	Remember                  // it is not held; remember that it was deleted
	Withhold                  // delete it, if somebody approves
	Ask                       // the URI itself is asked
	PassOver                  // nothing is concluded, and the run says so
	Decisions                 // number of decisions
)

func (d Decision) String() string {
	return [...]string{"keep", "retry", "confirm", "fetch", "remove", "remember", "withhold", "ask", "pass over"}[d]
}

// Decide returns the action that a statement demands for the held state, and the reason in
// a few words.
func Decide(s Statement, h Held) (Decision, string) {
	known := h.Member || h.Gone
	s.Last = s.Last && !h.Ahead
	switch {
	case s.Old && !known && s.Kind != Absent && s.Kind != Deleted:
		return PassOver, "it may have been deleted since"
	case s.Old:
		return h.stay(), "the document is older than what was applied"
	case s.Torn:
		return Ask, "its document contradicts itself"
	}
	switch s.order(h) {
	case earlier:
		return h.stay(), "what is held is newer"
	case unknown:
		return s.unplaced(h), "whether it is newer is unknown"
	case same:
		return s.beside(h)
	}
	return s.apply(h), "nothing that is held is newer"
}

// stay leaves the held state.
func (h Held) stay() Decision {
	if h.Due {
		return Retry
	}
	return Keep
}

// The order of a statement and the held state.
type place uint8

const (
	later place = iota
	same
	earlier
	unknown
)

// order returns whether a statement is later than the held state.
func (s Statement) order(h Held) place {
	ends := !s.To.IsZero()
	switch {
	case s.Last && ends && s.To.Before(h.At): // its time is wrong, or the document is a copy from before
		return unknown
	case s.Kind == Listed && h.At.IsZero() && !h.Change: // the held state, if any, is also from a list without a moment
		return later
	case s.Last || s.From.After(Later(h.At, h.Until)), s.From.Equal(h.At) && s.Kind.change() && !h.Change: // a list describes the state before its moment
		return later
	case ends && s.To.Before(h.At):
		return earlier
	case ends && s.From.Equal(s.To) && s.From.Equal(h.At):
		return same
	}
	return unknown
}

// apply decides by a statement that is later. A held state with a moment in the future may
// still be newer than a deletion.
func (s Statement) apply(h Held) Decision {
	switch s.Kind {
	case Absent:
		switch {
		case !h.Member:
			return Keep
		case h.Misdated:
			return Ask
		case s.Again:
			return Withhold
		}
		return Remove
	case Deleted:
		switch {
		case !h.Member:
			return Remember
		case h.Misdated && !s.Last:
			return Ask
		}
		return Remove
	}
	return s.bring(h)
}

// bring decides by a statement that the resource exists.
func (s Statement) bring(h Held) Decision {
	if s.Bytes == Same && !h.Due {
		return Confirm
	}
	return Fetch
}

// unplaced decides by a statement whose order is unknown.
func (s Statement) unplaced(h Held) Decision {
	switch {
	case s.Kind == Deleted && h.Gone:
		return Keep
	case s.Kind == Listed && !h.Gone && s.Bytes == Untied: // the present bytes of the URI are not older than the held ones
		return Fetch
	case s.Kind != Deleted && s.Kind != Absent && h.Member && s.Bytes == Same && !h.Due:
		return Confirm
	}
	return Ask
}

// beside decides by a statement of the same moment as the held state.
func (s Statement) beside(h Held) (Decision, string) {
	const before = "a list tells what was before its moment"
	switch {
	case s.Kind == Absent && !h.Change:
		return Withhold, "another list of its moment named it"
	case s.Kind == Absent, s.Kind == Listed && h.Change:
		return h.stay(), before
	case s.Kind == Deleted && h.Member, s.Kind != Deleted && h.Gone:
		return Ask, "two changes of one moment contradict each other"
	case h.Gone:
		return Keep, "it is applied"
	}
	return s.bring(h), "other bytes of the same moment"
}
