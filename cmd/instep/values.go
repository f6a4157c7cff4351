package main

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/pflag"
	"golang.org/x/time/rate"

	"instep/resourcesync"
)

// Times, sizes, rates and moments are written in the same way in every flag and every key
// of a configuration: this file has the one parser of each.

const day = 24 * time.Hour

// wantedTime says how a length of time is written.
const wantedTime = "expected a time with its unit, such as 10s, 90m, 24h, 30d, 2w or 1y"

// durationParts are the numbers with units of a length of time. Years, weeks and days come
// first: the m of "1m2d" would be meant for a month.
var durationParts = regexp.MustCompile(strings.ReplaceAll(`^(?:#y)?(?:#w)?(?:#d)?(?:#(?:ns|us|µs|ms|s|m|h))*$`, "#", `[0-9]+(?:\.[0-9]+)?`))

// longUnits are those that time.ParseDuration does not know.
var longUnits = regexp.MustCompile(`([0-9]+(?:\.[0-9]+)?)(d|w|y)`)

// parseDuration reads a length of time: 10s, 90m, 24h, 30d, 2w, a year of 365 days, or
// several of them together, such as 1d12h. "0" has no unit.
func parseDuration(text string) (time.Duration, error) {
	if text == "0" {
		return 0, nil
	}
	refused := fmt.Errorf("%s, found %q", wantedTime, text)
	if !durationParts.MatchString(text) {
		return 0, refused
	}
	hours := map[string]float64{"d": 24, "w": 7 * 24, "y": 365 * 24}
	short := longUnits.ReplaceAllStringFunc(text, func(part string) string {
		n, err := strconv.ParseFloat(part[:len(part)-1], 64)
		if err != nil {
			return part // too long to be a number
		}
		return strconv.FormatFloat(n*hours[part[len(part)-1:]], 'f', -1, 64) + "h"
	})
	d, err := time.ParseDuration(short)
	if err != nil {
		return 0, refused
	}
	return d, nil
}

// formatDuration writes a length of time as parseDuration reads it, whole days as days.
func formatDuration(d time.Duration) string {
	if d > 0 && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// timeValue is the value of a flag that is a length of time.
type timeValue time.Duration

// timeVar gives a command a flag that is a length of time.
func timeVar(fs *pflag.FlagSet, to *time.Duration, name string, value time.Duration, usage string) {
	*to = value
	fs.Var((*timeValue)(to), name, usage)
}

// Set parses the value.
func (t *timeValue) Set(text string) error {
	d, err := parseDuration(text)
	*t = timeValue(d)
	return err
}

// String is what Set reads; "" for none.
func (t *timeValue) String() string {
	if *t == 0 {
		return ""
	}
	return formatDuration(time.Duration(*t))
}

// Type names the kind of value.
func (*timeValue) Type() string { return "TIME" }

// parseDays reads a length of time in whole days: 30d, 4w, or a bare number of days. What
// is no whole number of days counts as one more.
func parseDays(text string) (days int, err error) {
	const most = 36500
	n, err := strconv.Atoi(text)
	if err != nil {
		var d time.Duration
		if d, err = parseDuration(text); err != nil {
			return 0, err
		}
		n = int(math.Ceil(d.Hours() / 24))
	}
	if n < 0 || n > most {
		return 0, fmt.Errorf("expected at most %d days, found %q", most, text)
	}
	return n, nil
}

// parseBytes reads a number of bytes: 500, 500kB, 500MB, 1GiB.
func parseBytes(text string) (int64, error) {
	n, err := humanize.ParseBytes(strings.TrimSpace(text))
	if err != nil || n > 1<<60 {
		return 0, fmt.Errorf("expected a size such as 500kB, 500MB or 1GiB, found %q", text)
	}
	return int64(n), nil
}

// parseSize reads the size that a flag gives, of a byte or more; "" is 0.
func parseSize(flag, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := parseBytes(text)
	if err == nil && n == 0 {
		err = fmt.Errorf("expected a size above 0, found %q", text)
	}
	if err != nil {
		return 0, usagef("%s: %v", flag, err)
	}
	return n, nil
}

// parseRate reads a number of requests: 4/s, 30/m, 100/h, or 4, which is a second.
func parseRate(text string) (rate.Limit, error) {
	if text == "" {
		return 0, nil
	}
	number, unit, found := strings.Cut(text, "/")
	length, known := map[string]float64{"s": 1, "m": 60, "h": 3600}[unit]
	if !found {
		length, known = 1, true
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !known || n <= 0 || math.IsInf(n, 0) {
		return 0, usagef("--rate %q: expected requests a second, such as 4/s (or 30/m, 100/h)", text)
	}
	return rate.Limit(n / length), nil
}

// wantedMoment says how a moment is written.
const wantedMoment = "expected a date or time, such as 2026-03-01, 2026-03-01 12:00, 2026-03-01T12:00:00Z, yesterday or 3d (3 days ago)"

// momentForms are the forms of RFC 3339 with a space or T, with seconds or without; a zone
// is parsed separately.
var momentForms = []string{"2006-01-02T15:04:05.999999999", "2006-01-02T15:04", "2006-01-02"}

// parseMomentAt reads a moment: a date, a date and time with or without a zone (that of
// the clock, then: UTC, as times are shown), now, today, yesterday, or how long ago it is.
func parseMomentAt(text string, now time.Time) (time.Time, error) {
	midnight := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
	switch text {
	case "now":
		return now, nil
	case "today":
		return midnight, nil
	case "yesterday":
		return midnight.AddDate(0, 0, -1), nil
	}
	if ago, err := parseDuration(strings.TrimSuffix(text, " ago")); err == nil {
		return now.Add(-ago), nil
	}
	whole := strings.Replace(strings.ToUpper(strings.TrimSpace(text)), " ", "T", 1)
	for _, form := range momentForms {
		if t, err := time.ParseInLocation(form, whole, now.Location()); err == nil {
			return t, nil
		}
		if t, err := time.Parse(form+"Z07:00", whole); err == nil {
			return t, nil
		}
	}
	if d, err := resourcesync.ParseDatetime(text); err == nil { // a year or a month
		return d.Time(), nil
	}
	return time.Time{}, fmt.Errorf("%s, found %q", wantedMoment, text)
}

// parseMoment reads the moment that a flag gives; zero if none was given.
func (a *app) parseMoment(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := parseMomentAt(text, a.now().UTC())
	if err != nil {
		return time.Time{}, usagef("--%s: %v", flag, err)
	}
	return t.UTC(), nil
}

// parseDatetime reads the datetime of a document that a flag gives, with the precision
// with which it is given; zero if none was given.
func (a *app) parseDatetime(flag, text string) (resourcesync.Datetime, error) {
	if d, err := resourcesync.ParseDatetime(text); text == "" || err == nil {
		return d, nil
	}
	t, err := a.parseMoment(flag, text)
	if err != nil {
		return resourcesync.Datetime{}, err
	}
	return resourcesync.DatetimeOf(t), nil
}
