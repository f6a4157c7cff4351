package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"instep/blob"
	"instep/destination"
	"instep/fetch"
	"instep/mirror"
	"instep/source"
)

// promises counts what histories were like, and what came of them.
type promises struct {
	mu     sync.Mutex // guards the rest
	counts map[string]int
	broken map[string][]string // by clause and kinds: how to play the history again
}

func (p *promises) add(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[what]++
}

func (p *promises) breaks(what, again string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken[what] = append(p.broken[what], again)
}

// A Source of any shape lives through clocks that jump, lists that are short, documents
// that are withdrawn, and caches that serve any earlier generation of any of them, while a
// mirror follows. After each run the mirror is checked against the record of everything that
// the Source had, published and served: the clauses of the promise in record_test.go.
func TestAnyHistoryKeepsThePromise(t *testing.T) {
	n := histories()
	seed := uint64(1) // a few histories are always the same ones
	if n >= manyHistories {
		seed = uint64(time.Now().UnixNano())
	}
	if s, err := strconv.ParseUint(os.Getenv("INSTEP_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("%d histories, INSTEP_SEED=%d", n, seed)
	all := &promises{counts: map[string]int{}, broken: map[string][]string{}}
	if fastTemp() == "" {
		t.Log("there is no /dev/shm: the mirrors are on a disk, which takes many times as long")
	}
	seeds := make(chan uint64)
	var wait sync.WaitGroup
	for range workers {
		wait.Go(func() {
			for seed := range seeds {
				tryOne(t, all, story{seed: seed, steps: os.Getenv("INSTEP_STEPS"), plain: os.Getenv("INSTEP_SHAPE") == "plain"})
			}
		})
	}
	for i := range n {
		seeds <- seed + uint64(i)
	}
	close(seeds)
	wait.Wait()
	for _, what := range slices.Sorted(maps.Keys(all.counts)) {
		t.Logf("%-44s %d", what, all.counts[what])
	}
	all.report(t)
}

// Histories in which a promise was broken once, and no longer is.
func TestHistoriesThatBrokeThePromise(t *testing.T) {
	all := &promises{counts: map[string]int{}, broken: map[string][]string{}}
	for _, of := range []story{
		{seed: 7003760}, {seed: 8006886, plain: true}, {seed: 8007888, plain: true}, {seed: 8018640}, {seed: 9004431, plain: true},
		{seed: 9008674, plain: true}, {seed: 14013306}, {seed: 25003763, plain: true}, {seed: 25014291, plain: true}, {seed: 25019075, plain: true},
		{seed: 25014710}, {seed: 27008925}, {seed: 32002649}, {seed: 43002451, plain: true},
		{seed: 43000851, plain: true}, {seed: 43001193, plain: true}, {seed: 46002776, steps: "0,2", plain: true}, {seed: 46001044, steps: "0,1"},
		{seed: 26111316, steps: "0,1"}, {seed: 26151626, plain: true}, {seed: 26170488, steps: "0,1,2,3", plain: true},
		{seed: 27016237, steps: "0,1", plain: true}, {seed: 27015029, steps: "0,2,3", plain: true}, {seed: 27018421, plain: true},
		{seed: 26300380, steps: "0,1,2,3"},
	} {
		tryOne(t, all, of)
	}
	all.report(t)
}

// report fails the test for each promise that was broken.
func (p *promises) report(t *testing.T) {
	for _, what := range slices.Sorted(maps.Keys(p.broken)) {
		again := slices.SortedFunc(slices.Values(p.broken[what]), func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
		t.Errorf("broken: %s, in %d histories, such as %s", what, len(again), strings.Join(again[:min(3, len(again))], "; "))
	}
}

// manyHistories are so many that they are others each time.
const manyHistories = 20_000

// workers is how many histories are played at a time: a run waits for the network often.
const workers = 4

// story says which history is played: that of a seed, or a part of it.
type story struct {
	seed  uint64
	steps string // their numbers, separated by commas; "" is all, "none" is none
	plain bool   // the Source has no habits
}

func (s story) String() string {
	text := fmt.Sprintf("INSTEP_HISTORIES=1 INSTEP_SEED=%d", s.seed)
	if s.steps != "" {
		text += " INSTEP_STEPS=" + s.steps
	}
	if s.plain {
		text += " INSTEP_SHAPE=plain"
	}
	return text
}

// has reports whether the story has a step.
func (s story) has(step int) bool {
	return s.steps == "" || slices.Contains(strings.Split(s.steps, ","), strconv.Itoa(step))
}

// tryOne plays a history, and where it breaks a promise looks for the shortest part of it
// that breaks the same.
func tryOne(t *testing.T, all *promises, of story) {
	h := play(t, of)
	for _, what := range h.seen {
		all.add(what)
	}
	if histories() == 1 {
		t.Log(strings.Join(h.log, "\n"))
	}
	for _, clause := range h.clauses() {
		least, kinds := shrink(t, of, h, clause)
		all.breaks(clause+" with "+kinds, least.String())
	}
}

// shrink leaves out steps and habits as long as the clause is broken all the same.
func shrink(t *testing.T, of story, h *trial, clause string) (story, string) {
	var steps []string
	for step := range h.steps {
		if of.has(step) {
			steps = append(steps, strconv.Itoa(step))
		}
	}
	least, kinds := of, h.kindsText()
	attempt := func(of story) bool {
		h := play(t, of)
		if !slices.Contains(h.clauses(), clause) {
			return false
		}
		least, kinds = of, h.kindsText()
		return true
	}
	for i := len(steps) - 1; i >= 0; i-- {
		without := slices.Delete(slices.Clone(steps), i, i+1)
		if attempt(story{seed: of.seed, steps: cmp.Or(strings.Join(without, ","), "none"), plain: least.plain}) {
			steps = without
		}
	}
	if !least.plain {
		attempt(story{seed: of.seed, steps: least.steps, plain: true})
	}
	return least, kinds
}

// play plays a history to its end.
func play(t *testing.T, of story) *trial {
	h := &trial{t: t, of: of, rng: rand.New(rand.NewPCG(of.seed, 20)), kinds: map[string]bool{}}
	defer h.close()
	if err := h.open(); err != nil {
		t.Errorf("%s: %v", of, err)
		return h
	}
	h.choose()
	h.sync()
	for step := range h.steps {
		if of.has(step) {
			h.rng = rand.New(rand.NewPCG(of.seed, 100+uint64(step)))
			h.step()
		}
	}
	h.rest()
	return h
}

// trial is a history: a Source, a mirror and the record.
type trial struct {
	t     *testing.T
	of    story
	rng   *rand.Rand
	steps int

	s      *Source
	server *httptest.Server
	rec    *record
	known  []int64 // number of the last change of each set in the record
	c      *copyOf
	dir    string
	epoch  time.Time // what the clock on the wall said at first
	shape  []string  // switches of the whole history: what the Source is like
	faults []string  // switches of this step
	honest bool      // no list ever lied, nor kept silent of its moment, or of an order that is not the standard's
	lied   bool      // some list did

	copies    sync.Map // Resource by digest: each version that there was
	lacksNext bool     // the second pages of Change Lists are missing
	resting   bool     // the history is at its end

	approved bool
	log      []string
	kinds    map[string]bool // what went wrong on the way
	seen     []string        // what is counted, each as often as it was seen
	broken   []violation
}

func (h *trial) note(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf(format, args...))
}

// kind takes down that the history has something of a kind.
func (h *trial) kind(name string) {
	if name != "" && !h.kinds[name] {
		h.kinds[name] = true
		h.count("with " + name)
	}
}

func (h *trial) count(what string) { h.seen = append(h.seen, what) }

func (h *trial) kindsText() string {
	if len(h.kinds) == 0 {
		return "nothing else"
	}
	return strings.Join(slices.Sorted(maps.Keys(h.kinds)), "; ")
}

// clauses are those that were broken.
func (h *trial) clauses() (all []string) {
	for _, v := range h.broken {
		if !slices.Contains(all, v.clause) {
			all = append(all, v.clause)
		}
	}
	return all
}

func (h *trial) upTo(n int) int { return 1 + h.rng.IntN(n) }

func (h *trial) seconds(n int) time.Duration { return time.Duration(h.rng.IntN(n)) * time.Second }

// shapes are what an ordinary Source can be like.
var shapes = [][]string{
	{}, {}, {}, {"29"}, {"29", "34"}, {"34"}, {"29", "shuffled"}, {"shuffled"}, {"profile-1.0"}, {"profile-1.0", "34"}, {"profile-1.0", "old-deletions"},
	{"old-deletions", "34"}, {"no-digests"}, {"no-digests", "no-lengths"}, {"no-digests", "profile-1.0"}, {"manifest-no-digests"},
	{"list-lacks-until"}, {"6"}, {"no-date"},
}

// vague reports whether a Source breaks the rule of forward order (1.1 §12.1) where nothing
// but the order reports when something was deleted.
func (h *trial) vague() bool {
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(h.shape, name) })
	}
	return (has("29", "profile-1.0", "old-deletions") || h.has(timeless)) && has("34", "shuffled")
}

