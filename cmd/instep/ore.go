package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"instep/fetch"
	"instep/lint"
	"instep/lint/inputs"
	"instep/ore"
)

const oreHelp = `Ore finds and reads Resource Maps of OAI-ORE: documents that list resources which belong
together, such as the files of a publication.`

const oreFindHelp = `Find looks for Resource Maps from any URI, reads each map, and prints how it was found. It
follows links from a page or resource to maps (link elements, the resourcemap attribute, Link
headers, visible URIs), also through rel="indirectresourcemap"; entries of Atom and RSS feeds
and Sitemaps that list maps; the Sitemaps in the robots.txt of a site; records of OAI-PMH
repositories that have maps as metadata; and links from maps to other maps.

A contradiction between a map and a document that lists it is a finding. So are two practices
that the standard advises against: pages that merely list maps ("simple-file"), and URIs that
stand for both a map and a page ("conflated-uri").

Find follows links to any public host. It refuses private addresses, unless URL itself is
private or --allow-private names them. Redirects to other origins need --allow-origin.

Exit code 1 if there is no map, 4 if some links could not be read, 5 if URL could not be
reached.`

const oreShowHelp = `Show reads the Resource Map at URL, in Atom, RDF/XML or JSON-LD, and prints the Aggregation that
the map describes, with the aggregated resources. URL may also be that of an OAI-PMH record
whose metadata is a map.`

type oreFlags struct {
	sourceFlags
	depth       int
	maxRequests int
}

func (a *app) oreCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ore",
		Short: "find and read Resource Maps (OAI-ORE)",
		Long:  oreHelp,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Args:  knownCommand,
	}
	cmd.AddCommand(a.oreFindCommand(), a.oreShowCommand())
	return cmd
}

func (a *app) oreFindCommand() *cobra.Command {
	var f oreFlags
	cmd := &cobra.Command{
		Use:   "find URL",
		Short: "list the Resource Maps that a URL leads to",
		Long:  oreFindHelp,
		Example: `  instep ore find https://museum.example.org/
  instep ore find --json https://museum.example.org/all-maps.atom`,
		Args: exactArgs("URL"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.oreFind(cmd.Context(), args[0], &f) },
	}
	f.registerHosts(cmd)
	cmd.Flags().IntVar(&f.depth, "depth", 10, "follow at most `N` links from URL to a Resource Map")
	cmd.Flags().IntVar(&f.maxRequests, "max-requests", 20_000, "send at most `N` requests")
	return cmd
}

func (a *app) oreShowCommand() *cobra.Command {
	var f oreFlags
	cmd := &cobra.Command{
		Use:     "show URL",
		Short:   "show what a Resource Map aggregates",
		Long:    oreShowHelp,
		Example: `  instep ore show https://museum.example.org/objects/vase.atom`,
		Args:    exactArgs("URL"),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.oreShow(cmd.Context(), args[0], &f) },
	}
	f.registerHosts(cmd)
	return cmd
}

type mapRecord struct {
	recordHead
	URI         string   `json:"uri"`
	Way         string   `json:"way"`
	Discouraged bool     `json:"discouraged,omitempty"`
	Page        string   `json:"page,omitempty"`
	Depth       int      `json:"depth"`
	Record      string   `json:"record,omitempty"`
	Format      string   `json:"format,omitempty"`
	Aggregation string   `json:"aggregation,omitempty"`
	Title       string   `json:"title,omitempty"`
	Types       []string `json:"types,omitempty"`
	Creators    []string `json:"creators,omitempty"`
	MapCreators []string `json:"map_creators,omitempty"`
	Created     string   `json:"created,omitempty"`
	Modified    string   `json:"modified,omitempty"`
	Rights      string   `json:"rights,omitempty"`
	Maps        []string `json:"maps,omitempty"`
	Aggregated  *int64   `json:"aggregated,omitempty"`
}

type aggregatedRecord struct {
	recordHead
	URI       string   `json:"uri"`
	Title     string   `json:"title,omitempty"`
	MediaType string   `json:"media_type,omitempty"`
	Types     []string `json:"types,omitempty"`
	Creators  []string `json:"creators,omitempty"`
	Modified  string   `json:"modified,omitempty"`
	Bytes     *int64   `json:"bytes,omitempty"`
	Maps      []string `json:"maps,omitempty"`
}

