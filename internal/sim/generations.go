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

// generation is one published version of a document.
type generation struct {
	key       string
	kind      string // see resourcesync.Header.Kind
	text      []byte
	sum       source.Sum // digest of text
	published time.Time  // the simulated time of the publication
}

// generations stores the published versions of documents, so that a simulated cache can
// answer with any of them. Beyond the size limit the oldest versions are dropped.
type generations struct {
	mu    sync.Mutex // guards the fields below
	all   []*generation
	byKey map[string][]*generation // oldest first
	bytes int
}

const (
	maxGeneration  = 1 << 20  // the largest size of one stored document in bytes
	maxGenerations = 16 << 20 // the largest size of all stored documents together in bytes
)

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

func (g *generations) of(key string) []*generation {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.byKey[key]
}

func (g *generations) find(key string, sum source.Sum) *generation {
	for _, d := range slices.Backward(g.of(key)) {
		if d.sum == sum {
			return d
		}
	}
	return nil
}

// moments returns the times of the publications whose documents are stored, oldest
// first.
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

// backAt returns the number of generations of a document that were published after the
// given time. It returns false if the document did not exist at that time.
func (g *generations) backAt(key string, moment time.Time) (back int, ok bool) {
	past := g.of(key)
	for i, d := range slices.Backward(past) {
		if !d.published.After(moment) {
			return len(past) - 1 - i, true
		}
	}
	return 0, false
}

func (s *Source) keepGenerations(ctx context.Context) error {
	for _, key := range s.journal.takeWritten() {
		if mediaTypeOf(key) != xmlType || strings.HasPrefix(key, "sitemap") {
			continue // not a document of ResourceSync, but perhaps a plain Sitemap
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

// kindOf returns "" if no generation of a document at the path is stored.
func (c *call) kindOf(path string) string {
	past := c.s.past.of(path)
	if len(past) == 0 {
		return ""
	}
	return past[len(past)-1].kind
}

// Override changes how one document is served.
type Override struct {
	// Cached means that a simulated cache answers requests for the document, even if the
	// Source has removed the document. The response has the headers that the Source sent
	// with the cached document, and the header Age.
	Cached bool
	// Back is the number of generations of the document that are newer than the one that
	// the simulated cache sends.
	Back int
	// Hard means that the simulated cache also answers requests with Cache-Control:
	// no-cache.
	Hard bool
	// Status is the HTTP status with which the Source answers, such as 404. If it is 0,
	// the Source sends the document. Responses of the simulated cache are not affected.
	Status int
}

// Document is a document that a Source has published. A generation is one published version
// of it.
type Document struct {
	Path        string // the path of the document below the base URL
	Kind        string // the capability of the document, followed by "-index" if the document is an index
	Generations int    // the number of stored generations, at least 1; Override.Back must be less than this number
}

// Documents returns all documents of which a generation is stored, sorted by path, even if
// the Source has removed them.
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

// Override changes how the given documents are served from the next request on. The
// keys of the map are paths. All other documents are served as usual.
func (s *Source) Override(of map[string]Override) { s.wire.overrides.Store(&of) }

// fromCache returns the response of a simulated cache, or nil if the request reaches the
// Source.
func (c *call) fromCache() *answer {
	past := c.s.past.of(c.path)
	if len(past) == 0 {
		return nil
	}
	back, hard, ok := c.chooseCached(past)
	if !ok || !hard && c.revalidates() {
		return nil
	}
	d := past[len(past)-1-back]
	a := c.stored(d)
	a.header.Set("Date", c.clock.shownAt(d.published).Format(http.TimeFormat))
	a.header.Set("Age", fmt.Sprint(max(0, int64(c.s.o.Model.Now().Sub(d.published).Seconds()))))
	return a
}

// chooseCached returns the number of generations that are newer than the one that the
// simulated cache sends. It returns false if no cache has the document.
func (c *call) chooseCached(past []*generation) (back int, hard, ok bool) {
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

// revalidates reports whether the request makes caches ask the Source.
func (c *call) revalidates() bool {
	return slices.ContainsFunc(c.r.Header.Values("Cache-Control"), func(v string) bool {
		return v == "no-cache" || v == "max-age=0"
	})
}

func (c *call) stored(d *generation) *answer {
	a := newAnswer(xmlType, bytes.NewReader(d.text), int64(len(d.text)))
	a.document, a.generation = true, d
	a.bytes(d.text)
	a.header.Set("Last-Modified", c.clock.shownAt(d.published).Format(http.TimeFormat))
	a.header.Set("Cache-Control", "no-cache")
	return a
}

// refusal returns the error response that a switch or an Override demands for the requested
// document, or nil if the document is served.
func (c *call) refusal() *answer {
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
	a.respondWith(status)
	return a
}

// observePackage calls observe with the manifest of a package. It reads a copy of this
// manifest that is published as a document.
func (c *call) observePackage() error {
	past := c.s.past.of(strings.TrimSuffix(c.path, ".zip") + "-manifest.xml")
	if len(past) == 0 {
		return nil
	}
	_, err := c.rewritten(c.switches, past[len(past)-1].text)
	return err
}
