package resourcesync

import (
	"fmt"
	"strings"
	"time"
)

// Datetime is a W3C Datetime (1.1 §7) with the precision and the offset from UTC that it
// was written with. The zero value means that there is no time. The operator == compares
// the spelling; to compare the times themselves, use [Datetime.Before] and
// [Datetime.After].
//
// A Datetime without seconds means a whole interval: "2024-05" is all of May 2024 in UTC.
// With seconds it means a single moment. Fractions of a second have up to 18 digits.
type Datetime struct {
	sec  int64 // start of the time, in whole seconds since the start of 1970 in UTC
	frac int64 // the fraction of the second, in units of 1e-18 seconds
	off  int16 // the offset from UTC in minutes, as it was written; offPlusZero and offMinusZero are special values
	prec uint8 // the precision, from precYear to precSecond; for a time with a fraction, precSecond plus the number of digits
}

const (
	precYear uint8 = iota + 1
	precMonth
	precDay
	precMinute
	precSecond

	maxFraction = 18
	perSecond   = 1_000_000_000_000_000_000 // number of units of Datetime.frac in a second
)

// Values of Datetime.off for the spellings +00:00 and -00:00. For the spelling Z,
// Datetime.off is 0.
const (
	offPlusZero  int16 = 1<<15 - 1
	offMinusZero int16 = -1 << 15
)

// ParseDatetime parses only the forms of the W3C profile: YYYY, YYYY-MM, YYYY-MM-DD,
// YYYY-MM-DDThh:mmTZD, YYYY-MM-DDThh:mm:ssTZD and YYYY-MM-DDThh:mm:ss.sTZD, where TZD
// is Z, +hh:mm or -hh:mm and the fraction has 1 to 18 digits. It ignores surrounding
// white space.
func ParseDatetime(s string) (Datetime, error) {
	s = strings.Trim(s, xmlSpace)
	d, why := scanDatetime(s, false)
	if why != "" {
		return Datetime{}, fmt.Errorf("parse datetime %q: %s", clip(s), why)
	}
	return d, nil
}

// DatetimeOf returns t in UTC with microseconds, without trailing zeros, as the
// standard recommends (1.1 §7). It returns the zero Datetime for the zero Time and for
// a year outside 0 to 9999, which cannot be written.
func DatetimeOf(t time.Time) Datetime {
	if year := t.UTC().Year(); t.IsZero() || year < 0 || year > 9999 {
		return Datetime{}
	}
	d := Datetime{sec: t.Unix(), prec: precSecond}
	micro := int64(t.Nanosecond() / 1000)
	if micro == 0 {
		return d
	}
	d.frac = micro * (perSecond / 1_000_000)
	d.prec += 6
	for ; micro%10 == 0; micro /= 10 {
		d.prec--
	}
	return d
}

// IsZero reports whether d is the zero value, which means that there is no time.
func (d Datetime) IsZero() bool { return d.prec == 0 }

// Time returns the first moment of d in UTC, truncated to nanoseconds. For the zero value
// it returns the zero Time. A moment that an offset moves out of the years 0 to 9999, which
// encoders of a Time refuse, becomes the first or the last moment of these years.
func (d Datetime) Time() time.Time {
	switch {
	case d.IsZero():
		return time.Time{}
	case d.sec < beginOfYears:
		return time.Unix(beginOfYears, 0).UTC()
	case d.sec > endOfYears:
		return lastMoment
	}
	return time.Unix(d.sec, d.frac/1_000_000_000).UTC()
}

// The first and the last second of the years 0 to 9999 in UTC, as in Datetime.sec.
const (
	beginOfYears = -62_167_219_200
	endOfYears   = 253_402_300_799
)

// End returns the first moment in UTC that is after the whole of d. If d has no seconds,
// that is the start of the next minute, day, month or year. If it has seconds, it is the
// moment one nanosecond after [Datetime.Time]. It is never after the year 9999. For the
// zero value End returns the zero Time.
func (d Datetime) End() time.Time {
	t := d.Time()
	switch d.prec {
	case 0:
		return t
	case precYear:
		t = t.AddDate(1, 0, 0)
	case precMonth:
		t = t.AddDate(0, 1, 0)
	case precDay:
		t = t.AddDate(0, 0, 1)
	case precMinute:
		t = t.Add(time.Minute)
	default:
		t = t.Add(time.Nanosecond)
	}
	if t.Unix() > endOfYears {
		return lastMoment
	}
	return t
}

