package destination

import (
	"fmt"
	"sync"

	"instep/harvest"
	"instep/resourcesync"
)

// weak reports whether bytes are proved, if at all, by nothing better than md5, sha-1
// or sha-224: against somebody who wants to deceive these prove nothing.
func weak(ds resourcesync.Digests) bool { return len(ds) > 0 && !ds.Strong() }

// downgrades counts resources of which the Source has taken back a sha-256 or better
// that it once gave. Somebody who put other bytes in their place would have to do that.
type downgrades struct {
	mu    sync.Mutex // guards the rest
	n     int64
	first string // URI of the first of them
}

// look compares what the Source says with the proof by which the bytes held were taken.
func (g *downgrades) look(h *Held, w *harvest.Resource) {
	older := h.Changed.After(w.Changed) // than what is known: it tells what was
	if !h.Member || older || w.Digests.Strong() || !provesWell(h.Proof) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n++; g.n == 1 {
		g.first = w.URI
	}
}

func (g *downgrades) tell(d *Destination, set string) {
	if g.n > 0 {
		d.note(set, fmt.Sprintf("%d resources that the Source once proved by sha-256 or better come with a weaker digest or none now, such as %s", g.n, g.first))
	}
}

func provesWell(a resourcesync.Algorithm) bool {
	return a == resourcesync.SHA256 || a == resourcesync.SHA384 || a == resourcesync.SHA512
}

// leftOut counts the resources of a plan whose remainder was dropped.
type leftOut struct {
	n   int64
	uri string // of the first of them
}

func (l *leftOut) look(w *harvest.Resource) {
	if !w.Remainder.Dropped() {
		return
	}
	if l.n == 0 {
		l.uri = w.URI
	}
	l.n++
}

// tell notes their number, once for a plan.
func (l *leftOut) tell(d *Destination, set string) {
	if l.n > 0 {
		d.note(set, fmt.Sprintf("links and other attributes of %d resources are left out, such as those of %s: they take more than %d KiB each",
			l.n, l.uri, resourcesync.MaxRemainder>>10))
	}
}
