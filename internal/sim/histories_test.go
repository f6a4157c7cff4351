package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/blob"
	"instep/destination"
	"instep/mirror"
	"instep/source"
)

// histories is how many histories are played: INSTEP_HISTORIES, or a few.
func histories() int {
	if n, err := strconv.Atoi(os.Getenv("INSTEP_HISTORIES")); err == nil && n > 0 {
		return n
	}
	return 48
}

// wantedOfEach is how often each way has to be taken in so many histories; nobody can tell of a few.
func wantedOfEach(n int) int64 { return min(100, int64(n)/100) }

// A Source with all capabilities lives through changes, rotations, outages and
// withdrawals while a mirror follows it with pauses of any length. At any moment the
// mirror holds only bytes that the Source had, and has deleted only what the Source
// had deleted; when the Source is well again, the two are equal.
func TestAnyHistoryEndsInStep(t *testing.T) {
	n := histories()
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("INSTEP_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("%d histories, INSTEP_SEED=%d", n, seed)
	var mu sync.Mutex
	ways := map[string]int64{}
	t.Run("history", func(t *testing.T) {
		for i := range n {
			t.Run(strconv.FormatUint(seed+uint64(i), 10), func(t *testing.T) {
				t.Parallel()
				h := newLife(t, seed+uint64(i))
				h.play()
				mu.Lock()
				defer mu.Unlock()
				for way, times := range h.ways {
					ways[way] += times
				}
			})
		}
	})
	for _, way := range slices.Sorted(maps.Keys(ways)) {
		t.Logf("%-34s %d", way, ways[way])
	}
	for _, way := range []string{"list", "dump", "range", "archive", "local"} {
		if want := wantedOfEach(n); !t.Failed() && ways[way] < want {
			t.Errorf("the way %q was taken in %d synchronisations, want at least %d", way, ways[way], want)
		}
	}
}

// life is a Source, the weather in front of it, and a mirror.
type life struct {
	t       *testing.T
	seed    uint64
	rng     *rand.Rand
	s       *Source
	server  *httptest.Server
	weather *weather
	c       *copyOf
	dir     string
	log     []string

	past   map[string][]moment // what happened to each path
	known  []int64             // number of the last change of each set in past
	cursor map[string]time.Time
	ways   map[string]int64
}

// moment is what a path has been since.
type moment struct {
	sum  string // as present tells; "" if deleted
	gone bool
}

// weather stands between the Source and who reads it.
type weather struct {
	next http.Handler

	mu        sync.Mutex
	storm     bool
	withdrawn []string // what paths below resourcesync contain
	noRanges  bool
	archives  int // documents of archives that were read
}

func (w *weather) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	storm, noRanges := w.storm, w.noRanges
	away := slices.ContainsFunc(w.withdrawn, func(s string) bool { return strings.Contains(r.URL.Path, s) })
	if strings.Contains(r.URL.Path, "/archives/") {
		w.archives++
	}
	w.mu.Unlock()
	switch {
	case storm:
		http.Error(out, "closed because of the weather", http.StatusServiceUnavailable)
	case away:
		http.NotFound(out, r)
	default:
		if noRanges {
			r.Header.Del("Range")
		}
		w.next.ServeHTTP(out, r)
	}
}

// set changes the weather.
func (w *weather) set(change func(*weather)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(w)
}

// withdrawals are the kinds of documents that may be away for a while.
var withdrawals = []string{"/lists/", "resourcelist", "/dumps/", "/changedumps/", "/changes/", "changelist-index", "changedump-index", "/archives/", ".zip", "-manifest.xml"}

// storms are faults of the network and of caches: nothing that a Source says of itself.
var storms = []string{
	"cut-document", "truncate", "close-cut", "short-length", "reset", "wrong-bytes", "longer", "newer-bytes", "older-bytes",
	"redirect-loop", "gzip-lie", "error-page", "bot-wall", "wrong-range", "range-change", "lying-304", "etag-lies",
	"zip-slip", "zip-twice", "zip-lacks-member", "zip-cut", "rollback",
}

