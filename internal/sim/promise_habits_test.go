package sim

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"instep/destination"
	"instep/mirror"
)

// habit is something that lasts through a history, of the Source or of whoever runs the
// mirror. It follows from the seed alone, so the histories of other seeds stay as they are.
type habit string

const (
	silentLists  habit = "28" // Resource Lists do not tell their moment, so what they lack may exist
	fewChanges   habit = "few changes a run"
	otherFilters habit = "another filter each run"
	duplicates   habit = "duplicates"
	changePages  habit = "a Change List of two pages"
	overlapping  habit = "Change Lists overlap"
	timeless     habit = "some changes have no time"
	restores     habit = "earlier states are restored"
	keeps        habit = "restored states are kept"
	audits       habit = "files get lost, and audits find them"
	interrupts   habit = "runs are interrupted"
)

// habits are those of a seed, by its remainder: of 64 if it is there, or else of 32.
var habits = map[uint64][]habit{
	3: {silentLists}, 19: {silentLists},
	1: {fewChanges}, 4: {otherFilters}, 5: {duplicates}, 7: {changePages}, 8: {fewChanges, otherFilters}, 11: {otherFilters, duplicates},
	12: {fewChanges, changePages}, 14: {fewChanges, otherFilters, duplicates, changePages},
	17: {overlapping, fewChanges}, 20: {overlapping, timeless}, 21: {timeless}, 23: {overlapping}, 24: {overlapping, timeless, otherFilters},
	10: {restores}, 13: {restores, otherFilters}, 18: {restores, fewChanges}, 31: {restores, overlapping},
	27: {timeless, changePages}, 28: {overlapping, timeless, fewChanges}, 30: {timeless, duplicates, fewChanges},
	44: {restores, keeps}, 63: {restores, keeps, audits, otherFilters},
	32: {audits}, 42: {audits, restores}, 45: {audits, overlapping, timeless}, 53: {audits, timeless}, 61: {audits, otherFilters},
	47: {interrupts}, 50: {interrupts, fewChanges}, 57: {interrupts, audits}, 60: {interrupts, overlapping, timeless, otherFilters},
}

func (s story) habits() []habit {
	if of, ok := habits[s.seed%64]; ok {
		return of
	}
	return habits[s.seed%32]
}

func (h *trial) has(b habit) bool { return slices.Contains(h.of.habits(), b) }

// filters are the resources that are asked for: what to include, and what to exclude.
var filters = [][2]string{{"", ""}, {"0000000[0-4]*", ""}, {"0000000[3-7]*", ""}, {"*.txt", ""}, {"", "*.csv"}, {"", "0000000[4-9]*"}}

// choose is what whoever runs the mirror asks for in the next run, and what the Source
// leaves out by accident.
func (h *trial) choose() {
	if h.has(restores) {
		h.restore()
	}
	if h.has(audits) && h.rng.IntN(2) == 0 {
		h.audit()
	}
	if h.has(fewChanges) {
		h.c.d.MaxChanges = h.upTo(4)
	}
	if h.has(otherFilters) {
		f := filters[h.rng.IntN(len(filters))]
		h.c.d.Include, h.c.d.Exclude = globs(f[0]), globs(f[1])
		h.note("asked for: %q but %q", f[0], f[1])
	}
	if h.has(changePages) {
		if h.lacksNext = h.rng.IntN(8) == 0; h.lacksNext {
			h.note("the second pages of Change Lists are missing")
			h.honest, h.lied = false, true
		}
		h.settle()
	}
}

// audit loses a file, or none, and audits, with or without repair. What the audit cannot
// compare comes back as it was.
func (h *trial) audit() {
	before, lost, kept := h.c.files(), "", []byte(nil)
	if all := slices.Sorted(maps.Keys(before)); len(all) > 0 && h.rng.IntN(2) == 0 {
		lost = all[h.rng.IntN(len(all))]
		name := filepath.Join(h.dir, filepath.FromSlash(lost))
		var err error
		if kept, err = os.ReadFile(name); err == nil {
			err = os.Remove(name)
		}
		if err != nil {
			h.t.Errorf("%s: %v", h.of, err)
			return
		}
		delete(before, lost)
		h.note("lost: %s", lost)
	}
	found := false
	h.c.d.Observe = func(e destination.Event) {
		h.observe(e)
		if e.Kind == destination.EventVerdict {
			h.note("  %s: %s, %v", e.Action.Want.URI, e.Verdict, e.Err)
			found = found || e.Path == lost && (e.Verdict == destination.VerdictMissing || e.Again)
		}
	}
	defer func() { h.c.d.Observe = h.observe }()
	audit := func(ctx context.Context) (a *destination.Audit, err error) {
		if h.rng.IntN(2) == 0 {
			return h.c.d.Audit(ctx)
		}
		a, _, err = h.c.d.Repair(ctx)
		return a, err
	}
	h.hold(before, func(ctx context.Context) (int, string) {
		a, err := audit(ctx)
		if err != nil {
			return 1, fmt.Sprintf("audit: %v", err)
		}
		exit, text := 0, "audit:"
		for _, s := range a.Sets {
			text += fmt.Sprintf(" %v partial=%v gap=%q", s.Verdicts, s.Partial, s.Gap)
			if !a.InSync() || s.Verdicts[destination.VerdictUnverifiable] > 0 {
				exit = 4
			}
		}
		h.count(fmt.Sprintf("audit with exit %d", exit))
		return exit, text
	}, false)
	if _, here := h.c.files()[lost]; lost != "" && !here && !found {
		h.note("not missed, and put back: %s", lost)
		if err := os.WriteFile(filepath.Join(h.dir, filepath.FromSlash(lost)), kept, 0o600); err != nil {
			h.t.Errorf("%s: %v", h.of, err)
		}
	}
}

