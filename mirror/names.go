package mirror

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"instep/internal/catalog"
)

// fileNames says which names the file system of a mirror accepts, and which it takes for
// the same. It is found out when a mirror is made and stored in the marker, so that the
// rules for its names never change.
//
// A file has the name in its URL wherever these rules allow it, so that a web server over
// the mirror answers the URLs of the Source. A nil *fileNames is that of a mirror made
// before there was a record, or of the flat layout: its names are accepted and
// distinguished by every common file system.
type fileNames struct {
	Refused string `json:"refused"`           // printable ASCII characters that no name can have
	Ends    string `json:"ends"`              // characters that a name cannot end with
	Longest int    `json:"longest"`           // name, in bytes
	Case    bool   `json:"case,omitempty"`    // names that differ in upper and lower case are one
	Form    bool   `json:"form,omitempty"`    // names that differ in their Unicode form, or in what is invisible, are one
	Devices bool   `json:"devices,omitempty"` // the names that are those of devices on Windows are refused, or mean these
}

// sound reports whether these can be the rules of a file system.
func (n *fileNames) sound() bool { return minLongest <= n.Longest && n.Longest <= maxName }

// and returns the common rules of two file systems: names that both accept and distinguish.
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

// folds reports whether two names that differ can be one to the file system.
func (n *fileNames) folds() bool { return n == nil || n.Case || n.Form }

// key maps paths to equal values if the file system takes them for one. Where case is
// folded, so is the Unicode form, since the folding of both can depend on the characters.
func (n *fileNames) key(path string) string {
	switch {
	case n == nil || n.Case:
		return catalog.Fold(path)
	case n.Form:
		return norm.NFD.String(path)
	}
	return path
}

// longest is how long a name may be that has no suffix.
func (n *fileNames) longest() int {
	if n == nil {
		return maxBase
	}
	return n.Longest
}

// takes reports whether these rules can produce a path; another file system may have
// allowed more. The meaning of the path for the mirror is not considered.
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

// escape makes a file name of the bytes of one segment. It escapes bytes that the file
// system refuses or drops, that hide a file, or that have a meaning for the mirror: the
// bytes of lead at the start, those of also anywhere. A % stays; if another URI has the
// name already, that is a clash like any other.
func (n *fileNames) escape(s, lead, also string) string {
	switch {
	case n == nil:
		return escapeSegment(s, lead, also)
	case s == "":
		return emptyName
	case isPlain(s) && !n.reserved(s):
		return s
	}
	var at []int // positions of bytes that have to be escaped because of their place
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

// reserved reports whether a name means something else to the system, or to us.
func (n *fileNames) reserved(s string) bool { return isCatalog(s) || n.Devices && isDevice(s) }

// refuses reports whether a rune is never part of a name: control characters are not,
// whatever the file system takes, and where it folds names, nothing that it may ignore.
func (n *fileNames) refuses(r rune, size int) bool {
	switch {
	case r == utf8.RuneError && size == 1, r == '/', unicode.IsControl(r):
		return true
	case r < utf8.RuneSelf:
		return strings.ContainsRune(n.Refused, r)
	}
	return n.folds() && unsafeRune(r, size)
}

// maxExtension bounds what counts as an extension, with its dot.
const maxExtension = 12

// extension is the end of a name by which programs tell its type: from the last dot on,
// if letters and digits follow; "" if there is none.
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
