package resourcesync

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseDatetime(t *testing.T) {
	for _, c := range []struct{ in, first, end string }{
		{"2024", "2024-01-01T00:00:00Z", "2025-01-01T00:00:00Z"},
		{"2024-02", "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z"},
		{"2024-02-29", "2024-02-29T00:00:00Z", "2024-03-01T00:00:00Z"},
		{"2024-12-31T23:59Z", "2024-12-31T23:59:00Z", "2025-01-01T00:00:00Z"},
		{"2024-05-01T09:00+02:00", "2024-05-01T07:00:00Z", "2024-05-01T07:01:00Z"},
		{"2024-05-01T09:00:00Z", "2024-05-01T09:00:00Z", "2024-05-01T09:00:00.000000001Z"},
		{"2024-05-01T09:00:00.5Z", "2024-05-01T09:00:00.5Z", "2024-05-01T09:00:00.500000001Z"},
		{"2024-05-01T09:00:00.123456789012345678Z", "2024-05-01T09:00:00.123456789Z", "2024-05-01T09:00:00.12345679Z"},
		{"2024-05-01T09:00:00.50-23:59", "2024-05-02T08:59:00.5Z", "2024-05-02T08:59:00.500000001Z"},
		{"2024-05-01T09:00:00+00:00", "2024-05-01T09:00:00Z", "2024-05-01T09:00:00.000000001Z"},
		{"2024-05-01T09:00:00-00:00", "2024-05-01T09:00:00Z", "2024-05-01T09:00:00.000000001Z"},
		{"0000-01-01T00:00:00+14:00", "0000-01-01T00:00:00Z", "0000-01-01T00:00:00.000000001Z"},
		{"9999-12-31T23:59:59-14:00", "9999-12-31T23:59:59.999999999Z", "9999-12-31T23:59:59.999999999Z"},
		{"9999", "9999-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z"},
		{"9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59.000000001Z"},
	} {
		d, err := ParseDatetime(c.in)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := d.Time().Format(time.RFC3339Nano); got != c.first {
			t.Errorf("%s: first moment %s, want %s", c.in, got, c.first)
		}
		if got := d.End().Format(time.RFC3339Nano); got != c.end {
			t.Errorf("%s: end %s, want %s", c.in, got, c.end)
		}
		if d.String() != c.in {
			t.Errorf("String: got %s, want %s", d, c.in)
		}
		if spaced, err := ParseDatetime(" \n" + c.in + "\t"); err != nil || spaced != d {
			t.Errorf("white space around %s: got %v, %v", c.in, spaced, err)
		}
	}
}

var notDatetimes = []string{
	"", "24", "202", "02024", "2024-", "2024-5", "2024-00", "2024-13", "2024-05-", "2024-05-1", "2024-05-32",
	"2023-02-29", "1900-02-29", "2024-05-01T", "2024-05-01Z", "2024-05-01T09", "2024-05-01T09:00",
	"2024-05-01T09:00:00", "2024-05-01 09:00:00Z", "2024-05-01t09:00:00Z", "2024-05-01T09:00:00z",
	"2024-05-01T9:00:00Z", "2024-05-01T24:00:00Z", "2024-05-01T09:60Z", "2024-05-01T23:59:60Z",
	"2024-05-01T09:00:00,5Z", "2024-05-01T09:00:00.Z", "2024-05-01T09:00.5Z", "2024-05-01T09:00:00.1234567890123456789Z",
	"2024-05-01T09:00:00+0200", "2024-05-01T09:00:00+02", "2024-05-01T09:00:00+24:00", "2024-05-01T09:00:00+01:60",
	"2024-05-01T09:00:00Z0", "2024-05-01T09:00:00ZZ", "+2024-05-01", "-001", "２０２４", "2024-05-01T09:00:00 Z",
	"yesterday", "1714550400", "Wed, 01 May 2024 09:00:00 GMT",
}

func TestParseDatetimeRefuses(t *testing.T) {
	for _, in := range notDatetimes {
		if d, err := ParseDatetime(in); err == nil {
			t.Errorf("%q was read as %s", in, d)
		} else if !d.IsZero() {
			t.Errorf("%q: an error and the value %s", in, d)
		}
	}
}

func TestDatetimeOf(t *testing.T) {
	zone := time.FixedZone("", 2*60*60)
	for _, c := range []struct {
		in   time.Time
		want string
	}{
		{time.Time{}, ""},
		{time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), ""},
		{time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -2*60*60)), ""},
		{time.Date(-1, 12, 31, 0, 0, 0, 0, time.UTC), ""},
		{time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), "0000-01-01T00:00:00Z"},
		{time.Date(2024, 5, 1, 9, 0, 0, 0, zone), "2024-05-01T07:00:00Z"},
		{time.Date(2024, 5, 1, 9, 0, 0, 500_000_000, time.UTC), "2024-05-01T09:00:00.5Z"},
		{time.Date(2024, 5, 1, 9, 0, 0, 1_000, time.UTC), "2024-05-01T09:00:00.000001Z"},
		{time.Date(2024, 5, 1, 9, 0, 0, 999, time.UTC), "2024-05-01T09:00:00Z"},
		{time.Date(2024, 5, 1, 9, 0, 0, 120_030_999, time.UTC), "2024-05-01T09:00:00.12003Z"},
		{time.Date(1969, 12, 31, 23, 59, 59, 250_000_000, time.UTC), "1969-12-31T23:59:59.25Z"},
	} {
		d := DatetimeOf(c.in)
		if d.String() != c.want {
			t.Errorf("got %s, want %s", d, c.want)
		}
		if c.want == "" {
			continue
		}
		if parsed := mustDatetime(t, c.want); parsed != d {
			t.Errorf("%s: made and parsed values differ", c.want)
		}
	}
}