func newLife(t *testing.T, seed uint64) *life {
	t.Helper()
	h := &life{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 6)), past: map[string][]moment{}, cursor: map[string]time.Time{}, ways: map[string]int64{}}
	upTo := func(n int) int { return 1 + h.rng.IntN(n) }
	cfg := Config{
		Seed: seed, Resources: upTo(60), Rate: []float64{0.1, 0.5, 2}[h.rng.IntN(3)], Hot: h.rng.Float64(), Twins: h.rng.IntN(2) == 0,
		Size: Size{Kind: LogNormal, Low: []int64{20, 500, 5000, 20_000}[h.rng.IntN(4)]}, Sets: 1,
	}
	large := cfg.Size.Low > 10_000
	if large { // each dump is kept in memory
		cfg.Resources = 10 + upTo(20)
	}
	if cfg.Resources > 2 && h.rng.IntN(4) == 0 {
		cfg.Sets = 2
	}
	m := newModel(t, cfg)
	h.known = make([]int64, m.Sets())
	h.remember(m)
	h.server = httptest.NewUnstartedServer(nil)
	o := Options{
		Model: m, Bucket: blob.NewMem(), Staging: blob.NewMem(), BaseURL: "http://" + h.server.Listener.Addr().String() + "/",
		ChangeListMax: upTo(40), MaxEntries: upTo(80), RebaseEvery: time.Duration(upTo(300)) * time.Second,
		Dumps: h.rng.IntN(4) > 0, DumpEvery: time.Duration(upTo(300)) * time.Second, Keep: time.Duration(upTo(120)) * time.Second,
	}
	if large {
		o.DumpEvery += 2 * time.Minute
	}
	if !large && h.rng.IntN(2) == 0 {
		o.Archive = &source.Archive{Every: time.Duration(h.rng.IntN(60)) * time.Second}
	}
	var err error
	if h.s, err = NewSource(o); err != nil {
		h.fail("%v", err)
	}
	h.weather = &weather{next: h.s}
	h.server.Config.Handler = h.weather
	h.server.Start()
	t.Cleanup(h.close)
	h.note("%d resources in %d sets, lists of %d changes and %d entries, dumps %t, archives %t, twins %t",
		cfg.Resources, cfg.Sets, o.ChangeListMax, o.MaxEntries, o.Dumps, o.Archive != nil, cfg.Twins)
	h.round(0)
	h.mirror()
	return h
}

func (h *life) mirror() {
	var err error
	if h.dir, err = os.MkdirTemp(fastTemp(), "history-*"); err != nil {
		h.fail("%v", err)
	}
	h.c = &copyOf{t: h.t, dir: h.dir, patience: 30 * time.Second} // no fault of a history keeps silent
	if h.c.m, err = mirror.Open(h.t.Context(), mirror.Options{Dir: h.dir, Now: time.Now, Create: true}); err != nil {
		h.fail("%v", err)
	}
	h.c.d = &destination.Destination{Source: h.s.o.BaseURL + "resourcesync/description.xml", Mirror: h.c.m, Workers: 4, Observe: h.observe}
	if h.rng.IntN(3) == 0 { // the rest is asked for later
		h.c.d.Include = []string{"0000000*"}
		h.note("only the first ten resources are asked for")
	}
	if h.rng.IntN(4) == 0 {
		h.c.d.Prefer = []destination.Prefer{destination.PreferList, destination.PreferDump}[h.rng.IntN(2)]
	}
}

// fastTemp is a directory in memory where there is one: a history makes a mirror.
func fastTemp() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return ""
}

func (h *life) close() {
	h.server.Close()
	if h.c == nil || h.c.m == nil {
		return
	}
	if err := errors.Join(h.c.m.Close(), os.RemoveAll(h.dir)); err != nil {
		h.t.Error(err)
	}
	*h = life{} // the test remembers its cleanups until all histories have ended
}

