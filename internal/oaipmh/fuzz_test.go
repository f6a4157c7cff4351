package oaipmh

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"path/filepath"
	"testing"
	"unicode/utf8"

	"golang.org/x/tools/txtar"
)

// FuzzParse: whatever a server answers, what is kept of it is XML that any parser reads.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/answers/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		a, err := txtar.ParseFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(a.Files[0].Data)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		d := dirt{}
		text, err := clean(raw, d)
		if err != nil {
			return
		}
		if !utf8.Valid(text) {
			t.Fatalf("clean: not UTF-8: %q", text)
		}
		again := cleaner{text: text, dirt: dirt{}}
		again.run()
		if string(again.out) != string(text) || len(again.dirt) > 0 {
			t.Fatalf("what is clean is not left alone:\n%q\n%q", text, again.out)
		}
		p, err := parse(text, VerbRecords, "u", d)
		if p == nil || err != nil {
			return
		}
		for _, r := range p.Records {
			if r.Identifier == "" || r.Deleted != (r.Metadata == nil) {
				t.Fatalf("a record without its parts: %+v", r)
			}
			if r.Metadata != nil {
				check(t, r.Metadata)
			}
		}
	})
}

// check holds metadata against a parser that is strict about tags.
func check(t *testing.T, text []byte) {
	d := xml.NewDecoder(bytes.NewReader(text))
	roots, depth := 0, 0
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v: %q", err, text)
		}
		switch tok.(type) {
		case xml.StartElement:
			if depth++; depth == 1 {
				roots++
			}
		case xml.EndElement:
			depth--
		}
	}
	if roots != 1 || depth != 0 {
		t.Fatalf("%d roots: %q", roots, text)
	}
}

// FuzzStamp: what is understood of a datestamp is written in a form of the protocol.
func FuzzStamp(f *testing.F) {
	for _, s := range []string{"2024-05-01", "2024-05-01T01:02:03Z", "2024-05-01T01:02:03.5+02:00", "2024", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, strict, err := parseAnyStamp(text)
		if err != nil || s.IsZero() {
			return
		}
		again, err := ParseStamp(s.String())
		if err != nil || !again.Time.Equal(s.Time) && !s.Day || strict && s.String() != text {
			t.Fatalf("%q: %v, again %v, %v", text, s, again, err)
		}
	})
}
