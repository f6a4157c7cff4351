package source

import (
	"errors"
	"fmt"
	"html"
	"io/fs"
	"strings"
	"time"

	"instep/resourcesync"
)

// Published has the URIs at which readers find the documents of a site (1.1 §6.3).
type Published struct {
	BaseURL string         // ends in "/"
	Sets    []PublishedSet // the sets, in the order of the Source Description
}

// PublishedSet is a set of a published site, with the URIs of its documents. A URI is ""
// if there is no such document.
type PublishedSet struct {
	Name           string // the name of the set; "" for the default set
	CapabilityList string
	ResourceList   string // the URI of a copy of the Resource List; this URI never changes
	Sitemap        string // the plain sitemap, for search engines
	Maps           string // the Sitemap of the Resource Maps
}

// maxNamedSets is the largest number of sets that ReadPublished returns. Readers find
// further sets in the Source Description.
const maxNamedSets = 100

// ReadPublished reads what is published in the given directories. If several of them have
// the same file, only the first of these files is read. ReadPublished returns at most a
// hundred sets. The error is fs.ErrNotExist if nothing is published.
func ReadPublished(dirs []fs.FS) (Published, error) {
	info, err := overlaidInfo(dirs)
	if err != nil {
		return Published{}, err
	}
	names, err := describedSets(dirs, info)
	if err != nil {
		return Published{}, err
	}
	p := Published{BaseURL: info.BaseURL}
	for _, name := range names {
		p.Sets = append(p.Sets, publishedSet(dirs, layout{base: info.BaseURL, set: name, aliases: info.Aliases}))
	}
	return p, nil
}

// overlaidInfo returns the content of the first publication.json in the given directories
// that this program wrote. If there are only files of other programs, it returns a
// *NotOursError.
func overlaidInfo(dirs []fs.FS) (PublicationInfo, error) {
	missing := fmt.Errorf("looking for %q: %w", infoKey, fs.ErrNotExist)
	for _, dir := range dirs {
		info, err := ReadPublicationInfo(dir)
		switch {
		case errors.As(err, new(*NotOursError)):
			missing = err
		case !errors.Is(err, fs.ErrNotExist):
			return info, err
		}
	}
	return PublicationInfo{}, missing
}

func publishedSet(dirs []fs.FS, l layout) PublishedSet {
	uri := func(key string) string {
		if exists(dirs, key) {
			return l.uri(key)
		}
		return ""
	}
	s := PublishedSet{Name: l.set, ResourceList: uri(l.fixedResourceList()), Maps: uri(l.mapFile(mapsSitemapName))}
	if uri(l.capabilityList()) != "" {
		s.CapabilityList = l.capabilityListURI()
	}
	// the sitemap is at the alternative key if another program's file is at the usual key
	if s.Sitemap = uri(l.sitemap(true)); s.Sitemap == "" {
		s.Sitemap = uri(l.sitemap(false))
	}
	return s
}

func exists(dirs []fs.FS, key string) bool {
	for _, dir := range dirs {
		if info, err := fs.Stat(dir, key); err == nil && info.Mode().IsRegular() {
			return true
		}
	}
	return false
}

// describedSets returns the names of the sets in the Source Description. If the Source
// Description is an index, it returns no names.
func describedSets(dirs []fs.FS, info PublicationInfo) ([]string, error) {
	f, err := openDescription(dirs)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	defer f.Close()
	var names []string
	for en, err := range resourcesync.NewDecoder(f).Entries() {
		if err != nil {
			return nil, fmt.Errorf("reading %q: %w", descriptionKey, err)
		}
		key, ok := strings.CutPrefix(en.Loc, info.BaseURL)
		name, of := setOf(key)
		if !of {
			name, of = info.Aliases.setOf(key)
		}
		if ok && of {
			if names = append(names, name); len(names) == maxNamedSets {
				break
			}
		}
	}
	return names, nil
}

func openDescription(dirs []fs.FS) (fs.File, error) {
	for _, dir := range dirs {
		f, _, err := openRegular(dir, descriptionKey)
		switch {
		case err == nil:
			return f, nil
		case !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("reading %q: %w", descriptionKey, err)
		}
	}
	return nil, fmt.Errorf("reading %q: %w", descriptionKey, fs.ErrNotExist)
}

// readDescription reads the Source Description of a site into memory. This program wrote
// it, so it has at most 50,000 entries.
func readDescription(dirs []fs.FS) (h resourcesync.Header, entries []resourcesync.Entry, err error) {
	f, err := openDescription(dirs)
	if err != nil {
		return h, nil, err
	}
	defer f.Close()
	d := resourcesync.NewDecoder(f)
	for en, err := range d.Entries() {
		if err != nil {
			return h, nil, fmt.Errorf("reading %q: %w", descriptionKey, err)
		}
		entries = append(entries, en)
	}
	h, err = d.Header()
	return h, entries, err
}

// setOf returns the name of the set whose Capability List has this key.
func setOf(key string) (name string, ok bool) {
	dir, ok := strings.CutSuffix(key, "capabilitylist.xml")
	if !ok {
		return "", false
	}
	if named, of := strings.CutPrefix(dir, root+"sets/"); of {
		name = strings.TrimSuffix(named, "/")
	}
	return name, CheckSet(name) == nil && layout{set: name}.dir() == dir
}

// Robots returns the lines of a robots.txt for a publication (1.1 §6.3.4): a Sitemap line
// for each plain sitemap, and a comment for each Resource List. Resource Lists have no
// Sitemap line, since search engines report their ResourceSync elements as errors.
func (p Published) Robots() string {
	text := "# for search engines\n" + p.Sitemaps()
	text += "# ResourceSync is found without the lines below; only programs that read nothing but robots.txt need them:\n"
	for _, s := range p.Sets {
		if line := directive(s.ResourceList); line != "" {
			text += "# " + line
		}
	}
	return text
}

// Sitemaps returns those lines of Robots that are for search engines.
func (p Published) Sitemaps() (text string) {
	for _, s := range p.Sets {
		text += directive(s.Sitemap) + directive(s.Maps)
	}
	return text
}

func directive(uri string) string {
	if uri == "" {
		return ""
	}
	return "Sitemap: " + uri + "\n"
}

// HTML returns link elements for the head of the site's HTML pages (1.1 §6.3.3): one for
// each Capability List. A page should use only the links for those sets to which it
// belongs.
func (p Published) HTML() string {
	var b strings.Builder
	for _, s := range p.Sets {
		if s.CapabilityList != "" {
			fmt.Fprintf(&b, "<link rel=\"resourcesync\" href=\"%s\">\n", html.EscapeString(s.CapabilityList))
		}
	}
	return b.String()
}

// siteInfo is a cache of what is published on a site. The handler reads the documents again
// if the time or size of one of them has changed.
type siteInfo struct {
	stamp     [2]stamp
	published Published
}

// stamp identifies a version of a file by its time and size.
type stamp struct {
	time time.Time
	size int64
}

// stamps returns the time and size of each document that ReadPublished reads.
func stamps(dirs []fs.FS) (s [2]stamp) {
	for i, key := range []string{infoKey, descriptionKey} {
		for _, dir := range dirs {
			if info, err := fs.Stat(dir, key); err == nil {
				s[i] = stamp{info.ModTime(), info.Size()}
				break
			}
		}
	}
	return s
}
