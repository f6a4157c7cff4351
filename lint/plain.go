package lint

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"path"
	"strings"

	"instep/internal/weblink"
	"instep/resourcesync"
)

// HTML checks the links of a page that seem to be meant for a Capability List: they must
// have the right relation and be in the head (1.1 §6.3.3). An error means that the page
// could not be read.
func (c *Checker) HTML(ctx context.Context, uri string, src io.Reader) error {
	r := newRun(c, uri)
	in := newInput(ctx, src)
	page, err := weblink.HTML(in)
	if in.err != nil {
		return fmt.Errorf("read %q: %w", uri, in.err)
	}
	for i := range page.Links {
		l := &page.Links[i]
		if rule := r.active("html-link-rel-resourcesync", "html"); rule != nil && isMisnamed(l) {
			r.report(rule, Finding{Line: l.Line, Message: misnamed(l)})
		}
		if rule := r.active("html-link-in-head", "html"); rule != nil && l.Has(resourcesync.RelSource) && !l.Head {
			r.report(rule, Finding{Line: l.Line, Message: fmt.Sprintf("the link to %q stands outside of the head", l.Href)})
		}
	}
	return err
}

// LinkHeader checks the relation of the links in the header of a response that seem to be
// meant for a Capability List (1.1 §6.3.3). values are the values of the Link headers.
func (c *Checker) LinkHeader(uri string, values []string) {
	r := newRun(c, uri)
	rule := r.active("http-link-rel-resourcesync", "http")
	if rule == nil {
		return
	}
	for _, l := range weblink.Header(values) {
		if isMisnamed(&l) {
			r.report(rule, Finding{Message: misnamed(&l)})
		}
	}
}

func misnamed(l *weblink.Link) string {
	return fmt.Sprintf("the link to %q has rel=%q; a Capability List is linked with rel=%q", l.Href, strings.Join(l.Rels, " "), resourcesync.RelSource)
}

// isMisnamed reports whether a link without the relation RelSource seems to be meant for a
// Capability List: it has a relation like "resource-sync" or "CapabilityList", or leads to
// a file with a name like caps.xml.
func isMisnamed(l *weblink.Link) bool {
	if l.Has(resourcesync.RelSource) {
		return false
	}
	for _, rel := range l.Rels {
		switch squeeze(rel) {
		case "resourcesync", "capabilitylist", "resourcesynccapabilitylist":
			return true
		}
	}
	u, err := url.Parse(l.Href)
	if err != nil {
		return false
	}
	name := squeeze(path.Base(u.Path))
	return strings.Contains(name, "capabilitylist") || name == "caps.xml" || name == "capabilities.xml"
}

func squeeze(s string) string {
	return strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(s))
}

// mostRobots is the number of bytes at the beginning of a robots.txt that crawlers must
// read (RFC 9309 §2.5).
const mostRobots = 500 << 10

// Robots checks the Sitemap lines in a robots.txt (1.1 §6.3.4). It returns the URLs in
// these lines, in order. An error means that the file could not be read.
func (c *Checker) Robots(ctx context.Context, uri string, src io.Reader) ([]string, error) {
	r := newRun(c, uri)
	in := newInput(ctx, src)
	lines, err := weblink.Robots(in, mostRobots)
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", uri, cmp.Or(in.err, err))
	}
	rule := r.active("quirk-16-robots-sitemap-case", "robots")
	var targets []string
	for _, l := range lines {
		targets = append(targets, l.URI)
		if rule != nil && !l.Exact {
			r.report(rule, Finding{Line: l.Line, Message: fmt.Sprintf(`expected "Sitemap: " and an absolute URI, got %q`, l.Text)})
		}
	}
	return targets, nil
}
