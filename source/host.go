package source

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"instep/resourcesync"
)

// NewHostHandler serves several sites on one host, each below its Prefix, as NewHandler
// serves a site. If several prefixes match a path, the longest one counts. The handler also
// answers for the whole host: with a Source Description of the sets of all sites at the
// well-known URI (1.1 §6.3.2), with a robots.txt that has all plain sitemaps, and, if no
// site has the prefix "/", with a page of links to the sites. For these answers it uses Now
// and Report of one of the sites.
func NewHostHandler(sites []HandlerOptions) http.Handler {
	h := &hostHandler{}
	for _, o := range sites {
		h.sites = append(h.sites, newHandler(o))
	}
	slices.SortStableFunc(h.sites, func(a, b *handler) int { return len(b.o.Prefix) - len(a.o.Prefix) })
	return h
}

type hostHandler struct {
	sites []*handler // sorted by descending length of the prefix

	mu          sync.Mutex // protects the fields below
	stamps      [][2]stamp // the time and size that the documents of each site had when the description was merged
	description []byte
}

func (h *hostHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// A path outside all prefixes goes to the site with the shortest prefix, which
	// answers 404.
	site := h.sites[len(h.sites)-1]
	if i := slices.IndexFunc(h.sites, func(s *handler) bool { return strings.HasPrefix(r.URL.Path, s.o.Prefix) }); i >= 0 {
		site = h.sites[i]
	}
	site.answer(w, r, func(out *response) bool {
		switch r.URL.Path {
		case "/":
			if site.o.Prefix == "/" {
				return false
			}
			h.front(out)
			return true
		case "/" + wellKnownKey:
			h.wellKnown(out, r)
			return true
		case "/" + robotsName:
			if exists(site.o.Dirs, robotsName) && site.o.Prefix == "/" {
				return false
			}
			var lines string
			for _, s := range h.sites {
				lines += s.sitemaps()
			}
			robots(out, r, lines)
			return true
		}
		return false
	})
}

type hostPage struct {
	Heading, Generator string
	Sites              []string // the paths of the pages about the publications
	Links              []PageLink
}

func (h *hostHandler) front(w http.ResponseWriter) {
	p := hostPage{Heading: "Collections on this host"}
	for _, s := range h.sites {
		p.Sites = append(p.Sites, s.pathOf(aboutKey))
	}
	slices.Sort(p.Sites)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", cacheNever)
	if err := pages.ExecuteTemplate(w, "host", p); err != nil {
		h.sites[0].o.Report(fmt.Errorf("serving the list of collections: %w", err))
	}
}

// wellKnown answers with the merged Source Description of the host.
func (h *hostHandler) wellKnown(w http.ResponseWriter, r *http.Request) {
	text, err := h.describe()
	if err != nil {
		h.sites[0].o.Report(fmt.Errorf("serving %q: %w", wellKnownKey, err))
		http.Error(w, "a Source Description can't be read", http.StatusInternalServerError)
		return
	}
	sum := sha256.Sum256(text)
	w.Header().Set("Content-Type", "application/xml")
	w.Header().Set("Cache-Control", cacheNever)
	w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:16])+`"`)
	http.ServeContent(w, limitRanges(r), "", time.Time{}, bytes.NewReader(text))
}

// describe returns the merged Source Description. It merges again after a site has changed.
// If the Source Description of a site cannot be read, it returns an error, because readers
// would regard the sets of that site as deleted.
func (h *hostHandler) describe() ([]byte, error) {
	now := make([][2]stamp, len(h.sites))
	for i, s := range h.sites {
		now[i] = stamps(s.o.Dirs)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.description != nil && slices.Equal(now, h.stamps) {
		return h.description, nil
	}
	var all hostDescription
	for _, s := range h.sites {
		if err := all.add(s.o.Dirs); err != nil {
			return nil, err
		}
	}
	text, err := all.encode()
	if err == nil {
		h.stamps, h.description = now, text
	}
	return text, err
}

// hostDescription is the Source Description of a host, merged from those of its sites.
type hostDescription struct {
	about []resourcesync.Link  // links to the pages about the Sources
	sets  []resourcesync.Entry // Capability Lists
	parts []resourcesync.Entry // entries of an index: the Source Description of each site or, if that is an index, its parts
	many  bool                 // whether an index is needed, because there are too many sets or the Source Description of a site is an index
}

func (d *hostDescription) add(dirs []fs.FS) error {
	info, err := overlaidInfo(dirs)
	if err != nil {
		return err
	}
	head, entries, err := readDescription(dirs)
	if err != nil {
		return err
	}
	if about := head.Link(resourcesync.RelDescribedBy); about != "" {
		d.about = append(d.about, resourcesync.Link{Rel: resourcesync.RelDescribedBy, Href: about})
	}
	if head.Root == resourcesync.SitemapIndex {
		d.parts, d.many = append(d.parts, entries...), true
		return nil
	}
	uri := layout{base: info.BaseURL, aliases: info.Aliases}.descriptionURI()
	d.parts = append(d.parts, resourcesync.Entry{Loc: uri, Metadata: resourcesync.Metadata{Capability: resourcesync.CapabilityDescription}})
	d.sets = append(d.sets, entries...)
	d.many = d.many || len(d.sets) > resourcesync.MaxEntries
	return nil
}

// encode returns a Source Description of all sets. If there are too many sets, it is an
// index of the Source Descriptions of the sites (1.1 §8).
func (d *hostDescription) encode() ([]byte, error) {
	h := resourcesync.Header{Links: d.about}
	h.Capability = resourcesync.CapabilityDescription
	entries := d.sets
	if d.many {
		h.Root, entries = resourcesync.SitemapIndex, d.parts
	}
	var text bytes.Buffer
	_, err := encode(&text, h, listed(entries))
	return text.Bytes(), err
}
