package aggregate

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"iter"
	"strings"

	"instep/internal/glob"
	"instep/internal/spool"
	"instep/resourcesync"
)

// Options describe the publication for which a Grouping makes Resource Maps.
type Options struct {
	BaseURL string // ends in "/"
	Set     string
	Rules   []Rule // rules for which Check returns no error
	Creator string // name of the publisher, given as the creator of the maps
	Title   string // title of the feeds
	Temp    string // directory for temporary files; "" selects os.TempDir
	Note    func(format string, args ...any)
}

const (
	// maxAggregations is the largest number of Aggregations in a set. It is so small that
	// one Sitemap can list their maps in both formats.
	maxAggregations = 20_000
	// maxMembers and maxAtomBytes are limits of programs that read Resource Maps.
	// maxJSONBytes is lower, because these programs hold a JSON-LD map in memory.
	maxMembers   = 100_000
	maxAtomBytes = 60 << 20
	maxJSONBytes = 3 << 20
	sortMemory   = 4 << 20
)

// Grouping collects the members of Aggregations. It must be closed.
type Grouping struct {
	o       Options
	members *spool.Keys // the sorted keys of the members: each consists of the Aggregation's key and the URI, media type and lastmod of a resource
	sizes   map[string]*size
	tooMany bool
	matched []bool // for each rule, whether it matched a resource
}

type size struct {
	Aggregation
	n                    int64
	atomBytes, jsonBytes int64 // upper estimates of the size of the Atom map and of the JSON-LD map of the Aggregation
}

// fits reports whether a Resource Map of the Aggregation is within the limits of
// programs that read it.
func (s *size) fits() bool { return s.n <= maxMembers && s.atomBytes <= maxAtomBytes }

// New returns an empty grouping.
func New(o Options) *Grouping {
	return &Grouping{o: o, members: spool.NewKeys(o.Temp, sortMemory), sizes: map[string]*size{}, matched: make([]bool, len(o.Rules))}
}

// Close removes the temporary files.
func (g *Grouping) Close() error { return g.members.Close() }

// Add adds a resource of the set to the Aggregations for its path. It must be called
// only once for each resource.
func (g *Grouping) Add(at string, en *resourcesync.Entry) error {
	for i := range g.matched {
		g.matched[i] = g.matched[i] || glob.Match(g.o.Rules[i].Match, at, false)
	}
	for _, a := range Of(g.o.Rules, at) {
		of := g.sizes[a.Key]
		if of == nil {
			if len(g.sizes) == maxAggregations {
				g.tooMany = true
				continue
			}
			of = &size{Aggregation: a}
			g.sizes[a.Key] = of
		}
		m := member{URI: en.Loc, Type: en.Type, Modified: en.LastMod}
		of.count(&m)
		if !of.fits() {
			continue
		}
		if err := g.members.Add(m.key(a.Key)); err != nil {
			return fmt.Errorf("grouping resources into aggregations: %w", err)
		}
	}
	return nil
}

// count adds a member to the estimated sizes. Each & or ' counts as six bytes, because
// XML may escape it.
func (s *size) count(m *member) {
	const around = 400
	text := int64(len(m.URI) + len(m.Type) + 5*strings.Count(m.URI, "&") + 5*strings.Count(m.URI, "'"))
	s.n++
	s.atomBytes += around + 2*text
	s.jsonBytes += around + text
}

// Has reports whether the Aggregation with this key gets a map. It must be called after all
// resources have been added.
func (g *Grouping) Has(key string) bool {
	of := g.sizes[key]
	return of != nil && of.fits()
}

type member struct {
	URI, Type string
	Modified  resourcesync.Datetime
}

// key returns the key by which members are sorted: by Aggregation, then by URI.
func (m *member) key(aggregation string) spool.Key {
	return spool.Key(strings.Join([]string{aggregation, m.URI, strings.ReplaceAll(m.Type, "\x00", ""), m.Modified.String()}, "\x00"))
}

func memberOf(k spool.Key) (aggregation string, m member, err error) {
	parts := strings.Split(string(k), "\x00")
	if len(parts) != 4 {
		return "", m, fmt.Errorf("sorting the members of aggregations: expected four parts in the key %q", k)
	}
	m = member{URI: parts[1], Type: parts[2]}
	if parts[3] != "" {
		m.Modified, err = resourcesync.ParseDatetime(parts[3])
	}
	return parts[0], m, err
}

// groups yields the Aggregations with their members. Each group is valid only until the
// next group is yielded.
func (g *Grouping) groups(ctx context.Context) iter.Seq2[*group, error] {
	return func(yield func(*group, error) bool) {
		var of *group
		defer func() { _ = of.close() }() // the error of close is ignored: an earlier error is more useful
		for k, err := range g.members.Sorted() {
			if err == nil {
				err = ctx.Err()
			}
			key, m, broken := memberOf(k)
			if err = cmp.Or(err, broken); err != nil {
				yield(nil, err)
				return
			}
			if of != nil && of.Key != key {
				if !yield(of, nil) {
					return
				}
				if err := of.close(); err != nil {
					yield(nil, err)
					return
				}
				of = nil
			}
			if of == nil {
				of = g.newGroup(key)
			}
			if err := of.add(&m); err != nil {
				yield(nil, err)
				return
			}
		}
		if of != nil {
			yield(of, nil)
		}
	}
}

type group struct {
	*size
	members *spool.Log[member]
	sum     [sha256.Size]byte // digest of the Aggregation and the members so far
}

// formatVersion is included in the digest of every Resource Map, so that all maps are
// written again if this constant is changed.
const formatVersion = "1"

func (g *Grouping) newGroup(key string) *group {
	of := g.sizes[key]
	head := strings.Join([]string{formatVersion, of.URI(g.o.BaseURL, g.o.Set), of.Name, of.Title, of.Creator, g.o.Creator}, "\x00")
	return &group{size: of, members: spool.NewLog[member](g.o.Temp), sum: sha256.Sum256([]byte(head))}
}

func (of *group) close() error {
	if of == nil {
		return nil
	}
	return of.members.Close()
}

func (of *group) add(m *member) error {
	of.sum = sha256.Sum256([]byte(string(of.sum[:]) + string(m.key(""))))
	return of.members.Append(*m)
}

// Unmatched returns the globs of those rules that matched none of the added resources.
func (g *Grouping) Unmatched() (globs []string) {
	for i, hit := range g.matched {
		if !hit {
			globs = append(globs, g.o.Rules[i].Match)
		}
	}
	return globs
}
