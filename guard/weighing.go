package guard

// Loss is a number of deletions, and how many of them are only planned.
type Loss struct{ Total, Planned int64 }

// Before returns the number of deletions that were made already.
func (l Loss) Before() int64 { return max(0, l.Total-l.Planned) }

// MaxMoved is the largest number of contents for which Weighing checks whether they
// have moved. Further contents count as lost.
const MaxMoved = 1 << 19

// Weighing counts the deletions of a set in a window. It does not count deleted bytes
// that are still held at another place. The zero Weighing has counted none.
type Weighing struct {
	all, old Loss              // all deletions, and those of members from before the window
	contents map[content]*toll // deleted contents that may still be held elsewhere
}

// content identifies bytes by half of their SHA-256.
type content [16]byte

// toll counts the deletions of one content: of members from before the window (old),
// and of later ones (joined).
type toll struct{ old, joined, planned int64 }

// Add counts the deletion of bytes with this SHA-256, which is empty if unknown. old
// means that the resource was a member when the window began.
func (w *Weighing) Add(sum []byte, old, planned bool) {
	t, known := &toll{}, len(sum) >= len(content{})
	if known {
		key := content(sum)
		switch seen := w.contents[key]; {
		case seen != nil:
			t = seen
		case len(w.contents) >= MaxMoved:
			known = false
		case w.contents == nil:
			w.contents = map[content]*toll{key: t}
		default:
			w.contents[key] = t
		}
	}
	if old {
		t.old++
	} else {
		t.joined++
	}
	if planned {
		t.planned++
	}
	if !known {
		w.sum(t)
	}
}

// Forget records that bytes with this SHA-256 are still held, so that their deletions
// do not count.
func (w *Weighing) Forget(sum []byte) {
	if len(sum) >= len(content{}) {
		delete(w.contents, content(sum))
	}
}

// Losses returns all losses, and those of members from before the window. It is called
// once, after the last Add.
func (w *Weighing) Losses() (all, old Loss) {
	for _, t := range w.contents {
		w.sum(t)
	}
	return w.all, w.old
}

// sum adds the losses of one content. A newer member with the bytes of an old one has
// replaced it, so both together count as one loss.
func (w *Weighing) sum(t *toll) {
	n := Loss{t.joined, t.planned}
	if t.old > 0 {
		n.Total = t.old
		w.old.Total, w.old.Planned = w.old.Total+n.Total, w.old.Planned+n.Planned
	}
	w.all.Total, w.all.Planned = w.all.Total+n.Total, w.all.Planned+n.Planned
}
