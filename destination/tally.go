package destination

import (
	"strconv"
	"sync"

	"instep/harvest"
	"instep/resourcesync"
	"instep/transfer"
)

// These are the irregularities in the Source's documents that a run counts. Their
// values continue those of transfer.Oddity.
const (
	oddDeletion = iota + transfer.Oddities // deletion of a resource that was never listed; the Source may use other URIs in deletions than in lists
	oddProof                               // resource that had a strong digest and now has a weak one or none, as if an attacker had changed the bytes
	oddSize                                // resource whose other attributes (harvest.Remainder) are too long to store
	oddities
)

// oddNotes are the messages about oddities. A run sends one message for each kind of
// oddity in a set, with the number of resources and the URI of the first one.
var oddNotes = [oddities]struct {
	quirk resourcesync.Quirk
	text  string
}{
	transfer.OddSent:      {resourcesync.QuirkContentCoding, "%d {resource|resources} came in a content coding that was not requested, {|such as }%s: kept as {it was|they were} sent, which is what the list describes"},
	transfer.OddDecoded:   {resourcesync.QuirkContentCoding, "%d {resource|resources} came in a content coding that was not requested, {|such as }%s: kept decoded"},
	transfer.OddRange:     {0, "%d {resource|resources} came with status 200 and a Content-Range, {|such as }%s: nothing proves that {it is|they are} whole"},
	transfer.OddDuplicate: {0, "%d {resource was|resources were} fetched from {a duplicate|duplicates}, {|such as }%s"},
	transfer.OddPage:      {0, "%d {resource|resources} came as text/html and {is|are} listed as XML, {|such as }%s: kept, as {it has the length listed and is|they have the length listed and are} well-formed XML that is no page"},
	transfer.OddEnd:       {0, "%d {resource|resources} came without a length, ended by the end of the connection, {|such as }%s: nothing proves that {it is|they are} whole"},
	oddDeletion:           {resourcesync.QuirkUnknownDelete, "%d {deletion is of a resource that was|deletions are of resources that were} never listed, {|such as }%s"},
	oddProof:              {0, "%d {resource|resources} that the Source once proved by sha-256 or better {comes|come} with a weaker digest or none now, {|such as }%s"},
	oddSize: {0, "links and other attributes of %d {resource|resources} are left out, {|such as }those of %s: they take more than " +
		strconv.Itoa(resourcesync.MaxRemainder>>10) + " KiB{| each}"},
}

type tally struct {
	mu sync.Mutex // guards the counts
	of [oddities]struct {
		n     int64
		first string // URI
	}
}

func (t *tally) add(o transfer.Oddity, uri string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of[o].n++; t.of[o].n == 1 {
		t.of[o].first = uri
	}
}

func (t *tally) note(d *Destination, set string) {
	for o, odd := range t.of {
		if odd.n > 0 {
			d.quirk(oddNotes[o].quirk, set, harvest.Counted(odd.n, oddNotes[o].text, odd.n, odd.first))
		}
	}
}

func (t *tally) compareProofs(h *Held, w *harvest.Resource) {
	older := h.Changed.After(w.Changed) // a missing digest in a document older than the mirror's state is not odd
	switch h.Proof {
	case resourcesync.SHA256, resourcesync.SHA384, resourcesync.SHA512:
		if h.Member && !older && !w.Digests.Strong() {
			t.add(oddProof, w.URI)
		}
	}
}

// weak reports whether all digests are weak: an attacker can make other bytes with the
// same digests.
func weak(ds resourcesync.Digests) bool { return len(ds) > 0 && !ds.Strong() }
