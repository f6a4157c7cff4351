package main

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// redactor returns a Replacer that hides the logins in arguments of the command line, so that no
// message repeats a password.
func redactor(args []string) *strings.Replacer {
	var pairs []string
	for _, arg := range args {
		login := loginIn(arg)
		_, password, _ := strings.Cut(login, ":")
		for _, secret := range []string{login, password} {
			quoted := strconv.Quote(secret)
			if secret != "" {
				pairs = append(pairs, secret+"@", "…@", quoted[1:len(quoted)-1]+"@", "…@")
			}
		}
	}
	return strings.NewReplacer(pairs...)
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
