package sim

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"instep/resourcesync"
	"instep/source"
)

// generation is a document as one publication wrote it.
type generation struct {
	key       string
	kind      string // see resourcesync.Header.Kind
	text      []byte
	sum       source.Sum // of text
	published time.Time  // time by the Model's clock
}

// generations has the documents of all publications, so that a cache can answer with any of
// them. Beyond the bounds the oldest are dropped.
type generations struct {
	mu    sync.Mutex // guards the rest
	all   []*generation
	byKey map[string][]*generation // oldest first
	bytes int
}

// Bounds of the generations that are kept.
const (
	maxGeneration  = 1 << 20  // bytes of a document
	maxGenerations = 16 << 20 // bytes of all
)

// keep adds a document that was just published.
func (g *generations) keep(d *generation) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if old := g.byKey[d.key]; len(old) > 0 && old[len(old)-1].sum == d.sum {
		return
	}
	g.all, g.bytes = append(g.all, d), g.bytes+len(d.text)
	g.byKey[d.key] = append(g.byKey[d.key], d)
	drop := 0
	for ; g.bytes > maxGenerations; drop++ {
		oldest := g.all[drop]
		g.bytes -= len(oldest.text)
		if g.byKey[oldest.key] = g.byKey[oldest.key][1:]; len(g.byKey[oldest.key]) == 0 {
			delete(g.byKey, oldest.key)
		}
	}
	g.all = slices.Delete(g.all, 0, drop)
}

// of returns the generations of a document, oldest first.
func (g *generations) of(key string) []*generation {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.byKey[key]
}

// find returns the generation with these bytes, nil if it is not kept.
func (g *generations) find(key string, sum source.Sum) *generation {
	for _, d := range slices.Backward(g.of(key)) {
		if d.sum == sum {
			return d
		}
	}
	return nil
}

// moments are the moments of the publications of which documents are kept, oldest first.
func (g *generations) moments() (all []time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, d := range g.all {
		if n := len(all); n == 0 || !all[n-1].Equal(d.published) {
			all = append(all, d.published)
		}
	}
	return all
}

// at returns how many generations before the newest a document had at a moment; false if it
// did not exist.
func (g *generations) at(key string, then time.Time) (back int, ok bool) {
	past := g.of(key)
	for i, d := range slices.Backward(past) {
		if !d.published.After(then) {
			return len(past) - 1 - i, true
		}
	}
	return 0, false
}

// keepGenerations stores the documents of the last publication.
func (s *Source) keepGenerations(ctx context.Context) error {
	for _, key := range s.journal.written() {
		if mediaTypeOf(key) != xmlType || strings.HasPrefix(key, "sitemap") {
			continue // a plain Sitemap is no document of the publication
		}
		info, err := s.o.Bucket.Stat(ctx, key)
		if err != nil {
			return fmt.Errorf("keeping %q: %w", key, err)
		}
		if info.Size > maxGeneration {
			continue
		}
		text, err := s.read(ctx, key, info.Size)
		if err != nil {
			return fmt.Errorf("keeping %q: %w", key, err)
		}
		h, err := resourcesync.NewDecoder(bytes.NewReader(text)).Header()
		if err != nil {
			return fmt.Errorf("keeping %q: %w", key, err)
		}
		s.past.keep(&generation{key: key, kind: h.Kind(), text: text, sum: sha256.Sum256(text), published: s.o.Model.Now()})
	}
	return nil
}