func (h *trial) open() error {
	cfg := Config{
		Seed: h.of.seed, Resources: h.upTo(12), Rate: []float64{0.05, 0.2, 0.5}[h.rng.IntN(3)], Hot: h.rng.Float64(), Start: start,
		Size: Size{Kind: Uniform, Low: 20, High: 200}, Sets: 1,
	}
	if cfg.Resources > 2 && h.rng.IntN(8) == 0 {
		cfg.Sets = 2
	}
	m, err := NewModel(context.Background(), cfg)
	if err != nil {
		return err
	}
	h.server = httptest.NewUnstartedServer(nil)
	o := Options{
		Model: m, Bucket: blob.NewMem(), Staging: blob.NewMem(), BaseURL: "http://" + h.server.Listener.Addr().String() + "/",
		ChangeListMax: h.upTo(10), MaxEntries: h.upTo(20), RebaseEvery: time.Duration(h.upTo(200)) * time.Second,
		Dumps: h.rng.IntN(4) == 0, DumpEvery: time.Duration(h.upTo(200)) * time.Second, Keep: time.Duration(h.upTo(200)) * time.Second,
	}
	if h.rng.IntN(6) == 0 {
		o.Archive = &source.Archive{Every: h.seconds(60)}
	}
	if h.s, err = NewSource(o); err != nil {
		return err
	}
	h.note("%d resources in %d sets, lists of %d changes and %d entries, dumps %t, archives %t", cfg.Resources, cfg.Sets, o.ChangeListMax, o.MaxEntries, o.Dumps, o.Archive != nil)
	h.openRecord(m)
	h.server.Config.Handler = h.s
	h.server.Start()
	if h.shape = shapes[h.rng.IntN(len(shapes))]; h.of.plain {
		h.shape = nil
	}
	silent := h.has(silentLists)
	if silent {
		h.shape = append(slices.Clone(h.shape), string(silentLists))
	}
	h.kind(strings.Join(h.shape, "+"))
	if !silent {
		for _, b := range h.of.habits() {
			h.kind(string(b))
		}
	}
	h.steps = h.upTo(6)
	h.honest = !h.vague() && !silent
	h.round(0)
	h.settle()
	return h.openMirror()
}

