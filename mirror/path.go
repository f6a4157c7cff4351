package mirror

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"instep/destination"
	"instep/internal/catalog"
)

// Limits for URIs and for the paths that are made from them. Lengths are in bytes.
const (
	maxURI      = 8 << 10
	maxName     = 255  // the largest length of a name that every common file system accepts
	maxBase     = 200  // the largest length of a name before a hash is added
	maxNatural  = 1000 // the largest length of a path before hashes are added to its names
	maxSegments = 64
	maxPath     = 4000 // the largest length of a path after hashes were added to its names
)

// emptyName is the file name for an empty segment, as in "a//b" and "a/". No other
// segment gets this name, since in other names two hex digits follow each %.
const emptyName = "%index"

// origin identifies a server. The port is never empty.
type origin struct{ scheme, host, port string }

var defaultPorts = map[string]string{"http": "80", "https": "443"}

// parts are the components of a URI that determine the path of its file in a mirror.
type parts struct {
	origin
	path   string // the path component of the URI, not decoded
	more   bool   // whether a query or a fragment follows the path
	before int    // the number of bytes before the path in the URI
}

func splitURI(uri string) (parts, error) {
	fail := func(want string) (parts, error) {
		return parts{}, fmt.Errorf("%w: expected %s, found %q", destination.ErrNoPlace, want, uri)
	}
	if len(uri) > maxURI {
		return parts{}, fmt.Errorf("%w: expected at most %d bytes, found %d in %q…", destination.ErrNoPlace, maxURI, len(uri), uri[:80])
	}
	scheme, rest, ok := strings.Cut(uri, "://")
	scheme = strings.ToLower(scheme)
	port := defaultPorts[scheme]
	if !ok || port == "" {
		return fail("http:// or https://")
	}
	authority := rest
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority = rest[:i]
	}
	u, err := url.Parse("http://" + authority)
	if err != nil || u.Host == "" {
		return fail("a host")
	}
	if u.User != nil {
		return fail("no user name or password in a URI")
	}
	if p := strings.TrimLeft(u.Port(), "0"); p != "" {
		port = p
	}
	rest = rest[len(authority):]
	p := parts{origin: origin{scheme, strings.ToLower(u.Hostname()), port}, before: len(uri) - len(rest)}
	p.path, p.more = cutPath(rest)
	return p, nil
}

// split is like splitURI, but faster, for a URI that begins with the text of the origin
// o. It returns ok=false for other URIs, and for a host with brackets or escapes, which
// the origin does not have.
func (o origin) split(uri string) (p parts, ok bool) {
	rest, ok := strings.CutPrefix(uri, o.scheme)
	if ok = ok && o.host != "" && isPlain(o.host); ok {
		rest, ok = strings.CutPrefix(rest, "://"+o.host)
	}
	if ok && o.port != defaultPorts[o.scheme] {
		rest, ok = strings.CutPrefix(rest, ":"+o.port)
	}
	if !ok || !strings.HasPrefix(rest, "/") || len(uri) > maxURI {
		return parts{}, false
	}
	p = parts{origin: o, before: len(uri) - len(rest)}
	p.path, p.more = cutPath(rest)
	return p, true
}

// cutPath cuts off the query and the fragment after a path, and reports whether there
// were any.
func cutPath(s string) (path string, more bool) {
	if i := strings.IndexAny(s, "?#"); i >= 0 {
		return s[:i], true
	}
	return s, false
}

func parseOrigin(uri string) (origin, error) {
	p, err := splitURI(uri)
	return p.origin, err
}

// directory returns the name of the top-level directory for resources of this origin,
// if the Source of the mirror has another origin.
func (o origin) directory(n *fileNames) string {
	name := "@" + n.escape(o.host, ".", "+")
	if o.port != defaultPorts[o.scheme] {
		name += "+" + o.port
	}
	return name
}

type segment struct {
	base  string // the name without a hash, escaped
	text  string // the text from which the hash in the name is computed
	level int    // the lowest allowed level (length of the hash): see segment.name
	most  int    // the largest length of the name with a hash, in bytes
	end   int    // the length of the extension, which comes after the hash, in bytes
}

