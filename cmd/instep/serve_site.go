package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"instep/internal/aggregate"
	"instep/internal/oaipmh"
	"instep/internal/publish"
	"instep/internal/scan"
	"instep/internal/versions"
	"instep/ore"
	"instep/resourcesync"
	"instep/source"
)

// site is a publication that is served from one or more directories.
type site struct {
	roots  []*os.Root
	dirs   []fs.FS
	base   string // the base URL of the publication; "" if nothing is published in the directories
	prefix string

	// The following fields are nil without a configuration file.
	sets            []source.ServedSet
	label           func(path string) source.Label
	representations func(path string) []string

	// Each of the following fields is nil if its service is switched off.
	view     *publish.View   // packages on demand
	versions *versions.Store // TimeGates and TimeMaps
	oai      *oaipmh.Handler
	closeOAI func() error
	gateway  *oaipmh.Gateway // set only in the first site of a host; serves the whole host
}

func openSite(dirs []string) (*site, error) {
	s := &site{prefix: "/"}
	var foreign error // the error for a directory in which another program wrote publication.json; nil if there is none
	for _, name := range dirs {
		root, err := os.OpenRoot(name)
		if err != nil {
			s.close()
			return nil, err
		}
		s.roots = append(s.roots, root)
		dir := publish.Files{Root: root}
		s.dirs = append(s.dirs, dir)
		switch info, err := source.ReadPublicationInfo(dir); {
		case err == nil && s.base != "" && s.base != info.BaseURL:
			s.close()
			return nil, errApart(name, info.BaseURL, s.base)
		case err == nil:
			s.base, s.prefix = info.BaseURL, info.Prefix()
		case errors.As(err, new(*source.NotOursError)):
			foreign = err
		case !errors.Is(err, fs.ErrNotExist):
			s.close()
			return nil, err
		}
	}
	if s.base == "" && foreign != nil {
		s.close()
		return nil, foreign
	}
	return s, nil
}

// isPublished reports whether one of the directories has the documents of a Source, published by
// this or another program.
func (s *site) isPublished() bool {
	return slices.ContainsFunc(s.dirs, func(dir fs.FS) bool {
		_, err := fs.Stat(dir, wellKnown)
		return err == nil
	})
}

func errApart(dir, base, other string) error {
	return usagef("%q is published for %s, but another of these directories for %s: serve the two separately", dir, base, other)
}

// openHost opens the publications of one host. A directory without a publication belongs to the
// publication in the next directory or, if there is none, to the last publication.
func openHost(names []string) ([]*site, error) {
	groups, err := byPublication(names)
	if err != nil {
		return nil, err
	}
	var sites []*site
	for _, dirs := range groups {
		s, err := openSite(dirs)
		if err == nil {
			sites = append(sites, s)
			err = oneHost(sites[0], s, dirs)
		}
		if err != nil {
			closeAll(sites)
			return nil, err
		}
	}
	return sites, nil
}

func byPublication(names []string) (groups [][]string, err error) {
	var waiting []string // directories that will belong to the next publication that is found
	indexes := map[string]int{}
	for _, name := range names {
		waiting = append(waiting, name)
		base, err := publishedFor(name)
		if err != nil {
			return nil, err
		}
		if base == "" {
			continue
		}
		i, known := indexes[base]
		if !known {
			i = len(groups)
			indexes[base], groups = i, append(groups, nil)
		}
		groups[i], waiting = append(groups[i], waiting...), nil
	}
	if len(groups) == 0 {
		return [][]string{waiting}, nil
	}
	last := &groups[len(groups)-1]
	*last = append(*last, waiting...)
	return groups, nil
}

func publishedFor(name string) (string, error) {
	root, err := os.OpenRoot(name)
	if err != nil {
		return "", err
	}
	defer root.Close()
	info, err := source.ReadPublicationInfo(publish.Files{Root: root})
	if errors.Is(err, fs.ErrNotExist) || errors.As(err, new(*source.NotOursError)) {
		return "", nil
	}
	return info.BaseURL, err
}

// oneHost requires that two sites have the same scheme and host, because the server has one
// address.
func oneHost(first, s *site, dirs []string) error {
	one, err := url.Parse(first.base)
	if err != nil {
		return err
	}
	other, err := url.Parse(s.base)
	if err != nil {
		return err
	}
	if one.Scheme == other.Scheme && one.Host == other.Host {
		return nil
	}
	return errApart(dirs[len(dirs)-1], s.base, first.base)
}

func closeAll(sites []*site) {
	for _, s := range sites {
		s.close()
	}
}

func openConfigured(ctx context.Context, c *configuration, onDemand bool, now func() time.Time) (*site, error) {
	s, err := openSite(c.publishedDirs())
	if err != nil {
		return nil, err
	}
	if err := s.configure(ctx, c, onDemand, now); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *site) configure(ctx context.Context, c *configuration, onDemand bool, now func() time.Time) error {
	base := c.BaseURL // normalised by c.check
	if s.base != "" && s.base != base {
		return c.errorAt("base_url", fmt.Errorf("the directories are published for another base URL, %s", s.base))
	}
	s.base, s.prefix = base, source.PublicationInfo{BaseURL: base}.Prefix()
	s.representations = c.representations
	s.sets, s.label = c.servedSets(), func(path string) source.Label {
		label := c.label(path)
		label.Links = s.mapLinks(c, path)
		return label
	}
	placed, err := c.placedSite()
	if err != nil {
		return err
	}
	if slices.ContainsFunc(placed.Sets, func(set publish.Set) bool { return set.TimeGates }) {
		if s.versions, err = versions.OpenReadOnly(ctx, placed.State, nil); err != nil {
			return fmt.Errorf("open the versions of resources in the state %q: %w", placed.State, err)
		}
	}
	if !onDemand {
		return nil
	}
	placed.Now = now
	placed.Sets = slices.DeleteFunc(placed.Sets, func(set publish.Set) bool { return set.Policy.OnDemand == "" })
	if len(placed.Sets) == 0 {
		return usagef("--on-demand: expected dumps: {on_demand: true} for a set in %s", c.file.name)
	}
	s.view, err = publish.OpenView(ctx, placed)
	return err
}

