package resourcesync

import (
	"fmt"
	"strings"
	"time"
)

// Datetime is a W3C Datetime (1.1 §7) with the precision and the offset it was
// written with. The zero value is absence. Two values are == if they are spelled
// alike; [Datetime.Before] and [Datetime.After] compare moments.
//
// A value of reduced precision is the interval it denotes: "2024-05" is the whole
// of May 2024 in UTC. A complete value is a single moment. Up to 18 digits of a
// second's fraction are kept.
type Datetime struct {
	sec  int64 // first moment, in seconds since 1970 in UTC
	nsec int32 // digits 1 to 9 of the fraction
	asec int32 // digits 10 to 18 of the fraction
	off  int16 // offset from UTC in minutes as written, or one of the constants
	prec uint8 // precision: one of the constants, precSecond + number of fraction digits
}

const (
	precYear uint8 = iota + 1
	precMonth
	precDay
	precMinute
	precSecond // with fraction digits: this precision and above

	maxFraction = 18
)

// Spellings of a zero offset; "Z" is 0.
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
	micro := int32(t.Nanosecond() / 1000)
	if micro == 0 {
		return d
	}
	d.nsec = micro * 1000
	d.prec += 6
	for ; micro%10 == 0; micro /= 10 {
		d.prec--
	}
	return d
}

// IsZero reports whether d is absent.
func (d Datetime) IsZero() bool { return d.prec == 0 }

// Time returns the first moment of d in UTC, truncated to nanoseconds; the zero Time if
// d is absent.
func (d Datetime) Time() time.Time {
	if d.IsZero() {
		return time.Time{}
	}
	return time.Unix(d.sec, int64(d.nsec)).UTC()
}

// End returns the first moment after d, in UTC: the start of the next year, month, day
// or minute for a value of that precision. A complete value is a single moment; for it
// End is one nanosecond after [Datetime.Time]. It returns the zero Time if d is absent.
func (d Datetime) End() time.Time {
	t := d.Time()
	switch d.prec {
	case precYear:
		return t.AddDate(1, 0, 0)
	case precMonth:
		return t.AddDate(0, 1, 0)
	case precDay:
		return t.AddDate(0, 0, 1)
	case precMinute:
		return t.Add(time.Minute)
	case 0:
		return t
	}
	return t.Add(time.Nanosecond)
}

// Complete reports whether d has seconds, which the standard recommends (1.1 §7).
func (d Datetime) Complete() bool { return d.prec >= precSecond }

// UTC reports whether d was written in UTC with "Z", or has no time of day.
func (d Datetime) UTC() bool { return d.off == 0 }

// Before reports whether every moment of d is before every moment of o. It is
// false if one of them is absent.
func (d Datetime) Before(o Datetime) bool {
	if d.IsZero() || o.IsZero() {
		return false
	}
	if d.Complete() {
		if d.sec != o.sec {
			return d.sec < o.sec
		}
		if d.nsec != o.nsec {
			return d.nsec < o.nsec
		}
		return d.asec < o.asec
	}
	return !d.End().After(o.Time())
}

// After reports whether every moment of d is after every moment of o. It is
// false if one of them is absent.
func (d Datetime) After(o Datetime) bool { return o.Before(d) }

// String returns d with the precision, the fraction and the offset as they were written, ""
// if it is absent.
func (d Datetime) String() string {
	var short [48]byte // large enough for every value; avoids a heap allocation
	return string(d.appendTo(short[:0]))
}

// MarshalText returns the same text as String.
func (d Datetime) MarshalText() ([]byte, error) { return d.appendTo(nil), nil }

// UnmarshalText parses text with ParseDatetime; an empty text means absence.
func (d *Datetime) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*d = Datetime{}
		return nil
	}
	v, err := ParseDatetime(string(text))
	if err == nil {
		*d = v
	}
	return err
}

