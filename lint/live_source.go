package lint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"instep/document"
	"instep/fetch"
	"instep/internal/weblink"
	"instep/resourcesync"
)

// WellKnown returns the well-known URI of the Source Description on the host of the
// given URI (1.1 §6.3.2), or "" if the given URI is not an HTTP URI.
func WellKnown(uri string) string {
	u, err := fetch.Parse(uri)
	if err != nil {
		return ""
	}
	return fetch.Origin(u) + "/.well-known/resourcesync"
}

// mostTargets is the largest number of links of one page or response that are followed.
const mostTargets = 20

// HTML checks that the links of a page with rel="resourcesync" lead to a Capability List
// (1.1 §6.3.3). It reports whether the page has such links. base is the URL of the page,
// after redirects. HTML returns an error only if reading src fails or ctx is done.
func (l *Live) HTML(ctx context.Context, uri, base string, src io.Reader) (bool, error) {
	page, err := weblink.HTML(newInput(ctx, src))
	if err != nil {
		return false, err
	}
	r := l.run(uri, "", "html")
	return r.checkTargets(ctx, "html-link-target-capabilitylist", page.Links, func(href string) (string, error) { return page.Resolve(base, href) })
}

// LinkHeader checks that the links with rel="resourcesync" in the header of a response lead
// to a Capability List (1.1 §6.3.3). It reports whether the header has such links. It
// returns an error only if ctx is done.
func (l *Live) LinkHeader(ctx context.Context, uri string, a Answer) (bool, error) {
	var page weblink.Page
	r := l.run(uri, "", "http")
	return r.checkTargets(ctx, "http-link-target-capabilitylist", weblink.Header(a.Header.Values("Link")), func(href string) (string, error) { return page.Resolve(a.URL, href) })
}

// checkTargets checks that the links with the relation RelSource lead to Capability Lists.
// It reports whether there are such links.
func (r *liveRun) checkTargets(ctx context.Context, id string, links []weblink.Link, resolve func(string) (string, error)) (bool, error) {
	rule := r.active(id, r.kind)
	n := 0
	for i := range links {
		l := &links[i]
		if !l.Has(resourcesync.RelSource) {
			continue
		}
		if n++; n > mostTargets {
			break
		}
		f := Finding{Line: l.Line}
		uri, err := resolve(l.Href)
		if err == nil {
			err = r.checkTarget(ctx, uri, f, rule)
		}
		if ctx.Err() != nil {
			return true, err
		}
		if err != nil && rule != nil {
			f.Message = fmt.Sprintf("the link to %q leads to no Capability List: %v", l.Href, err)
			r.report(rule, f)
		}
	}
	return n > 0, nil
}

// checkTarget makes a finding if the document at the URI is no Capability List, or if the
// server is busy. It returns an error if there is no readable document at the URI.
func (r *liveRun) checkTarget(ctx context.Context, uri string, f Finding, rule *Rule) error {
	h, err := r.l.headerAt(ctx, uri)
	switch {
	case err != nil && (isOurs(err) || errors.Is(err, fetch.Temporary)):
		return r.unreached(ctx, uri, f, err)
	case err != nil:
		return err
	case h.Capability == resourcesync.CapabilityCapabilityList:
		return nil
	}
	if rule != nil {
		f.Message = fmt.Sprintf("the link leads to %q, which is no Capability List: its capability is %q", uri, h.Capability)
		r.report(rule, f)
	}
	if misled := r.active("quirk-15-html-link-to-description", r.kind); misled != nil && h.Capability == resourcesync.CapabilityDescription {
		f.Message = fmt.Sprintf("the link leads to the Source Description %q", uri)
		r.report(misled, f)
	}
	return nil
}

// headerAt requests a document and returns its header. It reads the entries only if no
// rs:md comes before them.
func (l *Live) headerAt(ctx context.Context, uri string) (resourcesync.Header, error) {
	in := document.Reader{From: l.Client, Limits: l.Checker.Limits, Once: true}
	in.Enough = func(_ *document.Document, md bool) bool { return md }
	d, err := in.Read(ctx, uri)
	var bad *document.Error
	switch {
	case errors.As(err, &bad):
		return resourcesync.Header{}, bad.Err // only the wrapped error is returned, because the finding names the document already
	case err != nil:
		return resourcesync.Header{}, err
	}
	return d.Header, nil
}

