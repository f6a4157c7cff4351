package mirror

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"instep/internal/catalog"
)

// fileNames has the rules for the names of files in a mirror: which names its file system
// accepts, and which it treats as the same. The rules are probed when the mirror is
// created, and stored in the marker, so that they never change.
//
// A file has the same name as in its URL wherever these rules allow it, so that a web
// server for the directory answers the URLs of the Source. A mirror that was created
// before the rules were recorded, and one with the layout Flat, have a nil *fileNames. It
// produces names that every common file system accepts and distinguishes.
type fileNames struct {
	Refused string `json:"refused"`           // printable ASCII characters that are not allowed in a name
	Ends    string `json:"ends"`              // characters that are not allowed at the end of a name
	Longest int    `json:"longest"`           // length of the longest name in bytes
	Case    bool   `json:"case,omitempty"`    // whether names that differ only in case are the same
	Form    bool   `json:"form,omitempty"`    // whether names that differ only in Unicode form or invisible characters are the same
	Devices bool   `json:"devices,omitempty"` // whether names of Windows devices are refused, or mean the devices
}

// sound reports whether the rules are possible, since they may come from a damaged file.
func (n *fileNames) sound() bool { return minLongest <= n.Longest && n.Longest <= maxName }

// and returns the rules for names that two file systems both accept and distinguish.
func (n *fileNames) and(other *fileNames) *fileNames {
	both := *n
	both.Refused, both.Ends = union(n.Refused, other.Refused), union(n.Ends, other.Ends)
	both.Longest = min(n.Longest, other.Longest)
	both.Case, both.Form, both.Devices = n.Case || other.Case, n.Form || other.Form, n.Devices || other.Devices
	return &both
}

func union(a, b string) string {
	all := []byte(a + b)
	slices.Sort(all)
	return string(slices.Compact(all))
}

// folds reports whether the file system may treat two different names as the same.
func (n *fileNames) folds() bool { return n == nil || n.Case || n.Form }

// key returns the same text for all paths that the file system treats as the same. If the
// file system ignores case, key also ignores the Unicode form, since some characters are
// equal only after both are changed.
func (n *fileNames) key(path string) string {
	switch {
	case n == nil || n.Case:
		return catalog.Fold(path)
	case n.Form:
		return norm.NFD.String(path)
	}
	return path
}

// longest returns the largest length of a name to which no hash has been added.
func (n *fileNames) longest() int {
	if n == nil {
		return maxBase
	}
	return n.Longest
}

// takes reports whether the file system accepts a path, which may come from a mirror on
// another file system. It does not check for names that the mirror reserves.
func (n *fileNames) takes(path string) bool {
	if n == nil {
		return true
	}
	for name := range strings.SplitSeq(path, "/") {
		if len(name) > n.Longest || strings.ContainsAny(name, n.Refused) || strings.IndexByte(n.Ends, name[len(name)-1]) >= 0 || n.Devices && isDevice(name) {
			return false
		}
		for _, r := range name {
			if n.refuses(r, utf8.RuneLen(r)) {
				return false
			}
		}
	}
	return true
}

// escape returns the file name for one segment of a URI. It escapes bytes that the file
// system refuses or drops, that would hide the file, or that have a meaning for the
// mirror. It also escapes a first byte that is in lead, and all bytes that are in also.
// It does not escape %, since another URI whose file would have the same name gets a
// different one.
func (n *fileNames) escape(s, lead, also string) string {
	switch {
	case n == nil:
		return escapeSegment(s, lead, also)
	case s == "":
		return emptyName
	case isPlain(s) && !n.reserved(s):
		return s
	}
	var at []int // offsets of bytes that are escaped because of their position
	if strings.IndexByte(lead, s[0]) >= 0 || n.reserved(s) {
		at = append(at, 0)
	}
	if last := len(s) - 1; strings.IndexByte(n.Ends, s[last]) >= 0 {
		at = append(at, last)
	}
	if strings.IndexByte(s, '~') >= 0 {
		if m := suffixedStem.FindStringIndex(s[:len(s)-len(extension(s))]); m != nil {
			at = append(at, m[0])
		}
	}
	return escape(s, at, func(r rune, size int) bool {
		return n.refuses(r, size) || r < utf8.RuneSelf && strings.ContainsRune(also, r)
	})
}

// reserved reports whether a name has a special meaning for the system or for the mirror.
func (n *fileNames) reserved(s string) bool { return isCatalog(s) || n.Devices && isDevice(s) }

// refuses reports whether a rune cannot be part of a name. Control characters cannot. If
// the file system treats different names as the same, characters that it may ignore
// cannot, either.
func (n *fileNames) refuses(r rune, size int) bool {
	switch {
	case r == utf8.RuneError && size == 1, r == '/', unicode.IsControl(r):
		return true
	case r < utf8.RuneSelf:
		return strings.ContainsRune(n.Refused, r)
	}
	return n.folds() && unsafeRune(r, size)
}

// maxExtension is the largest length of an extension, including its dot.
const maxExtension = 12

// extension returns the end of a name from its last dot on, if only letters and digits
// follow the dot; otherwise "". Programs recognise the type of a file by its extension.
func extension(s string) string {
	i := strings.LastIndexByte(s, '.')
	if i <= 0 || i == len(s)-1 || len(s)-i > maxExtension {
		return ""
	}
	for _, c := range []byte(s[i+1:]) {
		if !('0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z') {
			return ""
		}
	}
	return s[i:]
}