func (h *life) note(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf(format, args...))
}

func (h *life) fail(format string, args ...any) {
	h.t.Helper()
	h.t.Fatalf("INSTEP_SEED=%d INSTEP_HISTORIES=1: %s\n%s", h.seed, fmt.Sprintf(format, args...), strings.Join(h.log, "\n"))
}

// observe counts the ways, and takes down what happens for when it goes wrong.
func (h *life) observe(e destination.Event) { noteEvent(e, h.note) }

// noteEvent notes the plans of a run and what it tolerated.
func noteEvent(e destination.Event, note func(format string, args ...any)) {
	switch e.Kind {
	case destination.EventPlanned:
		note("  plan of %s: %s, %s", path.Base(path.Dir(e.Set)), e.Plan.Mode, e.Plan.Why)
	case destination.EventNote:
		note("  note: %s", e.Text)
	}
}

// round lets the Source change and publish.
func (h *life) round(d time.Duration) {
	n, err := h.s.Round(context.Background(), d)
	if err != nil {
		h.fail("round: %v", err)
	}
	h.note("%v later: %+v", d, n)
	h.remember(h.s.o.Model)
}

// remember takes down what happened at the Source.
func (h *life) remember(m *Model) {
	if len(h.past) == 0 {
		for p, sum := range present(m) {
			h.past[p] = []moment{{sum: sum}}
		}
	}
	for set := range m.Sets() {
		last := m.Last(set)
		for ch, err := range m.Changes(set, h.known[set]+1, last) {
			if err != nil {
				h.fail("%v", err)
			}
			now := moment{sum: fmt.Sprintf("%d %x", ch.Length, ch.SHA256)}
			if ch.Change == "deleted" {
				now = moment{gone: true}
			}
			h.past[ch.Path] = append(h.past[ch.Path], now)
		}
		h.known[set] = last
	}
}

// play is the history.
func (h *life) play() {
	for range 3 + h.rng.IntN(6) {
		switch h.rng.IntN(8) {
		case 0:
			h.away()
		case 1:
			h.storm()
		case 2, 3: // long absences
			for range 1 + h.rng.IntN(7) {
				h.round(time.Duration(h.rng.IntN(60)) * time.Second)
			}
		default:
			h.round(time.Duration(h.rng.IntN(60)) * time.Second)
		}
		h.sync()
		h.clear()
		if h.rng.IntN(2) == 0 {
			h.c.d.Include = nil
		}
	}
	h.c.d.Include = nil
	h.quiesce()
}

// away takes some documents off the air.
func (h *life) away() {
	var names []string
	for range 1 + h.rng.IntN(3) {
		names = append(names, withdrawals[h.rng.IntN(len(withdrawals))])
	}
	outage := h.rng.IntN(6) == 0
	h.note("withdrawn: %v; closed: %t", names, outage)
	h.weather.set(func(w *weather) { w.withdrawn, w.storm, w.noRanges = names, outage, h.rng.IntN(2) == 0 })
}

// storm turns on a fault or two.
func (h *life) storm() {
	var on []Switched
	for range 1 + h.rng.IntN(2) {
		name := storms[h.rng.IntN(len(storms))]
		i := slices.IndexFunc(Switches(), func(sw *Switch) bool { return sw.Name == name })
		if i < 0 {
			h.fail("there is no fault %q", name)
		}
		on = append(on, Switched{Switches()[i], 0.3})
		h.note("fault: %s", name)
	}
	h.s.Switch(on...)
}

// clear makes the weather fine again.
func (h *life) clear() {
	h.s.Switch()
	h.weather.set(func(w *weather) { w.withdrawn, w.storm, w.noRanges = nil, false, false })
}