// lastMoment is the last moment of the years 0 to 9999.
var lastMoment = time.Unix(endOfYears, 999_999_999).UTC()

// Latest returns the latest time that d may mean, which is also what it means as the end
// of a period, such as until: [Datetime.Time] if d has seconds, and otherwise
// [Datetime.End].
func (d Datetime) Latest() time.Time {
	if d.Complete() {
		return d.Time()
	}
	return d.End()
}

// Complete reports whether d has seconds, which the standard recommends (1.1 §7).
func (d Datetime) Complete() bool { return d.prec >= precSecond }

// UTC reports whether d was written with the offset "Z", or without a time of day, which
// also means UTC.
func (d Datetime) UTC() bool { return d.off == 0 }

// Before reports whether the whole of d is before the whole of o. It returns false if d or
// o is the zero value.
func (d Datetime) Before(o Datetime) bool {
	if d.IsZero() || o.IsZero() {
		return false
	}
	if d.Complete() {
		return d.sec < o.sec || d.sec == o.sec && d.frac < o.frac
	}
	return !d.End().After(o.Time())
}

// After reports whether the whole of d is after the whole of o. It returns false if d or o
// is the zero value.
func (d Datetime) After(o Datetime) bool { return o.Before(d) }

// String returns d as it was written, with the same precision, fraction and offset; ""
// for the zero value.
func (d Datetime) String() string {
	var short [48]byte // long enough for every Datetime, so that nothing is allocated on the heap
	return string(d.appendTo(short[:0]))
}

// MarshalText returns the same text as [Datetime.String].
func (d Datetime) MarshalText() ([]byte, error) { return d.appendTo(nil), nil }

// UnmarshalText parses text like [ParseDatetime], but accepts the empty text as the zero
// value.
func (d *Datetime) UnmarshalText(text []byte) error { return unmarshalText(d, text, ParseDatetime) }

// unmarshalText parses a text into value. It accepts the empty text as the zero value.
// After an error it leaves the value unchanged.
func unmarshalText[T any](value *T, text []byte, parse func(string) (T, error)) error {
	var parsed T
	var err error
	if len(text) > 0 {
		parsed, err = parse(string(text))
	}
	if err == nil {
		*value = parsed
	}
	return err
}

func (d Datetime) appendTo(b []byte) []byte {
	if d.IsZero() {
		return b
	}
	local := time.Unix(d.sec+60*int64(d.offset()), 0).UTC()
	year, month, day := local.Date()
	hour, minute, second := local.Clock()
	b = appendDigits(b, int64(year), 4)
	if d.prec >= precMonth {
		b = appendDigits(append(b, '-'), int64(month), 2)
	}
	if d.prec >= precDay {
		b = appendDigits(append(b, '-'), int64(day), 2)
	}
	if d.prec < precMinute {
		return b
	}
	b = appendDigits(append(b, 'T'), int64(hour), 2)
	b = appendDigits(append(b, ':'), int64(minute), 2)
	if d.prec >= precSecond {
		b = appendDigits(append(b, ':'), int64(second), 2)
	}
	if n := int(d.prec) - int(precSecond); n > 0 {
		b = append(b, '.')
		whole := len(b)
		b = appendDigits(b, d.frac, maxFraction)[:whole+n]
	}
	return d.appendOffset(b)
}

func (d Datetime) appendOffset(b []byte) []byte {
	off := int64(d.offset())
	switch {
	case d.off == 0:
		return append(b, 'Z')
	case off < 0 || d.off == offMinusZero:
		b, off = append(b, '-'), -off
	default:
		b = append(b, '+')
	}
	b = appendDigits(b, off/60, 2)
	return appendDigits(append(b, ':'), off%60, 2)
}

func (d Datetime) offset() int16 {
	if d.off == offPlusZero || d.off == offMinusZero {
		return 0
	}
	return d.off
}

