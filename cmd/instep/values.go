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

// The parsers in this file are those of all flags and configuration keys, so that durations,
// sizes, rates and times are written in the same way everywhere.

const day = 24 * time.Hour

const wantedTime = "expected a time with its unit, such as 10s, 90m, 24h, 30d, 2w or 1y"

// durationParts matches a duration, such as 1y2d or 1h30m. Years, weeks and days must come
// before hours and minutes, since the m in "1m2d" could be meant as months.
var durationParts = regexp.MustCompile(strings.ReplaceAll(`^(?:#y)?(?:#w)?(?:#d)?(?:#(?:ns|us|µs|ms|s|m|h))*$`, "#", `[0-9]+(?:\.[0-9]+)?`))

// longUnits matches the units that time.ParseDuration does not know.
var longUnits = regexp.MustCompile(`([0-9]+(?:\.[0-9]+)?)(d|w|y)`)

// parseDuration parses a duration of one or more numbers with units, such as 10s, 90m, 1d12h,
// 2w or 1y (365 days). The number 0 needs no unit.
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
			return part // left unchanged, so that time.ParseDuration below returns an error about it
		}
		return strconv.FormatFloat(n*hours[part[len(part)-1:]], 'f', -1, 64) + "h"
	})
	d, err := time.ParseDuration(short)
	if err != nil {
		return 0, refused
	}
	return d, nil
}

// formatDuration formats a duration as parseDuration reads it. A duration of whole days is
// formatted in days.
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

type timeValue time.Duration

func timeVar(fs *pflag.FlagSet, duration *time.Duration, name string, value time.Duration, usage string) {
	*duration = value
	fs.Var((*timeValue)(duration), name, usage)
}

// Set parses a text from the command line with parseDuration.
func (t *timeValue) Set(text string) error {
	d, err := parseDuration(text)
	*t = timeValue(d)
	return err
}

// String returns a text that Set reads, and "" for 0.
func (t *timeValue) String() string {
	if *t == 0 {
		return ""
	}
	return formatDuration(time.Duration(*t))
}

// Type returns the placeholder for the value of the flag in the help.
func (*timeValue) Type() string { return "TIME" }

// parseDays parses a number of days, such as 30, 30d or 4w. It rounds a fraction of a day up.
func parseDays(text string) (days int, err error) {
	const maxDays = 36500
	n, err := strconv.Atoi(text)
	if err != nil {
		var d time.Duration
		if d, err = parseDuration(text); err != nil {
			return 0, err
		}
		n = int(math.Ceil(d.Hours() / 24))
	}
	if n < 0 || n > maxDays {
		return 0, fmt.Errorf("expected at most %d days, found %q", maxDays, text)
	}
	return n, nil
}

// parseBytes parses a number of bytes, such as 500, 500kB, 500MB or 1GiB.
func parseBytes(text string) (int64, error) {
	n, err := humanize.ParseBytes(strings.TrimSpace(text))
	if err != nil || n > 1<<60 {
		return 0, fmt.Errorf("expected a size such as 500kB, 500MB or 1GiB, found %q", text)
	}
	return int64(n), nil
}

// parseSize returns 0 for "", and an error for a size of 0.
func parseSize(flag, text string) (int64, error) {
	n, err := parseLimit(flag, text)
	if err == nil && n == 0 && text != "" {
		err = usagef("%s: expected a size above 0, found %q", flag, text)
	}
	return n, err
}

// parseLimit parses a size that is a limit. It returns 0, which means no limit, for "" and for a
// size of 0.
func parseLimit(flag, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := parseBytes(text)
	if err != nil {
		return 0, usagef("%s: %v", flag, err)
	}
	return n, nil
}

// parseRate parses a rate of requests, such as 4/s, 30/m or 100/h. Without a unit the rate is
// per second. It returns 0, which means no limit, for "" and for 0.
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
	if err != nil || !known || n < 0 || math.IsNaN(n) || math.IsInf(n, 0) {
		return 0, usagef("--rate %q: expected requests a second, such as 4/s (or 30/m, 100/h)", text)
	}
	return rate.Limit(n / length), nil
}

const wantedMoment = "expected a date or time, such as 2026-03-01, 2026-03-01 12:00, 2026-03-01T12:00:00Z, yesterday or 3d (3 days ago)"

// momentForms are the accepted layouts of a time. A time zone may follow each of them.
var momentForms = []string{"2006-01-02T15:04:05.999999999", "2006-01-02T15:04", "2006-01-02"}

// parseMomentAt parses a time: a date, a date and time, now, today, yesterday, or a duration
// before now. A time without a zone has the zone of the argument now: UTC for all flags.
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
	if d, err := resourcesync.ParseDatetime(text); err == nil { // the text is a year, or a year and a month
		return d.Time(), nil
	}
	return time.Time{}, fmt.Errorf("%s, found %q", wantedMoment, text)
}

// parseMoment returns the zero time for "".
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

// parseDatetime keeps the precision of a W3C Datetime. For "" it returns the zero Datetime.
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