// sync synchronises and checks what came of it.
func (h *life) sync() {
	before := h.c.files()
	h.c.connect()
	h.weather.set(func(w *weather) { w.archives = 0 })
	rep, err := h.c.sync()
	after := h.c.files()
	h.check(before, after)
	if rep == nil {
		h.note("sync: %v", err)
		return
	}
	for _, s := range rep.Sets {
		h.note("sync of a set: %s created=%d updated=%d deleted=%d failed=%d withheld=%d partial=%v", s.Mode, s.Created, s.Updated, s.Deleted, s.Failed, s.Withheld, s.Partial)
		h.count(s)
		if s.Withheld > 0 && h.rng.IntN(2) == 0 {
			h.approve(s.Hash)
		}
	}
	if err != nil {
		h.note("sync: %v", err)
	}
	h.checkCursors(rep)
}

// count adds the ways that a run of a set took.
func (h *life) count(s *destination.SetReport) {
	for via, n := range s.Via {
		if via == destination.ViaGet {
			via = "list"
		}
		if n > 0 {
			h.ways[string(via)]++
		}
	}
	h.weather.set(func(w *weather) {
		if w.archives > 0 && s.Mode == destination.Incremental {
			h.ways["archive"]++
		}
		w.archives = 0
	})
	h.ways["mode "+string(s.Mode)]++
}

func (h *life) approve(hash string) {
	if _, _, err := h.c.m.Approve(h.t.Context(), hash); err != nil {
		h.fail("approve %s: %v", hash, err)
	}
}

// check holds the files against what the Source ever was.
func (h *life) check(before, after map[string]string) {
	h.t.Helper()
	for p, sum := range after {
		if !slices.ContainsFunc(h.past[p], func(m moment) bool { return m.sum == sum }) {
			h.fail("%s: the mirror has bytes that the Source never had: %s", p, sum)
		}
	}
	for p, sum := range before {
		if _, there := after[p]; there {
			continue
		}
		had := slices.IndexFunc(h.past[p], func(m moment) bool { return m.sum == sum })
		if !slices.ContainsFunc(h.past[p][had+1:], func(m moment) bool { return m.gone }) {
			h.fail("%s: deleted without evidence: the Source has it since it was as the mirror had it", p)
		}
	}
}

// checkCursors fails if a cursor went back.
func (h *life) checkCursors(rep *destination.Report) {
	h.t.Helper()
	for _, s := range rep.Sets {
		cur, _, err := h.c.m.Cursor(h.t.Context(), s.Set)
		if err != nil {
			h.fail("%v", err)
		}
		if cur.At.Before(h.cursor[s.Set]) {
			h.fail("the cursor of %s went back from %v to %v", s.Set, h.cursor[s.Set], cur.At)
		}
		h.cursor[s.Set] = cur.At
	}
}

// quiesce synchronises in fine weather until nothing is left to do.
func (h *life) quiesce() {
	h.note("quiescence")
	h.round(time.Second)
	for range 4 {
		h.c.connect()
		before := h.c.files()
		rep, err := h.c.sync()
		if err != nil {
			h.fail("sync in fine weather: %v", err)
		}
		h.check(before, h.c.files())
		done := true
		for _, s := range rep.Sets {
			h.count(s)
			h.note("sync of a set: %s created=%d updated=%d deleted=%d failed=%d withheld=%d partial=%v", s.Mode, s.Created, s.Updated, s.Deleted, s.Failed, s.Withheld, s.Partial)
			if s.Withheld > 0 {
				h.approve(s.Hash)
			}
			done = done && s.Withheld == 0 && s.Failed == 0 && s.Partial == nil && s.Created+s.Updated+s.Deleted == 0
		}
		if done {
			break
		}
	}
	if diff := cmp.Diff(present(h.s.o.Model), h.c.files()); diff != "" {
		h.fail("the mirror is not in step (-Source +mirror):\n%s", diff)
	}
	audit, err := h.c.d.Audit(h.t.Context())
	if err != nil || !audit.InSync() {
		h.fail("audit: %+v, %v; want everything in sync", audit, err)
	}
}
