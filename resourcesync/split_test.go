package resourcesync

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"iter"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// shelf keeps the documents of a Series.
type shelf struct {
	documents map[string][]byte
	order     []string // of commits
	open      int      // drafts neither committed nor discarded
	writeErr  error
	commitErr error
}

func newShelf() *shelf { return &shelf{documents: make(map[string][]byte)} }

func (s *shelf) uri(part int) string {
	if part == 0 {
		return "https://example.org/list.xml"
	}
	return fmt.Sprintf("https://example.org/list-%d.xml", part)
}

func (s *shelf) create(part int) (Draft, error) {
	s.open++
	return &sheet{shelf: s, uri: s.uri(part)}, nil
}

type sheet struct {
	shelf *shelf
	uri   string
	text  bytes.Buffer
}

func (d *sheet) Write(p []byte) (int, error) {
	if d.shelf.writeErr != nil {
		return 0, d.shelf.writeErr
	}
	return d.text.Write(p)
}

func (d *sheet) Commit() error {
	d.shelf.open--
	if d.shelf.commitErr != nil {
		return d.shelf.commitErr
	}
	d.shelf.documents[d.uri] = d.text.Bytes()
	d.shelf.order = append(d.shelf.order, d.uri)
	return nil
}

func (d *sheet) Discard() { d.shelf.open-- }

// read reads a document from the shelf, in the strictest way.
func (s *shelf) read(t *testing.T, uri string) document {
	t.Helper()
	text, ok := s.documents[uri]
	if !ok {
		t.Fatalf("%s was not written; there are %v", uri, s.order)
	}
	d := decodeDocument(t, string(text))
	for i := range d.Entries {
		d.Entries[i].Line = 0
	}
	return d
}

// numbered yields n resources, and counts how often it was begun.
func numbered(n int, entry func(i int) Entry, begun *int) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		*begun++
		for i := range n {
			if !yield(entry(i), nil) {
				return
			}
		}
	}
}

func resource(i int) Entry { return Entry{Loc: fmt.Sprintf("https://example.org/r/%d", i)} }

func resourceListHeader(t *testing.T) Header {
	h := validHeader(t, docKind{URLSet, CapabilityResourceList})
	h.Completed = mustDatetime(t, "2024-05-01T03:30:00Z")
	return h
}

func TestSeriesThatFitsIsOneDocument(t *testing.T) {
	for _, n := range []int{0, 1, 10} {
		s, begun := newShelf(), 0
		series := Series{Header: resourceListHeader(t), URI: s.uri, Create: s.create, MaxEntries: 10}
		parts, err := series.Encode(numbered(n, resource, &begun))
		if err != nil {
			t.Fatal(err)
		}
		text := s.documents[s.uri(0)]
		if diff := cmp.Diff(parts, []Part{{0, n, int64(len(text)), int64(len(text))}}); diff != "" {
			t.Errorf("%d entries (-got +want):\n%s", n, diff)
		}
		got := s.read(t, s.uri(0))
		if diff := cmp.Diff(got.Header, series.Header, exact); diff != "" {
			t.Errorf("header (-got +want):\n%s", diff)
		}
		if len(got.Entries) != n || begun != 1 || s.open != 0 {
			t.Errorf("%d entries: got %d, read %d times, %d drafts left", n, len(got.Entries), begun, s.open)
		}
	}
}

