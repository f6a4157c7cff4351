package resourcesync

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestDatetimeSurvivesItsBinaryForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkDatetimeForm(t, genDatetime(t, 0, 9999))
	})
}

func TestExtremeDatetimesSurviveTheirBinaryForm(t *testing.T) {
	checkDatetimeForm(t, Datetime{})
	for _, s := range []string{
		"0000", "9999", "0000-01", "9999-12", "0000-01-01", "9999-12-31", "1969-12-31", "1970-01-01", "2024-02-29",
		"0000-01-01T00:00+23:59", "9999-12-31T23:59-23:59", "2024-05-01T09:00Z", "2024-05-01T09:00+00:00", "2024-05-01T09:00-00:00",
		"0000-01-01T00:00:00.000000000000000001+23:59", "9999-12-31T23:59:59.999999999999999999-23:59",
		"2024-05-01T09:00:00.0Z", "2024-05-01T09:00:00.000000000000000000Z", "2024-05-01T09:00:00.1Z", "2024-05-01T09:00:00.0000000001Z",
	} {
		checkDatetimeForm(t, mustDatetime(t, s))
	}
}

// fataler is what fails a test, a property or a fuzzing.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func checkDatetimeForm(t fataler, want Datetime) {
	t.Helper()
	form, err := want.MarshalBinary()
	if err != nil {
		t.Fatalf("%s: %v", want, err)
	}
	got := Datetime{sec: 1, frac: 2, off: 4, prec: 5}
	if err := got.UnmarshalBinary(form); err != nil || got != want {
		t.Fatalf("%s, as %x: got %+v, %v; want %+v", want, form, got, err, want)
	}
}

func TestDigestsSurviveTheirBinaryForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ds, _, _, _ := genRepresentation(t)
		checkDigestsForm(t, ds)
	})
	checkDigestsForm(t, nil)
	form, err := Digests{{}, benchEntry(1).Digests[0], {}}.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	var got Digests
	if err := got.UnmarshalBinary(form); err != nil || !slices.Equal(got, benchEntry(1).Digests[:1]) {
		t.Errorf("with absent ones: got %v, %v; want them left out", got, err)
	}
}

func checkDigestsForm(t fataler, want Digests) {
	t.Helper()
	form, err := want.MarshalBinary()
	if err != nil {
		t.Fatalf("%s: %v", want, err)
	}
	got := Digests{{alg: 1}}
	if err := got.UnmarshalBinary(form); err != nil || !slices.Equal(got, want) {
		t.Fatalf("%s, as %x: got %v, %v", want, form, got, err)
	}
}

// datetimeForm is a form of "2024-05-01T09:00:00.25+02:00" of which one part is another.
func datetimeForm(t *testing.T, change func(*Datetime)) []byte {
	t.Helper()
	d := mustDatetime(t, "2024-05-01T09:00:00.25+02:00")
	change(&d)
	form, err := d.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return form
}

func TestBinaryFormsThatAreNone(t *testing.T) {
	whole := datetimeForm(t, func(*Datetime) {})
	forms := map[string][]byte{
		"more than a form":               append(slices.Clone(whole), 0),
		"an unknown precision":           datetimeForm(t, func(d *Datetime) { d.prec = precSecond + maxFraction + 1 }),
		"no precision":                   append([]byte{0}, whole[1:]...),
		"a year before 0":                datetimeForm(t, func(d *Datetime) { d.sec -= 2025 * 366 * 24 * 60 * 60 }),
		"a year after 9999":              datetimeForm(t, func(d *Datetime) { d.sec += 8000 * 366 * 24 * 60 * 60 }),
		"a fraction of a whole second":   datetimeForm(t, func(d *Datetime) { d.frac = perSecond }),
		"a fraction below zero":          datetimeForm(t, func(d *Datetime) { d.frac = -1 }),
		"an offset of a day":             datetimeForm(t, func(d *Datetime) { d.off = 24 * 60 }),
		"an offset of a day to the west": datetimeForm(t, func(d *Datetime) { d.off = -24 * 60 }),
		"numbers without end":            append([]byte{precSecond}, bytes.Repeat([]byte{0xff}, 40)...),
	}
	for n := 1; n < len(whole); n++ {
		forms[fmt.Sprintf("%d bytes of %d", n, len(whole))] = whole[:n]
	}
	for name, form := range forms {
		before := mustDatetime(t, "2024")
		d := before
		if err := d.UnmarshalBinary(form); err == nil || d != before {
			t.Errorf("datetime, %s: got %v, %v; want an error and %v as it was", name, d, err, before)
		}
	}
	sum := make([]byte, 64)
	for name, form := range map[string][]byte{
		"an unknown algorithm":           append([]byte{uint8(len(algorithms))}, sum...),
		"no algorithm":                   append([]byte{0}, sum...),
		"a sum that is too short":        append([]byte{firstStrong}, sum[:31]...),
		"a second one that is too short": append(append([]byte{firstStrong}, sum[:32]...), 1),
	} {
		before := benchEntry(1).Digests
		ds := before
		if err := ds.UnmarshalBinary(form); err == nil || cmp.Diff(before.String(), ds.String()) != "" {
			t.Errorf("digests, %s: got %v, %v; want an error and %v as they were", name, ds, err, before)
		}
	}
}

// FuzzBinary: what is taken for a form is one that can be worked with and written again.
func FuzzBinary(f *testing.F) {
	for _, s := range []string{"2024", "2024-05", "2024-02-29", "2024-05-01T09:00Z", "0000-01-01T00:00:00.25+23:59", "9999-12-31T23:59:59.999999999999999999-00:00"} {
		form, err := mustDatetime(f, s).MarshalBinary()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(form)
	}
	form, err := benchEntry(1).Digests.MarshalBinary()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(form)
	f.Fuzz(func(t *testing.T, form []byte) {
		var d Datetime
		if d.UnmarshalBinary(form) == nil {
			checkDatetimeForm(t, d)
			if text := d.String(); d.Complete() && len(text) < len("2024-05-01T09:00:00Z") || !d.IsZero() && d.Time().After(d.End()) {
				t.Fatalf("%x: read as %q, which is no time", form, text)
			}
		}
		var ds Digests
		if ds.UnmarshalBinary(form) == nil {
			checkDigestsForm(t, ds)
			if again, err := ds.MarshalBinary(); err != nil || !bytes.Equal(again, form) {
				t.Fatalf("%x: written as %x, %v", form, again, err)
			}
		}
	})
}
