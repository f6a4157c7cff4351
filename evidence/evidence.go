// Package evidence decides how a Source's statement about one URI applies to the mirror
// (1.1 §5.2). Every kind of synchronisation uses it: a baseline by list or by dump, an
// increment, an archive, an audit, and the search for resources that are no longer
// listed. It does no input or output; docs/promise.md explains the consequences.
//
// The order of evidence, in short: a document that is older than the applied state
// changes nothing. Of two statements the later one counts; their order is that of their
// positions if both come from one Change List, else that of their times. A list with a
// moment describes the state before that moment, so a change at the same moment comes
// after the list. If the existence or the version of a resource depends on an order
// that is unknown or contradictory, the mirror requests the URI. A change of
// unknown time happened between two known moments, and nothing shows whether it came
// before or after a statement dated between these.
package evidence

import (
	"time"
)

// Kind is the kind of a statement about a URI.
type Kind uint8

// These are the values of Kind.
const (
	Listed  Kind = iota // a Resource List or a Resource Dump contains the URI (1.1 §10, §11)
	Absent              // a complete list does not contain the URI
	Created             // a Change List or a Change Dump reports the creation of the resource (1.1 §12, §13)
	Updated             // a Change List or a Change Dump reports an update
	Deleted             // a Change List or a Change Dump reports the deletion
	Kinds               // number of kinds of statements
)

func (k Kind) String() string {
	return [...]string{"listed", "absent", "created", "updated", "deleted"}[k]
}

func (k Kind) change() bool { return k >= Created }

// Match is the result of comparing the bytes in the mirror with a statement's
// description.
type Match uint8

// These are the values of Match.
const (
	Untied  Match = iota // the mirror has no bytes, or the Source gives no length or digest to compare
	Differs              // the bytes in the mirror are not the described ones
	Same                 // a digest proves that the bytes are equal, or all values that the Source gives are equal
	matches
)

// Statement is what one document says about one URI: for example that the resource
// exists, or was deleted.
type Statement struct {
	Kind   Kind
	Old    bool      // the document is older than the mirror's state, as Snapshot.Old or Span.Old reports
	Again  bool      // the statement is of a list, and another list with the same time was applied before
	From   time.Time // earliest possible time of the statement; zero if unknown
	To     time.Time // latest possible time of the statement; zero if unknown; equal to From if the time is known
	Last   bool      // the entry comes after all applied entries of its Change List
	Torn   bool      // the document has contradictory statements about the URI, and nothing shows which of them is the last
	Denied bool      // one of the contradictory statements is a deletion; set only if Torn is set
	Bytes  Match
}

// Held is the state of one URI in one set of a mirror, as evidence for decisions.
type Held struct {
	Member   bool
	Due      bool      // the bytes must be fetched again; the recorded metadata stays valid
	At       time.Time // time of the last applied statement
	Until    time.Time // latest possible time of the last applied statement if its exact time is unknown; At is then the earliest possible time
	Change   bool      // the last applied statement was a change
	Ahead    bool      // the last applied statement is later than the recorded position in the Change List, so the position of an entry does not show which is later
	Misdated bool      // the last applied statement had a time in the future, from a wrong clock; At is then zero
	Gone     bool      // the resource is recorded as deleted, and no newer list was read since; Member is then false
}

// Decision is the action that a statement requires.
type Decision uint8

// These are the values of Decision.
const (
	Keep      Decision = iota // keep the mirror's state
	Retry                     // keep the mirror's state, and fetch the bytes that an earlier run could not fetch
	Confirm                   // the bytes in the mirror are right; update the recorded metadata
	Fetch                     // fetch the bytes
	Remove                    // delete the resource from the mirror
	Remember                  // the mirror does not hold the resource; record its deletion
	Withhold                  // delete the resource only after approval
	Ask                       // send a request for the URI to see whether the resource exists
	PassOver                  // decide nothing, and report the statement
	Decisions                 // number of decisions
)

func (d Decision) String() string {
	return [...]string{"keep", "retry", "confirm", "fetch", "remove", "remember", "withhold", "ask", "pass over"}[d]
}

// Decide returns the action that a statement requires for the mirror's state, and why.
func Decide(s Statement, h Held) (Decision, string) {
	known := h.Member || h.Gone
	s.Last = s.Last && !h.Ahead
	switch {
	case s.Old && !known && s.Kind != Absent && s.Kind != Deleted:
		return PassOver, "the resource may have been deleted since"
	case s.Old:
		return h.keepOrRetry(), "the document is older than the applied state"
	case s.Torn:
		return Ask, "the document contradicts itself about this resource"
	}
	switch s.order(h) {
	case earlier:
		return h.keepOrRetry(), "the mirror has a newer state of the resource"
	case unknown:
		return s.decideWithoutOrder(h), "it is unknown whether the mirror's state is older or newer"
	case same:
		return s.decideSameTime(h)
	}
	return s.apply(h), "the mirror has an older state of the resource"
}

func (h Held) keepOrRetry() Decision {
	if h.Due {
		return Retry
	}
	return Keep
}

type place uint8

const (
	later place = iota
	same
	earlier
	unknown
)

func (s Statement) order(h Held) place {
	ends := !s.To.IsZero()
	switch {
	// the entry comes later in the Change List but has an earlier time: the time is wrong,
	// or the list is an outdated copy
	case s.Last && ends && s.To.Before(h.At):
		return unknown
	// the statement is in a list, and the mirror's state comes from a list that does not
	// state its time, or from no list
	case s.Kind == Listed && h.At.IsZero() && !h.Change:
		return later
	// a list describes the state before its moment, so a change at that moment is later
	case s.Last || s.From.After(Later(h.At, h.Until)), s.From.Equal(h.At) && s.Kind.change() && !h.Change:
		return later
	case ends && s.To.Before(h.At):
		return earlier
	case ends && s.From.Equal(s.To) && s.From.Equal(h.At):
		return same
	}
	return unknown
}

// If the time of the mirror's state is in the future (Misdated), the state may really
// be newer than the statement, so apply does not delete the resource without a request.
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
	return s.fetchOrConfirm(h)
}

func (s Statement) fetchOrConfirm(h Held) Decision {
	if s.Bytes == Same && !h.Due {
		return Confirm
	}
	return Fetch
}

func (s Statement) decideWithoutOrder(h Held) Decision {
	switch {
	case s.Kind == Deleted && h.Gone:
		return Keep
	// a fetch does no harm, because the URI returns its present bytes, which are not older
	// than those in the mirror
	case s.Kind == Listed && !h.Gone && s.Bytes == Untied:
		return Fetch
	case s.Kind != Deleted && s.Kind != Absent && h.Member && s.Bytes == Same && !h.Due:
		return Confirm
	}
	return Ask
}

func (s Statement) decideSameTime(h Held) (Decision, string) {
	const before = "a list describes the state before its moment"
	switch {
	case s.Kind == Absent && !h.Change:
		return Withhold, "another list with the same time contains the resource"
	case s.Kind == Absent, s.Kind == Listed && h.Change:
		return h.keepOrRetry(), before
	case s.Kind == Deleted && h.Member, s.Kind != Deleted && h.Gone:
		return Ask, "two changes with the same time contradict each other"
	case h.Gone:
		return Keep, "the deletion is already applied"
	}
	return s.fetchOrConfirm(h), "a statement with the same time describes the resource"
}
