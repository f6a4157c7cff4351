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

// site is a set of directories that are served as one.
type site struct {
	roots  []*os.Root
	dirs   []fs.FS
	base   string // base URL of the publication; "" if there is none
	prefix string

	// Set only with a configuration; otherwise nil.
	sets  []source.ServedSet
	label func(path string) source.Label
	// representations is nil if there are no generic URIs.
	representations func(path string) []string
	view            *publish.View // state for packages on demand; nil if none are made

	versions *versions.Store // nil: TimeGates and TimeMaps are not served

	oai      *oaipmh.Handler // nil: OAI-PMH is not served
	closeOAI func() error
	gateway  *oaipmh.Gateway // gateway on the first site of a host; nil if there is none
}

func openSite(dirs []string) (*site, error) {
	s := &site{prefix: "/"}
	var foreign error // set if publication.json is a foreign file
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
			return nil, usagef("%q is published for %s, a directory before it for %s: serve them apart", name, info.BaseURL, s.base)
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

// openHost opens directories as the publications of one host. A directory without a
// publication belongs to the next one that has a publication, or to the last if none
// follows.
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

// byPublication groups directories by the base URL of their publication.
func byPublication(names []string) (groups [][]string, err error) {
	var waiting []string // directories without a publication so far
	at := map[string]int{}
	for _, name := range names {
		waiting = append(waiting, name)
		base, err := publishedFor(name)
		if err != nil {
			return nil, err
		}
		if base == "" {
			continue
		}
		i, known := at[base]
		if !known {
			i = len(groups)
			at[base], groups = i, append(groups, nil)
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

// publishedFor returns the base URL of the publication in a directory; "" if there is
// none.
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

// oneHost returns an error if two sites have different hosts, which one address cannot
// serve.
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
	return usagef("%q is published for %s, a directory before it for %s: serve them apart", dirs[len(dirs)-1], s.base, first.base)
}

func closeAll(sites []*site) {
	for _, s := range sites {
		s.close()
	}
}

// openConfigured opens the publication of a configuration.
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
	base := c.BaseURL // already normalised by check
	if s.base != "" && s.base != base {
		return c.errorAt("base_url", fmt.Errorf("what lies there is published for %s", s.base))
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
		if s.versions, err = versions.OpenReadOnly(ctx, placed.State, nil); err != nil { // the files are served from the output, not from the state
			return fmt.Errorf("opening the versions that TimeGates lead to, of state %q: %w", placed.State, err)
		}
	}
	if !onDemand {
		return nil
	}
	placed.Now = now
	placed.Sets = slices.DeleteFunc(placed.Sets, func(set publish.Set) bool { return set.Policy.OnDemand == "" })
	if len(placed.Sets) == 0 {
		return usagef("--on-demand: no set of %s has dumps: {on_demand: true}", c.file.name)
	}
	s.view, err = publish.OpenView(ctx, placed)
	return err
}

// servedSets returns the sets of a configuration and the files that each contains.
func (c *configuration) servedSets() []source.ServedSet {
	sets := make([]source.ServedSet, len(c.Sets))
	for i := range c.Sets {
		sets[i] = source.ServedSet{Name: c.Sets[i].Name, Covers: c.Sets[i].covers}
	}
	return sets
}

// covers reports whether the set contains a file of the directory, judged by its name.
// The members of a set that is listed elsewhere are unknown, so it returns false.
func (s *setConfig) covers(path string) bool {
	if len(s.From.given()) > 0 && s.From.Mirror == "" {
		return false
	}
	choice := s.choice()
	return choice.Covers(path)
}

// label returns the labels that the rules of the sets give a path.
func (c *configuration) label(path string) source.Label {
	told := scan.RuleFor(c.rulesOf(path), path)
	return source.Label{Type: told.Type, Encoding: told.Encoding}
}

// rulesOf returns the rules that apply to a path in the sets that contain it.
func (c *configuration) rulesOf(path string) (rules []scan.Rule) {
	for i := range c.Sets {
		if c.Sets[i].covers(path) {
			rules = append(rules, c.Sets[i].rules()...)
		}
	}
	return rules
}

// representations returns the files that the rules of a set link to the generic URI at
// a path.
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

// mapLinks returns links from a resource to the existing Resource Maps that contain it
// (ORE alpha §4.1), and to their Aggregations.
func (s *site) mapLinks(c *configuration, path string) (links []resourcesync.Link) {
	for i := range c.Sets {
		set := &c.Sets[i]
		if len(set.Aggregations) == 0 || !set.covers(path) {
			continue
		}
		for _, a := range aggregate.Of(set.aggregations(), path) {
			uri := a.MapURI(s.base, set.Name)
			if !s.has(strings.TrimPrefix(uri, s.base)) {
				continue
			}
			links = append(links, resourcesync.Link{Rel: "resourcemap", Href: uri, Type: ore.FormatAtom.MediaType()},
				resourcesync.Link{Rel: resourcesync.RelCollection, Href: a.URI(s.base, set.Name)})
		}
	}
	return links
}

// has reports whether one of the directories contains a file.
func (s *site) has(name string) bool {
	return slices.ContainsFunc(s.dirs, func(dir fs.FS) bool {
		info, err := fs.Stat(dir, name)
		return err == nil && info.Mode().IsRegular()
	})
}

func (s *site) options(now func() time.Time, report func(error)) source.HandlerOptions {
	return source.HandlerOptions{Dirs: s.dirs, Prefix: s.prefix, Sets: s.sets, Label: s.label, Representations: s.representations, Now: now, Report: report}
}

// handlerOf returns the handler for the sites of one host and its gateway.
func handlerOf(sites []*site, now func() time.Time, report func(error)) http.Handler {
	files := filesOf(sites, now, report)
	if sites[0].gateway == nil {
		return files
	}
	gateway := source.Paced(sites[0].gateway, now)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/pmh2ore" {
			gateway.ServeHTTP(w, r)
			return
		}
		files.ServeHTTP(w, r)
	})
}

func filesOf(sites []*site, now func() time.Time, report func(error)) http.Handler {
	if len(sites) == 1 {
		return sites[0].handler(now, report)
	}
	var all []source.HandlerOptions
	for _, s := range sites {
		all = append(all, s.options(now, report))
	}
	return source.NewHostHandler(all)
}

// handler returns the handler for the site.
func (s *site) handler(now func() time.Time, report func(error)) http.Handler {
	files := s.withVersions(source.NewHandler(s.options(now, report)), now, report)
	if s.oai != nil {
		s.oai.Report = report
		others, oai := files, source.Paced(s.oai, now)
		files = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == s.prefix+oaiPath {
				oai.ServeHTTP(w, r)
				return
			}
			others.ServeHTTP(w, r)
		})
	}
	if s.view == nil {
		return files
	}
	packages := source.NewPackageHandler(source.OnDemand{Data: s.view, BaseURL: s.base, Now: now, Report: report})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == s.prefix+onDemandPath {
			packages.ServeHTTP(w, r)
			return
		}
		files.ServeHTTP(w, r)
	})
}

// withVersions adds TimeGates and TimeMaps to the files of a site, and headers to
// versions.
func (s *site) withVersions(files http.Handler, now func() time.Time, report func(error)) http.Handler {
	h := &versions.Handler{
		Store: s.versions, Prefix: s.prefix, URI: func(path string) string { return scan.URI(s.base, path) }, Next: files, Report: report,
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
		_ = s.closeOAI() // opened only for reading
	}
	if s.view != nil {
		_ = s.view.Close()
	}
	if s.versions != nil {
		_ = s.versions.Close() // opened only for reading
	}
}
