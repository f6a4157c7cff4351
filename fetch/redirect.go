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

// redirect returns the target of the redirect in ex if it is allowed. The address and
// credentials for the target are checked when it is requested.
func (a *attempt) redirect(ex *exchange, hops int) (*url.URL, error) {
	from := ex.url
	loc := ex.resp.Header.Get("Location")
	refuse := func(k Kind, msg, hint string) (*url.URL, error) {
		return nil, &Error{Op: "get", URL: from.String(), Kind: k, Status: ex.resp.StatusCode, Msg: msg, Hint: hint}
	}
	if loc == "" {
		return refuse(Protocol, "a redirect without Location", "")
	}
	if hops >= a.c.opt.MaxRedirects {
		return refuse(Protocol, fmt.Sprintf("more than %d redirects", max(a.c.opt.MaxRedirects, 0)), "")
	}
	ref, err := ParseReference(loc)
	if err != nil {
		return refuse(Protocol, fmt.Sprintf("a redirect to %q, which is not a URI", shorten(loc)), "")
	}
	ref = from.ResolveReference(ref)
	to, err := Parse(ref.String())
	if err != nil {
		return refuse(Refused, fmt.Sprintf("a redirect to %q", shorten(ref.Redacted())), "only http and https URIs without credentials are fetched")
	}
	if from.Scheme == "https" && to.Scheme == "http" {
		return refuse(Refused, fmt.Sprintf("a redirect from https to %q", to), "a connection is never made less safe")
	}
	if o := Origin(to); o != Origin(a.start) && !a.c.origin[o] && !isUpgrade(a.start, to) {
		return nil, &Error{
			Op: "get", URL: from.String(), Kind: Refused, Status: ex.resp.StatusCode,
			Msg:  fmt.Sprintf("a redirect to another origin, %q", to),
			Hint: "allow it with --allow-origin " + o, AllowOrigin: o,
		}
	}
	return to, nil
}

// isUpgrade reports whether to is the https origin of the same host, both with default
// ports. No other change of origin is followed without permission.
func isUpgrade(from, to *url.URL) bool {
	fh, fp := hostPort(from)
	th, tp := hostPort(to)
	return from.Scheme == "http" && to.Scheme == "https" && fh == th && fp == "80" && tp == "443"
}
