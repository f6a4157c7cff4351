// Package mediatype determines the media type of a file, in the same way on every host:
// by the extension of its name, otherwise by its first bytes. Types have no parameters.
// If an extension has several types (.ts, .obj) the bytes decide. Source code without a
// registered type is text/plain.
package mediatype

import (
	"path"
	"strings"

	"github.com/gabriel-vasile/mimetype"
)

// Unknown is the media type of bytes that Sniff does not recognise.
const Unknown = "application/octet-stream"

// PrefixSize is the number of bytes that Sniff examines.
const PrefixSize = 3072

// Of returns the media type of a file, by the extension of its name or else by its first
// bytes. The name may be a slash-separated path. PrefixSize bytes are enough. The result
// is never empty.
func Of(name string, prefix []byte) string {
	if t := ByName(name); t != "" {
		return t
	}
	return Sniff(prefix)
}

// ByName returns the media type for the extension of name, ignoring case, or "" if the
// extension is unknown.
func ByName(name string) string {
	ext := path.Ext(path.Base(name))
	if len(ext) < 2 || len(ext) > longestExtension {
		return ""
	}
	return byExtension[strings.ToLower(ext[1:])]
}

// Sniff returns the media type of a file that begins with prefix, or Unknown if the bytes
// are not recognised.
func Sniff(prefix []byte) string {
	if len(prefix) == 0 {
		return Unknown
	}
	t, _, _ := strings.Cut(mimetype.Detect(prefix[:min(len(prefix), PrefixSize)]).String(), ";")
	return t
}

var byExtension = func() map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(types) {
		fields := strings.Fields(line)
		for _, ext := range fields[1:] {
			m[ext] = fields[0]
		}
	}
	return m
}()

// longestExtension is the length of the longest known extension, including the dot.
var longestExtension = func() int {
	n := 0
	for ext := range byExtension {
		n = max(n, len(ext)+1)
	}
	return n
}()