func TestSeriesThatDoesNotFitIsPartsAndAnIndex(t *testing.T) {
	for _, c := range []struct{ entries, parts int }{{11, 2}, {20, 2}, {21, 3}, {1000, 100}} {
		s, begun := newShelf(), 0
		series := Series{Header: resourceListHeader(t), URI: s.uri, Create: s.create, MaxEntries: 10, Gzip: c.entries == 21}
		written, err := series.Encode(numbered(c.entries, resource, &begun))
		if err != nil {
			t.Fatal(err)
		}
		if len(written) != c.parts+1 || written[c.parts].Number != 0 || written[c.parts].Entries != c.parts || begun != 2 || s.open != 0 {
			t.Errorf("%d entries: got %+v, read %d times, %d drafts left", c.entries, written, begun, s.open)
		}
		partHeader := series.Header
		partHeader.Links = append(partHeader.Links, Link{Rel: RelIndex, Href: s.uri(0)})
		indexHeader := series.Header
		indexHeader.Root = SitemapIndex
		index := document{Header: indexHeader}
		next := 0
		for n := 1; n <= c.parts; n++ {
			part := document{Header: partHeader}
			for ; next < min(c.entries, n*10); next++ {
				part.Entries = append(part.Entries, resource(next))
			}
			if diff := cmp.Diff(s.read(t, s.uri(n)), part, exact); diff != "" {
				t.Errorf("part %d (-got +want):\n%s", n, diff)
			}
			index.Entries = append(index.Entries, Entry{Loc: s.uri(n), Metadata: Metadata{At: indexHeader.At, Completed: indexHeader.Completed}})
		}
		if diff := cmp.Diff(s.read(t, s.uri(0)), index, exact); diff != "" {
			t.Errorf("index (-got +want):\n%s", diff)
		}
		for _, p := range written {
			text := s.documents[s.uri(p.Number)]
			if p.Written != int64(len(text)) || series.Gzip != (p.Bytes != p.Written) || series.Gzip != bytes.HasPrefix(text, []byte("\x1f\x8b")) {
				t.Errorf("part %d: got %+v for %d bytes", p.Number, p, len(text))
			}
		}
		if got, want := s.order[len(s.order)-1], s.uri(0); got != want {
			t.Errorf("last came %s, want the index", got)
		}
	}
}

func TestPlainSitemapsAreDividedWithoutLinks(t *testing.T) {
	s, begun := newShelf(), 0
	series := Series{URI: s.uri, Create: s.create, MaxEntries: 10}
	if _, err := series.Encode(numbered(15, resource, &begun)); err != nil {
		t.Fatal(err)
	}
	want := document{Header{Root: SitemapIndex}, []Entry{{Loc: s.uri(1)}, {Loc: s.uri(2)}}}
	if diff := cmp.Diff(s.read(t, s.uri(0)), want, exact); diff != "" {
		t.Errorf("index (-got +want):\n%s", diff)
	}
	if part := s.read(t, s.uri(2)); len(part.Header.Links) != 0 || len(part.Entries) != 5 {
		t.Errorf("got %+v", part)
	}
}

// intervals tells the from and until of parts as their headers and the index have it.
func intervals(t *testing.T, s *shelf, parts int) (got []string) {
	t.Helper()
	index := s.read(t, s.uri(0))
	for n := 1; n <= parts; n++ {
		h, listed := s.read(t, s.uri(n)).Header, index.Entries[n-1].Metadata
		if diff := cmp.Diff(listed, Metadata{From: h.From, Until: h.Until}, exact); diff != "" {
			t.Errorf("part %d, in the index and itself (-index +part):\n%s", n, diff)
		}
		got = append(got, fmt.Sprintf("%s to %s", h.From, h.Until))
	}
	return got
}

func TestPartsOfAChangeListFollowEachOther(t *testing.T) {
	change := func(i int) Entry {
		e := resource(i)
		e.Change = Updated
		if i%10 != 4 { // the fifth change of each ten says no time
			e.Metadata.Datetime = mustDatetime(t, fmt.Sprintf("2024-05-01T10:%02d:00Z", i/2))
		}
		return e
	}
	for _, until := range []string{"", "2024-06-01T00:00:00Z"} {
		s, begun := newShelf(), 0
		series := Series{Header: validHeader(t, docKind{URLSet, CapabilityChangeList}), URI: s.uri, Create: s.create, MaxEntries: 4}
		if until != "" {
			series.Header.Until = mustDatetime(t, until)
		}
		if _, err := series.Encode(numbered(14, change, &begun)); err != nil {
			t.Fatal(err)
		}
		// Changes 4, 8 and 12 come first in a part; 4 has no time, so that of 3 counts.
		if diff := cmp.Diff(intervals(t, s, 4), []string{
			"2024-05-01T03:00:00Z to 2024-05-01T10:01:00Z",
			"2024-05-01T10:01:00Z to 2024-05-01T10:04:00Z",
			"2024-05-01T10:04:00Z to 2024-05-01T10:06:00Z",
			"2024-05-01T10:06:00Z to " + until,
		}); diff != "" {
			t.Errorf("(-got +want):\n%s", diff)
		}
		if begun != 3 || s.open != 0 {
			t.Errorf("entries were read %d times, %d drafts left", begun, s.open)
		}
	}
}

