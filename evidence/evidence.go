// Package evidence decides what the word of a Source about one URI means for what a
// mirror holds of it (1.1 §5.2). Every way to synchronise asks it: a baseline by list or
// by dump, an increment, an archive, an audit, and the look for what is not listed. It
// reads nothing and does nothing; docs/promise.md says what follows from it.
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

// Kind is what a statement says of a URI.
type Kind uint8

// The kinds of statement.
const (
	Listed  Kind = iota // a Resource List or a Resource Dump names it (1.1 §10, §11)
	Absent              // one that is complete does not
	Created             // so says a Change List or a Change Dump (1.1 §12, §13)
	Updated             // likewise
	Deleted             // likewise
	Kinds               // how many there are
)

func (k Kind) String() string {
	return [...]string{"listed", "absent", "created", "updated", "deleted"}[k]
}

// change reports whether a Change List or Change Dump says it.
func (k Kind) change() bool { return k >= Created }

// Match is what is known of the bytes held beside those that a statement describes.
type Match uint8

// The matches.
const (
	Untied  Match = iota // nothing ties them: there are none, or the Source gives nothing to compare
	Differs              // they are others
	Same                 // a digest proves them, or as much as the Source gives of them
	matches              // how many there are
)

// Statement is what one document says of one URI.
type Statement struct {
	Kind   Kind
	Old    bool      // the document is older than what was applied: see Snapshot and Span
	Again  bool      // of a list: one of the same moment was applied before
	From   time.Time // it is not of an earlier moment; zero: unknown
	To     time.Time // nor of a later one; zero: unknown. A statement with a time has it in both
	Last   bool      // by its position it comes after all that was applied of its Change List up to the cursor
	Torn   bool      // its document contradicts itself: neither times nor positions tell what came last
	Denied bool      // of a torn one: some of it is that the URI does not exist, which an answer can confirm
	Bytes  Match
}

// Held is the evidence that a mirror has of one URI in one set.
type Held struct {
	Member   bool
	Due      bool      // the bytes have to come again, and what is known of them is kept
	At       time.Time // the moment of the last statement that was applied
	Until    time.Time // its time is unknown: at the latest then, and at At at the earliest; zero: At is its time
	Change   bool      // that was a change
	Ahead    bool      // a run has applied that and left the cursor behind it: position tells nothing of it
	Misdated bool      // of a moment that is still to come: a clock was wrong, and At is zero
	Gone     bool      // that was a deletion, and no newer list was read since: not with Member
}

// Decision is what a statement means for what is held.
type Decision uint8

// The decisions.
const (
	Keep      Decision = iota // what is held stays as it is
	Retry                     // likewise, and the bytes that are due are fetched as it was known that they are
	Confirm                   // the bytes held are right; what is known of them is brought up to date
	Fetch                     // the bytes have to come
	Remove                    // it is deleted
	Remember                  // it is not here, and its deletion is remembered
	Withhold                  // it would be deleted, if somebody approves
	Ask                       // the URI itself is asked
	PassOver                  // nothing is concluded, and the run says so
	Decisions                 // how many there are
)

func (d Decision) String() string {
	return [...]string{"keep", "retry", "confirm", "fetch", "remove", "remember", "withhold", "ask", "pass over"}[d]
}

// Decide says what a statement means for what is held, and why in a few words.
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

// stay keeps what is held.
func (h Held) stay() Decision {
	if h.Due {
		return Retry
	}
	return Keep
}

// The places of a statement beside what is held.
type place uint8

const (
	later place = iota
	same
	earlier
	unknown
)

// order tells whether a statement is later than what is held.
func (s Statement) order(h Held) place {
	ends := !s.To.IsZero()
	switch {
	case s.Last && ends && s.To.Before(h.At): // its time is wrong, or the document is a copy from before
		return unknown
	case s.Kind == Listed && h.At.IsZero() && !h.Change: // what is held, if anything, came by a list without a moment, too
		return later
	case s.Last || s.From.After(Later(h.At, h.Until)), s.From.Equal(h.At) && s.Kind.change() && !h.Change: // a list tells what was before its moment
		return later
	case ends && s.To.Before(h.At):
		return earlier
	case ends && s.From.Equal(s.To) && s.From.Equal(h.At):
		return same
	}
	return unknown
}

// apply is what a statement means that counts. What is held as of a moment that is still to
// come may be newer than a deletion all the same.
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

// bring is what a statement means by which the resource exists.
func (s Statement) bring(h Held) Decision {
	if s.Bytes == Same && !h.Due {
		return Confirm
	}
	return Fetch
}

// unplaced is what a statement means of which nobody knows whether it came later.
func (s Statement) unplaced(h Held) Decision {
	switch {
	case s.Kind == Deleted && h.Gone:
		return Keep
	case s.Kind == Listed && !h.Gone && s.Bytes == Untied: // what the URI gives is no older than what is held
		return Fetch
	case s.Kind != Deleted && s.Kind != Absent && h.Member && s.Bytes == Same && !h.Due:
		return Confirm
	}
	return Ask
}

// beside is what a statement means that is of the same moment as what is held.
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