func (s *Source) read(ctx context.Context, key string, size int64) ([]byte, error) {
	r, _, err := s.o.Bucket.Get(ctx, key, 0, size)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// kindOf is the kind of the document at a path, "" if there is none or it is too large
// to be kept.
func (c *call) kindOf(path string) string {
	past := c.s.past.of(path)
	if len(past) == 0 {
		return ""
	}
	return past[len(past)-1].kind
}

// Override changes how one document is served.
type Override struct {
	// Cached means that a cache answers, with the headers that the Source sent at that time
	// and an Age; also if the Source has removed the document.
	Cached bool
	// Back is how many generations older than the newest the answer of the cache is.
	Back int
	// Hard says that the cache also answers requests with Cache-Control: no-cache.
	Hard bool
	// Status is the status of the Source's answer, such as 404; 0 answers with the
	// document. It does not affect an answer of a cache.
	Status int
}

// Document is a document of a Source, and how often it has changed.
type Document struct {
	Path        string // below the base URL
	Kind        string // its capability, with "-index" for an index
	Generations int    // from 1; Override.Back is below it
}

// Documents returns the documents of which earlier generations are kept, by path, also
// those that have been removed.
func (s *Source) Documents() []Document {
	s.past.mu.Lock()
	defer s.past.mu.Unlock()
	var all []Document
	for key, past := range s.past.byKey {
		all = append(all, Document{key, past[len(past)-1].kind, len(past)})
	}
	slices.SortFunc(all, func(a, b Document) int { return strings.Compare(a.Path, b.Path) })
	return all
}

// Override changes how these documents are served, by path, from the next request on; all
// others are served unchanged.
func (s *Source) Override(of map[string]Override) { s.wire.overrides.Store(&of) }

// cached is the answer of a cache in front of the Source, nil if there is none.
func (c *call) cached() *answer {
	past := c.s.past.of(c.path)
	if len(past) == 0 {
		return nil
	}
	back, hard, ok := c.age(past)
	if !ok || !hard && c.revalidates() {
		return nil
	}
	d := past[len(past)-1-back]
	a := c.stored(d)
	a.header.Set("Date", c.clock.said(d.published).Format(http.TimeFormat))
	a.header.Set("Age", fmt.Sprint(max(0, int64(c.s.o.Model.Now().Sub(d.published).Seconds()))))
	return a
}

// age returns how many generations old the answer of a cache is; false if none answers.
func (c *call) age(past []*generation) (back int, hard, ok bool) {
	if o := (*c.overrides.Load())[c.path]; o.Cached {
		return min(o.Back, len(past)-1), o.Hard, true
	}
	for _, sw := range c.switches {
		if sw.cache && slices.Contains(sw.kinds, past[0].kind) && len(past) > 1 && sw.hits(c) {
			back = 1 + c.luck.IntN(len(past)-1)
		}
		hard = hard || sw.hard
	}
	return back, hard, back > 0
}

// revalidates reports whether the request asks caches for the answer of the Source.
func (c *call) revalidates() bool {
	return slices.ContainsFunc(c.r.Header.Values("Cache-Control"), func(v string) bool {
		return v == "no-cache" || v == "max-age=0"
	})
}

// stored is an answer with a generation of a document.
func (c *call) stored(d *generation) *answer {
	a := newAnswer(xmlType, bytes.NewReader(d.text), int64(len(d.text)))
	a.document, a.generation = true, d
	a.bytes(d.text)
	a.header.Set("Last-Modified", c.clock.said(d.published).Format(http.TimeFormat))
	a.header.Set("Cache-Control", "no-cache")
	return a
}

// withdrawn returns the answer for a document that the Source does not serve for now; nil
// if it serves it.
func (c *call) withdrawn() *answer {
	status := (*c.overrides.Load())[c.path].Status
	for _, sw := range c.switches {
		if sw.status != 0 && slices.Contains(sw.kinds, c.kindOf(c.path)) {
			status = sw.status
		}
	}
	if status == 0 {
		return nil
	}
	a := c.missing()
	a.only(status)
	return a
}

// observePackage passes the manifest beside a package to observe; it equals the one in the
// package.
func (c *call) observePackage() error {
	past := c.s.past.of(strings.TrimSuffix(c.path, ".zip") + "-manifest.xml")
	if len(past) == 0 {
		return nil
	}
	_, err := c.rewritten(c.switches, past[len(past)-1].text)
	return err
}