func (h *trial) openRecord(m *Model) {
	h.rec = &record{base: h.s.o.BaseURL, clock: &h.s.wire.clock, past: map[string][]version{}, told: map[string][]statement{}}
	for _, p := range h.s.sets {
		h.rec.sets = append(h.rec.sets, p.name)
	}
	h.known = make([]int64, m.Sets())
	for set := range m.Sets() {
		for r := range m.Resources(set) {
			h.rec.past[r.Path] = []version{{time.Time{}, sumOf(&r)}}
			h.keepCopy(r)
		}
	}
	h.s.wire.observe = h.rec.hear
}

func sumOf(r *Resource) string { return fmt.Sprintf("%d %x", r.Length, r.SHA256) }

func (h *trial) openMirror() (err error) {
	if h.dir, err = os.MkdirTemp(fastTemp(), "promise-*"); err != nil {
		return err
	}
	h.epoch = time.Now()
	h.c = &copyOf{t: h.t, dir: h.dir}
	if h.c.m, err = mirror.Open(context.Background(), mirror.Options{Dir: h.dir, Now: h.now, Create: true}); err != nil {
		return err
	}
	h.c.d = &destination.Destination{Source: h.s.o.BaseURL + "resourcesync/description.xml", Mirror: h.c.m, Workers: 2, Spool: fastTemp(), Observe: h.observe}
	if h.rng.IntN(8) == 0 {
		h.kind("filter")
		h.note("only the first five resources are asked for")
		h.c.d.Include = []string{"0000000[0-4]*"}
	}
	return nil
}

