package ore

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"instep/resourcesync"
)

// Namespaces of maps.
const (
	nsORE     = "http://www.openarchives.org/ore/terms/"
	nsOREAtom = "http://www.openarchives.org/ore/atom/"
	nsRDF     = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
	nsDC      = "http://purl.org/dc/elements/1.1/"
	nsDCTerms = "http://purl.org/dc/terms/"
	nsFOAF    = "http://xmlns.com/foaf/0.1/"
	nsRDFS    = "http://www.w3.org/2000/01/rdf-schema#"
	nsXML     = "http://www.w3.org/XML/1998/namespace"
	nsAtom    = "http://www.w3.org/2005/Atom"
	nsOAI     = "http://www.openarchives.org/OAI/2.0/"
)

// term is the object of a statement: a text, or a node. The value of a node is its URI
// or, for a blank node, a name that begins with "_:".
type term struct {
	value   string
	literal bool
}

type statement struct {
	predicate string
	object    term
}

type graph struct {
	subjects []string               // subjects of statements, in the order of the document
	about    map[string][]statement // statements by their subject
	size     int
	names    map[string]string // names of creators that were looked up, by their node; "" if a creator has no name
	blank    int               // number of calls of newBlankNode
	err      error             // set if the map has more than maxStatements
}

func newGraph() *graph { return &graph{about: map[string][]statement{}, names: map[string]string{}} }

// newBlankNode returns a new name with a space, which cannot occur in a name that was
// read from a document.
func (g *graph) newBlankNode() string {
	g.blank++
	return fmt.Sprintf("_: %d", g.blank)
}

func (g *graph) add(subject, predicate, node string) {
	g.state(subject, statement{predicate, term{value: node}})
}

func (g *graph) literal(subject, predicate, text string) {
	if text != "" {
		g.state(subject, statement{predicate, term{text, true}})
	}
}

func (g *graph) state(subject string, s statement) {
	if g.size++; g.size > maxStatements {
		g.err = fmt.Errorf("%w: the map has more than %d statements", ErrTooLarge, maxStatements)
		return
	}
	if _, ok := g.about[subject]; !ok {
		g.subjects = append(g.subjects, subject)
	}
	g.about[subject] = append(g.about[subject], s)
}

// rename moves all statements about a blank node to the node uri. If uri already has
// statements, the moved ones come before them.
func (g *graph) rename(blank, uri string) {
	g.subjects = append(g.subjects, uri)
	g.about[uri] = append(g.about[blank], g.about[uri]...)
	delete(g.about, blank)
}

func (g *graph) nodes(subject, predicate string) []string {
	var found []string
	for _, s := range g.about[subject] {
		if s.predicate == predicate && !s.object.literal {
			found = append(found, s.object.value)
		}
	}
	return found
}

// text returns the first text that the statements about a subject have for one of the
// predicates. It tries the predicates in order, and returns "" if there is no text.
func (g *graph) text(subject string, predicates ...string) string {
	for _, p := range predicates {
		for _, s := range g.about[subject] {
			if v := strings.TrimSpace(s.object.value); s.predicate == p && v != "" && !isBlank(v) {
				return v
			}
		}
	}
	return ""
}

func isBlank(node string) bool { return strings.HasPrefix(node, "_:") }

func isURI(node string) bool { return node != "" && !isBlank(node) }

// termTime returns the time in a term of Dublin Core, such as "modified".
func (g *graph) termTime(m *Map, subject, term string) resourcesync.Datetime {
	return m.datetime(g.text(subject, nsDCTerms+term, nsDC+term))
}

// datetime parses a time in a map. It returns the zero value for an empty or invalid text,
// and adds a notice about an invalid one.
func (m *Map) datetime(text string) resourcesync.Datetime {
	text = strings.TrimSpace(text)
	if text == "" {
		return resourcesync.Datetime{}
	}
	d, err := resourcesync.ParseDatetime(text)
	if err != nil {
		m.notice("the time %q is invalid: %v", text, err)
	}
	return d
}

func (g *graph) types(node string) []string {
	var types []string
	for _, t := range g.nodes(node, nsRDF+"type") {
		if isURI(t) {
			types = appendOnce(types, t)
		}
	}
	return types
}

// creators returns the names of the creators. For a creator without a name it returns
// the URI.
func (g *graph) creators(subject string) []string {
	var names []string
	for _, s := range g.about[subject] {
		if s.predicate != nsDCTerms+"creator" && s.predicate != nsDC+"creator" {
			continue
		}
		name := strings.TrimSpace(s.object.value)
		if !s.object.literal {
			name = cmp.Or(g.nameOf(s.object.value), name)
		}
		if name != "" && !isBlank(name) {
			names = appendOnce(names, name)
		}
	}
	return names
}

