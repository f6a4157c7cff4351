package source

import (
	"cmp"
	"context"
	_ "embed" // the pages
	"fmt"
	"io"
	"iter"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"instep/internal/webpage"
	"instep/resourcesync"
)

//go:embed about.html
var pagesText string

// pages are the templates of the HTML pages, which use no scripts and load nothing from
// other hosts.
var pages = webpage.New("pages", pagesText, nil)

const (
	// maxPageSets is the largest number of sets that the page about a Source names. The
	// Source Description names all of them.
	maxPageSets = 1000
	// maxCountedSets is the largest number of sets for which the page about the Source
	// shows how many resources each set has. A page with these numbers is written again by
	// each publication of any set.
	maxCountedSets = 100
	// maxLatest is the largest number of changes on a page, which shows the latest ones.
	maxLatest = 10
)

type aboutPage struct {
	About
	Heading, BaseURL, Generator, DescriptionURI string
	Copy                                        copyHint
	Only                                        *setPage  // the set, if there is only one; otherwise nil
	Sets                                        []setPage // sorted by name
	More                                        int       // the number of sets that the page does not name
	Links                                       []PageLink
}

// Several reports whether the Source has more than one set.
func (p aboutPage) Several() bool { return p.Only == nil }

// setPage is the content of the page about a set. The page about the Source shows a part of
// it for each set.
type setPage struct {
	About
	Heading, Name, BaseURL, Generator string
	Page, CapabilityList              string // URIs
	Source, SourceHeading             string // the URI and the heading of the page about the Source
	Copy                              copyHint
	Known                             bool // whether the page shows the numbers of resources and bytes
	Resources, Bytes                  int64
	At, ChangedAt                     time.Time
	Latest                            []pageChange
	Offers                            []pageOffer
	Sitemap, Maps                     string
	Links                             []PageLink
}

type copyHint struct {
	Title, Command string
	Licensed       bool // whether the publisher has stated a licence
}

type pageOffer struct{ Name, Holds, URI string }

type pageChange struct {
	LatestChange
	Name string // the URI without the base URL and without percent escapes
}

// LatestChange is one of the latest changes, which the HTML pages list.
type LatestChange struct {
	URI    string
	Change resourcesync.Change
	At     time.Time
}

var capabilityNames = map[resourcesync.Capability][2]string{
	resourcesync.CapabilityResourceList:        {"Resource List", "all resources"},
	resourcesync.CapabilityResourceDump:        {"Resource Dump", "all resources, packed as ZIP files"},
	resourcesync.CapabilityChangeList:          {"Change List", "what was created, updated and deleted"},
	resourcesync.CapabilityChangeDump:          {"Change Dump", "changed resources, packed as ZIP files"},
	resourcesync.CapabilityResourceListArchive: {"Resource List Archive", "earlier Resource Lists"},
	resourcesync.CapabilityResourceDumpArchive: {"Resource Dump Archive", "earlier Resource Dumps"},
	resourcesync.CapabilityChangeListArchive:   {"Change List Archive", "earlier Change Lists"},
	resourcesync.CapabilityChangeDumpArchive:   {"Change Dump Archive", "earlier Change Dumps"},
}

// aboutSource writes the page about the Source, to which the Source Description links with
// rel="describedby".
func (m *maker) aboutSource(ctx context.Context, sets []string) error {
	p := aboutPage{
		About: m.p.About, Heading: m.sourceHeading(), BaseURL: m.p.BaseURL, Generator: m.p.Generator, DescriptionURI: m.l.descriptionURI(),
		Copy: copyHint{"Copy this collection", copyCommand(m.p.BaseURL, m.p.BaseURL, ""), m.p.About.Licence != ""},
	}
	for _, set := range sets[:min(len(sets), maxPageSets)] {
		one, err := m.setOnPage(ctx, set, len(sets) <= maxCountedSets)
		if err != nil {
			return err
		}
		p.Sets = append(p.Sets, one)
	}
	if p.More = len(sets) - len(p.Sets); len(sets) == 1 {
		p.Only, p.Links = &p.Sets[0], p.Sets[0].Links
	}
	return m.page(ctx, aboutKey, "about", p)
}

