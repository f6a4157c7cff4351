package discover

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"net/url"

	"instep/fetch"
	"instep/internal/weblink"
	"instep/resourcesync"
)

// page is the response to a request for the URI that the user gave. Its Link headers and
// its HTML may link to the Source (1.1 §6.3.3).
type page struct {
	base   *url.URL // URL of the response
	header []weblink.Link
	isHTML bool
	html   weblink.Page
	err    error // error that ended the reading of the HTML; the links before the error are used
}

// readGiven requests the URI that the user gave: the URI of a document, a page or a
// resource. It sets no size limit for the request, because even a large resource may
// have a useful Link header.
func (s *search) readGiven(ctx context.Context, t *trip, uri string) (*doc, error) {
	resp, err := t.open(ctx, uri, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	base, err := fetch.Parse(resp.URL)
	if err != nil {
		return nil, err
	}
	s.page = &page{base: base, header: weblink.Header(resp.Header.Values("Link"))}
	d, begin, err := t.read(resp)
	if errors.As(err, new(*notDocumentError)) {
		s.page.read(resp, begin)
	}
	return d, err
}

// read stores the links of an HTML page. The parameter begin has the bytes that were
// already read from the body of resp.
func (p *page) read(resp *fetch.Response, begin []byte) {
	if p.isHTML = isHTML(resp.ContentType, begin); p.isHTML {
		rest := io.LimitReader(resp.Body, int64(maxHead-len(begin)))
		p.html, p.err = weblink.HTML(io.MultiReader(bytes.NewReader(begin), rest))
	}
}

// isHTML reports whether a response has the media type of HTML. HTML in responses of
// another media type, such as downloads, must not influence the search.
func isHTML(served string, begin []byte) bool {
	if served == "" {
		served = http.DetectContentType(begin)
	}
	t, _, _ := mime.ParseMediaType(served)
	return t == "text/html" || t == "application/xhtml+xml"
}

func (s *search) followHeaders(ctx context.Context, t *trip) error {
	p := s.page
	s.setOrigin(p.base)
	l := p.leads()
	for i := range p.header {
		if link := &p.header[i]; link.Has(resourcesync.RelSource) && p.describesPage(link) {
			u, err := p.base.Parse(link.Href)
			l.refs = append(l.refs, s.reference(u, 0, err))
		}
	}
	return s.followAll(ctx, t, &l)
}

func (p *page) leads() leads {
	return leads{
		at: p.base.String(), none: "no link with rel=\"resourcesync\"",
		want: resourcesync.CapabilityCapabilityList, quirk: resourcesync.QuirkSourceLink,
	}
}

// describesPage reports whether a Link header describes the page itself, and not the URI of
// its "anchor" parameter (RFC 8288 §3.2).
func (p *page) describesPage(l *weblink.Link) bool {
	if l.Anchor == "" {
		return true
	}
	u, err := p.base.Parse(l.Anchor)
	if err != nil {
		return false
	}
	u.Fragment, u.RawFragment = "", ""
	return u.String() == p.base.String()
}

func (s *search) followElements(ctx context.Context, t *trip) error {
	p := s.page
	if !p.isHTML {
		return &nowhereError{none: "not an HTML page"}
	}
	s.setOrigin(p.base)
	l := p.leads()
	for _, link := range p.html.Links {
		if !link.Has(resourcesync.RelSource) {
			continue
		}
		if !link.Head {
			t.note(Notice{URI: l.at, Line: link.Line, Msg: fmt.Sprintf("the link to %q is outside of the head of the page", link.Href)})
		}
		l.refs = append(l.refs, s.resolved(p, link.Href, link.Line))
	}
	if len(l.refs) == 0 && p.err != nil {
		return p.err
	}
	return s.followAll(ctx, t, &l)
}

func (s *search) resolved(p *page, href string, line int) ref {
	whole, err := p.html.Resolve(p.base.String(), href)
	if err != nil {
		return ref{line: line, err: err}
	}
	u, err := url.Parse(whole)
	return s.reference(u, line, err)
}

// followRobots follows the Sitemap lines of robots.txt (1.1 §6.3.4). Most Sitemaps have
// no ResourceSync elements. Of these only the header is read.
func (s *search) followRobots(ctx context.Context, t *trip, uri string) error {
	base, lines, err := t.robots(ctx, uri)
	if err != nil {
		return err
	}
	s.setOrigin(base)
	t.headersOnly = true
	l := leads{at: base.String(), none: "no Sitemap line", want: resourcesync.CapabilityResourceList, quirk: resourcesync.QuirkRobots}
	odd := 0
	for _, line := range lines {
		if !line.Exact {
			odd++
		}
		u, err := base.Parse(line.URI)
		l.refs = append(l.refs, s.reference(u, line.Line, err))
	}
	if err := s.followAll(ctx, t, &l); err != nil {
		return err
	}
	if odd > 0 {
		t.note(Notice{URI: l.at, Quirk: l.quirk, Msg: fmt.Sprintf("%d of %d Sitemap lines do not consist of \"Sitemap:\" and an absolute URI; they are used anyway", odd, len(lines))})
	}
	return nil
}

func (t *trip) robots(ctx context.Context, uri string) (*url.URL, []weblink.Sitemap, error) {
	resp, err := t.open(ctx, uri, math.MaxInt64)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	base, err := fetch.Parse(resp.URL)
	if err != nil {
		return nil, nil, err
	}
	lines, err := weblink.Robots(resp.Body, maxHead)
	return base, lines, err
}
