package mirror

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"instep/internal/catalog"
)

// fileNames has the rules for the names of files in a mirror: which names the file system
// accepts, and which it treats as the same. Tests on the file system determine the rules
// when the mirror is created, and the marker stores them. They change only if the mirror
// is copied to another file system.
// A file has the same name as in its URL wherever the rules allow it, so that a web
// server for the directory serves the resources under the paths of their URLs. A nil
// *fileNames makes names that every common file system accepts and distinguishes. A
// mirror has no rules if its layout is Flat or if it was created before rules were
// stored.
type fileNames struct {
	Refused string `json:"refused"`           // the printable ASCII characters that are not allowed in a name
	Ends    string `json:"ends"`              // the characters that are not allowed at the end of a name
	Longest int    `json:"longest"`           // the largest length of a name, in bytes
	Case    bool   `json:"case,omitempty"`    // whether the file system treats names that differ only in case as the same
	Form    bool   `json:"form,omitempty"`    // whether the file system treats names that differ only in Unicode form or invisible characters as the same
	Devices bool   `json:"devices,omitempty"` // whether the file system refuses the names of Windows devices, or opens the device instead of a file
}

// valid returns false for rules that no file system can have. They come from a damaged
// file.
func (n *fileNames) valid() bool { return minLongest <= n.Longest && n.Longest <= maxName }

// combinedWith returns rules for names that both file systems accept and distinguish.
func (n *fileNames) combinedWith(other *fileNames) *fileNames {
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

// folds reports whether the file system may treat names with different spellings as the
// same.
func (n *fileNames) folds() bool { return n == nil || n.Case || n.Form }

// key returns the same text for all paths that the file system treats as the same. If
// the file system ignores case, key also ignores the Unicode form, since some
// characters become equal only if both are changed.
func (n *fileNames) key(path string) string {
	switch {
	case n == nil || n.Case:
		return catalog.Fold(path)
	case n.Form:
		return norm.NFD.String(path)
	}
	return path
}

// longest returns the largest length of a name without a hash, in bytes.
func (n *fileNames) longest() int {
	if n == nil {
		return maxBase
	}
	return n.Longest
}

// accepts reports whether the file system accepts the names in a path, which may come
// from a mirror on another file system. It does not check for names that the mirror
// reserves for itself.
func (n *fileNames) accepts(path string) bool {
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
// mirror. It also escapes the first byte if lead contains it, and every byte that extra
// contains. It does not escape the character %. If two URIs get the same file name
// because of that, one of the names gets a hash.
func (n *fileNames) escape(s, lead, extra string) string {
	switch {
	case n == nil:
		return escapeSegment(s, lead, extra)
	case s == "":
		return emptyName
	case isPlain(s) && !n.reserved(s):
		return s
	}
	var at []int // offsets of bytes at the start or end of the name that have to be escaped
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
		return n.refuses(r, size) || r < utf8.RuneSelf && strings.ContainsRune(extra, r)
	})
}

// reserved reports whether a name has a special meaning for the operating system or for
// the mirror.
func (n *fileNames) reserved(s string) bool { return isCatalog(s) || n.Devices && isDevice(s) }

// refuses reports whether a name must not contain a rune: a control character, a
// character that the file system refuses or, if the file system treats some different
// names as the same, a character that it may ignore.
func (n *fileNames) refuses(r rune, size int) bool {
	switch {
	case r == utf8.RuneError && size == 1, r == '/', unicode.IsControl(r):
		return true
	case r < utf8.RuneSelf:
		return strings.ContainsRune(n.Refused, r)
	}
	return n.folds() && unsafeRune(r, size)
}

// maxExtension is the largest length of an extension with its dot, in bytes.
const maxExtension = 12

// extension returns the end of a name from its last dot on, by which programs recognise
// the type of the file. It returns "" if anything but letters and digits follows the dot.
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