func mapRecordOf(found *ore.Found) *mapRecord {
	m := found.Map
	return &mapRecord{
		URI: found.URI, Way: string(found.Way), Discouraged: found.Way.Discouraged(),
		Page: found.Page, Depth: found.Depth, Record: found.Record,
		Format: string(m.Format), Aggregation: m.Aggregation.URI, Title: m.Aggregation.Title, Types: m.Aggregation.Types,
		Creators: m.Aggregation.Creators, MapCreators: m.Creators, Created: jsonTime(m.Created), Modified: jsonTime(m.Modified),
		Rights: m.Rights, Maps: m.Aggregation.Maps, Aggregated: num(int64(len(m.Resources))),
	}
}

type mapFinder struct {
	a        *app
	findings map[string]int64 // by rule
	n        int64
}

func (a *app) oreFind(ctx context.Context, uri string, f *oreFlags) error {
	switch {
	case f.depth < 1:
		return usagef("--depth %d: expected 1 or more", f.depth)
	case f.maxRequests < 1:
		return usagef("--max-requests %d: expected 1 or more", f.maxRequests)
	}
	var net traffic
	begin := a.now()
	c, err := a.oreClient(ctx, uri, f, &net)
	if err != nil {
		return err
	}
	defer c.Close()
	l := &mapFinder{a: a, findings: map[string]int64{}}
	finder := ore.Finder{
		Client: c, Depth: f.depth, Requests: f.maxRequests, Found: l.printMap, Problem: l.printProblem, Note: a.mapNote,
		Failed: func(uri string, err error) {
			_, hint := explain(context.Background(), err) // with an interrupted ctx, explain would return no hint about err
			a.out.printError(uri, err, hint)
		},
	}
	rep, err := finder.Find(ctx, uri)
	if err != nil {
		return err
	}
	l.countHidden()
	l.end(uri, rep, &net, begin)
	return nil
}

func (a *app) mapNote(uri, text string) {
	if a.out.verbose {
		a.out.warn(warningRecord{URI: uri, Message: text})
	}
}

func (a *app) oreClient(ctx context.Context, uri string, f *oreFlags, net *traffic) (*fetch.Client, error) {
	if !inputs.IsURL(uri) {
		return nil, usagef("URL: expected an http or https URI, found %q", uri)
	}
	f.workers = 4
	return a.connect(ctx, uri, &f.sourceFlags, net)
}

func (l *mapFinder) printMap(m *ore.Found) error {
	l.a.out.record(mapRecordOf(m))
	line := fmt.Sprintf("%-14s %s", m.Way, printable(m.URI))
	if m.Page != "" {
		line += "   from " + printable(m.Page)
	}
	l.a.out.line("%s", line)
	return nil
}

// Without -v, printProblem prints only the first few findings of each rule.
func (l *mapFinder) printProblem(p ore.Problem) {
	rule, _ := lint.Lookup(p.Rule)
	l.n++
	l.findings[p.Rule]++
	if l.a.out.json {
		l.a.out.record(&findingRecord{Rule: p.Rule, Level: rule.Level.String(), URI: p.URI, Line: p.Line, Entry: p.Entry, Message: p.Message})
		return
	}
	if l.findings[p.Rule] > maxFindings && !l.a.out.verbose {
		return
	}
	at := p.URI
	if p.Line > 0 {
		at += fmt.Sprintf(" line %d", p.Line)
	}
	l.a.out.say("%s: %s: %s (%s)", at, rule.Level, p.Message, p.Rule)
}

func (l *mapFinder) countHidden() {
	if l.a.out.verbose {
		return
	}
	for rule, n := range sortedByName(l.findings) {
		if n > maxFindings {
			l.a.out.say("and %s more of %s; -v shows all", humanize.Comma(n-maxFindings), rule)
		}
	}
}

func (l *mapFinder) end(uri string, rep ore.Report, net *traffic, begin time.Time) {
	out, status := l.a.out, "found"
	switch {
	case rep.Maps == 0:
		l.a.code, status = exitFailed, "failed"
		out.printError(uri, fmt.Errorf("no Resource Map was found from %q", uri), "-v shows where the search went; is there a page, feed or Sitemap that lists maps?")
	case rep.Failed > 0 || rep.Cut:
		l.a.code, status = exitPartial, "partial"
	}
	if rep.Cut {
		out.warn(warningRecord{Message: "the search reached a limit, so it may lack maps", Hint: "a larger --max-requests follows more links; -v shows links that were skipped for another reason"})
	}
	if rep.TooFar > 0 {
		out.warn(warningRecord{Message: fmt.Sprintf("%s not followed, because of the limit --depth", counted(rep.TooFar, "link")), Hint: "a larger --depth follows more links"})
	}
	line := fmt.Sprintf("Status: %s (maps=%s, findings=%s, failed=%s)", strings.ToUpper(status), humanize.Comma(rep.Maps), humanize.Comma(l.n), humanize.Comma(rep.Failed))
	out.end(summary{
		Status: status, Maps: num(rep.Maps), Findings: num(l.n), Failed: num(rep.Failed),
		Requests: num(net.requests.Load()), Seconds: seconds(l.a.now().Sub(begin)), ExitCode: l.a.code,
	}, line)
}