// setOnPage returns the part of the page about the Source that shows one set. If counted
// is false, this part has only the heading of the set and a link.
func (m *maker) setOnPage(ctx context.Context, set string, counted bool) (setPage, error) {
	if set == m.l.set {
		return m.setPage(m.l, m.policy.About, &m.pub), nil
	}
	l := m.p.layout(set)
	if !counted {
		return setPage{Heading: setHeading(About{}, set), Page: l.uri(l.page())}, nil
	}
	pub, _, err := m.p.Journal.Last(ctx, set)
	if err != nil {
		return setPage{}, fmt.Errorf("reading the last publication of set %q: %w", set, err)
	}
	return m.setPage(l, pub.About, &pub), nil
}

func (m *maker) setPage(l layout, about About, pub *Publication) setPage {
	p := setPage{
		About: about, Heading: setHeading(about, l.set), Name: l.set, BaseURL: m.p.BaseURL, Generator: m.p.Generator,
		Page: l.uri(l.page()), CapabilityList: l.capabilityListURI(), Source: l.uri(aboutKey), SourceHeading: m.sourceHeading(),
		Copy:  copyHint{"Copy this set", copyCommand(m.p.BaseURL, l.capabilityListURI(), l.set), about.Licence != ""},
		Known: true, Resources: pub.Resources, Bytes: pub.Bytes, At: pub.ListAt, ChangedAt: pub.ChangedAt,
	}
	for _, c := range pub.Latest {
		p.Latest = append(p.Latest, pageChange{c, nameBelow(m.p.BaseURL, c.URI)})
	}
	for _, o := range pub.Offers {
		name := capabilityNames[o.Capability]
		p.Offers = append(p.Offers, pageOffer{name[0], name[1], o.URI})
	}
	if n := len(pub.SitemapKeys); n > 0 {
		p.Sitemap = l.uri(pub.SitemapKeys[n-1])
	}
	if p.Links = pub.PageLinks; len(p.Links) > 0 {
		p.Maps = l.uri(pub.MapListKeys[0])
	}
	return p
}

// aboutSet writes the page about the set, to which the Capability List links with
// rel="describedby".
func (m *maker) aboutSet(ctx context.Context, _ Update) error {
	return m.page(ctx, m.l.page(), "set", m.setPage(m.l, m.policy.About, &m.pub))
}

func (m *maker) page(ctx context.Context, key, name string, data any) error {
	return m.st.add(ctx, Document{Key: key, Rank: rankPages}, func(w io.Writer) error {
		return pages.ExecuteTemplate(w, name, data)
	})
}

func (m *maker) sourceHeading() string { return cmp.Or(m.p.About.Title, hostAndPath(m.p.BaseURL)) }

func setHeading(a About, set string) string {
	switch {
	case a.Title != "":
		return a.Title
	case set != "":
		return set
	}
	return "Default set"
}

func hostAndPath(uri string) string {
	u, err := url.Parse(uri)
	if err != nil {
		return uri
	}
	return strings.TrimSuffix(u.Host+u.Path, "/")
}

// copyCommand returns a command that copies a Source or a set. The target directory in the
// command is named after the host, the last element of the base URL's path, and the set.
func copyCommand(base, uri, set string) string {
	dir := "mirror"
	if u, err := url.Parse(base); err == nil {
		dir = u.Hostname()
		if last := path.Base(u.Path); last != "/" && last != "." {
			dir += "-" + last
		}
	}
	if set != "" {
		dir += "-" + set
	}
	return webpage.Shell("instep", "sync", uri, "./"+strings.ReplaceAll(dir, ":", "-"))
}

func nameBelow(base, uri string) string {
	name, below := strings.CutPrefix(uri, base)
	if plain, err := url.PathUnescape(name); below && err == nil && utf8.ValidString(plain) {
		return plain
	}
	return name
}

// keepLatest yields the changes unchanged. After the last one, it stores the last maxLatest
// changes in *to, newest first. If there are fewer changes, it adds changes from the slice
// older that were before the time start.
func keepLatest(to *[]LatestChange, older []LatestChange, start time.Time, changes iter.Seq2[resourcesync.Entry, error]) iter.Seq2[resourcesync.Entry, error] {
	return func(yield func(resourcesync.Entry, error) bool) {
		last := slices.DeleteFunc(slices.Clone(older), func(c LatestChange) bool { return !c.At.Before(start) })
		slices.Reverse(last) // oldest first
		for en, err := range changes {
			if err == nil {
				last = append(last, LatestChange{en.Loc, en.Change, en.Datetime.Time()})
				last = last[max(0, len(last)-maxLatest):]
			}
			if !yield(en, err) {
				return
			}
		}
		slices.Reverse(last)
		*to = append([]LatestChange(nil), last...)
	}
}