func appendDigits(b []byte, v int64, width int) []byte {
	start := len(b)
	b = append(b, "000000000000000000"[:width]...)
	for i := len(b) - 1; i >= start; i-- {
		b[i] = byte('0' + v%10)
		v /= 10
	}
	return b
}

// scanDatetime parses a W3C Datetime. For any other text it returns a message that says
// what was expected. If lenient is true, a space may replace the "T", and a missing offset
// means UTC.
func scanDatetime[T string | []byte](s T, lenient bool) (d Datetime, why string) {
	year, ok := digits(s, 0, 4)
	if !ok {
		return d, "expected a year of four digits"
	}
	month, day := 1, 1
	d.prec = precYear
	if len(s) > 4 {
		if month, ok = digits(s, 5, 2); !ok || s[4] != '-' || month < 1 || month > 12 {
			return d, "expected -MM, 01 to 12, after the year"
		}
		d.prec = precMonth
	}
	if len(s) > 7 {
		if day, ok = digits(s, 8, 2); !ok || s[7] != '-' {
			day = 0
		}
		d.prec = precDay
	}
	start := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	if start.Day() != day {
		return d, "expected -DD, a day of that month, after the month"
	}
	d.sec = start.Unix()
	if len(s) <= 10 {
		return d, ""
	}
	why = d.scanTime(string(s[10:]), lenient)
	return d, why
}

func (d *Datetime) scanTime(s string, lenient bool) (why string) {
	if s[0] != 'T' && !(lenient && s[0] == ' ') {
		return "expected T after the day"
	}
	hour, ok := digits(s, 1, 2)
	minute, ok2 := digits(s, 4, 2)
	if !ok || !ok2 || s[3] != ':' || hour > 23 || minute > 59 {
		return "expected hh:mm, 00:00 to 23:59, after the T"
	}
	d.sec += int64(hour)*3600 + int64(minute)*60
	d.prec = precMinute
	s = s[6:]
	if len(s) > 0 && s[0] == ':' {
		second, ok := digits(s, 1, 2)
		if !ok || second > 59 {
			return "expected :ss, 00 to 59, after the minutes"
		}
		d.sec += int64(second)
		d.prec = precSecond
		s = s[3:]
		if len(s) > 0 && s[0] == '.' {
			n := d.scanFraction(s[1:])
			if n == 0 || n > maxFraction {
				return "expected 1 to 18 digits after the point"
			}
			s = s[1+n:]
		}
	}
	return d.scanOffset(s, lenient)
}

// scanFraction parses the digits at the start of s. It returns their number, which may
// be more than maxFraction.
func (d *Datetime) scanFraction(s string) int {
	n := 0
	for n < len(s) && isDigit(s[n]) {
		if n < maxFraction {
			d.frac = d.frac*10 + int64(s[n]-'0')
		}
		n++
	}
	for range maxFraction - n {
		d.frac *= 10
	}
	d.prec = precSecond + uint8(min(n, maxFraction))
	return n
}

func (d *Datetime) scanOffset(s string, lenient bool) (why string) {
	const expected = "expected Z, +hh:mm or -hh:mm at the end"
	if s == "Z" || s == "" && lenient {
		return ""
	}
	if len(s) != 6 || s[0] != '+' && s[0] != '-' || s[3] != ':' {
		return expected
	}
	hour, ok := digits(s, 1, 2)
	minute, ok2 := digits(s, 4, 2)
	if !ok || !ok2 || hour > 23 || minute > 59 {
		return expected
	}
	d.off = int16(hour*60 + minute)
	if s[0] == '-' {
		d.off = -d.off
	}
	d.sec -= 60 * int64(d.off)
	if d.off == 0 {
		d.off = offPlusZero
		if s[0] == '-' {
			d.off = offMinusZero
		}
	}
	return ""
}

// digits returns the value of the n decimal digits at index i of s. ok is false if
// there are not n digits.
func digits[T string | []byte](s T, i, n int) (v int, ok bool) {
	if len(s) < i+n {
		return 0, false
	}
	for _, c := range []byte(s[i : i+n]) {
		if !isDigit(c) {
			return 0, false
		}
		v = v*10 + int(c-'0')
	}
	return v, true
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
