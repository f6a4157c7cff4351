package evidence

import "time"

// skew is how much later than our clock a time may be. A later time comes from a wrong
// clock and is treated as unknown.
const skew = 24 * time.Hour

// ToCome reports whether t is later than now by more than a day, so that a wrong clock
// must have given it.
func ToCome(t, now time.Time) bool { return t.After(now.Add(skew)) }

// Misdated reports whether t is in the future by our clock and by the Source's clock.
// One of the clocks may be wrong, so one alone is no proof. sent is the time by the
// Source's clock; if it is zero, our clock alone decides.
func Misdated(t, sent, now time.Time) bool { return ToCome(t, now) && ToCome(t, sent) }

// Placed returns t, or the zero time if t is in the future according to Misdated. Such
// a time must not be compared with others.
func Placed(t, sent, now time.Time) time.Time {
	if Misdated(t, sent, now) {
		return time.Time{}
	}
	return t
}

// Later returns the later of two times.
func Later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Applied says which list and which changes of a set a mirror has applied.
type Applied struct {
	Listed  time.Time // time of the newest applied Resource List or Resource Dump
	Changed time.Time // time of the latest applied change
}

// UpTo returns a copy in which Changed is at most cursor, the time up to which every
// change was read. After that time, a run may have applied a change although it has not
// read an earlier one.
func (a Applied) UpTo(cursor time.Time) Applied {
	if cursor.Before(a.Changed) {
		a.Changed = cursor
	}
	return a
}

// Span is a period of time, up to Latest, in which Change Lists contain every change.
type Span struct {
	From   time.Time // start of the period; zero if unknown
	Latest time.Time // time of the latest listed change
	Until  time.Time // latest possible time of the changes whose time is unknown; zero if all times are known
	Goes   bool      // the lists begin with exactly the changes that the mirror has applied, and may have further ones after these
}

// Since reports whether the span covers all changes after t.
func (s Span) Since(t time.Time) bool { return !s.From.IsZero() && !s.From.After(t) }

// Old reports whether the changes in the Change Lists end before changes that were
// already applied. Then the lists may be outdated copies from a cache.
func (s Span) Old(a Applied) bool {
	return !s.Goes && s.Latest.Before(a.Changed) && s.Until.Before(a.Changed) && s.From.Before(a.Changed)
}

// Snapshot describes a complete list of a set at one moment, and the changes after it.
type Snapshot struct {
	At   time.Time
	Then Span // period of the changes after At; the zero Span if there are no such changes
}

// Old reports whether the list is older than the state that the mirror has applied, and
// the changes after the list do not lead beyond that state.
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
