package resourcesync

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
)

func toUTF16(s string, big bool) string {
	var b strings.Builder
	for _, u := range utf16.Encode([]rune(s)) {
		hi, lo := byte(u>>8), byte(u)
		if !big {
			hi, lo = lo, hi
		}
		b.WriteByte(hi)
		b.WriteByte(lo)
	}
	return b.String()
}

func TestEncodings(t *testing.T) {
	const loc = "https://example.org/café/"
	body := list1 + "<url><loc>" + loc + "%s</loc></url>" + end1
	doc := func(encoding, more string) string {
		return `<?xml version='1.0' encoding='` + encoding + `'?>` + fmt.Sprintf(body, more)
	}
	oneByte := func(s string) string {
		var b []byte
		for _, r := range s {
			if r == '€' {
				r = 0x80
			}
			b = append(b, byte(r))
		}
		return string(b)
	}
	many := strings.Repeat("😀", 9000/4)
	for _, c := range []struct{ name, doc, want string }{
		{"UTF-8", doc("UTF-8", "€"), loc + "€"},
		{"UTF-8 without declaration", fmt.Sprintf(body, "€"), loc + "€"},
		{"UTF-8 with byte order mark", "\xef\xbb\xbf" + doc("utf-8", "€"), loc + "€"},
		{"UTF-16 LE", "\xff\xfe" + toUTF16(doc("UTF-16", "€😀"), false), loc + "€😀"},
		{"UTF-16 BE", "\xfe\xff" + toUTF16(doc("utf-16", "€😀"), true), loc + "€😀"},
		{"UTF-16 LE without mark", toUTF16(doc("UTF-16", "€"), false), loc + "€"},
		{"UTF-16 BE without mark", toUTF16(doc("UTF-16BE", "€"), true), loc + "€"},
		{"UTF-16 of many pairs", "\xff\xfe" + toUTF16(doc("UTF-16", many), false), loc + many},
		{"ISO-8859-1", oneByte(doc("ISO-8859-1", "ÿ")), loc + "ÿ"},
		{"windows-1252", oneByte(doc("Windows-1252", "€")), loc + "€"},
		{"US-ASCII", strings.ReplaceAll(doc("US-ASCII", "&#8364;"), "é", "&#xE9;"), loc + "€"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, entries, notes, err := decode(c.doc, WithLimits(Limits{URI: 20_000}))
			notes = slices.DeleteFunc(notes, func(n Note) bool { return n.Quirk == QuirkIRI || n.Quirk == QuirkEncoding })
			if err != nil || len(notes) > 0 {
				t.Fatalf("%v, notes %v", err, notes)
			}
			if len(entries) != 1 || entries[0].Loc != c.want {
				t.Errorf("got %+v, want loc %q", entries, c.want)
			}
		})
	}
	odd := "\xff\xfe" + toUTF16(fmt.Sprintf(body, ""), false)
	wantKind(t, odd+"\x20", Incomplete, "the last character is incomplete")
	wantKind(t, odd[:len(odd)-1], Incomplete, "")
	wantKind(t, "\xfe\xff"+toUTF16(list1, true)+"\xd8\x00\x00x", NotWellFormed, "not a character")
	wantKind(t, doc("UTF-16", ""), Refused, `declared encoding is "utf-16"`, WithTolerance(Strict))
	if _, entries, notes, err := decode(doc("UTF-16", "")); err != nil || notes[0].Rule != "xml-well-formed" || entries[0].Loc != loc {
		t.Errorf("UTF-8 declared as UTF-16: got %v, notes %v", err, notes)
	}
}
