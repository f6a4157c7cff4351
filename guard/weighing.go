package guard

// Loss counts deletions: all that count, and how many of them are planned.
type Loss struct{ Total, Planned int64 }

// Before returns how many there were before those that are planned.
func (l Loss) Before() int64 { return max(0, l.Total-l.Planned) }

// MaxMoved is how many contents are looked for in other places: those beyond count as lost.
const MaxMoved = 1 << 19

// Weighing counts the deletions of a set in a window, and tells losses from content that has
// moved. The zero Weighing counts none.
type Weighing struct {
	all, old Loss              // old: of the members that were there when the window began
	contents map[content]*toll // lost content that may have moved
}

// content identifies a content: half of its sha-256.
type content [16]byte

// toll counts the losses of one content: members from before the window, and others.
type toll struct{ old, joined, planned int64 }

// Add counts a deletion of bytes with that sha-256, empty if it is unknown. old says that they
// were those of a member when the window began.
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

// Forget says that the bytes with that sha-256 are still there: nothing of them is lost.
func (w *Weighing) Forget(sum []byte) {
	if len(sum) >= len(content{}) {
		delete(w.contents, content(sum))
	}
}

// Losses returns the losses, and those of members that were there when the window began. It is
// called once, when all deletions were added.
func (w *Weighing) Losses() (all, old Loss) {
	for _, t := range w.contents {
		w.sum(t)
	}
	return w.all, w.old
}

// sum adds the losses of one content. A new member with the bytes of an old one has
// replaced it: together they are one loss.
func (w *Weighing) sum(t *toll) {
	n := Loss{t.joined, t.planned}
	if t.old > 0 {
		n.Total = t.old
		w.old.Total, w.old.Planned = w.old.Total+n.Total, w.old.Planned+n.Planned
	}
	w.all.Total, w.all.Planned = w.all.Total+n.Total, w.all.Planned+n.Planned
}