func TestPartsOfAChangeDumpFollowEachOther(t *testing.T) {
	pack := func(i int) Entry {
		e := resource(i)
		e.From = mustDatetime(t, fmt.Sprintf("2024-05-%02d", i+2))
		if i == 2 {
			e.From, e.Until = Datetime{}, e.From // only its end is known
		}
		return e
	}
	s, begun := newShelf(), 0
	series := Series{Header: validHeader(t, docKind{URLSet, CapabilityChangeDump}), URI: s.uri, Create: s.create, MaxEntries: 2}
	if _, err := series.Encode(numbered(5, pack, &begun)); err != nil {
		t.Fatal(err)
	}
	want := []string{"2024-05-01T03:00:00Z to 2024-05-04", "2024-05-04 to 2024-05-06", "2024-05-06 to "}
	if diff := cmp.Diff(intervals(t, s, 3), want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

func TestSeriesIsDividedAtItsBytesToo(t *testing.T) {
	// 60 entries of a megabyte of changes: the size counts, and not that of the
	// compressed document.
	name := strings.Repeat("a", 1_000_000)
	change := func(i int) Entry {
		return Entry{Loc: "https://example.org/" + name, Metadata: Metadata{Change: Created, Datetime: mustDatetime(t, fmt.Sprintf("2024-05-01T10:%02d:00.123456789012345678+05:45", i))}}
	}
	s, begun := newShelf(), 0
	series := Series{Header: validHeader(t, docKind{URLSet, CapabilityChangeList}), URI: s.uri, Create: s.create, Gzip: true}
	series.Header.From = mustDatetime(t, "2024")
	parts, err := series.Encode(numbered(60, change, &begun))
	if err != nil {
		t.Fatal(err)
	}
	if len(parts) != 3 || parts[0].Entries != 49 || parts[1].Entries != 11 || parts[0].Bytes > MaxBytes || parts[0].Written > 1_000_000 {
		t.Errorf("got %+v", parts)
	}
}

func TestPartsHaveRoomForTheTimesInTheirHeaders(t *testing.T) {
	series := Series{
		Header: validHeader(t, docKind{URLSet, CapabilityChangeList}), URI: newShelf().uri,
		Create: func(int) (Draft, error) { return nowhere{io.Discard}, nil },
	}
	series.Header.From = mustDatetime(t, "2024")
	change := func(i, size int) Entry {
		return Entry{
			Loc:      "https://example.org/" + strings.Repeat("a", size),
			Metadata: Metadata{Change: Created, Datetime: mustDatetime(t, fmt.Sprintf("2024-05-01T10:%02d:00.123456789012345678+05:45", i))},
		}
	}
	const million = 1_000_000
	// The first 50 would fill a part to its last byte if its header did not say until.
	enc, err := NewEncoder(io.Discard, series.headerOfPart(series.Header.From, Datetime{}))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 49 {
		if err := enc.Encode(change(i, million)); err != nil {
			t.Fatal(err)
		}
	}
	before := enc.Bytes()
	if err := enc.Encode(change(49, 0)); err != nil {
		t.Fatal(err)
	}
	last := int(MaxBytes - before - (enc.Bytes() - before))
	begun := 0
	parts, err := series.Encode(numbered(60, func(i int) Entry {
		if i == 49 {
			return change(i, last)
		}
		return change(i, million)
	}, &begun))
	if err != nil || len(parts) != 3 || parts[0].Entries != 49 || parts[1].Entries != 11 {
		t.Errorf("got %+v and %v, want parts of 49 and 11 changes", parts, err)
	}
}

func TestSeriesOfAKindWithoutIndexIsRefused(t *testing.T) {
	for _, c := range []Capability{CapabilityCapabilityList, CapabilityResourceDumpManifest, CapabilityChangeDumpManifest} {
		k := docKind{URLSet, c}
		s, begun := newShelf(), 0
		series := Series{Header: validHeader(t, k), URI: s.uri, Create: s.create, MaxEntries: 1}
		_, err := series.Encode(numbered(2, func(int) Entry { return validEntry(k) }, &begun))
		if !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), string(c)) || len(s.documents) != 0 || s.open != 0 {
			t.Errorf("%s: got %v, %d documents, %d drafts left", c, err, len(s.documents), s.open)
		}
	}
}

