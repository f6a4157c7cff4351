package lint

import (
	"cmp"
	"net/url"
	"strings"

	"instep/resourcesync"
)

// WithSite sets the site of a Sitemap, for example the URL of the host whose robots.txt
// names the Sitemap. The Sitemap may then list all URLs below the site, and not only those
// in its own directory.
func WithSite(uri string) Option { return func(r *run) { r.site = uri } }

// sitemapElements checks that a Sitemap for search engines is plain: that it has no
// elements of ResourceSync. It makes one finding for the whole Sitemap.
func sitemapElements(r *run, rule *Rule) steps {
	if !r.isSitemap() {
		return steps{}
	}
	n := 0
	return steps{
		entry: func(e *entry) {
			if e.hasMD || len(e.Links) > 0 {
				n++
			}
		},
		end: func() {
			if n > 0 || r.seen.Metadata || len(r.header.Links) > 0 {
				r.atRoot(rule, "the Sitemap has elements of ResourceSync, in the root or in entries (%d entries have some)", n)
			}
		},
	}
}

// sitemapForeign checks that extensions of search engines, such as images, are used only in
// the entries of a urlset, because the XML schema of Sitemaps allows them nowhere else.
// Only the first entry that breaks the rule is reported.
func sitemapForeign(r *run, rule *Rule) steps {
	if !r.isSitemap() {
		return steps{}
	}
	reported := false
	return steps{
		entry: func(e *entry) {
			if e.Foreign != "" && r.header.Root == resourcesync.SitemapIndex && !reported {
				reported = true
				r.atEntry(rule, e, "an entry of a Sitemap index has elements of another vocabulary")
			}
		},
		end: func() {
			if r.header.Foreign != "" {
				r.atRoot(rule, "the root of the Sitemap has elements of another vocabulary")
			}
		},
	}
}

// sitemapScope checks that a Sitemap lists only URLs below its own directory, or below
// the site that WithSite has set.
func sitemapScope(r *run, rule *Rule) steps {
	base, err := url.Parse(cmp.Or(r.site, r.uri))
	if !r.isSitemap() || err != nil || base.Host == "" {
		return steps{}
	}
	dir := base.Path[:max(strings.LastIndexByte(base.Path, '/'), 0)] + "/"
	return steps{entry: func(e *entry) {
		u, err := url.Parse(e.Loc)
		if err != nil || u.Host == "" {
			return // skipped, because another rule reports invalid and relative URIs
		}
		if u.Scheme != base.Scheme || !strings.EqualFold(u.Host, base.Host) || !strings.HasPrefix(cmp.Or(u.Path, "/"), dir) {
			r.atEntry(rule, e, "%q is not below %s://%s%s, where all URLs of the Sitemap must be", e.Loc, base.Scheme, base.Host, dir)
		}
	}}
}
