package fetch

import (
	"fmt"
	"net/http"
	"net/url"
)

func isRedirect(code int) bool {
	switch code {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// redirect returns the target of a redirect, or an error if the redirect is not allowed. It
// does not check the IP address of the target, which is checked later, when the target is
// requested.
func (a *attempt) redirect(ex *exchange, hops int) (*url.URL, error) {
	from := ex.url
	loc := ex.resp.Header.Get("Location")
	refuse := func(k Kind, msg, hint string) (*url.URL, error) {
		return nil, &Error{Op: "get", URL: from.String(), Kind: k, Status: ex.resp.StatusCode, Msg: msg, Hint: hint}
	}
	if loc == "" {
		return refuse(Protocol, "the redirect has no Location", "")
	}
	if hops >= maxRedirects {
		return refuse(Protocol, fmt.Sprintf("there are more than %d redirects", maxRedirects), "")
	}
	ref, err := ParseReference(loc)
	if err != nil {
		return refuse(Protocol, fmt.Sprintf("the redirect leads to %q, which is not a URI", shorten(loc)), "")
	}
	ref = from.ResolveReference(ref)
	to, err := Parse(ref.String())
	if err != nil {
		return refuse(Refused, fmt.Sprintf("the redirect leads to %q", shorten(ref.Redacted())), "only http and https URIs without a user name and password are allowed")
	}
	if from.Scheme == "https" && to.Scheme == "http" {
		return refuse(Refused, fmt.Sprintf("the redirect leads from https to %q", to), "redirects from https to http are never followed")
	}
	if o := Origin(to); o != Origin(a.start) && !a.c.origin[o] && !isUpgrade(a.start, to) {
		return nil, &Error{
			Op: "get", URL: from.String(), Kind: Refused, Status: ex.resp.StatusCode,
			Msg:  fmt.Sprintf("the redirect leads to another origin, %q", to),
			Hint: "allow it with --allow-origin " + o, AllowOrigin: o,
		}
	}
	return to, nil
}

// isUpgrade reports whether a redirect leads from http to https on the same host, both
// with default ports. No other redirect may change the origin without permission.
func isUpgrade(from, to *url.URL) bool {
	fh, fp := hostPort(from)
	th, tp := hostPort(to)
	return from.Scheme == "http" && to.Scheme == "https" && fh == th && fp == "80" && tp == "443"
}