func (d Datetime) appendTo(b []byte) []byte {
	if d.IsZero() {
		return b
	}
	days, sec := floorDiv(d.sec+60*int64(d.offset()), secondsPerDay)
	year, month, day := civil(days)
	b = appendDigits(b, year, 4)
	if d.prec >= precMonth {
		b = appendDigits(append(b, '-'), month, 2)
	}
	if d.prec >= precDay {
		b = appendDigits(append(b, '-'), day, 2)
	}
	if d.prec < precMinute {
		return b
	}
	b = appendDigits(append(b, 'T'), sec/3600, 2)
	b = appendDigits(append(b, ':'), sec/60%60, 2)
	if d.prec >= precSecond {
		b = appendDigits(append(b, ':'), sec%60, 2)
	}
	if n := int(d.prec) - int(precSecond); n > 0 {
		b = append(b, '.')
		whole := len(b)
		b = appendDigits(b, int64(d.nsec), 9)
		b = appendDigits(b, int64(d.asec), 9)[:whole+n]
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

// offset returns the offset from UTC in minutes.
func (d Datetime) offset() int16 {
	if d.off == offPlusZero || d.off == offMinusZero {
		return 0
	}
	return d.off
}

func appendDigits(b []byte, v int64, width int) []byte {
	start := len(b)
	b = append(b, "000000000"[:width]...)
	for i := len(b) - 1; i >= start; i-- {
		b[i] = byte('0' + v%10)
		v /= 10
	}
	return b
}

const secondsPerDay = 24 * 60 * 60

// scanDatetime parses s by the W3C grammar; why describes the error. If lenient, it
// also accepts a space instead of T, and reads a missing offset as UTC.
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
		if day, ok = digits(s, 8, 2); !ok || s[7] != '-' || day < 1 || day > daysIn(year, month) {
			return d, "expected -DD, a day of that month, after the month"
		}
		d.prec = precDay
	}
	d.sec = daysSince1970(year, month, day) * secondsPerDay
	if len(s) <= 10 {
		return d, ""
	}
	why = d.scanTime(string(s[10:]), lenient)
	return d, why
}

// scanTime parses the part after the day.
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

// scanFraction parses the digits at the start of s and returns their number.
func (d *Datetime) scanFraction(s string) int {
	n := 0
	for n < len(s) && isDigit(s[n]) {
		v := int32(s[n] - '0')
		switch {
		case n < 9:
			d.nsec += v * pow10[8-n]
		case n < maxFraction:
			d.asec += v * pow10[17-n]
		}
		n++
	}
	d.prec = precSecond + uint8(min(n, maxFraction))
	return n
}

var pow10 = [9]int32{1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000}

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

// digits parses n digits of s from position i.
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

func daysIn(year, month int) int {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// daysSince1970 counts in years that begin in March, so that the leap day is the last
// day of its year, and in eras of 400 years, which all have the same length.
func daysSince1970(year, month, day int) int64 {
	y, m := int64(year), int64(month)
	if m <= 2 {
		y, m = y-1, m+12
	}
	era, yearOfEra := floorDiv(y, 400)
	dayOfYear := (153*(m-3)+2)/5 + int64(day) - 1
	return era*daysPerEra + yearOfEra*365 + yearOfEra/4 - yearOfEra/100 + dayOfYear - marchOfYear0
}

const (
	daysPerEra   = 146097
	marchOfYear0 = 719468 // days from 0000-03-01 to 1970-01-01
)

// civil is the inverse of daysSince1970.
func civil(days int64) (year, month, day int64) {
	era, dayOfEra := floorDiv(days+marchOfYear0, daysPerEra)
	yearOfEra := (dayOfEra - dayOfEra/1460 + dayOfEra/36524 - dayOfEra/146096) / 365
	dayOfYear := dayOfEra - (365*yearOfEra + yearOfEra/4 - yearOfEra/100)
	m := (5*dayOfYear + 2) / 153
	day = dayOfYear - (153*m+2)/5 + 1
	month = m + 3
	year = yearOfEra + era*400
	if month > 12 {
		month, year = month-12, year+1
	}
	return year, month, day
}

func floorDiv(a, b int64) (quo, rem int64) {
	quo, rem = a/b, a%b
	if rem < 0 {
		quo, rem = quo-1, rem+b
	}
	return quo, rem
}