// Source checks that the Source of a document can be found from its host (1.1 §6.3.2), and
// that no Sitemap line in robots.txt names the document, since such lines are for search
// engines. It returns an error only if ctx is done.
func (l *Live) Source(ctx context.Context, a Answer, d Document) error {
	uri := WellKnown(a.URL)
	if uri == "" {
		return nil
	}
	if err := l.checkRobots(ctx, a, d); err != nil {
		return err
	}
	r := l.run(uri, d.Profile, "description")
	want := resourcesync.CapabilityDescription
	if r.profile == ProfileDLib {
		want = resourcesync.CapabilityCapabilityList
	}
	h, err := l.headerAt(ctx, uri)
	switch {
	case ctx.Err() != nil:
		return err
	case err != nil && isOurs(err):
		return r.unreached(ctx, uri, Finding{}, err)
	case err == nil && h.Capability == want:
		return nil
	case err == nil:
		err = fmt.Errorf("the document has the capability %q", h.Capability)
	}
	if r.profile == ProfileDLib {
		r.kind = "capabilitylist"
		r.reportResponse("dlib-discovery", "there is no Capability List at %s: %v", uri, err)
		return nil
	}
	r.reportResponse("source-description-well-known", "there is no Source Description at %s: %v", uri, err)
	if errors.Is(err, fetch.Temporary) {
		return nil // no further search: a later request may find the Source Description at the well-known URI
	}
	return r.searchUp(ctx, d)
}

// NoSource reports that there is no Source at the given URI (1.1 §6.3). message lists the
// URIs that were searched.
func (l *Live) NoSource(uri, message string) {
	l.run(uri, "", "description").reportResponse("source-description-published", "%s", message)
}

// checkRobots checks that no Sitemap line of the host's robots.txt names the document, since
// these lines are for search engines.
func (l *Live) checkRobots(ctx context.Context, a Answer, d Document) error {
	u, err := fetch.Parse(a.URL)
	if err != nil {
		return nil // no host that serves HTTP, and so no robots.txt
	}
	robots := fetch.Origin(u) + "/robots.txt"
	r := l.run(robots, d.Profile, "robots")
	rule := r.active("sitemap-rs-elements", "robots")
	if rule == nil {
		return nil
	}
	resp, err := l.Client.Get(ctx, fetch.Request{URL: robots, Accept: "text/plain, */*;q=0.1", MaxBytes: mostBody})
	if err != nil {
		return ctx.Err()
	}
	defer resp.Body.Close()
	targets, err := new(Checker).Robots(ctx, robots, resp.Body)
	if err != nil {
		return ctx.Err()
	}
	if slices.Contains(targets, d.URI) || slices.Contains(targets, a.URL) {
		r.report(rule, Finding{Message: fmt.Sprintf("a Sitemap line offers %q to search engines, but the document has elements of ResourceSync", d.URI)})
	}
	return nil
}

// mostUp is the largest number of links with rel="up" or rel="index" that are followed from
// a document. Four links lead from a part of a list to its index, to the Capability List,
// to the Source Description and to the index of the Source Description.
const mostUp = 4

// searchUp searches for the Source Description by following the links with rel="up".
func (r *liveRun) searchUp(ctx context.Context, d Document) error {
	at, up := d.URI, d.Up
	capability := d.Capability
	for n := 0; capability != resourcesync.CapabilityDescription; n++ {
		if up == "" || n == mostUp {
			r.reportResponse("source-description-published", "neither the well-known URI nor the links up from %q lead to a Source Description", d.URI)
			return nil
		}
		whole, err := new(weblink.Page).Resolve(at, up)
		if err != nil {
			return nil // the search ends at an invalid link
		}
		h, err := r.l.headerAt(ctx, whole)
		switch {
		case ctx.Err() != nil:
			return err
		case err != nil && (isOurs(err) || errors.Is(err, fetch.Temporary)):
			return r.unreached(ctx, whole, Finding{}, err)
		case err != nil:
			up = ""
			continue
		}
		at, up, capability = whole, h.Link(resourcesync.RelUp), h.Capability
	}
	r.reportResponse("quirk-14-description-elsewhere", "the Source Description is at %s", at)
	return nil
}