// nameOf stores its results, because a map may name one creator any number of times.
func (g *graph) nameOf(creator string) string {
	name, known := g.names[creator]
	if !known {
		name = g.text(creator, nsFOAF+"name", nsRDFS+"label")
		g.names[creator] = name
	}
	return name
}

// fill sets the fields of a Map from the statements. The map was read from the URL uri.
// The parameter self is the node of the map; "" if the document does not name the map.
func (g *graph) fill(m *Map, uri, self, aggregation string) error {
	if g.err != nil {
		return g.err
	}
	if aggregation == "" {
		return notMap("the document describes no Aggregation")
	}
	m.URI, m.Self = uri, self
	if isURI(self) {
		m.URI = self
	}
	self = cmp.Or(self, uri)
	m.Creators = g.creators(self)
	m.Created, m.Modified = g.termTime(m, self, "created"), g.termTime(m, self, "modified")
	m.Rights = g.text(self, nsDCTerms+"rights", nsDC+"rights")
	a := &m.Aggregation
	a.URI = aggregation
	g.describe(m, a)
	for _, r := range g.aggregated(aggregation) {
		m.Resources = append(m.Resources, g.resource(m, r))
	}
	if !isURI(a.URI) {
		m.notice("the Aggregation has no URI, so its URI is derived from the URI of the map")
		a.URI = m.URI + "#aggregation"
	}
	return nil
}

func (g *graph) describe(m *Map, a *Aggregation) {
	uri := a.URI
	a.Title = g.text(uri, nsDCTerms+"title", nsDC+"title")
	a.Types, a.Creators = g.types(uri), g.creators(uri)
	a.Created, a.Modified = g.termTime(m, uri, "created"), g.termTime(m, uri, "modified")
	a.Maps = g.maps(m, uri)
}

func (g *graph) maps(m *Map, node string) []string {
	var uris []string
	for _, uri := range g.nodes(node, nsORE+"isDescribedBy") {
		if isURI(uri) && uri != m.URI {
			uris = appendOnce(uris, uri)
		}
	}
	return uris
}

func (g *graph) resource(m *Map, uri string) Resource {
	r := Resource{
		URI:       uri,
		Title:     g.text(uri, nsDCTerms+"title", nsDC+"title"),
		MediaType: g.text(uri, nsDCTerms+"format", nsDC+"format"),
		Types:     g.types(uri), Creators: g.creators(uri), Maps: g.maps(m, uri),
		Modified: g.termTime(m, uri, "modified"),
	}
	if n, err := strconv.ParseInt(g.text(uri, nsDCTerms+"extent"), 10, 64); err == nil && n > 0 {
		r.Length = n
	}
	return r
}

// findMap returns the node of a map and the node of its Aggregation. If the document
// has several maps, it prefers the map at uri, and otherwise takes the first one.
func (g *graph) findMap(uri string) (self, aggregation string) {
	for _, s := range g.subjects {
		for _, a := range g.nodes(s, nsORE+"describes") {
			if aggregation == "" || s == uri && self != uri {
				self, aggregation = s, a
			}
		}
	}
	for _, a := range g.subjects {
		maps := g.nodes(a, nsORE+"isDescribedBy")
		if len(maps) > 0 && aggregation == "" && g.hasMembers(a) {
			self, aggregation = maps[0], a
			if slices.Contains(maps, uri) {
				self = uri
			}
		}
	}
	if aggregation != "" {
		return self, aggregation
	}
	for _, a := range g.subjects {
		if g.hasMembers(a) {
			return "", a
		}
	}
	return "", ""
}

func (g *graph) hasMembers(node string) bool { return len(g.nodes(node, nsORE+"aggregates")) > 0 }

// aggregated returns the objects of ore:aggregates and the subjects of
// ore:isAggregatedBy.
func (g *graph) aggregated(aggregation string) []string {
	var found []string
	seen := map[string]bool{}
	add := func(uri string) {
		if isURI(uri) && !seen[uri] {
			seen[uri] = true
			found = append(found, uri)
		}
	}
	for _, r := range g.nodes(aggregation, nsORE+"aggregates") {
		add(r)
	}
	for _, s := range g.subjects {
		if slices.Contains(g.nodes(s, nsORE+"isAggregatedBy"), aggregation) {
			add(s)
		}
	}
	return found
}

// maxNames is the largest number of types, of creators and of maps that are stored for
// one node.
const maxNames = 100

// appendOnce appends a string to list, unless list already contains the string or has
// maxNames elements.
func appendOnce(list []string, s string) []string {
	if len(list) >= maxNames || slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}
