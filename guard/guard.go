// Package guard decides how many deletions at once are suspicious.
package guard

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// Limit is the maximum number of deletions in one run. The zero Limit is the default:
// it allows up to 5 deletions, or up to 10 % of the set if that is more, but never more
// than half of the set, nor all of it.
type Limit struct {
	set     bool
	percent bool
	n       int64
}

// ParseLimit parses "50" (resources) or "5%" (of the set); "" is the default. A given
// limit replaces the default completely: "100%" allows everything, "0" nothing.
func ParseLimit(s string) (Limit, error) {
	if s == "" {
		return Limit{}, nil
	}
	digits, percent := strings.CutSuffix(s, "%")
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || percent && n > 100 {
		return Limit{}, fmt.Errorf("limit of deletions %q: expected a number such as 50, or a share from 0%% to 100%%", s)
	}
	return Limit{set: true, percent: percent, n: int64(n)}, nil
}

// String returns the form that ParseLimit parses.
func (l Limit) String() string {
	switch {
	case !l.set:
		return ""
	case l.percent:
		return strconv.FormatInt(l.n, 10) + "%"
	}
	return strconv.FormatInt(l.n, 10)
}

// defaultDeletions is the number of deletions that the default Limit allows even if
// they are more than 10 % of the set.
const defaultDeletions = 5

// Exceeded reports whether the number of deletions is too large for a set that had the
// given size before the run.
func (l Limit) Exceeded(deletions, size int64) bool {
	switch {
	case deletions <= 0:
		return false
	case !l.set:
		return deletions >= size || moreThan(deletions, 50, size) || deletions > defaultDeletions && moreThan(deletions, 10, size)
	case l.percent:
		return moreThan(deletions, l.n, size)
	}
	return deletions > l.n
}

// Allows returns the largest number of deletions that the limit allows in a set of the
// given size.
func (l Limit) Allows(size int64) int64 {
	switch {
	case !l.set:
		return max(0, min(max(defaultDeletions, size/10), size/2, size-1))
	case l.percent:
		high, low := bits.Mul64(uint64(size), uint64(l.n))
		n, _ := bits.Div64(high, low, 100)
		return int64(n)
	}
	return l.n
}

// moreThan reports whether n is more than the given percentage of size. No argument may
// be negative.
func moreThan(n, percent, size int64) bool {
	nHigh, nLow := bits.Mul64(uint64(n), 100)
	sHigh, sLow := bits.Mul64(uint64(size), uint64(percent))
	return nHigh > sHigh || nHigh == sHigh && nLow > sLow
}