func (c *configuration) servedSets() []source.ServedSet {
	sets := make([]source.ServedSet, len(c.Sets))
	for i := range c.Sets {
		sets[i] = source.ServedSet{Name: c.Sets[i].Name, Covers: c.Sets[i].covers}
	}
	return sets
}

// covers reports whether the file at a path is in the set, as far as the path shows that. It returns
// false for a set whose resources are listed elsewhere, because the list is not known here.
func (s *setConfig) covers(path string) bool {
	if len(s.From.givenKeys()) > 0 && s.From.Mirror == "" {
		return false
	}
	choice := s.choice()
	return choice.Covers(path)
}

func (c *configuration) label(path string) source.Label {
	told := scan.RuleFor(c.rulesOf(path), path)
	return source.Label{Type: told.Type, Encoding: told.Encoding}
}

func (c *configuration) rulesOf(path string) (rules []scan.Rule) {
	for i := range c.Sets {
		if c.Sets[i].covers(path) {
			rules = append(rules, c.Sets[i].rules()...)
		}
	}
	return rules
}

// representations returns the files that rules link to a resource as its representations. path is
// the path of the resource's generic URI.
func (c *configuration) representations(path string) (all []string) {
	for i := range c.Sets {
		s := &c.Sets[i]
		for _, name := range scan.Representations(s.rules(), c.BaseURL, path) {
			if s.covers(name) {
				all = append(all, name)
			}
		}
	}
	return all
}

// mapLinks returns the links from a resource to the existing Resource Maps that aggregate it (ORE
// alpha §4.1), and to the Aggregations that these maps describe.
func (s *site) mapLinks(c *configuration, path string) (links []resourcesync.Link) {
	for i := range c.Sets {
		set := &c.Sets[i]
		if len(set.Aggregations) == 0 || !set.covers(path) {
			continue
		}
		for _, a := range aggregate.Of(set.aggregations(), path) {
			uri := a.MapURI(s.base, set.Name)
			if !s.hasFile(strings.TrimPrefix(uri, s.base)) {
				continue
			}
			links = append(links, resourcesync.Link{Rel: "resourcemap", Href: uri, Type: ore.FormatAtom.MediaType()},
				resourcesync.Link{Rel: resourcesync.RelCollection, Href: a.URI(s.base, set.Name)})
		}
	}
	return links
}

func (s *site) hasFile(name string) bool {
	return slices.ContainsFunc(s.dirs, func(dir fs.FS) bool {
		info, err := fs.Stat(dir, name)
		return err == nil && info.Mode().IsRegular()
	})
}

func (s *site) options(now func() time.Time, report func(error)) source.HandlerOptions {
	return source.HandlerOptions{Dirs: s.dirs, Prefix: s.prefix, Sets: s.sets, Label: s.label, Representations: s.representations, Now: now, Report: report}
}

func handlerOf(sites []*site, now func() time.Time, report func(error)) http.Handler {
	var h http.Handler
	if len(sites) == 1 {
		h = sites[0].handler(now, report)
	} else {
		var all []source.HandlerOptions
		for _, s := range sites {
			all = append(all, s.options(now, report))
		}
		h = source.NewHostHandler(all)
	}
	if gateway := sites[0].gateway; gateway != nil {
		h = routed("/pmh2ore", source.Paced(gateway, now), h)
	}
	return h
}

func routed(path string, h, rest http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == path {
			h.ServeHTTP(w, r)
			return
		}
		rest.ServeHTTP(w, r)
	})
}

func (s *site) handler(now func() time.Time, report func(error)) http.Handler {
	h := s.withVersions(source.NewHandler(s.options(now, report)), now, report)
	if s.oai != nil {
		s.oai.Report = report
		h = routed(s.prefix+oaiPath, source.Paced(s.oai, now), h)
	}
	if s.view != nil {
		packages := source.NewPackageHandler(source.OnDemand{Data: s.view, BaseURL: s.base, Now: now, Report: report})
		h = routed(s.prefix+onDemandPath, packages, h)
	}
	return h
}

// withVersions answers requests for TimeGates and TimeMaps, and passes other requests to
// fileHandler. It adds headers to responses about resources that have versions.
func (s *site) withVersions(fileHandler http.Handler, now func() time.Time, report func(error)) http.Handler {
	h := &versions.Handler{
		Store: s.versions, Prefix: s.prefix, URI: func(path string) string { return scan.URI(s.base, path) }, Next: fileHandler, Report: report,
	}
	paced := source.Paced(h, now)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.Negotiates(r.URL.Path) {
			paced.ServeHTTP(w, r)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func (s *site) close() {
	for _, r := range s.roots {
		_ = r.Close()
	}
	if s.closeOAI != nil {
		_ = s.closeOAI() // nothing was written
	}
	if s.view != nil {
		_ = s.view.Close()
	}
	if s.versions != nil {
		_ = s.versions.Close() // nothing was written
	}
}