// now is the mirror's clock: that of the Source when it is right, and it continues.
func (h *trial) now() time.Time { return h.s.o.Model.Now().Add(time.Since(h.epoch)) }

func (h *trial) close() {
	if h.server != nil {
		h.server.Close()
	}
	if h.c != nil && h.c.m != nil {
		if err := errors.Join(h.c.m.Close(), os.RemoveAll(h.dir)); err != nil {
			h.t.Error(err)
		}
	}
}

func (h *trial) observe(e destination.Event) { noteEvent(e, h.note) }

// round lets the Source change and publish.
func (h *trial) round(d time.Duration) {
	n, err := h.s.Round(context.Background(), d)
	if err != nil {
		h.t.Errorf("%s: %v", h.of, err)
	}
	h.note("%v later, %s: %+v", d, h.s.o.Model.Now().Format("15:04:05.000000"), n)
	m := h.s.o.Model
	for set := range m.Sets() {
		last := m.Last(set)
		for ch, err := range m.Changes(set, h.known[set]+1, last) {
			if err != nil {
				h.t.Errorf("%s: %v", h.of, err)
				return
			}
			now := version{ch.Datetime, sumOf(&ch.Resource)}
			if h.keepCopy(ch.Resource); ch.Change == "deleted" {
				now.sum = ""
			}
			h.rec.past[ch.Path] = append(h.rec.past[ch.Path], now)
			h.note("  %s %s at %s", ch.Path, ch.Change, ch.Datetime.Format("15:04:05.000000"))
		}
		h.known[set] = last
	}
}

// settle turns on the switches of this step and of the shape, and no others. Shapes come
// last: the faults are of documents as they are published.
func (h *trial) settle() {
	on, err := ParseSwitches(strings.Join(slices.Concat(h.faults, h.shape), ","))
	if err != nil {
		h.t.Errorf("%s: %v", h.of, err)
	}
	h.s.Switch(h.habitual(on)...)
}

func (h *trial) fault(names ...string) {
	h.faults = names
	h.note("faults: %v", names)
	h.settle()
}

// A step is what happens between two runs.
func (h *trial) step() {
	switch h.rng.IntN(12) {
	case 0, 1, 2, 3:
		h.caches()
	case 4:
		h.clockJumps()
	case 5:
		h.withdrawals()
	case 6:
		h.shortLists()
	case 7:
		h.gaps()
	case 8:
		for range h.upTo(5) {
			h.round(h.seconds(60))
		}
	default:
		h.round(h.seconds(40))
	}
	if h.rng.IntN(6) == 0 {
		h.c.d.Include = nil
	}
	h.choose()
	h.sync()
	h.s.Override(nil)
	if len(h.faults) > 0 {
		h.fault()
	}
}

// caches serve some documents, or all but some, as they were at an earlier moment.
func (h *trial) caches() {
	h.round(h.seconds(40))
	if h.rng.IntN(2) == 0 {
		h.round(h.seconds(40))
	}
	all := h.s.Documents()
	old, hard := map[string]Override{}, h.rng.IntN(2) == 0
	share := []float64{0.1, 0.3, 0.8, 1}[h.rng.IntN(4)]
	publications := h.s.past.moments()
	then := publications[h.rng.IntN(len(publications))]
	h.note("caches of %s, hard %t", then.Format("15:04:05.000000"), hard)
	for _, d := range all {
		if h.rng.Float64() >= share {
			continue
		}
		if back, ok := h.s.past.backAt(d.Path, then); ok {
			old[d.Path] = Override{Cached: true, Back: back, Hard: hard}
			if back > 0 {
				h.note("  %s is %d generations old", d.Path, back)
				h.count("cached " + d.Kind)
				h.kind(map[bool]string{true: "caches, hard", false: "caches"}[hard])
			}
		}
	}
	h.s.Override(old)
}

// clockJumps: the Source publishes while its clock is wrong, once or more, and is read
// then or later.
func (h *trial) clockJumps() {
	sw := clockFaults[h.rng.IntN(len(clockFaults)-1)]
	h.kind(sw.Name)
	h.fault(sw.Name)
	for range h.upTo(2) {
		h.round(h.seconds(40))
	}
	if h.rng.IntN(2) == 0 {
		h.fault()
	}
}

