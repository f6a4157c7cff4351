package inputs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"instep/discover"
	"instep/fetch"
	"instep/internal/spool"
	"instep/lint"
	"instep/resourcesync"
)

// listHead is the number of bytes that are read from each list of a site: enough for the
// root element and a few thousand entries.
const listHead = 512 << 10

// isSite reports whether a URL that cannot be read may be that of a site or folder. The server may
// answer 404 or 403 for it, for example because there is no index.html. The path of the URL must
// not look like that of a ResourceSync document.
func isSite(uri string, err error) bool {
	u, parseErr := url.Parse(uri)
	return parseErr == nil && (errors.Is(err, fetch.NotFound) || errors.Is(err, fetch.Denied)) && !lint.Candidate(u.Path)
}

func deniedOnly(err error) error {
	if errors.Is(err, fetch.Denied) {
		return err
	}
	return nil
}

// checkPage checks a web page and, unless Sample is 0, the Source of the page's site.
func (l *Linter) checkPage(ctx context.Context, uri string, c content, a *lint.Answer) error {
	head, err := c.firstBytes()
	if err != nil {
		return l.fail(ctx, uri, fmt.Errorf("read %q: %w", uri, err))
	}
	if fetch.IsWall(head[:min(len(head), fetch.PageHead)]) {
		blocked := fetch.Blocked(uri, head)
		if l.Sample == 0 {
			return l.reportBlocked(ctx, uri, blocked)
		}
		return l.checkSite(ctx, uri, blocked)
	}
	if err := l.checkAnswer(ctx, uri, c, a); err != nil || l.Sample == 0 {
		return err
	}
	return l.checkSite(ctx, uri, nil)
}

// checkSite finds the Source of a site, and checks its Source Description, its Capability Lists
// and the beginning of each list. blocked is not nil if the server blocked the request for the
// page. It is then reported as the reason why no Source was found.
func (l *Linter) checkSite(ctx context.Context, uri string, blocked error) error {
	src, err := discover.Find(ctx, discover.Finder{Client: l.client, AllowOrigins: l.AllowOrigins, Limits: l.Checker.Limits}, uri)
	switch {
	case err == nil:
	case blocked != nil && !errors.Is(err, fetch.Temporary):
		return l.reportBlocked(ctx, uri, blocked)
	default:
		return l.reportNoSource(ctx, uri, err)
	}
	l.Report.Found(uri, src.Tried)
	for _, d := range siteDocuments(src) {
		if err := l.checkSiteDocument(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

type siteDoc struct {
	uri, kind string
	whole     bool // whether to check the whole document rather than its first listHead bytes
}

func siteDocuments(src *discover.Source) (docs []siteDoc) {
	known := map[string]bool{"": true}
	add := func(uri string, c resourcesync.Capability, whole bool) {
		if !known[uri] {
			known[uri] = true
			docs = append(docs, siteDoc{uri, string(c), whole})
		}
	}
	hasCapabilityList := func(s *discover.Set) bool { // a set without a Capability List has the URI of one of its lists
		return !slices.Contains(s.ResourceLists, s.URI) && !slices.Contains(s.ChangeLists, s.URI)
	}
	if way := src.Tried[len(src.Tried)-1].Way; way != discover.WayRobots { // for WayRobots nothing is added, because src.Description is then a robots.txt
		add(src.Description, resourcesync.CapabilityDescription, true)
	}
	for i := range src.Sets {
		if hasCapabilityList(&src.Sets[i]) {
			add(src.Sets[i].URI, resourcesync.CapabilityCapabilityList, true)
		}
	}
	for i := range src.Sets {
		s := &src.Sets[i]
		for _, uri := range s.ResourceLists {
			add(uri, resourcesync.CapabilityResourceList, false)
		}
		for _, uri := range s.ChangeLists {
			add(uri, resourcesync.CapabilityChangeList, false)
		}
		for _, c := range slices.Sorted(maps.Keys(s.Other)) {
			for _, uri := range s.Other[c] {
				add(uri, c, false)
			}
		}
	}
	return docs
}

func (l *Linter) checkSiteDocument(ctx context.Context, d siteDoc) error {
	limit := int64(listHead)
	if d.whole {
		limit = maxSpooled
	}
	f, a, truncated, err := downloadHead(ctx, l.client, d.uri, limit)
	if err != nil {
		return l.fail(ctx, d.uri, err)
	}
	defer f.Close()
	c := content{f, f.Len()}
	var opts []lint.Option
	if d.kind != "" {
		opts = append(opts, lint.WithKind(d.kind))
	}
	if truncated {
		opts = append(opts, lint.WithHead())
	}
	return l.checkDocument(ctx, &Input{URI: d.uri, Open: c.open}, func(ctx context.Context, uri string, r io.Reader) (lint.Document, error) {
		doc, err := l.checker().Document(ctx, uri, r, opts...)
		if err != nil || doc.Capability == "" {
			return doc, err
		}
		err = l.liveChecks().Document(ctx, &doc, a, c.open)
		return doc, err
	})
}

// downloadHead downloads at most limit bytes. truncated is true if the response has more.
func downloadHead(ctx context.Context, client *fetch.Client, uri string, limit int64) (f *spool.File, a lint.Answer, truncated bool, err error) {
	resp, err := client.Document(ctx, uri, maxSpooled, fetch.Validators{})
	if err != nil {
		return nil, a, false, err
	}
	f, err = spoolAll(io.LimitReader(resp.Body, limit))
	if err == nil {
		n, _ := io.ReadFull(resp.Body, make([]byte, 1)) // an error is treated as the end of the response
		truncated = n > 0
	}
	return f, lint.Answer{URL: resp.URL, Header: resp.Header}, truncated, errors.Join(err, resp.Body.Close())
}

func (l *Linter) reportNoSource(ctx context.Context, uri string, err error) error {
	none, ok := errors.AsType[*discover.Error](err)
	if !ok || ctx.Err() != nil {
		return l.fail(ctx, uri, err)
	}
	if errors.Is(err, fetch.Temporary) {
		return l.reportBlocked(ctx, uri, err)
	}
	last := none.Tried[len(none.Tried)-1]
	if broken, _ := none.Broken(); broken != "" && broken != uri {
		found := l.errors
		if err := l.checkSiteDocument(ctx, siteDoc{uri: broken, whole: true}); err != nil || l.errors > found {
			return err
		}
	}
	if _, refused := errors.AsType[*fetch.Error](last.Err); refused && !errors.Is(last.Err, fetch.NotFound) {
		return l.fail(ctx, uri, err)
	}
	l.Sourceless = true
	return l.checkDocument(ctx, &Input{URI: uri}, func(_ context.Context, uri string, _ io.Reader) (lint.Document, error) {
		l.liveChecks().NoSource(uri, none.Summary())
		return lint.Document{URI: uri, Kind: "site", Complete: true}, nil
	})
}

// reportBlocked reports that a site cannot be checked for a temporary reason, such as a block by its
// server, or because it asks for a login, which is not temporary.
func (l *Linter) reportBlocked(ctx context.Context, uri string, err error) error {
	fe, failed := errors.AsType[*fetch.Error](err)
	asksForLogin := failed && (fe.Status == http.StatusUnauthorized || fe.Status == http.StatusProxyAuthRequired)
	l.Blocked = l.Blocked || !asksForLogin
	return l.fail(ctx, uri, err)
}
