package main

import (
	"strings"
	"testing"
	"time"
)

// TestTimesAreWrittenTheSameEverywhere: one parser reads the lengths of time of flags and
// configuration, and writes them so that it reads them again.
func TestTimesAreWrittenTheSameEverywhere(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"10s": 10 * time.Second, "90m": 90 * time.Minute, "24h": day, "2d": 2 * day, "30d": 30 * day, "4w": 28 * day, "1y": 365 * day,
		"1d12h": 36 * time.Hour, "1.5d": 36 * time.Hour, "1h30m": 90 * time.Minute, "250ms": 250 * time.Millisecond, "0": 0, "100y": 36500 * day,
	} {
		got, err := parseDuration(text)
		if err != nil || got != want {
			t.Errorf("%q: got %v, %v; want %v", text, got, err, want)
		}
		if again, err := parseDuration(formatDuration(got)); err != nil || again != got {
			t.Errorf("%q: written %q, read as %v, %v", text, formatDuration(got), again, err)
		}
	}
	for _, text := range []string{"", "10", "-1s", "1x", "d", "1 d", "1d-", "999999999999y", strings.Repeat("9", 400) + "d", "forever"} {
		if got, err := parseDuration(text); err == nil || !strings.Contains(err.Error(), "30d") {
			t.Errorf("%q: got %v, %v; want an error with examples", text, got, err)
		}
	}
	for text, want := range map[string]int{"30": 30, "30d": 30, "4w": 28, "36h": 2, "0": 0} {
		if got, err := parseDays(text); err != nil || got != want {
			t.Errorf("%q: got %d days, %v; want %d", text, got, err, want)
		}
	}
}

// FuzzParseDuration: what is read is written and read again as the same.
func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{"1d12h", "1.5w", "0.1ns", "9223372036854775807ns", "µs"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := parseDuration(text)
		if err != nil {
			return
		}
		if again, err := parseDuration(formatDuration(d)); d < 0 || err != nil || again != d {
			t.Errorf("%q: read as %v, written %q, read as %v, %v", text, d, formatDuration(d), again, err)
		}
	})
}

func TestSizesAreWrittenTheSameEverywhere(t *testing.T) {
	for text, want := range map[string]int64{"500": 500, "500kB": 500_000, "500k": 500_000, "500MB": 500_000_000, "10M": 10_000_000, "1GiB": 1 << 30, "2 GB": 2_000_000_000} {
		flag, err := parseSize("--max-transfer", text)
		var key size
		if err2 := key.set(text); err != nil || err2 != nil || flag != want || int64(key) != want {
			t.Errorf("%q: got %d, %v as a flag and %d, %v as a key; want %d", text, flag, err, key, err2, want)
		}
	}
	for _, text := range []string{"x", "-1", "1 parsec", "2EiB"} {
		if got, err := parseSize("--max-transfer", text); err == nil {
			t.Errorf("%q: got %d, want an error", text, got)
		}
	}
	for _, text := range []string{"", "0", "0B"} { // no limit
		if got, err := parseLimit("--bwlimit", text); got != 0 || err != nil {
			t.Errorf("limit %q: got %d, %v; want 0", text, got, err)
		}
	}
	for text, want := range map[string]float64{"4/s": 4, "4": 4, "30/m": 0.5, "36/h": 0.01, "0": 0, "0/s": 0} {
		if got, err := parseRate(text); err != nil || float64(got) != want {
			t.Errorf("rate %q: got %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"-1", "NaN", "Inf", "4/d"} {
		if got, err := parseRate(text); err == nil {
			t.Errorf("rate %q: got %v, want an error", text, got)
		}
	}
}

func TestMomentsAreReadAsPeopleWriteThem(t *testing.T) {
	zone := time.FixedZone("", 2*3600)
	now := time.Date(2026, 3, 10, 15, 30, 0, 0, zone)
	for text, want := range map[string]string{
		"now": "2026-03-10T15:30:00+02:00", "today": "2026-03-10T00:00:00+02:00", "yesterday": "2026-03-09T00:00:00+02:00",
		"3d": "2026-03-07T15:30:00+02:00", "90m ago": "2026-03-10T14:00:00+02:00",
		"2026-03-01": "2026-03-01T00:00:00+02:00", "2026-03-01 12:00": "2026-03-01T12:00:00+02:00", "2026-03-01T12:00:05": "2026-03-01T12:00:05+02:00",
		"2026-03-01T12:00:00Z": "2026-03-01T12:00:00Z", "2026-03-01 12:00:00z": "2026-03-01T12:00:00Z", "2026-03-01 12:00+01:00": "2026-03-01T12:00:00+01:00",
		"2026-03-01T12:00:00.5Z": "2026-03-01T12:00:00.5Z", "2026-03": "2026-03-01T00:00:00Z", "2026": "2026-01-01T00:00:00Z",
	} {
		got, err := parseMomentAt(text, now)
		if err != nil || got.Format(time.RFC3339Nano) != want {
			t.Errorf("%q: got %v, %v; want %s", text, got.Format(time.RFC3339Nano), err, want)
		}
	}
	for _, text := range []string{"tomorrow", "2026-13-01", "12:00", "x"} {
		if got, err := parseMomentAt(text, now); err == nil || !strings.Contains(err.Error(), "yesterday") {
			t.Errorf("%q: got %v, %v; want an error with examples", text, got, err)
		}
	}
}