// withdrawals take documents away, by kind or a single one.
func (h *trial) withdrawals() {
	h.round(h.seconds(40))
	h.kind("withdrawn")
	if h.rng.IntN(2) == 0 {
		h.fault(withdrawalFaults[h.rng.IntN(len(withdrawalFaults))].Name)
		return
	}
	all := h.s.Documents()
	away := map[string]Override{}
	for range h.upTo(3) {
		d := all[h.rng.IntN(len(all))]
		h.note("withdrawn: %s", d.Path)
		away[d.Path] = Override{Status: []int{404, 500}[h.rng.IntN(2)]}
	}
	h.s.Override(away)
}

// shortLists: lists say less than there is.
func (h *trial) shortLists() {
	if h.rng.IntN(2) == 0 {
		h.round(h.seconds(40))
	}
	h.honest, h.lied = false, true
	name := []string{"half-list", "lacks-part", "lacks-next", "short-manifest"}[h.rng.IntN(4)]
	h.kind(name)
	h.fault(name)
}

// gaps: the beginning of Change Lists is lost.
func (h *trial) gaps() {
	h.round(h.seconds(60))
	h.kind("gap")
	h.fault([]string{"gap", "35"}[h.rng.IntN(2)])
}

// client is a new one for each run, on the mirror's clock.
func (h *trial) client() (*fetch.Client, error) {
	client, err := fetch.New(fetch.Options{
		Now: h.now, MaxRetries: 1, Backoff: time.Millisecond, BackoffMax: 2 * time.Millisecond, MaxWait: 20 * time.Millisecond,
	})
	if err != nil {
		return nil, err
	}
	return client, client.TrustSource(context.Background(), h.c.d.Source)
}

// sync makes a run and holds the mirror against the record.
func (h *trial) sync() (exit int, rep *destination.Report) {
	exit = h.hold(h.c.files(), func(ctx context.Context) (int, string) {
		var err error
		rep, err = h.run(ctx)
		return exitOf(rep, err), fmt.Sprint(err, summaryOf(rep))
	}, true)
	return exit, rep
}

// hold runs something with a new client and holds the mirror against the record. What a run
// was told that does not apply it counts no longer after it than what a failed run was told.
func (h *trial) hold(before map[string]string, run func(context.Context) (exit int, text string), applies bool) (exit int) {
	client, err := h.client()
	if err != nil {
		h.t.Errorf("%s: %v", h.of, err)
		return 1
	}
	defer client.Close()
	h.c.d.Client = client
	h.rec.begin()
	exit, text := run(context.Background())
	reading := h.rec.end(exit)
	h.count(fmt.Sprintf("exit %d", exit))
	for _, name := range slices.Sorted(maps.Keys(reading.documents)) {
		h.note("  served: %s (%s)", name, reading.documents[name].kind)
	}
	h.note("run: exit %d, %s", exit, text)
	after, kept := h.c.files(), h.kept()
	wanted := func(path string) bool { return !kept[path] && h.wanted(path) }
	broken := h.rec.check(reading, mirrored{before: before, after: after, cursor: h.cursors(), wanted: wanted, approved: h.approved, honest: h.honest, alone: !applies})
	for path := range kept {
		if applies && after[path] != before[path] {
			broken = append(broken, violation{keptStays, path})
		}
	}
	for _, v := range broken {
		h.note("BROKEN %s: %s", v.clause, v.how)
	}
	h.broken = append(h.broken, broken...)
	h.approved = false
	if !applies {
		reading.exit = max(exit, 4)
	}
	return exit
}

func (h *trial) run(ctx context.Context) (*destination.Report, error) {
	if !h.resting {
		var end context.CancelFunc
		ctx, end = h.interrupted(ctx)
		defer end()
	}
	plan, err := h.c.d.Plan(ctx)
	if err != nil {
		return nil, err
	}
	defer plan.Close()
	if err := h.c.m.Bind(ctx, plan.Source, plan.Origin, plan.URIs()...); err != nil {
		return nil, err
	}
	return h.c.d.Apply(ctx, plan)
}

