package guard

import (
	"math"
	"testing"
)

func TestExceeded(t *testing.T) {
	for _, test := range []struct {
		limit        string
		deletes, set int64
		want         bool
	}{
		{"", 0, 0, false},
		{"", 0, 1000, false},
		{"", 5, 20, false}, // up to defaultDeletions
		{"", 6, 60, false}, // 10 % is not more than 10 %
		{"", 7, 60, true},
		{"", 6, 59, true},
		{"", 5, 10, false}, // 50 % is not more than 50 %
		{"", 5, 9, true},
		{"", 2, 3, true},
		{"", 1, 1, true}, // nothing would be left
		{"", 3, 2, true},
		{"", 100, 1000, false},
		{"", 101, 1000, true},
		{"", math.MaxInt64 / 20, math.MaxInt64, false},
		{"", math.MaxInt64, math.MaxInt64, true},
		{"0", 0, 10, false},
		{"0", 1, 1000, true},
		{"50", 50, 50, false},
		{"50", 51, 1000000, true},
		{"0%", 1, 1000000, true},
		{"5%", 50, 1000, false},
		{"5%", 51, 1000, true},
		{"100%", 1000, 1000, false},
		{"9223372036854775807", math.MaxInt64, 1, false},
	} {
		l, err := ParseLimit(test.limit)
		if err != nil {
			t.Fatal(err)
		}
		if got := l.Exceeded(test.deletes, test.set); got != test.want {
			t.Errorf("limit %q: Exceeded(%d of %d) = %v, want %v", test.limit, test.deletes, test.set, got, test.want)
		}
		if n := l.Allows(test.set); l.Exceeded(n, test.set) || n < math.MaxInt64 && test.set > 0 && !l.Exceeded(n+1, test.set) {
			t.Errorf("limit %q: Allows(%d) = %d, which is not the most", test.limit, test.set, n)
		}
		if got := l.String(); got != test.limit {
			t.Errorf("ParseLimit(%q).String() = %q", test.limit, got)
		}
	}
}

func TestParseLimitRefuses(t *testing.T) {
	for _, s := range []string{" ", "-1", "+1", "1.5", "101%", "%", "5 %", "x", "1e3", "9223372036854775808"} {
		if l, err := ParseLimit(s); err == nil {
			t.Errorf("ParseLimit(%q) = %v, want an error", s, l)
		}
	}
}
