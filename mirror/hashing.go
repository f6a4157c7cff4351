package mirror

import (
	"io"
	"slices"

	"instep/harvest"
	"instep/resourcesync"
	"instep/transfer"
)

// hashing returns a writer that copies to o, and a function that returns the digests of
// the copied bytes. If the bytes come from a reader r that hashes them already, the
// writer does not hash them again.
func hashing(w *harvest.Resource, o io.Writer, r io.Reader) (to io.Writer, digests func() resourcesync.Digests) {
	want := algorithmsOf(w)
	if known, ok := r.(transfer.Hashed); ok {
		digests = func() resourcesync.Digests { return ordered(known.Digests(), want) }
		if len(digests()) == len(want) {
			return o, digests
		}
	}
	h := resourcesync.NewHasher(want...)
	return io.MultiWriter(o, h), h.Digests
}

func ordered(ds resourcesync.Digests, want []resourcesync.Algorithm) resourcesync.Digests {
	out := make(resourcesync.Digests, 0, len(want))
	for _, algorithm := range want {
		if d := ds.Get(algorithm); !d.IsZero() {
			out = append(out, d)
		}
	}
	return out
}

// algorithmsOf returns SHA-256, which the mirror needs for every file, and the
// algorithms of the digests that the Source states.
func algorithmsOf(w *harvest.Resource) []resourcesync.Algorithm {
	algorithms := []resourcesync.Algorithm{resourcesync.SHA256}
	for _, d := range w.Digests {
		if !slices.Contains(algorithms, d.Algorithm()) {
			algorithms = append(algorithms, d.Algorithm())
		}
	}
	return algorithms
}
