package pack

import (
	"bytes"
	"strings"
)

// Kinds of files that [Sniff] recognises.
const (
	KindZIP   = "ZIP"
	KindGzip  = "gzip"
	KindXZ    = "xz"
	KindBzip2 = "bzip2"
	KindZstd  = "Zstandard"
	Kind7z    = "7z"
	KindRAR   = "RAR"
	KindTar   = "tar"
	KindHTML  = "HTML"
	KindXML   = "XML"
)

// SniffLength is the number of bytes at the start of a file that Sniff needs.
const SniffLength = 512

var magic = []struct{ kind, at0 string }{
	{KindZIP, localSignature},
	{KindZIP, endSignature}, // a ZIP file without members begins with the end record
	{KindGzip, "\x1f\x8b"},
	{KindXZ, "\xfd7zXZ\x00"},
	{KindBzip2, "BZh"},
	{KindZstd, "\x28\xb5\x2f\xfd"},
	{Kind7z, "7z\xbc\xaf\x27\x1c"},
	{KindRAR, "Rar!\x1a\x07"},
}

// Sniff returns the kind of a file that begins with the bytes in head, or "" if the kind is
// unknown.
func Sniff(head []byte) string {
	for _, m := range magic {
		if bytes.HasPrefix(head, []byte(m.at0)) {
			return m.kind
		}
	}
	const tarMagic = 257
	if len(head) >= tarMagic+5 && string(head[tarMagic:tarMagic+5]) == "ustar" {
		return KindTar
	}
	text := strings.ToLower(string(bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n")))
	switch {
	case strings.HasPrefix(text, "<!doctype html"), strings.HasPrefix(text, "<html"), strings.Contains(text, "<html"):
		return KindHTML
	case strings.HasPrefix(text, "<"):
		return KindXML
	}
	return ""
}
