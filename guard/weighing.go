package guard

// Loss is a number of deletions (Total). Planned of these have not been made yet.
type Loss struct{ Total, Planned int64 }

// Before returns the number of deletions that were already made.
func (l Loss) Before() int64 { return max(0, l.Total-l.Planned) }

// MaxMoved is the maximum number of deleted contents for which a Weighing can find that
// they only moved to another URI. Further contents count as lost.
const MaxMoved = 1 << 19

// Weighing counts the deletions in a set during a period of time. It does not count a
// deletion if the set still has the same bytes at another URI. The zero Weighing has
// counted none.
type Weighing struct {
	all, old Loss              // all losses, and those of resources that were members before the period
	contents map[content]*toll // deletions by content, which are no losses if the set still has the content at another URI
}

// content is the first half of the SHA-256 of some bytes, and identifies them.
type content [16]byte

// toll counts the deletions of resources with the same bytes. old counts resources that
// were members before the period, joined those that became members during it, and
// planned those that are not deleted yet.
type toll struct{ old, joined, planned int64 }

// Add counts the deletion of a resource. sum is the SHA-256 of its bytes, or empty if
// that is unknown. old means that the resource was a member before the period, and
// planned that it is not deleted yet.
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

// Forget records that the set still has the bytes with this SHA-256, so that deletions of
// these bytes do not count.
func (w *Weighing) Forget(sum []byte) {
	if len(sum) >= len(content{}) {
		delete(w.contents, content(sum))
	}
}

// Losses returns the number of all losses, and of those that concern resources that
// were members before the period. Call it once, after the last Add.
func (w *Weighing) Losses() (all, old Loss) {
	for _, t := range w.contents {
		w.sum(t)
	}
	return w.all, w.old
}

// Resources that became members during the period only replaced members with the same
// bytes from before it, so sum does not count them in addition.
func (w *Weighing) sum(t *toll) {
	n := Loss{t.joined, t.planned}
	if t.old > 0 {
		n.Total = t.old
		w.old.Total, w.old.Planned = w.old.Total+n.Total, w.old.Planned+n.Planned
	}
	w.all.Total, w.all.Planned = w.all.Total+n.Total, w.all.Planned+n.Planned
}