// maxLevel is the level of a name with the whole hash.
const maxLevel = 4

// name returns the file name at a level. Level 0 has no hash. At the levels 1 to 4, the
// first 8, 16, 32 or 64 hex digits of the hash come before the extension, and the rest of
// the name is shortened if necessary.
func (s segment) name(level int) string {
	if level == 0 {
		return s.base
	}
	sum := sha256.Sum256([]byte(s.text))
	digits := hex.EncodeToString(sum[:])[:8<<(level-1)]
	stem, ext := s.base[:len(s.base)-s.end], s.base[len(s.base)-s.end:]
	return cut(stem, min(maxBase, s.most-1-len(digits)-len(ext))) + "~" + digits + ext
}

// cut shortens an escaped name to at most n bytes, without splitting a rune or an escape.
func cut(name string, n int) string {
	if len(name) <= n {
		return name
	}
	for !utf8.RuneStart(name[n]) {
		n--
	}
	if i := strings.LastIndexByte(name[:n], '%'); i >= 0 && n-i < len("%xx") {
		n = i
	}
	return name[:n]
}

// segments returns the names of the path for a URI in a mirror. The Source of the
// mirror has the origin home. If the URI has another origin, the path begins with the
// name of a directory for that origin.
func (n *fileNames) segments(home origin, uri string) ([]segment, error) {
	p, ok := home.split(uri)
	if !ok {
		var err error
		if p, err = splitURI(uri); err != nil {
			return nil, err
		}
	}
	segments := make([]segment, 0, 1+strings.Count(p.path, "/"))
	if p.origin != home {
		segments = append(segments, n.segment(p.directory(n), uri[:p.before]+"/"))
	}
	end := p.before + 1 // the offset in the URI at which the last handled segment ends
	for part := range strings.SplitSeq(strings.TrimPrefix(p.path, "/"), "/") {
		end = min(end+len(part)+1, len(uri))
		lead := "."
		if len(segments) == 0 {
			lead = ".@"
		}
		segments = append(segments, n.segment(n.escape(unescape(part), lead, ""), uri[:end]))
	}
	last := &segments[len(segments)-1]
	last.text = uri
	if n != nil {
		last.end = len(extension(last.base))
	}
	if p.more {
		last.level = 1
	}
	return shorten(segments), nil
}

func (n *fileNames) segment(base, text string) segment {
	s := segment{base: base, text: text, most: maxName}
	if n != nil {
		s.most = n.Longest
	}
	if len(base) > n.longest() {
		s.level = 1
	}
	return s
}

// shorten removes some directories from a path that is too long or too deep. It adds a
// hash to the last name, so that the shortened path differs from all others.
func shorten(segments []segment) []segment {
	last := segments[len(segments)-1]
	size := len(last.name(last.level))
	for i, s := range segments[:len(segments)-1] {
		size += len(s.name(s.level)) + 1
		if size > maxNatural || i+2 > maxSegments {
			return shortenAt(segments, last)
		}
	}
	return segments
}

func shortenAt(segments []segment, last segment) []segment {
	last.level = max(last.level, 1)
	size := len(last.name(last.level))
	n := slices.IndexFunc(segments, func(s segment) bool {
		size += len(s.name(s.level)) + 1
		return size > maxNatural
	})
	if n < 0 {
		n = len(segments)
	}
	n = min(n, maxSegments-1, len(segments)-1)
	return append(slices.Clone(segments[:n]), last)
}

// unescape leaves invalid percent escapes unchanged.
func unescape(part string) string {
	if !strings.Contains(part, "%") {
		return part
	}
	var b strings.Builder
	for i := 0; i < len(part); i++ {
		if part[i] == '%' && i+2 < len(part) {
			if v, err := strconv.ParseUint(part[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(v))
				i += 2
				continue
			}
		}
		b.WriteByte(part[i])
	}
	return b.String()
}

// unsafeASCII has the printable characters that some file system refuses or some shell
// interprets.
const unsafeASCII = `\/:*?"<>|%`

