package resourcesync

import "strings"

const (
	uriByte   = 1 << iota // the byte may occur unescaped in a URI (RFC 3986 §2)
	tokenByte             // the byte may occur in the name of a media type (RFC 6838 §4.2)
)

var syntaxClass = func() (t [256]byte) {
	for c := range 256 {
		b := byte(c)
		switch {
		case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', isDigit(b):
			t[b] = uriByte | tokenByte
		case strings.IndexByte("-._~:/?#[]@!$&'()*+,;=", b) >= 0:
			t[b] = uriByte
		}
		if b != 0 && strings.IndexByte("!#$&-^_.+", b) >= 0 {
			t[b] |= tokenByte
		}
	}
	return t
}()

// isAbsoluteURI reports whether s is a URI in ASCII that has a scheme and is not empty
// after the scheme.
func isAbsoluteURI(s string) bool {
	i := strings.IndexByte(s, ':')
	if i <= 0 || i == len(s)-1 || !isScheme(s[:i]) {
		return false
	}
	for b := []byte(s); ; i += 3 {
		i += plainURI(b[i:])
		if i == len(b) {
			return true
		}
		if b[i] != '%' || i+2 >= len(b) || hexValue[b[i+1]]|hexValue[b[i+2]] > 15 {
			return false
		}
	}
}

// isDecimal reports whether s consists of digits and at most one decimal point, like an
// unsigned decimal of XML Schema.
func isDecimal(s string) bool {
	const longest = 32
	before, after, _ := strings.Cut(s, ".")
	return len(s) <= longest && before+after != "" && allDigits(before) && allDigits(after)
}

func allDigits(s string) bool {
	for i := range len(s) {
		if !isDigit(s[i]) {
			return false
		}
	}
	return true
}

func isScheme(s string) bool {
	for i := range len(s) {
		c := s[i] | 0x20
		letter := c >= 'a' && c <= 'z'
		if !letter && (i == 0 || !isDigit(s[i]) && s[i] != '+' && s[i] != '-' && s[i] != '.') {
			return false
		}
	}
	return true
}

// isRelation reports whether s is a relation type: an absolute URI, or a name in the
// form that registered relation types have (RFC 8288 §3.3).
func isRelation(s string) bool {
	if strings.IndexByte(s, ':') >= 0 {
		return isAbsoluteURI(s)
	}
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z'
		if !letter && (i == 0 || !isDigit(c) && c != '.' && c != '-') {
			return false
		}
	}
	return s != ""
}

// isMediaType reports whether s is type/subtype, with or without parameters, without
// surrounding white space.
func isMediaType(s string) bool {
	if strings.TrimRight(s, xmlSpace) != s {
		return false
	}
	essence, _, _ := strings.Cut(s, ";")
	kind, sub, ok := strings.Cut(strings.TrimRight(essence, " "), "/")
	return ok && isToken(kind) && isToken(sub)
}

func isToken(s string) bool {
	for i := range len(s) {
		if syntaxClass[s[i]]&tokenByte == 0 {
			return false
		}
	}
	return s != ""
}

// isPackagePath reports whether s is a valid path of a package member (1.1 §11.2).
func isPackagePath(s string) bool {
	if s[0] != '/' || strings.Contains(s, `\`) {
		return false
	}
	for seg := range strings.SplitSeq(s[1:], "/") {
		if seg == "" || seg == "." || seg == ".." {
			return false
		}
	}
	return true
}

func ruleOfPath(s string) string {
	if s[0] != '/' {
		return "path-leading-slash"
	}
	return "path-no-traversal"
}

// ruleOfSpace returns the id of the broken rule for a foreign attribute whose namespace
// is empty or belongs to this standard.
func ruleOfSpace(uri string) string {
	if spaceOf(uri) == spaceNone {
		return "ext-attr-prefix"
	}
	return "ext-attr-namespace"
}