func (a *app) oreShow(ctx context.Context, uri string, f *oreFlags) error {
	var net traffic
	begin := a.now()
	c, err := a.oreClient(ctx, uri, f, &net)
	if err != nil {
		return err
	}
	defer c.Close()
	m, err := ore.Show(ctx, c, uri, ore.Limits{})
	if err != nil {
		return err
	}
	a.out.record(mapRecordOf(&ore.Found{URI: m.URI, Way: ore.WayGiven, Map: m}))
	for _, r := range m.Resources {
		a.out.record(&aggregatedRecord{
			URI: r.URI, Title: r.Title, MediaType: r.MediaType, Types: r.Types,
			Creators: r.Creators, Modified: jsonTime(r.Modified), Bytes: positive(r.Length), Maps: r.Maps,
		})
	}
	a.showMap(m)
	for _, n := range m.Notices {
		a.out.warn(warningRecord{URI: m.URI, Message: n})
	}
	line := fmt.Sprintf("Status: FOUND (resources=%s)", humanize.Comma(int64(len(m.Resources))))
	a.out.end(summary{Status: "found", Resources: num(int64(len(m.Resources))), Requests: num(net.requests.Load()), Seconds: seconds(a.now().Sub(begin)), ExitCode: a.code}, line)
	return nil
}

func (a *app) showMap(m *ore.Map) {
	field := func(name string, values ...string) {
		if text := strings.Join(values, ", "); text != "" {
			a.out.line("%-13s %s", name, printable(text))
		}
	}
	field("Resource Map", m.URI)
	field("format", string(m.Format))
	field("creator", m.Creators...)
	field("created", m.Created.String())
	field("modified", m.Modified.String())
	field("rights", m.Rights)
	g := &m.Aggregation
	field("Aggregation", g.URI)
	field("title", g.Title)
	field("types", g.Types...)
	field("creator", g.Creators...)
	field("created", g.Created.String())
	field("modified", g.Modified.String())
	field("other maps", g.Maps...)
	for i := range m.Resources {
		r := &m.Resources[i]
		a.out.line("  %s%s", printable(r.URI), printable(details(r)))
	}
}

func details(r *ore.Resource) string {
	var parts []string
	if r.MediaType != "" {
		parts = append(parts, r.MediaType)
	}
	if r.Length > 0 {
		parts = append(parts, humanize.Comma(r.Length)+" bytes")
	}
	if !r.Modified.IsZero() {
		parts = append(parts, "modified "+r.Modified.String())
	}
	if r.Title != "" {
		parts = append(parts, fmt.Sprintf("%q", r.Title))
	}
	if len(parts) == 0 {
		return ""
	}
	return "   (" + strings.Join(parts, ", ") + ")"
}

// aggregatedSource returns a client and a URI for a Source that has the resources of Resource Maps.
func (a *app) aggregatedSource(ctx context.Context, uri string, c *fetch.Client) (*fetch.Client, string, func(), error) {
	l, err := ore.Finder{
		Client: c, Pages: -1,
		Found: func(m *ore.Found) error {
			a.out.say("Resource Map %s: %s, %s", m.URI, m.Way, counted(int64(len(m.Map.Resources)), "resource"))
			return nil
		},
		Note:   a.mapNote,
		Failed: func(uri string, err error) { a.out.printError(uri, err, "") },
	}.Listing(ctx, uri)
	if err != nil {
		c.Close()
		return nil, "", nil, err
	}
	if l.Skipped > 0 {
		a.out.warn(warningRecord{Message: fmt.Sprintf("%d aggregated resources have no http or https URI and cannot be fetched", l.Skipped)})
	}
	return c.WithCache(l), l.URI, c.Close, nil
}

// notMap recognises the error that there is no Resource Map at a URL.
func notMap(err error) (hint string, ok bool) {
	return "instep ore find URL looks for the Resource Maps that a page, feed or Sitemap leads to", errors.Is(err, ore.ErrNotMap)
}
