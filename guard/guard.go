// Package guard decides how many deletions at once are suspicious.
package guard

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// Limit bounds the deletions of one run. The zero Limit is the default, which refuses
// deletions of more than 5 resources that are also more than 10 % of the set, of more than
// 50 %, and of all.
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

// few is the number of deletions that are allowed unless they affect most of the set.
const few = 5

// Exceeded reports whether deletes are too many for a set that had set resources
// before.
func (l Limit) Exceeded(deletes, set int64) bool {
	switch {
	case deletes <= 0:
		return false
	case !l.set:
		return deletes >= set || moreThan(deletes, 50, set) || deletes > few && moreThan(deletes, 10, set)
	case l.percent:
		return moreThan(deletes, l.n, set)
	}
	return deletes > l.n
}

// Allows returns the largest number of deletions allowed in a set of that size.
func (l Limit) Allows(set int64) int64 {
	switch {
	case !l.set:
		return max(0, min(max(few, set/10), set/2, set-1))
	case l.percent:
		high, low := bits.Mul64(uint64(set), uint64(l.n))
		n, _ := bits.Div64(high, low, 100)
		return int64(n)
	}
	return l.n
}

// moreThan reports whether n is more than percent % of set. Numbers must not be
// negative.
func moreThan(n, percent, set int64) bool {
	nHigh, nLow := bits.Mul64(uint64(n), 100)
	sHigh, sLow := bits.Mul64(uint64(set), uint64(percent))
	return nHigh > sHigh || nHigh == sHigh && nLow > sLow
}
