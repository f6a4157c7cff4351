package resourcesync

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// atDeclaration reports whether an XML declaration may come next: only white space may
// precede the declaration.
func (s *scanner) atDeclaration() bool { return !s.rooted && !s.prolog }

// checkXMLDecl checks the rest of an XML declaration after "<?xml": a version, then
// perhaps an encoding, then perhaps "standalone" (XML 1.0 §2.8).
func checkXMLDecl(b []byte) (encoding, why string) {
	b, value, ok := cutPseudoAttr(b, "version")
	if !ok {
		return "", `expected version="1.0"`
	}
	if value != "1.0" {
		return "", fmt.Sprintf("version %s is not supported; expected 1.0", clip(value))
	}
	b, encoding, ok = cutPseudoAttr(b, "encoding")
	if ok && !isEncodingName(encoding) {
		return "", fmt.Sprintf("%s is not a valid name of an encoding", clip(encoding))
	}
	b, value, ok = cutPseudoAttr(b, "standalone")
	if ok && value != "yes" && value != "no" {
		return "", "expected standalone to be yes or no"
	}
	if len(bytes.TrimLeft(b, xmlSpace)) > 0 {
		return "", "expected version, encoding and standalone, in this order, and nothing else"
	}
	return encoding, ""
}

// isEncodingName reports whether s is a valid encoding name (XML 1.0 §4.3.3).
func isEncodingName(s string) bool {
	n := scanName([]byte(s))
	return n > 0 && n == len(s) && s[0] != '_' && strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}

// cutPseudoAttr removes white space and name="value" from the start of b. It returns
// the rest and the value. If b does not start in this way, it returns b unchanged, and
// ok is false.
func cutPseudoAttr(b []byte, name string) (rest []byte, value string, ok bool) {
	t := bytes.TrimLeft(b, xmlSpace)
	if len(t) == len(b) || !bytes.HasPrefix(t, []byte(name)) {
		return b, "", false
	}
	t = bytes.TrimLeft(t[len(name):], xmlSpace)
	if len(t) == 0 || t[0] != '=' {
		return b, "", false
	}
	t = bytes.TrimLeft(t[1:], xmlSpace)
	if len(t) == 0 || t[0] != '"' && t[0] != '\'' {
		return b, "", false
	}
	quoted, after, found := bytes.Cut(t[1:], t[:1])
	if !found {
		return b, "", false
	}
	return after, string(quoted), true
}

func describeStart(b []byte) string {
	switch {
	case b[0] == '{' || b[0] == '[':
		return "this looks like JSON; expected XML"
	case bytes.HasPrefix(b, []byte("PK")):
		return "this looks like a ZIP file; expected XML"
	case bytes.HasPrefix(b, []byte("%PDF")):
		return "this looks like a PDF; expected XML"
	}
	return "this is not XML; it begins with " + strconv.Quote(string(b[:min(len(b), 20)]))
}

func looksLikeHTML(b []byte) bool {
	words := strings.Fields(strings.ToLower(string(b[:min(len(b), 64)])))
	return len(words) > 1 && words[0] == "<!doctype" && strings.HasPrefix(words[1], "html")
}
