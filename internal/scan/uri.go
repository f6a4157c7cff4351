package scan

import (
	"net/url"
	"strings"
)

// URI returns the URI of a file. It percent-encodes every byte of the path that RFC
// 3986 does not permit there, and appends the result to base. path is slash-separated
// and may contain any bytes, and base ends in "/". Different paths always have
// different URIs.
func URI(base, path string) string {
	const hexadecimal = "0123456789ABCDEF"
	var b strings.Builder
	b.Grow(len(base) + len(path))
	b.WriteString(base)
	for i := range len(path) {
		if c := path[i]; c == '/' || isPathChar(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(hexadecimal[c>>4])
			b.WriteByte(hexadecimal[c&15])
		}
	}
	return b.String()
}

// FileOf returns the path of the file that a web server sends for a URI, whether or not the
// characters of the URI are percent-encoded. It returns false if the URI is not that of a
// file below base.
func FileOf(base, uri string) (path string, ok bool) {
	rest, below := strings.CutPrefix(uri, base)
	if !below || strings.ContainsAny(rest, "?#") || strings.Contains(strings.ToLower(rest), "%2f") {
		return "", false
	}
	path, err := url.PathUnescape(rest)
	if err != nil || strings.ContainsRune(path, 0) {
		return "", false
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "" || segment == "." || segment == ".." {
			return "", false
		}
	}
	return path, true
}

// PathOf returns the path for which the function URI returns the given URI. It returns
// false if there is no such path.
func PathOf(base, uri string) (path string, ok bool) {
	rest, ok := strings.CutPrefix(uri, base)
	if !ok || rest == "" {
		return "", false
	}
	path, err := url.PathUnescape(rest)
	return path, err == nil && URI(base, path) == uri
}

// isPathChar reports whether c is a pchar of RFC 3986 §3.3.
func isPathChar(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		strings.IndexByte("-._~!$&'()*+,;=:@", c) >= 0
}

// NameOf returns the name against which globs of rules are matched for a resource without a
// file. It is the part of the URI below base, or host and path if the URI is not below
// base.
func NameOf(base, uri string) string {
	name, ok := strings.CutPrefix(uri, base)
	if !ok {
		_, name, _ = strings.Cut(uri, "://")
	}
	name, _, _ = strings.Cut(name, "?")
	if plain, err := url.PathUnescape(name); err == nil {
		return plain
	}
	return name
}
