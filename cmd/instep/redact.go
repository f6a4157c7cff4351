package main

import (
	"html/template"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// redactor returns a Replacer that hides the logins in arguments, and the passwords in their
// queries, so that no message repeats a password. It returns nil if there are none.
func redactor(args []string) *strings.Replacer {
	var pairs []string
	for _, arg := range args {
		for _, param := range secretParam.FindAllString(arg, -1) {
			name, _, _ := strings.Cut(param, "=")
			for _, form := range writtenForms {
				pairs = append(pairs, form(param), form(name)+"=…")
			}
		}
		login := loginIn(arg)
		_, password, _ := strings.Cut(login, ":")
		for _, secret := range []string{login, password} {
			if secret == "" {
				continue
			}
			for _, form := range writtenForms {
				for _, start := range []string{"/", ":", `"`, "'", " ", "=", "(", ">"} { // not in the middle of a name
					pairs = append(pairs, start+form(secret)+"@", start+"…@")
				}
			}
		}
	}
	if pairs == nil {
		return nil
	}
	return strings.NewReplacer(pairs...)
}

// writtenForms are the forms in which a text can be part of an output: as it is, quoted, and in HTML.
var writtenForms = []func(string) string{
	func(s string) string { return s },
	func(s string) string { q := strconv.Quote(s); return q[1 : len(q)-1] },
	func(s string) string { return strings.ReplaceAll(template.HTMLEscapeString(s), "+", "&#43;") },
}

// secretParam matches a parameter of a query that is named like a password.
var secretParam = regexp.MustCompile(`(?i)[?&;](?:password|passwd|pwd|pass|(?:[a-z]+[_-])?token|api[_-]?key|(?:[a-z]+[_-])?secret|sig|signature)=[^&#\s"]+`)

// hideSecretsIn also hides the passwords in further arguments: the settings stored with a mirror,
// and the flags of earlier runs.
func (a *app) hideSecretsIn(args ...string) {
	a.secretive = append(a.secretive, args...)
	a.out.secrets.Store(redactor(slices.Concat(a.args, a.secretive)))
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
	if _, err := url.Parse("http://" + rest); err == nil { // not cut if the URL is invalid, because then the slash may be part of a password
		rest, _, _ = strings.Cut(rest, "/")
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