func TestSeriesOfEveryOtherKindIsDivided(t *testing.T) {
	for _, k := range docKinds {
		if k.Root == SitemapIndex || k.manifest() || k.is(CapabilityCapabilityList) {
			continue
		}
		s, begun := newShelf(), 0
		series := Series{Header: validHeader(t, k), URI: s.uri, Create: s.create, MaxEntries: 1}
		parts, err := series.Encode(numbered(2, func(int) Entry { return validEntry(k) }, &begun))
		if err != nil || len(parts) != 3 {
			t.Errorf("%s: got %v, %v", k.Capability, parts, err)
			continue
		}
		for n := range parts {
			s.read(t, s.uri(n))
		}
	}
}

func TestSeriesEndsWithTheErrorOfItsEntries(t *testing.T) {
	stop := errors.New("cancelled")
	for _, k := range []docKind{{URLSet, CapabilityResourceList}, {URLSet, CapabilityChangeList}} {
		for at := range 30 { // of what is read, the first and the later times together
			s, read, stopped := newShelf(), 0, false
			series := Series{Header: validHeader(t, k), URI: s.uri, Create: s.create, MaxEntries: 3}
			_, err := series.Encode(func(yield func(Entry, error) bool) {
				for range 10 {
					if read == at {
						stopped = true
						yield(Entry{}, stop)
						return
					}
					read++
					if !yield(validEntry(k), nil) {
						return
					}
				}
			})
			if errors.Is(err, stop) != stopped || !stopped && err != nil || s.open != 0 {
				t.Errorf("%s, stopped after %d: got %v, %d drafts left", k.Capability, at, err, s.open)
			}
			if _, index := s.documents[s.uri(0)]; index == stopped {
				t.Errorf("%s, stopped after %d: there is an index: %v", k.Capability, at, index)
			}
		}
	}
}

func TestChangesOutOfOrderAreNotDivided(t *testing.T) {
	backwards := func(i int) Entry {
		e := resource(i)
		e.Change, e.Metadata.Datetime = Created, mustDatetime(t, fmt.Sprintf("2024-05-%02d", 20-i))
		return e
	}
	s, begun := newShelf(), 0
	series := Series{Header: validHeader(t, docKind{URLSet, CapabilityChangeList}), URI: s.uri, Create: s.create, MaxEntries: 2}
	_, err := series.Encode(numbered(5, backwards, &begun))
	wantRefused(t, "changes from new to old", err, "datetime", "datetime-within-interval")
	if s.open != 0 || len(s.documents) != 0 {
		t.Errorf("%d drafts and %d documents left", s.open, len(s.documents))
	}
}

func TestSeriesTellsOfEntriesThatChangeBetweenReadings(t *testing.T) {
	k := docKind{URLSet, CapabilityChangeList}
	for _, last := range []int{0, 3, 9, 11} {
		s, begun := newShelf(), 0
		series := Series{Header: validHeader(t, k), URI: s.uri, Create: s.create, MaxEntries: 5}
		_, err := series.Encode(func(yield func(Entry, error) bool) {
			n := 10
			if begun++; begun == 3 {
				n = last
			}
			for range n {
				if !yield(validEntry(k), nil) {
					return
				}
			}
		})
		if !errors.Is(err, errChanged) || s.open != 0 || s.documents[s.uri(0)] != nil {
			t.Errorf("%d instead of 10: got %v, %d drafts left", last, err, s.open)
		}
	}
}

