package pack

import (
	"fmt"
	"net/url"
	"path"
	"strings"

	"instep/resourcesync"
)

// PathOf returns a path for member n of a package, counted from 1, as the attribute "path"
// has it (1.1 §11.2). An example is /012/012345-report.pdf. The number makes the path unique
// in the package, and the end of the path shows people which file it is. The path is valid
// on every system: it has at most 60 characters, and each segment only A-Z a-z 0-9 . _ -.
func PathOf(n int, uri string) string {
	if name := nameIn(uri); name != "" {
		return fmt.Sprintf("/%03d/%06d-%s", n/1000, n, name)
	}
	return fmt.Sprintf("/%03d/%06d", n/1000, n)
}

const (
	nameLength      = 40
	extensionLength = 8 // including the dot
)

// nameIn makes a file name from the last segment of a URI. It replaces each character that is
// invalid in a file name on some system.
func nameIn(uri string) string {
	rest, _, _ := strings.Cut(uri, "#")
	rest, _, _ = strings.Cut(rest, "?")
	_, rest, _ = strings.Cut(rest, "://")
	_, rest, found := strings.Cut(rest, "/")
	if !found {
		return ""
	}
	name := path.Base("/" + rest)
	if plain, err := url.PathUnescape(name); err == nil {
		name = plain
	}
	name = strings.Trim(strings.Map(portable, name), "-.")
	if len(name) <= nameLength {
		return name
	}
	ext := path.Ext(name)
	if len(ext) > extensionLength {
		ext = ""
	}
	return strings.TrimRight(name[:nameLength-len(ext)], "-.") + ext
}

func portable(r rune) rune {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.', r == '_', r == '-':
		return r
	}
	return '-'
}

// compressible reports whether DEFLATE is likely to make the bytes of an entry smaller, which
// is so for media types of text.
func compressible(e *resourcesync.Entry) bool {
	if e.Encoding != "" {
		return false
	}
	t, _, _ := strings.Cut(strings.ToLower(e.Type), ";")
	t = strings.TrimSpace(t)
	if strings.HasPrefix(t, "text/") || strings.HasSuffix(t, "+xml") || strings.HasSuffix(t, "+json") {
		return true
	}
	return textual[t]
}

// textual lists media types of text whose names do not show that they are text.
var textual = map[string]bool{
	"application/json":         true,
	"application/json-seq":     true,
	"application/x-ndjson":     true,
	"application/jsonl":        true,
	"application/geo+json-seq": true,
	"application/xml":          true,
	"application/xml-dtd":      true,
	"application/javascript":   true,
	"application/ecmascript":   true,
	"application/yaml":         true,
	"application/toml":         true,
	"application/sql":          true,
	"application/rtf":          true,
	"application/x-tex":        true,
	"application/x-latex":      true,
	"application/x-sh":         true,
	"application/x-bibtex":     true,
	"application/marc":         true,
	"application/n-triples":    true,
	"application/n-quads":      true,
	"application/trig":         true,
	"application/sparql-query": true,
	"application/postscript":   true,
	"image/bmp":                true,
}
