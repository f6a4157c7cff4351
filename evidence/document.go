package evidence

import "time"

// skew is by how much a time may be later than our clock and still be one: a later one is
// unknown, and orders nothing.
const skew = 24 * time.Hour

// ToCome reports whether t is later than any clock near the right time shows.
func ToCome(t, now time.Time) bool { return t.After(now.Add(skew)) }

// Misdated reports whether t is in the future: by our clock, and by the Source's clock when
// it sent the document. Either alone may be wrong. If sent is unknown it is the zero time,
// which all times are later than.
func Misdated(t, sent, now time.Time) bool { return ToCome(t, now) && ToCome(t, sent) }

// Placed is t, or the zero time if it is misdated: such a moment orders nothing.
func Placed(t, sent, now time.Time) time.Time {
	if Misdated(t, sent, now) {
		return time.Time{}
	}
	return t
}

// Later is the later of two moments.
func Later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Applied is how far a set was followed.
type Applied struct {
	Listed  time.Time // the moment of the newest Resource List or Resource Dump
	Changed time.Time // the latest change
}

// UpTo returns a limited to the moment up to which everything was read: a later change may
// have been applied before older ones, which are still news.
func (a Applied) UpTo(cursor time.Time) Applied {
	if cursor.Before(a.Changed) {
		a.Changed = cursor
	}
	return a
}

// Span is the period that Change Lists cover: all changes from one moment to another.
type Span struct {
	From   time.Time // zero: unknown
	Latest time.Time // time of the latest listed change
	Until  time.Time // latest moment at which a change of unknown time may have happened; zero if the times of all changes are known
	Goes   bool      // their first part is exactly what was applied, and they continue from there
}

// Since reports whether all changes since t are covered.
func (s Span) Since(t time.Time) bool { return !s.From.IsZero() && !s.From.After(t) }

// Old reports whether the changes end before others that were applied, as those of a copy
// from a cache do.
func (s Span) Old(a Applied) bool {
	return !s.Goes && s.Latest.Before(a.Changed) && s.Until.Before(a.Changed) && s.From.Before(a.Changed)
}

// Snapshot is a list of everything at one moment, and the changes after it.
type Snapshot struct {
	At   time.Time
	Then Span // the zero Span: there are none
}

// Old reports whether a list is older than what was applied, unless changes lead from it
// beyond that.
func (s Snapshot) Old(a Applied) bool {
	at := s.At
	if s.Then.Since(at) {
		if s.Then.Goes {
			return false
		}
		if s.Then.Latest.After(at) {
			at = s.Then.Latest
		}
	}
	return at.Before(a.Listed) || at.Before(a.Changed)
}
