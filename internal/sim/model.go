package sim

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"instep/resourcesync"
)

// Limits of the fields of a Config.
const (
	MaxResources = 10_000_000
	MaxSets      = 10_000
	MaxRate      = 100_000 // changes per second
	MaxStep      = 100_000 // largest number of changes in one Step
)

// Config configures a Model. Resources, Size and Start are required.
type Config struct {
	Seed      uint64
	Resources int // the number of resources at the start of the simulation, from 1 to MaxResources
	Size      Size
	Rate      float64 // the number of changes per second of simulated time, from 0 to MaxRate
	Mix       Mix     // the zero Mix means a half updates, a quarter creations and a quarter deletions
	// Hot is the fraction of updates, from 0 to 1, that change only a hundredth of the
	// resources, always the same ones.
	Hot   float64
	Start time.Time // the time at which the simulated clock starts
	Sets  int       // the number of sets to which the resources are distributed; 0 means 1
	// Twins means that resources come in pairs: versions with the same number have the same
	// bytes in both resources.
	Twins bool
	// History is the number of changes that the Model stores for each set, at least
	// MaxStep. 0 means 200,000.
	History int
}

// Mix is the relative frequency of each kind of change.
type Mix struct{ Created, Updated, Deleted int }

func (m Mix) total() int { return m.Created + m.Updated + m.Deleted }

// Resource describes one version of a resource.
type Resource struct {
	ID, Version uint32
	Path        string // the path of the resource below the base URL
	Length      int64
	SHA256      [sha256.Size]byte
	Changed     time.Time // the time at which this version began; zero if unknown
	Type        string
	content     content
}

// Open returns a reader of the bytes of this version, even if the resource has since
// changed or been deleted.
func (r *Resource) Open() *io.SectionReader { return r.content.open() }

// Change is one change in the history of a set.
type Change struct {
	Seq      int64 // the number of the change in its set, counted from 1
	Datetime time.Time
	Change   resourcesync.Change
	Resource // the new version of the resource, or the deleted one
}

// state is the present state of an existing or deleted resource.
type state struct {
	changed int64 // time of the last change, in microseconds since 1970
	version uint32
	place   uint32 // the index of the resource in Model.alive; the constant nowhere if it was deleted
	sum     [sha256.Size]byte
}

const nowhere = ^uint32(0)

// event is a change in a compact form, to save memory.
type event struct {
	at      int64
	id      uint32
	version uint32
	kind    kind
	sum     [sha256.Size]byte
}

type kind uint8

const (
	created kind = iota
	updated
	deleted
)

var changeOf = [...]resourcesync.Change{created: resourcesync.Created, updated: resourcesync.Updated, deleted: resourcesync.Deleted}

type history struct {
	first  int64   // the number of the oldest stored change
	events []event // the stored changes of a set, oldest first
}

// Model is a set of resources that changes. Only one call of Step may run at a time. All
// other methods are safe for concurrent use.
type Model struct {
	cfg Config
	rng *rand.Rand // used only by Step
	buf []byte     // a buffer for hashing, used only by Step

	mu     sync.RWMutex // guards the fields below, which only Step changes
	now    int64        // the simulated time in microseconds since 1970, which is later than every change
	states []state      // by id
	alive  []uint32     // the ids of all existing resources, unordered
	gone   []uint32     // the ids of all deleted resources, unordered
	logs   []history    // by set
}

// ErrForgotten means that the Model no longer stores a change that is needed for the result.
var ErrForgotten = errors.New("the oldest changes are no longer stored")

const hashBuffer = 64 << 10

// NewModel returns a Model after creating and hashing the first version of each
// resource.
func NewModel(ctx context.Context, cfg Config) (*Model, error) {
	cfg.Sets = max(cfg.Sets, 1)
	if cfg.Mix == (Mix{}) {
		cfg.Mix = Mix{1, 2, 1}
	}
	if cfg.History == 0 {
		cfg.History = 2 * MaxStep
	}
	cfg.History = max(cfg.History, MaxStep)
	if err := cfg.check(); err != nil {
		return nil, err
	}
	m := &Model{
		cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, golden)), buf: make([]byte, hashBuffer),
		now: cfg.Start.UnixMicro(), states: make([]state, cfg.Resources), alive: make([]uint32, cfg.Resources),
		logs: make([]history, cfg.Sets),
	}
	for i := range m.logs {
		m.logs[i].first = 1
	}
	return m, m.fill(ctx)
}

func (c *Config) check() error {
	switch {
	case c.Resources < 1 || c.Resources > MaxResources:
		return fmt.Errorf("resources: expected 1 to %d, found %d", MaxResources, c.Resources)
	case c.Sets > min(MaxSets, c.Resources):
		return fmt.Errorf("sets: expected 1 to %d sets for %d resources, found %d", min(MaxSets, c.Resources), c.Resources, c.Sets)
	case !(c.Rate >= 0 && c.Rate <= MaxRate):
		return fmt.Errorf("rate: expected 0 to %d changes a second, found %g", MaxRate, c.Rate)
	case c.Mix.Created < 0 || c.Mix.Updated < 0 || c.Mix.Deleted < 0 || c.Mix.total() > 1_000_000:
		return fmt.Errorf("mix: expected three numbers, none negative, with a sum of at most 1,000,000, found %v", c.Mix)
	case !(c.Hot >= 0 && c.Hot <= 1):
		return fmt.Errorf("hot: expected 0 to 1, found %g", c.Hot)
	case c.Start.IsZero():
		return errors.New("start: expected a time")
	}
	return c.Size.check()
}

