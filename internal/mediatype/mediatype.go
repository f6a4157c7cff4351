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

// Unknown is the type of unrecognised bytes.
const Unknown = "application/octet-stream"

// PrefixSize is the number of bytes that Sniff examines.
const PrefixSize = 3072

// Of returns the type of a file by its name (which may be a slash-separated path),
// otherwise by its first bytes; PrefixSize of them suffice. It is never empty.
func Of(name string, prefix []byte) string {
	if t := ByName(name); t != "" {
		return t
	}
	return Sniff(prefix)
}

// ByName returns the media type for the extension of name, ignoring case; "" if it is
// unknown.
func ByName(name string) string {
	ext := path.Ext(path.Base(name))
	if len(ext) < 2 || len(ext) > longestExtension {
		return ""
	}
	return byExtension[strings.ToLower(ext[1:])]
}

// Sniff returns the type of bytes that begin with prefix; Unknown if it cannot be
// recognised.
func Sniff(prefix []byte) string {
	if len(prefix) == 0 {
		return Unknown
	}
	t, _, _ := strings.Cut(mimetype.Detect(prefix[:min(len(prefix), PrefixSize)]).String(), ";")
	return t
}

// byExtension maps extensions to types.
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