func summaryOf(rep *destination.Report) (text string) {
	if rep == nil {
		return ""
	}
	for _, s := range rep.Sets {
		text += fmt.Sprintf("; %s created=%d updated=%d deleted=%d failed=%d withheld=%d partial=%v rolledback=%q skipped=%v %v", s.Mode, s.Created, s.Updated, s.Deleted, s.Failed, s.Withheld, s.Partial, s.RolledBack, s.Skipped, s.Via)
		for _, f := range s.Failures {
			text += fmt.Sprintf("\n    failed: %s: %v", f.URI, f.Err)
		}
	}
	return text
}

// wanted reports whether a resource passes the filter.
func (h *trial) wanted(p string) bool {
	in := func(globs []string) bool {
		ok, err := path.Match(globs[0], path.Base(p))
		return ok && err == nil
	}
	d := h.c.d
	return (len(d.Include) == 0 || in(d.Include)) && (len(d.Exclude) == 0 || !in(d.Exclude))
}

func (h *trial) cursors() map[string]time.Time {
	all := map[string]time.Time{}
	for _, p := range h.s.sets {
		uri := source.CapabilityListURI(h.s.o.BaseURL, p.name)
		if cur, ok, err := h.c.m.Cursor(context.Background(), uri); err == nil && ok {
			all[p.name] = cur.At
		}
	}
	return all
}

// rest is the end of a history: nothing is wrong any more, and nothing changes.
func (h *trial) rest() {
	h.askForAll()
	h.s.Override(nil)
	h.shape = slices.DeleteFunc(slices.Clone(h.shape), func(quirk string) bool { return quirk == string(silentLists) }) // lists tell what is gone again
	h.fault()
	h.round(time.Second)
	h.s.o.Model.cfg.Rate = 0
	switch {
	case h.vague(), h.lied, !h.s.wire.clock.isRight(): // what was never told, or told with a wrong date, is found by the monthly baseline
		h.round(31 * 24 * time.Hour)
	}
	h.note("rest")
	for n := range 3 {
		// A Change List that says it begins in years to come is a gap until it is closed: here
		// the printed command ends it.
		h.c.d.AcceptGap = n == 2 && !h.s.wire.clock.isRight()
		exit, rep := h.sync()
		if rep != nil {
			h.approve(rep)
		}
		if exit == 0 && maps.Equal(h.c.files(), present(h.s.o.Model)) {
			return
		}
	}
	h.note("BROKEN %s: the mirror has (-Source +mirror):\n%s", endsInStep, gocmp.Diff(present(h.s.o.Model), h.c.files()))
	h.broken = append(h.broken, violation{endsInStep, ""})
}

// approve allows what a guard withheld, as somebody does who follows what is printed.
func (h *trial) approve(rep *destination.Report) {
	hashes := []string{}
	for _, s := range rep.Sets {
		if s.Withheld > 0 {
			hashes = append(hashes, s.Hash)
		}
	}
	for _, hash := range hashes {
		if _, _, err := h.c.m.Approve(context.Background(), hash); err != nil {
			h.note("approve: %v", err)
		}
		h.approved = true
		h.count("approved at rest")
	}
}

// exitOf is the exit code of a run, as instep sync gives it.
func exitOf(rep *destination.Report, err error) int {
	if err != nil {
		var fe *fetch.Error
		if errors.Is(err, destination.ErrOutage) || errors.As(err, &fe) && fe.Kind == fetch.Temporary {
			return 5
		}
		return 1
	}
	code := 0
	worse := func(is bool, than int) { // the first of 6, 1, 4, 0 that applies
		order := []int{6, 1, 4, 0}
		if is && slices.Index(order, than) < slices.Index(order, code) {
			code = than
		}
	}
	for _, o := range rep.Orphans {
		worse(!o.Forget, 6)
	}
	for _, s := range rep.Sets {
		worse(s.Withheld > 0 || s.RolledBack != "" || errors.Is(s.Partial, destination.ErrWithdrawn), 6)
		worse(s.Partial != nil, 1)
		worse(s.Failed > 0 || s.Gap != "", 4)
		for _, skip := range []destination.Skip{destination.SkipOrigin, destination.SkipUnsupported, destination.SkipWeak, destination.SkipStale, destination.SkipDisputed} {
			worse(s.Skipped[skip] > 0, 4)
		}
	}
	return code
}
