package guard

// Loss is a number of deletions. Total includes the planned ones, which have not been
// made yet.
type Loss struct{ Total, Planned int64 }

// Before returns the number of deletions that were made before the plan.
func (l Loss) Before() int64 { return max(0, l.Total-l.Planned) }

// MaxMoved is the maximum number of deleted contents that a Weighing remembers.
// Deletions of further contents count as losses even if the set still has the content
// at another URI.
const MaxMoved = 1 << 19

// Weighing counts the deletions in a set during a period of time. It does not count a
// deletion if the set still has the same bytes at another URI. The zero Weighing is
// ready for use.
type Weighing struct {
	all, old Loss              // losses of all resources, and of those that were members before the period
	contents map[content]*toll // deletions of each content; Forget removes the contents that the set still has at another URI
}

// content is the first half of the SHA-256 of the bytes of a resource: half of the
// memory, and long enough to identify them.
type content [16]byte

// toll counts the deletions of resources with the same bytes: of members from before
// the period (old), and of resources that joined the set during the period (joined).
// planned is how many of these deletions are not made yet.
type toll struct{ old, joined, planned int64 }

// Add counts the deletion of a resource. sum is the SHA-256 of its bytes, or empty if
// that is unknown. old is true if the resource was a member before the period, and
// planned is true if it is not deleted yet.
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

// Losses returns the losses of all resources, and of those that were members before the
// period. Call it once, after the last Add.
func (w *Weighing) Losses() (all, old Loss) {
	for _, t := range w.contents {
		w.sum(t)
	}
	return w.all, w.old
}

// sum adds the deletions of a toll to the losses. If a member from before the period
// had the same bytes, the resources that joined during the period replaced it and do
// not count.
func (w *Weighing) sum(t *toll) {
	n := Loss{t.joined, t.planned}
	if t.old > 0 {
		n.Total = t.old
		w.old.Total, w.old.Planned = w.old.Total+n.Total, w.old.Planned+n.Planned
	}
	w.all.Total, w.all.Planned = w.all.Total+n.Total, w.all.Planned+n.Planned
}
