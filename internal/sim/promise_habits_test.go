package sim

import (
	"fmt"
	"slices"
	"strings"
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
)

// habits are those of a seed, by its remainder.
var habits = map[uint64][]habit{
	3: {silentLists},
	1: {fewChanges}, 4: {otherFilters}, 5: {duplicates}, 7: {changePages},
	8: {fewChanges, otherFilters}, 11: {otherFilters, duplicates}, 12: {fewChanges, changePages}, 14: {fewChanges, otherFilters, duplicates, changePages},
}

func (h *trial) has(b habit) bool { return slices.Contains(habits[h.of.seed%16], b) }

// filters are the resources that are asked for: what to include, and what to exclude.
var filters = [][2]string{{"", ""}, {"0000000[0-4]*", ""}, {"0000000[3-7]*", ""}, {"*.txt", ""}, {"", "*.csv"}, {"", "0000000[4-9]*"}}

// choose is what whoever runs the mirror asks for in the next run, and what the Source
// leaves out by accident.
func (h *trial) choose() {
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

func globs(pattern string) []string {
	if pattern == "" {
		return nil
	}
	return []string{pattern}
}

// askForAll ends what was chosen.
func (h *trial) askForAll() {
	h.c.d.Include, h.c.d.Exclude, h.c.d.MaxChanges, h.lacksNext = nil, nil, 0, false
}

// habitual puts the switches of the habits around others: pages are of the documents as
// everything else left them.
func (h *trial) habitual(on []Switched) []Switched {
	if h.has(duplicates) {
		on = append([]Switched{{h.linkCopies(), 1}}, on...)
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