// interrupted returns a context that ends after some transfers of a run, if runs are
// interrupted.
func (h *trial) interrupted(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if !h.has(interrupts) || h.rng.IntN(2) == 0 {
		return ctx, cancel
	}
	var transfers atomic.Int64
	most := int64(h.rng.IntN(4))
	h.c.d.Observe = func(e destination.Event) {
		h.observe(e)
		if e.Kind == destination.EventPlanned && most == 0 || e.Kind == destination.EventBegun && transfers.Add(1) == most {
			cancel()
		}
	}
	return ctx, func() { cancel(); h.c.d.Observe = h.observe }
}

// restore takes back the last run, or restores some of the earlier states, in one go or one by one.
func (h *trial) restore() {
	ctx := context.Background()
	last, err := h.c.m.LastRun(ctx)
	steps := h.c.m.DeletedSince(ctx, time.Time{})
	if h.rng.IntN(3) == 0 {
		steps = h.c.m.Undoing(ctx, last)
	}
	var some []mirror.Reversal
	for step, failed := range steps {
		err = cmp.Or(err, failed)
		if h.rng.IntN(2) == 0 {
			some = append(some, step)
		}
	}
	err = cmp.Or(err, h.c.m.BeginRun(ctx, "restore", 0))
	keep := h.has(keeps) && h.rng.IntN(2) == 0
	done := func(step mirror.Reversal, failed error) {
		h.note("restored: %s, remove %t, keep %t, %v", step.URI, step.Remove, keep, failed)
		h.count(fmt.Sprintf("restored, remove %t", step.Remove))
	}
	for each := range slices.Chunk(some, h.upTo(3)) {
		err = cmp.Or(err, h.c.m.Revert(ctx, func(yield func(mirror.Reversal, error) bool) {
			for _, step := range each {
				if !yield(step, nil) {
					return
				}
			}
		}, mirror.RevertOptions{Keep: keep, Done: done}))
	}
	if h.has(keeps) && h.rng.IntN(4) == 0 {
		h.release()
	}
	if err = cmp.Or(err, h.c.m.BeginRun(ctx, "sync", 0)); err != nil {
		h.t.Errorf("%s: %v", h.of, err)
	}
}

// kept are the paths of the files that stay whatever the Source says.
func (h *trial) kept() map[string]bool {
	all := map[string]bool{}
	if !h.has(keeps) {
		return all
	}
	for r, err := range h.c.m.Members(context.Background(), mirror.KeptSet) {
		if err != nil {
			h.t.Errorf("%s: %v", h.of, err)
			break
		}
		all[strings.TrimPrefix(r.URI, h.s.o.BaseURL)] = true
	}
	return all
}

// release gives all that is kept back to the runs.
func (h *trial) release() {
	for path := range h.kept() {
		h.note("released: %s", path)
		if err := h.c.m.Release(context.Background(), h.s.o.BaseURL+path); err != nil {
			h.t.Errorf("%s: %v", h.of, err)
		}
	}
}

func globs(pattern string) []string {
	if pattern == "" {
		return nil
	}
	return []string{pattern}
}

// askForAll ends what was chosen.
func (h *trial) askForAll() {
	h.release()
	h.c.d.Include, h.c.d.Exclude, h.c.d.MaxChanges, h.lacksNext, h.resting = nil, nil, 0, false, true
}