func (m *Model) fill(ctx context.Context) error {
	const share = 4096
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for from := 0; from < len(m.states) && ctx.Err() == nil; from += share {
		g.Go(func() error {
			buf := make([]byte, hashBuffer)
			for id := from; id < min(from+share, len(m.states)); id++ {
				if err := ctx.Err(); err != nil {
					return err
				}
				c := m.contentOf(uint32(id), 1)
				m.states[id] = state{changed: m.initialTime(uint32(id)), version: 1, place: uint32(id), sum: c.sum(buf)}
				m.alive[id] = uint32(id)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// initialTime returns the time of the first version of a resource that exists from the start
// of the simulation: a time in the thirty days before.
func (m *Model) initialTime(id uint32) int64 {
	before := mix(m.contentOf(id, 1).key^3) % uint64(30*24*time.Hour/time.Microsecond)
	return m.cfg.Start.UnixMicro() - int64(before) - 1
}

func (m *Model) contentOf(id, version uint32) content {
	if m.cfg.Twins {
		id &^= 1
	}
	key := keyOf(m.cfg.Seed, id, version)
	return content{key, m.cfg.Size.of(key)}
}

// Consecutive resources have different extensions, and so different media types.
var extensions = [...]struct{ ext, mediaType string }{
	{".txt", "text/plain"}, {".csv", "text/csv"}, {".bin", "application/octet-stream"},
}

const pathRoot = "r/"

func pathOf(id uint32) string {
	return fmt.Sprintf("%s%04d/%08d%s", pathRoot, id/1000, id, extensions[id%uint32(len(extensions))].ext)
}

// idOf reverses pathOf.
func idOf(path string) (uint32, bool) {
	name := path[strings.LastIndexByte(path, '/')+1:]
	digits, _, _ := strings.Cut(name, ".")
	id, err := strconv.ParseUint(digits, 10, 32)
	return uint32(id), err == nil && pathOf(uint32(id)) == path
}

func (m *Model) resource(id, version uint32, changed int64, sum [sha256.Size]byte) Resource {
	c := m.contentOf(id, version)
	r := Resource{
		ID: id, Version: version, Path: pathOf(id), Length: c.size, SHA256: sum,
		Type: extensions[id%uint32(len(extensions))].mediaType, content: c,
	}
	if changed != 0 {
		r.Changed = time.UnixMicro(changed).UTC()
	}
	return r
}

// Now returns the time of the simulated clock, which is later than every change.
func (m *Model) Now() time.Time {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return time.UnixMicro(m.now).UTC()
}

// Len returns the number of resources.
func (m *Model) Len() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.alive)
}

// Sets returns the number of sets.
func (m *Model) Sets() int { return m.cfg.Sets }

// Find returns the present version of the resource with the given path.
func (m *Model) Find(path string) (Resource, bool) {
	id, ok := idOf(path)
	if !ok {
		return Resource{}, false
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if int64(id) >= int64(len(m.states)) || m.states[id].place == nowhere {
		return Resource{}, false
	}
	s := &m.states[id]
	return m.resource(id, s.version, s.changed, s.sum), true
}

// Version returns the version of r that has the given number. The fields SHA256 and Changed
// are zero.
func (m *Model) Version(r Resource, version uint32) Resource {
	return m.resource(r.ID, version, 0, [sha256.Size]byte{})
}

// Resources yields the resources of a set, in the order of their ids. The first set has the
// number 0. The loop may miss changes that are made while it runs.
func (m *Model) Resources(set int) iter.Seq[Resource] {
	const share = 1024
	return func(yield func(Resource) bool) {
		batch := make([]Resource, 0, share)
		for next := set; next >= 0; {
			batch = batch[:0]
			next = m.appendTo(&batch, next)
			for i := range batch {
				if !yield(batch[i]) {
					return
				}
			}
		}
	}
}

// appendTo appends existing resources of a set to batch, starting with the given id, until
// the batch is full. It returns the next id, or -1 if no resources remain.
func (m *Model) appendTo(batch *[]Resource, id int) int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for ; id < len(m.states); id += m.cfg.Sets {
		if len(*batch) == cap(*batch) {
			return id
		}
		if s := &m.states[id]; s.place != nowhere {
			*batch = append(*batch, m.resource(uint32(id), s.version, s.changed, s.sum))
		}
	}
	return -1
}

// Last returns the number of the last change of a set, or 0 if the set has not changed
// yet.
func (m *Model) Last(set int) int64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.logs[set].last()
}

func (h *history) last() int64 { return h.first + int64(len(h.events)) - 1 }

// Changes yields the changes of a set whose numbers are in the given range, including
// both ends. The error is ErrForgotten if some of these changes are no longer stored.
func (m *Model) Changes(set int, from, through int64) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		for seq := from; seq <= through; seq++ {
			ch, err := m.change(set, seq)
			if !yield(ch, err) || err != nil {
				return
			}
		}
	}
}

func (m *Model) change(set int, seq int64) (Change, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	h := &m.logs[set]
	if seq < h.first || seq > h.last() {
		return Change{}, fmt.Errorf("change %d of set %d: %w: only changes %d to %d are stored", seq, set, ErrForgotten, h.first, h.last())
	}
	e := &h.events[seq-h.first]
	return Change{
		Seq: seq, Datetime: time.UnixMicro(e.at).UTC(), Change: changeOf[e.kind],
		Resource: m.resource(e.id, e.version, e.at, e.sum),
	}, nil
}

// versionTime returns the time of the version that the resource had immediately before the
// given time.
func (m *Model) versionTime(id uint32, moment time.Time) time.Time {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, e := range slices.Backward(m.logs[int(id)%m.cfg.Sets].events) {
		if e.id == id && e.at < moment.UnixMicro() && e.kind != deleted {
			return time.UnixMicro(e.at).UTC()
		}
	}
	return time.UnixMicro(m.initialTime(id)).UTC()
}