func TestDatetimeOrder(t *testing.T) {
	for _, c := range []struct {
		a, b          string
		before, after bool
	}{
		{"2024", "2025", true, false},
		{"2024", "2024-06", false, false},
		{"2024-05", "2024-06-01", true, false},
		{"2024-06-01", "2024-05", false, true},
		{"2024-05-01", "2024-05-01T12:00:00Z", false, false},
		{"2024-05-01", "2024-05-02T00:00:00Z", true, false},
		{"2024-05-01T00:00:00Z", "2024-05-01", false, false},
		{"2024-04-30T23:59:59.999Z", "2024-05-01", true, false},
		{"2024-05-01T09:00:00Z", "2024-05-01T09:00:00Z", false, false},
		{"2024-05-01T09:00:00.5Z", "2024-05-01T09:00:00.500Z", false, false},
		{"2024-05-01T09:00:00.000000000000000001Z", "2024-05-01T09:00:00.000000000000000002Z", true, false},
		{"2024-05-01T09:00:00+02:00", "2024-05-01T08:00:00Z", true, false},
		{"2024-05-01T10:00:00+02:00", "2024-05-01T08:00:00Z", false, false},
		{"2024-05-01T09:00Z", "2024-05-01T09:00:59Z", false, false},
		{"2024-05-01T09:00Z", "2024-05-01T09:01:00Z", true, false},
		{"", "2024", false, false},
		{"2024", "", false, false},
	} {
		var a, b Datetime
		if err := a.UnmarshalText([]byte(c.a)); err != nil {
			t.Fatal(err)
		}
		if err := b.UnmarshalText([]byte(c.b)); err != nil {
			t.Fatal(err)
		}
		if got := a.Before(b); got != c.before {
			t.Errorf("%q before %q: got %v, want %v", c.a, c.b, got, c.before)
		}
		if got := a.After(b); got != c.after {
			t.Errorf("%q after %q: got %v, want %v", c.a, c.b, got, c.after)
		}
	}
}

func TestDatetimeAgreesWithTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sec := rapid.Int64Range(-62167219200, 253402300799).Draw(t, "seconds") // years 0 to 9999
		micro := rapid.Int64Range(0, 999_999).Draw(t, "microseconds")
		want := time.Unix(sec, micro*1000).UTC()
		d := DatetimeOf(want)
		if !d.Time().Equal(want) {
			t.Fatalf("Time: got %s, want %s", d.Time(), want)
		}
		if got, text := d.String(), want.Format("2006-01-02T15:04:05.999999Z07:00"); got != text {
			t.Fatalf("String: got %s, want %s", got, text)
		}
		back, err := ParseDatetime(d.String())
		if err != nil || back != d {
			t.Fatalf("parsed again: got %s, %v, want %s", back, err, d)
		}
	})
}

func TestValuesSurviveJSON(t *testing.T) {
	in := Metadata{
		Capability: CapabilityChangeList, From: mustDatetime(t, "2024-05"), Change: Deleted,
		Datetime: mustDatetime(t, "2024-05-01T09:00:00.5+02:00"), Length: Bytes(7), Type: "text/plain",
		Digests: Digests{benchEntry(1).Digests[0], benchEntry(1).Digests[1]},
	}
	for _, m := range []Metadata{in, {}, {Length: Bytes(0)}} {
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var out Metadata
		if err := json.Unmarshal(b, &out); err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		if out.Digests.String() != m.Digests.String() {
			t.Errorf("digests: got %v, want %v", out.Digests, m.Digests)
		}
		if out.From != m.From || out.Datetime != m.Datetime || out.Length != m.Length || out.Change != m.Change || out.Capability != m.Capability {
			t.Errorf("got %+v, want %+v", out, m)
		}
	}
	for _, bad := range []string{`{"Length":-1}`, `{"Length":1.5}`, `{"Length":"x"}`, `{"From":"May"}`, `{"Digests":"md5:zz"}`} {
		if err := json.Unmarshal([]byte(bad), new(Metadata)); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
}

func FuzzDatetime(f *testing.F) {
	for _, s := range append(notDatetimes, "2024-05-01T09:00:00.25+02:00", "2024-02-29", "2024", "2024-05", "2024-05-01T09:00Z") {
		f.Add(s)
	}
	addCorpus[string](f)
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDatetime(s)
		if err != nil {
			return
		}
		if got := d.String(); got != strings.Trim(s, xmlSpace) {
			t.Fatalf("%q is written as %q", s, got)
		}
		if d.IsZero() || d.Before(d) || d.After(d) || d.Time().After(d.End()) {
			t.Fatalf("%q: no interval", s)
		}
		if want, err := time.Parse(time.RFC3339Nano, strings.Trim(s, xmlSpace)); err == nil && !want.Equal(d.Time()) {
			t.Fatalf("%q: got %s, want %s", s, d.Time(), want)
		}
	})
}
