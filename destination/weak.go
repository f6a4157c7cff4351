package destination

import (
	"fmt"
	"sync"

	"instep/harvest"
	"instep/resourcesync"
)

// sample counts resources of which something is told once.
type sample struct {
	mu    sync.Mutex // guards the rest
	n     int64
	first string // URI of the first of them
}

func (s *sample) add(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n++; s.n == 1 {
		s.first = uri
	}
}

// weak reports whether bytes are proved, if at all, by nothing better than md5, sha-1
// or sha-224: against somebody who wants to deceive these prove nothing.
func weak(ds resourcesync.Digests) bool { return len(ds) > 0 && !ds.Strong() }

// downgrades counts resources of which the Source has taken back a sha-256 or better
// that it once gave. Somebody who put other bytes in their place would have to do that.
type downgrades struct{ sample }

// look compares what the Source says with the proof by which the bytes held were taken.
func (g *downgrades) look(h *Held, w *harvest.Resource) {
	older := h.Changed.After(w.Changed) // than what is known: it tells what was
	if !h.Member || older || w.Digests.Strong() || !provesWell(h.Proof) {
		return
	}
	g.add(w.URI)
}

func (g *downgrades) tell(d *Destination, set string) {
	if g.n > 0 {
		d.note(set, fmt.Sprintf("%d resources that the Source once proved by sha-256 or better come with a weaker digest or none now, such as %s", g.n, g.first))
	}
}

func provesWell(a resourcesync.Algorithm) bool {
	return a == resourcesync.SHA256 || a == resourcesync.SHA384 || a == resourcesync.SHA512
}

// lookWhole counts w if its remainder was dropped.
func (pl *planner) lookWhole(w *harvest.Resource) {
	if w.Remainder.Dropped() {
		pl.leftOut.add(w.URI)
	}
}

// tellDropped notes the number of remainders that were dropped, once for a plan.
func (pl *planner) tellDropped() {
	if pl.leftOut.n > 0 {
		pl.d.note(pl.Set, fmt.Sprintf("links and other attributes of %d resources are left out, such as those of %s: they take more than %d KiB each",
			pl.leftOut.n, pl.leftOut.first, resourcesync.MaxRemainder>>10))
	}
}
