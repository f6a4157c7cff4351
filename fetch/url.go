package fetch

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/net/idna"
)

// MaxURL is the largest length of a fetched URI in bytes.
const MaxURL = 8 << 10

// Parse parses a URI that can be fetched: absolute, http or https, with a host, without
// user name and password, at most MaxURL bytes. It removes the fragment, and escapes
// percent signs as ParseReference does. For any other URI it returns an *Error of Kind
// Refused.
func Parse(raw string) (*url.URL, error) {
	refuse := func(msg, hint string) (*url.URL, error) {
		return nil, &Error{Op: "get", URL: shorten(withoutUser(raw)), Kind: Refused, Msg: msg, Hint: hint}
	}
	if len(raw) > MaxURL {
		return refuse("the URI is longer than 8 KiB", "")
	}
	u, err := ParseReference(raw)
	if err != nil {
		if strings.Contains(raw, "@") {
			return refuse("not a URI", "") // err is left out, because it could contain a password
		}
		return nil, &Error{Op: "get", URL: shorten(raw), Kind: Refused, Msg: "not a URI", Err: parseCause(err)}
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return refuse("expected an http or https URI", "")
	case u.User != nil:
		return refuse("the URI has a user name or password", "put the user name and password into a file of credentials")
	case u.Hostname() == "":
		return refuse("expected a URI with a host", "")
	case strings.Contains(u.Hostname(), "%"):
		return refuse("the host contains the zone of an IPv6 address", "a zone identifies a network interface of one machine only")
	case !isHost(asciiHost(u.Hostname())):
		return refuse("the host name is not valid", "")
	case !isPort(u.Port()):
		return refuse("the port is not a number from 1 to 65535", "")
	}
	u.Fragment, u.RawFragment = "", ""
	u.RawQuery = escapeQuery(u.RawQuery)
	escapePath(u)
	return u, nil
}

// ParseReference is url.Parse, except that it reads a percent sign as %25 if no two
// hexadecimal digits follow, as in /100%.txt. In a query such a sign stays unchanged,
// because servers differ in how they read it. A URI with a control character is not
// repaired.
func ParseReference(ref string) (*url.URL, error) {
	if !strings.Contains(ref, "%") || strings.ContainsFunc(ref, unicode.IsControl) {
		return url.Parse(ref)
	}
	rest, fragment, _ := strings.Cut(ref, "#")
	before, _, _ := strings.Cut(rest, "?")
	begin := strings.Index(before, "//") // the // before the host, if the URI has a host
	if begin > 0 && before[begin-1] != ':' || begin < 0 {
		begin = 0
	} else if end := strings.IndexByte(before[begin+2:], '/'); end >= 0 {
		begin += 2 + end
	} else {
		begin = len(before)
	}
	whole := ref[:begin] + mendEscapes(before[begin:]) + rest[len(before):]
	if len(rest) < len(ref) {
		whole += "#" + mendEscapes(fragment)
	}
	return url.Parse(whole)
}

func mendEscapes(s string) string {
	var out strings.Builder
	for i := range len(s) {
		out.WriteByte(s[i])
		if s[i] == '%' && (i+2 >= len(s) || !isHex(s[i+1]) || !isHex(s[i+2])) {
			out.WriteString("25")
		}
	}
	return out.String()
}

func isHex(b byte) bool {
	return '0' <= b && b <= '9' || 'a' <= b && b <= 'f' || 'A' <= b && b <= 'F'
}

// withoutUser accepts invalid URIs, too.
func withoutUser(raw string) string {
	at := strings.LastIndexByte(raw, '@')
	if at < 0 {
		return raw
	}
	scheme, _, ok := strings.Cut(raw[:at], "//")
	if !ok {
		return "…" + raw[at:]
	}
	return scheme + "//…" + raw[at:]
}

// escapePath escapes the characters of the path that a request line cannot have, and
// leaves the other characters as written. Without RawPath, net/url would rewrite such a
// path and treat %2F as a slash.
func escapePath(u *url.URL) {
	if u.RawPath != "" {
		u.RawPath = escape(u.RawPath, func(b byte) bool {
			return isUnreserved(b) || strings.IndexByte("!$&'()*+,;=:@/%[]", b) >= 0
		})
	}
}

// escapeQuery escapes the characters of a query that a request line cannot have, because
// net/url does not escape them.
func escapeQuery(q string) string {
	return escape(q, func(b byte) bool { return b > ' ' && b < 0x7f })
}

// isUnreserved reports whether a byte means the same with and without a percent escape
// (RFC 3986 §2.3).
func isUnreserved(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || strings.IndexByte("-._~", b) >= 0
}

func escape(s string, safe func(byte) bool) string {
	if !slices.ContainsFunc([]byte(s), func(b byte) bool { return !safe(b) }) {
		return s
	}
	var out strings.Builder
	for _, b := range []byte(s) {
		if safe(b) {
			out.WriteByte(b)
		} else {
			fmt.Fprintf(&out, "%%%02X", b)
		}
	}
	return out.String()
}

// Origin returns the scheme://host[:port] of a URL in lower case, with the ASCII form of
// an internationalised host name, and without the default port of the scheme. Two URLs
// have the same origin if the results are equal.
func Origin(u *url.URL) string {
	scheme := strings.ToLower(u.Scheme)
	host, port := hostPort(u)
	if port == defaultPort(scheme) {
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		return scheme + "://" + host
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}

// hostPort returns the ASCII form of the host, and the port or the default port of the
// scheme.
func hostPort(u *url.URL) (host, port string) {
	host, port = asciiHost(u.Hostname()), u.Port()
	if port == "" {
		port = defaultPort(strings.ToLower(u.Scheme))
	}
	return host, port
}

func isHost(host string) bool {
	const longest = 253 // RFC 1035
	return len(host) <= longest && !strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// isPort accepts an empty port.
func isPort(port string) bool {
	if port == "" {
		return true
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

// asciiHost returns the ASCII form of a host name, or the host name in lower case if it has
// no ASCII form.
func asciiHost(host string) string {
	host = strings.ToLower(host)
	for i := range len(host) {
		if host[i] >= 0x80 {
			if ascii, err := idna.Lookup.ToASCII(host); err == nil {
				return ascii
			}
			break
		}
	}
	return host
}

func defaultPort(scheme string) string {
	switch scheme {
	case "http":
		return "80"
	case "https":
		return "443"
	case "socks5", "socks5h": // only a proxy
		return "1080"
	}
	return ""
}

// parseCause removes the URI from an error of url.Parse.
func parseCause(err error) error {
	var ue *url.Error
	if errors.As(err, &ue) {
		return ue.Err
	}
	return err
}

func shorten(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
