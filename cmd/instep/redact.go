package main

import (
	"html/template"
	"io"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// redactor returns a Replacer that hides the logins in arguments, and the passwords in their
// queries, so that no message repeats a password. It returns nil if there are none.
func redactor(args []string) *strings.Replacer {
	hidden := map[string]string{}
	for _, arg := range args {
		for _, param := range secretParam.FindAllString(arg, -1) {
			for _, form := range writtenForms(param) {
				name, _, _ := strings.Cut(form, "=")
				hidden[form] = name + "=…"
			}
		}
		login := loginIn(arg)
		_, password, _ := strings.Cut(login, ":")
		for _, secret := range []string{login, password} {
			if secret == "" {
				continue
			}
			for _, form := range writtenForms(secret) {
				starts := []string{"/", ":", `"`, "'", " ", "=", "(", ">"} // not in the middle of a name
				if password == "" && len(secret) < minToken {
					starts = []string{"//"} // a user, who may have the same name as a file
				}
				for _, start := range starts {
					hidden[start+form+"@"] = start + "…@"
				}
			}
		}
	}
	if len(hidden) == 0 {
		return nil
	}
	var pairs []string
	for _, text := range slices.Backward(slices.Sorted(maps.Keys(hidden))) { // a longer text before its beginning
		pairs = append(pairs, text, hidden[text])
	}
	return strings.NewReplacer(pairs...)
}

// minToken is the length from which on the part of a URL before "@" counts as a token, and not
// as the name of a user or of a file.
const minToken = 16

// writtenForms returns the forms in which a text can be part of an output: as it is, quoted, and
// in HTML, each also as part of a command line.
func writtenForms(s string) (all []string) {
	for _, s := range []string{s, strings.ReplaceAll(s, "'", `'\''`)} {
		quoted := strconv.Quote(s)
		all = append(all, s, quoted[1:len(quoted)-1], strings.ReplaceAll(template.HTMLEscapeString(s), "+", "&#43;"))
	}
	return all
}

// secretParam matches a parameter of a query that is named like a password.
var secretParam = regexp.MustCompile(`(?i)[?&;](?:[a-z]+[_-])*(?:password|passwd|pwd|pass|token|api[_-]?key|secret|sig|signature)=[^&#\s"]+`)

// hideSecretsIn also hides the passwords in further arguments: the settings stored with a mirror,
// and the flags of earlier runs.
func (a *app) hideSecretsIn(args ...string) {
	a.secretive = slices.Compact(slices.Sorted(slices.Values(append(a.secretive, args...))))
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
