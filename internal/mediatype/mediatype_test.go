package mediatype

import (
	"bytes"
	"mime"
	"strings"
	"testing"
)

func TestOf(t *testing.T) {
	for _, test := range []struct{ name, prefix, want string }{
		{"a/b.html", "", "text/html"},
		{"A.PDF", "not a pdf", "application/pdf"},
		{"photo.jpeg", "", "image/jpeg"},
		{"data.jsonld", "", "application/ld+json"},
		{"main.go", "", "text/plain"},
		{"archive.tar.gz", "", "application/gzip"},
		{"report.docx", "PK\x03\x04", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
		{"README", "plain words\n", "text/plain"},
		{"noext", "%PDF-1.7\n", "application/pdf"},
		{"dir.html/noext", "\x89PNG\r\n\x1a\n", "image/png"},
		{"x.unknownextension", "\x00\x01\x02\x03\xff", Unknown},
		{"empty", "", Unknown},
		{"trailing.", "words\n", "text/plain"},
		{"page", "<!DOCTYPE html><html><head></head></html>", "text/html"},
		{"list", `<?xml version="1.0"?><urlset/>`, "text/xml"},
		{"code.ts", "export const a = 1;\n", "text/plain"},
	} {
		if got := Of(test.name, []byte(test.prefix)); got != test.want {
			t.Errorf("Of(%q, %.12q) = %q, want %q", test.name, test.prefix, got, test.want)
		}
	}
}

func TestSniffLooksAtThePrefixOnly(t *testing.T) {
	words := bytes.Repeat([]byte("words "), PrefixSize/6)
	if got := Sniff(append(words, 0, 1, 2)); got != "text/plain" {
		t.Errorf("Sniff = %q, want text/plain", got)
	}
}

func TestTableIsSound(t *testing.T) {
	seen := map[string]string{}
	for line := range strings.Lines(types) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			t.Errorf("line %q: expected a type and extensions", line)
			continue
		}
		if got, params, err := mime.ParseMediaType(fields[0]); err != nil || got != fields[0] || len(params) > 0 {
			t.Errorf("%q is not a plain media type: %v", fields[0], err)
		}
		for _, ext := range fields[1:] {
			if seen[ext] != "" || ext != strings.ToLower(ext) || strings.Contains(ext, ".") {
				t.Errorf("extension %q of %s: twice (%s), not lower case, or with a dot", ext, fields[0], seen[ext])
			}
			seen[ext] = fields[0]
			if got := ByName("x." + ext); got != fields[0] {
				t.Errorf("ByName(x.%s) = %q, want %q", ext, got, fields[0])
			}
		}
	}
}

func FuzzOf(f *testing.F) {
	f.Add("a.html", []byte("<html>"))
	f.Add(".", []byte{0})
	f.Fuzz(func(t *testing.T, name string, prefix []byte) {
		got := Of(name, prefix)
		if _, _, err := mime.ParseMediaType(got); err != nil || strings.Contains(got, ";") {
			t.Errorf("Of(%q, %q) = %q, which is no plain media type: %v", name, prefix, got, err)
		}
	})
}
