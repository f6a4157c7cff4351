package main

import (
	"fmt"
	"html"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// redactor hides passwords and tokens in texts.
type redactor struct {
	logins *regexp.Regexp // matches the given logins and passwords, from the character before to the "@"; nil if there are none
	values *regexp.Regexp // matches the given values of parameters; nil if there are none
}

// newRedactor returns a redactor that hides in all texts the logins in the given arguments, and
// their parameters that are named like a password.
func newRedactor(args []string) *redactor {
	var logins, values []string
	for _, arg := range args {
		for _, param := range secretParam.FindAllString(arg, -1) {
			_, value := cutParam(param)
			values = append(values, "^"+inAnyForm(value)+"$")
		}
		login := loginIn(arg)
		_, password, _ := strings.Cut(login, ":")
		start := "(?:^|[" + loginStarts + "])" // not in the middle of a name
		if password == "" && len(login) < minToken {
			start = "//" // the name of a user, who may be named like a file
		}
		for _, secret := range []string{login, password} {
			if secret != "" {
				logins = append(logins, start+inAnyForm(secret)+"@")
			}
		}
	}
	return &redactor{anyOf(logins), anyOf(values)}
}

const (
	// loginStarts are the characters that may be before a login.
	loginStarts = `/:"' =(>,;`
	// minToken is the length from which on the part of a URL before "@" counts as a token, and not
	// as the name of a user or of a file.
	minToken = 16
	// minValue is the length from which on the value of a parameter such as "token" may be a secret,
	// if the user did not give it. The value of "key" may be a number that identifies a resource, so
	// it needs minToken characters.
	minValue = 6
)

func anyOf(patterns []string) *regexp.Regexp {
	if patterns == nil {
		return nil
	}
	re := regexp.MustCompile(strings.Join(patterns, "|"))
	re.Longest() // so that a longer secret is hidden before its beginning
	return re
}

// inAnyForm returns a pattern that matches a text in all forms in which it can be part of an output:
// each character as it is, quoted, percent-encoded, in HTML, or in a command line.
func inAnyForm(text string) string {
	if plain, err := url.PathUnescape(text); err == nil {
		text = plain
	}
	var pattern strings.Builder
	for _, c := range strings.Split(text, "") {
		quoted := strconv.Quote(c)
		r, _ := utf8.DecodeRuneInString(c)
		plain := string(r) // "\ufffd" for a byte that is not UTF-8, which a pattern may not contain
		forms := []string{plain, quoted[1 : len(quoted)-1], html.EscapeString(plain), fmt.Sprintf("&#%d;", r), url.QueryEscape(c)}
		if c == "'" {
			forms = append(forms, `'\''`, `'\\''`, `&#39;\&#39;&#39;`)
		}
		for i, form := range forms {
			forms[i] = regexp.QuoteMeta(form)
		}
		fmt.Fprintf(&pattern, "(?:%s|(?i:%%%s))", strings.Join(forms, "|"), strings.ReplaceAll(fmt.Sprintf("% x", c), " ", "%"))
	}
	return pattern.String()
}

// secretParam matches a parameter of a query that is named like a password. In HTML its value may
// contain "+" as "&#43;".
var secretParam = regexp.MustCompile(`(?i)[?&;](?:[a-z0-9]+[_-])*(?:api|access|auth|client|session)?(?:pass(?:word|wd|phrase)?|pwd|token|key|auth|jwt|secret|credentials?|sig(?:nature)?)=(?:[^&;#\s"'<>]|&#43;)+`)

// cutParam splits a secretParam after the "=". The value has no punctuation at its end, which may
// belong to the sentence around it.
func cutParam(param string) (name, value string) {
	name, value, _ = strings.Cut(param, "=")
	return name + "=", strings.TrimRight(value, `).,:;\]`)
}

var anyURL = regexp.MustCompile(`\w://[^\s"'<>]+`)

// redact hides the passwords and tokens that the user gave. In a message it also hides those in URLs
// of other origin, such as the target of a redirect. Elsewhere URLs are data, and stay as they are.
func (r *redactor) redact(text string, message bool) string {
	if r == nil {
		return text
	}
	if r.logins != nil && strings.Contains(text, "@") {
		text = r.logins.ReplaceAllStringFunc(text, func(found string) string {
			return found[:len(found)-len(strings.TrimLeft(found, loginStarts))] + "…@"
		})
	}
	if message {
		text = anyURL.ReplaceAllStringFunc(text, func(url string) string {
			if login := loginIn(url); login != "" {
				return strings.Replace(url, login+"@", "…@", 1)
			}
			return url
		})
	}
	if !message && r.values == nil || !strings.Contains(text, "=") {
		return text
	}
	return secretParam.ReplaceAllStringFunc(text, func(param string) string {
		name, value := cutParam(param)
		least := minValue
		if strings.EqualFold(name[1:], "key=") {
			least = minToken
		}
		if message && len(value) >= least || r.values != nil && r.values.MatchString(value) {
			return name + "…" + param[len(name)+len(value):]
		}
		return param
	})
}

// hideSecretsIn also hides the passwords in further arguments, such as the settings stored with a
// mirror.
func (a *app) hideSecretsIn(args ...string) {
	a.secretive = slices.Compact(slices.Sorted(slices.Values(append(a.secretive, args...))))
	a.out.secrets.Store(newRedactor(slices.Concat(a.args, a.secretive)))
}

// login matches a URL without a scheme: NAME:PASSWORD@HOST, or TOKEN@HOST if the token is too long
// for an e-mail address or the name of a file.
var login = regexp.MustCompile(`^(?:[^:/@\s]+:\S*[^/[\s]@[\w\pL.:[\]-]+|[^:/@\s]{16,}@[\w\pL-]+\.[\w\pL.:-]+)(?:[/?#]|$)`)

func loginIn(arg string) string {
	if _, value, ok := strings.Cut(arg, "="); ok && strings.HasPrefix(arg, "-") {
		arg = value
	}
	_, rest, isURL := strings.Cut(arg, "://")
	if !isURL {
		rest = strings.TrimLeft(strings.TrimPrefix(strings.TrimPrefix(arg, "http:"), "https:"), "/")
		if !login.MatchString(rest) || strings.HasPrefix(rest, "mailto:") {
			return ""
		}
	}
	authority := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority = rest[:end]
	}
	if _, err := url.Parse("http://" + authority); err == nil { // not cut if it is invalid, because then these characters may be part of a password
		rest = authority
	}
	return rest[:max(0, strings.LastIndexByte(rest, '@'))]
}

// redacting hides passwords in what a template writes, value by value.
type redacting struct {
	w   io.Writer
	out *output
}

func (r redacting) Write(p []byte) (int, error) {
	if _, err := io.WriteString(r.w, r.out.redact(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