var (
	suffixed     = regexp.MustCompile(`~[0-9a-fA-F]{8,}$`) // matches a name that seems to have a hash at its end; escapeSegment escapes the ~ in such a name
	suffixedStem = regexp.MustCompile(`~([0-9a-fA-F]{8}|[0-9a-fA-F]{16}|[0-9a-fA-F]{32}|[0-9a-fA-F]{64})$`)
	device       = regexp.MustCompile(`^(?i:CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|(COM|LPT)[0-9¹²³]) *(\.|$)`)
)

// isReserved reports whether a name is that of a Windows device or of a catalog. A
// directory with a file that is named like a catalog would look like a state directory.
func isReserved(s string) bool { return isDevice(s) || isCatalog(s) }

func isCatalog(s string) bool {
	return len(s) == len(catalog.FileName) && strings.EqualFold(s, catalog.FileName)
}

// isDevice reports whether Windows treats a name as that of a device. It first tests the
// length and the first letter, since the regular expression is slow.
func isDevice(s string) bool {
	return len(s) >= 3 && strings.IndexByte("CcPpAaNnLl", s[0]) >= 0 && device.MatchString(s)
}

// escapeSegment returns the file name for one segment of a URI: a name in Unicode NFC
// that every common file system accepts. It escapes everything that some file system
// refuses, drops or changes, that would hide the file, or that has a meaning for the
// mirror. It also escapes the first byte if lead contains it, and every byte that extra
// contains.
func escapeSegment(s, lead, extra string) string {
	if s == "" {
		return emptyName
	}
	if isPlain(s) && !isReserved(s) {
		return s
	}
	s = norm.NFC.String(s)
	var at []int // offsets of bytes at the start or end of the name that have to be escaped
	if strings.IndexByte(lead, s[0]) >= 0 || isReserved(s) {
		at = append(at, 0)
	}
	if last := s[len(s)-1]; last == '.' || last == ' ' {
		at = append(at, len(s)-1)
	}
	if strings.IndexByte(s, '~') >= 0 {
		if m := suffixed.FindStringIndex(s); m != nil {
			at = append(at, m[0])
		}
	}
	escaped := false // whether the previous rune was escaped
	i := 0
	return escape(s, at, func(r rune, size int) bool {
		escaped = slices.Contains(at, i) || r < utf8.RuneSelf && strings.ContainsRune(extra, r) || unsafeRune(r, size) || escaped && startsWithCombining(s[i:])
		i += size
		return escaped
	})
}

// isPlain reports whether a name needs no escapes. It does not check for reserved
// names.
func isPlain(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case '0' <= c && c <= '9', 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', c == '-', c == '_':
		case c == '.' && i > 0 && i < len(s)-1:
		default:
			return false
		}
	}
	return true
}

// escape escapes the runes at the given offsets, and the runes for which unsafe returns
// true: it writes each of their bytes as %XX. It calls unsafe once for each rune, from
// first to last.
func escape(s string, offsets []int, unsafe func(r rune, size int) bool) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i, size := 0, 0; i < len(s); i += size {
		var r rune
		r, size = utf8.DecodeRuneInString(s[i:])
		escaped := unsafe(r, size) || slices.Contains(offsets, i)
		for _, c := range []byte(s[i : i+size]) {
			if escaped {
				b.Write([]byte{'%', digits[c>>4], digits[c&15]})
			} else {
				b.WriteByte(c)
			}
		}
	}
	return b.String()
}

// unsafeRune reports whether a rune is invalid, unsafe in a name, or invisible. Some file
// systems ignore invisible runes when they compare names.
func unsafeRune(r rune, size int) bool {
	if r == utf8.RuneError && size == 1 {
		return true
	}
	if r < utf8.RuneSelf {
		return r < ' ' || r == 0x7f || strings.ContainsRune(unsafeASCII, r)
	}
	return !unicode.IsPrint(r) || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// startsWithCombining reports whether s begins with a rune, such as an accent, that may
// combine with the character before it. After an escape, that character is a hex digit.
func startsWithCombining(s string) bool { return !norm.NFC.PropertiesString(s).BoundaryBefore() }
