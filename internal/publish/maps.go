package publish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"instep/internal/aggregate"
	"instep/internal/scan"
	"instep/resourcesync"
	"instep/source"
)

// collections adds links to Aggregations (OAI-ORE) to the entries of documents. A nil
// pointer or a zero value adds no links.
type collections struct {
	rules     []aggregate.Rule
	base, set string
	has       func(key string) bool // reports whether the Aggregation with this key has a published map
}

func (c *collections) addLinks(en *resourcesync.Entry) {
	if c == nil || len(c.rules) == 0 {
		return
	}
	for _, a := range aggregate.Of(c.rules, scan.NameOf(c.base, en.Loc)) {
		uri := a.URI(c.base, c.set)
		again := func(l resourcesync.Link) bool { return l.Rel == resourcesync.RelCollection && l.Href == uri }
		if c.has(a.Key) && !slices.ContainsFunc(en.Links, again) {
			en.Links = append(en.Links, resourcesync.Link{Rel: resourcesync.RelCollection, Href: uri})
		}
	}
}

// aggregate sets r.collections, which links entries to those Aggregations that have a
// published map. If the publication has a snapshot, it also groups the resources of the
// set into Aggregations. The caller must close the returned Grouping, which is nil if the
// maps do not change.
func (r *run) aggregate(ctx context.Context, snapshot bool) (g *aggregate.Grouping, err error) {
	r.collections = collections{rules: r.Aggregations, base: r.site.BaseURL, set: r.Name}
	if len(r.Aggregations) == 0 && len(r.last.MapListKeys) == 0 {
		return nil, nil
	}
	if !snapshot {
		r.collections.has, err = r.publishedMaps(ctx)
		return nil, err
	}
	g = aggregate.New(aggregate.Options{
		BaseURL: r.site.BaseURL, Set: r.Name, Rules: r.Aggregations, Creator: r.mapCreator(), Title: r.mapsTitle(), Note: r.note,
	})
	r.collections.has = g.Has
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Close())
		}
	}()
	if len(r.Aggregations) == 0 {
		return g, nil
	}
	for m, err := range r.facts.Members(ctx, r.id) {
		en, damaged := resourceEntry(m)
		if err := cmp.Or(err, damaged); err != nil {
			return g, err
		}
		if err := g.Add(scan.NameOf(r.site.BaseURL, m.URI), &en); err != nil {
			return g, err
		}
	}
	for _, match := range g.Unmatched() {
		r.note("aggregations %q matched no resource", match)
	}
	return g, nil
}

func (r *run) publishedMaps(ctx context.Context) (has func(key string) bool, err error) {
	known := map[string]bool{}
	for it, err := range r.pub.Journal.Items(ctx, r.Name, source.ItemMap, 0) {
		if err != nil {
			return nil, fmt.Errorf("reading the published Resource Maps: %w", err)
		}
		known[it.Key] = true
	}
	return func(key string) bool { return known[key] }, nil
}

// mapCreator returns the creator of the maps, which ORE requires (1.0 Abstract Data Model §4).
func (r *run) mapCreator() string { return cmp.Or(r.site.About.Title, r.site.BaseURL) }

func (r *run) mapsTitle() string {
	return cmp.Or(r.Policy.About.Title, r.Name, r.site.About.Title, r.site.BaseURL)
}