// habitual puts the switches of the habits around others: pages are of the documents as
// everything else left them.
func (h *trial) habitual(on []Switched) []Switched {
	if h.has(duplicates) {
		on = append([]Switched{{h.linkCopies(), 1}}, on...)
	}
	if h.has(overlapping) {
		on = append([]Switched{{inDocuments(string(overlapping), "", overlap), 1}}, on...)
	}
	if h.has(timeless) {
		on = append(on, Switched{inDocuments(string(timeless), "", withoutSomeTimes), 1})
	}
	if h.has(changePages) {
		on = append(on, Switched{halves(!h.lacksNext), 1})
	}
	return on
}

// keepCopy keeps a version of a resource at another URI, for ever.
func (h *trial) keepCopy(r Resource) { h.copies.Store(fmt.Sprintf("%x", r.SHA256), r) }

// linkCopies links each version that a document describes to its copy. Some of the copies
// are not there, and some have the bytes of another version.
func (h *trial) linkCopies() *Switch {
	const dir = "copies/"
	return &Switch{
		Name: string(duplicates), Of: Always,
		doc: func(c *call, _ Switched, d *document) {
			for i, e := range d.entries {
				sum, described := strings.CutPrefix(e.md().get("hash"), "sha-256:")
				if !described || !d.isList() {
					continue
				}
				n := node{name: "rs:ln", attrs: []attr{{"rel", "duplicate"}, {"href", c.base() + dir + sum}}}
				if sum[1] < '8' { // before the resource itself
					n.attrs = append(n.attrs, attr{"pri", "1"})
				}
				d.entries[i] = append(slices.Clip(e), n)
			}
		},
		route: func(c *call) *answer {
			sum, ok := strings.CutPrefix(c.path, dir)
			kept, known := h.copies.Load(sum)
			if !ok || !known || sum[0] < '4' {
				return nil
			}
			r := kept.(Resource)
			if sum[0] < '8' {
				r = c.s.o.Model.Version(r, r.Version+1)
			}
			return newAnswer(r.Type, r.Open(), r.Length)
		},
	}
}

// halves divides a Change List into two pages while no index names it, since lists of an index
// have none; linked says whether the first leads to the second.
func halves(linked bool) *Switch {
	return inDocuments(string(changePages), "", func(c *call, d *document) {
		indexed := slices.ContainsFunc(c.s.Documents(), func(d Document) bool { return d.Kind == "changelist-index" })
		if !d.is("changelist") || d.root != "urlset" || len(d.entries) < 2 || indexed {
			return
		}
		n := len(d.entries) / 2
		if c.r.URL.Query().Has("page") {
			d.entries = d.entries[n:]
			return
		}
		if d.entries = d.entries[:n]; linked {
			d.head = append(d.head, node{name: "rs:ln", attrs: []attr{{"rel", "next"}, {"href", c.base() + c.path + "?page=2"}}})
		}
	})
}

// overlap begins each Change List with the last changes of the list before.
func overlap(c *call, d *document) {
	if !d.is("changelist", "changelist-index") {
		return
	}
	if d.root == "urlset" {
		if before := lastOf(c, c.path); len(before) > 0 {
			d.entries = append(before, d.entries...)
			d.md().set("from", before[0].md().get("datetime"))
		}
		return
	}
	for _, e := range d.entries {
		if before := lastOf(c, strings.TrimPrefix(e.loc(), c.base())); len(before) > 0 {
			e.md().set("from", before[0].md().get("datetime"))
		}
	}
}

// lastOf is the last two changes of the Change List before another, with the times of the
// Source's clock.
func lastOf(c *call, list string) []entry {
	dir, name := path.Split(list)
	first, err := strconv.Atoi(strings.TrimSuffix(name, ".xml"))
	if err != nil {
		return nil
	}
	in, _, err := c.s.o.Bucket.Get(c.r.Context(), fmt.Sprintf("%s%d.xml", dir, first-c.s.o.ChangeListMax), 0, -1)
	if err != nil {
		return nil // there is none, or not any more
	}
	defer in.Close()
	d, err := parseDocument(in)
	if err != nil {
		return nil
	}
	d.replaceTimes(func(s string) string {
		t, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			return s
		}
		return c.clock.shownAt(t).Format(time.RFC3339Nano)
	})
	return d.entries[max(0, len(d.entries)-2):]
}

// withoutSomeTimes takes the times of a third of the changes away, each time of the same ones.
func withoutSomeTimes(c *call, d *document) {
	if !d.is("changelist") || d.root != "urlset" {
		return
	}
	for i, e := range d.entries {
		sum := fnv.New64a()
		_, _ = io.WriteString(sum, strings.TrimPrefix(e.loc(), c.base())+e.happened()) // a hash takes everything
		if mix(sum.Sum64())%3 == 0 {
			e.md().drop("datetime")
			d.entries[i] = slices.DeleteFunc(e, func(n node) bool { return n.name == "lastmod" })
		}
	}
}
