package mirror

import (
	"io"

	"instep/destination"
	"instep/resourcesync"
)

// hashing returns where the bytes of w have to go to come into o, and their digests once
// they are there. Those that r has computed already are not computed again.
func hashing(w *destination.Wanted, o io.Writer, r io.Reader) (to io.Writer, digests func() resourcesync.Digests) {
	h := hasherFor(w)
	if known, ok := r.(destination.Hashed); ok {
		like := h.Digests()
		digests = func() resourcesync.Digests { return ordered(known.Digests(), like) }
		if len(digests()) == len(like) {
			return o, digests
		}
	}
	return io.MultiWriter(o, h), h.Digests
}

// ordered returns digests in the order of the algorithms of others, as far as they are known.
func ordered(ds, like resourcesync.Digests) resourcesync.Digests {
	var out resourcesync.Digests
	for _, l := range like {
		if d := ds.Get(l.Algorithm()); !d.IsZero() {
			out = append(out, d)
		}
	}
	return out
}