func TestSeriesPassesTheErrorsOfDraftsOn(t *testing.T) {
	broken := errors.New("disk full")
	for what, spoil := range map[string]func(*shelf, *Series){
		"create": func(_ *shelf, s *Series) { s.Create = func(int) (Draft, error) { return nil, broken } },
		"write":  func(s *shelf, _ *Series) { s.writeErr = broken },
		"commit": func(s *shelf, _ *Series) { s.commitErr = broken },
	} {
		for _, n := range []int{1, 10} {
			s, begun := newShelf(), 0
			series := Series{Header: resourceListHeader(t), URI: s.uri, Create: s.create, MaxEntries: 3}
			spoil(s, &series)
			if _, err := series.Encode(numbered(n, resource, &begun)); !errors.Is(err, broken) || s.open != 0 || len(s.documents) != 0 {
				t.Errorf("%s, %d entries: got %v, %d drafts left", what, n, err, s.open)
			}
		}
	}
	_, err := (&Series{Header: validHeader(t, docKind{SitemapIndex, CapabilityResourceList})}).Encode(nil)
	wantRefused(t, "an index of indexes", err, "root", "index-children-are-urlset")
	s, begun := newShelf(), 0
	series := Series{Header: Header{Metadata: Metadata{Capability: CapabilityResourceList}}, URI: s.uri, Create: s.create}
	_, err = series.Encode(numbered(1, resource, &begun))
	wantRefused(t, "a header without link", err, "up", "resourcelist-up-required")
	if s.open != 0 || !strings.Contains(err.Error(), s.uri(0)) {
		t.Errorf("got %v, %d drafts left", err, s.open)
	}
}

// nowhere takes documents and keeps nothing of them.
type nowhere struct{ io.Writer }

func (nowhere) Commit() error { return nil }
func (nowhere) Discard()      {}

func TestSeriesOfMorePartsThanAnIndexListsIsRefused(t *testing.T) {
	begun := 0
	series := Series{
		Header: resourceListHeader(t), URI: newShelf().uri, MaxEntries: 1,
		Create: func(int) (Draft, error) { return nowhere{io.Discard}, nil },
	}
	if parts, err := series.Encode(numbered(MaxEntries+1, resource, &begun)); !errors.Is(err, ErrFull) {
		t.Errorf("got %d parts, %v", len(parts), err)
	}
}

func TestSeriesNeedsLittleMemory(t *testing.T) {
	const n = 200_000
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC() // what is in use, not what waits to be collected
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, peak, begun := heap(), uint64(0), 0
	series := Series{
		Header: resourceListHeader(t), URI: newShelf().uri, Gzip: true,
		Create: func(int) (Draft, error) { return nowhere{io.Discard}, nil },
	}
	parts, err := series.Encode(numbered(n, func(i int) Entry {
		if i%20_000 == 0 {
			peak = max(peak, heap())
		}
		return resource(i)
	}, &begun))
	if err != nil || len(parts) != 5 {
		t.Fatalf("got %d parts, %v", len(parts), err)
	}
	if peak > before+8<<20 {
		t.Errorf("the heap grew from %d to %d bytes, want 8 MiB more at most", before, peak)
	}
}

func TestEncoderCompresses(t *testing.T) {
	write := func(opts ...EncoderOption) (*Encoder, []byte) {
		var b bytes.Buffer
		enc, err := NewEncoder(&b, benchHeader(), opts...)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2_000 {
			if err := enc.Encode(benchEntry(i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := enc.Close(); err != nil {
			t.Fatal(err)
		}
		return enc, b.Bytes()
	}
	plain, text := write()
	zipped, b := write(WithGzip())
	if plain.Written() != plain.Bytes() || plain.Bytes() != int64(len(text)) {
		t.Errorf("not compressed: got %d and %d for %d bytes", plain.Bytes(), plain.Written(), len(text))
	}
	if zipped.Bytes() != plain.Bytes() || zipped.Written() != int64(len(b)) || len(b) > len(text)/2 {
		t.Errorf("compressed: got %d and %d for %d bytes", zipped.Bytes(), zipped.Written(), len(b))
	}
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r.Header, gzip.Header{OS: 255}); diff != "" {
		t.Errorf("gzip header (-got +want):\n%s", diff)
	}
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, text) {
		t.Errorf("compressed: %d bytes, %v, that are not those of the document", len(got), err)
	}
	full := errors.New("disk full")
	enc, err := NewEncoder(failWriter{full}, benchHeader(), WithGzip())
	if err != nil {
		t.Fatal(err)
	}
	if err := enc.Close(); !errors.Is(err, full) {
		t.Errorf("Close on a full disk: got %v", err)
	}
}
