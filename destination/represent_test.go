package destination_test

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"testing"

	"instep/destination"
	"instep/resourcesync"
)

// twoLists writes a Resource List of two parts with an entry each.
func (s *aSource) twoLists(first, second resourcesync.Entry) {
	s.offer("/list.xml", "")
	list := head(resourcesync.CapabilityResourceList, func(h *resourcesync.Header) { h.At = at(0) })
	s.doc("/list-1.xml", list, first)
	s.doc("/list-2.xml", list, second)
	index := list
	index.Root = resourcesync.SitemapIndex
	s.doc("/list.xml", index, resourcesync.Entry{Loc: s.uri("/list-1.xml")}, resourcesync.Entry{Loc: s.uri("/list-2.xml")})
}

// With Strict an entry without a digest does not count beside one with a digest: other bytes fail.
func TestStrictResourceNamedTwice(t *testing.T) {
	s := newSource(t)
	s.put("/r", []byte("right"))
	first := s.entry("/r")
	second := first
	second.Digests = nil
	s.twoLists(first, second)
	s.put("/r", []byte("wrong"))
	m := newMirror(t, s)
	m.set = func(d *destination.Destination) { d.Strict = true }
	rep, err := m.sync()
	if err != nil || rep.Created != 0 || rep.Failed != 1 {
		t.Errorf("created %d, failed %d, %v: want 0 and 1", rep.Created, rep.Failed, err)
	}
}

// A resource that two entries name is taken in the representation that is accepted, whichever
// entry counts, and another run changes nothing.
func TestAcceptedRepresentationOfAResourceNamedTwice(t *testing.T) {
	s := newSource(t)
	for _, text := range []string{"generic", "generic, too"} {
		s.put("/r", []byte(text))
		s.put("/r.pdf", []byte("%PDF 746"))
		pdf := s.entry("/r.pdf")
		first := s.entry("/r")
		first.Links = []resourcesync.Link{{Rel: resourcesync.RelAlternate, Href: pdf.Loc, Type: "application/pdf", Length: pdf.Length, Digests: pdf.Digests}}
		second := first
		second.Type = "text/plain"
		s.twoLists(first, second)
		m := newMirror(t, s)
		m.set = func(d *destination.Destination) { d.Accept = []string{"application/pdf"} }
		m.mustSync(destination.Baseline, 0, 1, 0, 0)
		got, err := os.ReadFile(filepath.Join(m.dir, "r"))
		if err != nil || string(got) != "%PDF 746" {
			t.Errorf("%x: the mirror holds %q, %v", sha256.Sum256([]byte(text)), got, err)
		}
		m.mustSync(destination.Baseline, 1, 0, 0, 0)
		if v := m.audit(); len(v) != 1 || v[destination.VerdictSame] == 0 {
			t.Errorf("audit: %v", v)
		}
	}
}
