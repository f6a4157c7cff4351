package resourcesync

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
)

// Draft is a document that a [Series] is writing. The last call is either Commit or
// Discard.
type Draft interface {
	io.Writer
	// Commit completes a fully written document. If it returns an error, nothing of the
	// document may remain.
	Commit() error
	// Discard removes the document: nothing of it may remain.
	Discard()
}

// Part is a document written by a [Series].
type Part struct {
	Number  int   // number of the part, from 1; 0 is the list as one document, or the index of the parts
	Entries int   // number of entries: resources, changes or packages of a list, or parts of an index
	Bytes   int64 // uncompressed size of the document
	Written int64 // stored size of the document, which is less than Bytes if it was compressed
}

// Series writes a list of any length: as one document if that is within the limits of
// the standard, otherwise as parts and an index (1.1 §6.1, §10.2).
type Series struct {
	// Header is the header of the list as a single document, a urlset. Parts also get a
	// link to their index. The parts of a Change List or Change Dump have the from and
	// until of their entries, which must be in chronological order, so that there is no
	// gap between parts. The first part has the from of this Header, and the last its
	// until.
	Header Header

	// URI returns the URI of a part, from 1. Part 0 is the list as one document, or the
	// index of the parts.
	URI func(part int) string

	// Create begins a document. Part 0 is created first, for the whole list. If one
	// document is not enough, part 0 is discarded, and created again last, for the index.
	Create func(part int) (Draft, error)

	MaxEntries int  // largest number of entries in a document other than the index; 0 means 50,000
	Gzip       bool // compress the documents with gzip
}

// errChanged reports entries that differ when they are read again.
var errChanged = errors.New("the entries changed while they were read")

// Encode writes entries and returns the documents written: parts, if there are any, and
// then the list or its index, so that a reader who fetches them in this order never finds a
// dangling link. Memory does not grow with the number of entries.
//
// If one document is not enough, Encode reads the entries again from the start, since parts
// have other headers: twice in total, and three times for a list of changes. The entries
// must be the same each time. Encode stops at an error that the sequence of entries yields,
// and returns it, so a caller can cancel.
//
// After an error the unfinished document has been discarded. The caller decides about parts
// that were committed before. The error is [ErrFull] if the list is of a kind without
// index, such as the manifest of a package, or needs more parts than an index can list.
func (s *Series) Encode(entries iter.Seq2[Entry, error]) ([]Part, error) {
	if s.Header.Root != URLSet {
		return nil, &EncodeError{"root", "sitemapindex", "index-children-are-urlset", "expected the header of a urlset: an index lists no others"}
	}
	whole, err := s.write(0, s.Header, entries)
	if err == nil {
		return []Part{whole}, nil
	}
	if !errors.Is(err, ErrFull) {
		return nil, err
	}
	if c := s.Header.Capability; c.Known() && demands[c][SitemapIndex]&knownKind == 0 {
		return nil, fmt.Errorf("a %s can't be divided: %w", c, err)
	}
	w := partWriter{s: s}
	if demands[s.Header.Capability][URLSet]&isOfChanges != 0 {
		if w.cuts, err = s.measure(entries); err != nil {
			return nil, err
		}
	}
	if err := w.writeAll(entries); err != nil {
		return nil, err
	}
	h := s.Header
	h.Root = SitemapIndex
	index, err := s.write(0, h, w.listed)
	if err != nil {
		return nil, err
	}
	return append(w.parts, index), nil
}

// write writes a document with all entries.
func (s *Series) write(number int, h Header, entries iter.Seq2[Entry, error]) (Part, error) {
	d, err := s.begin(number, h)
	if err != nil {
		return Part{}, err
	}
	for e, err := range entries {
		if err == nil {
			err = d.encode(e)
		}
		if err != nil {
			d.draft.Discard()
			return Part{}, err
		}
	}
	return d.end()
}

// seriesDocument is an unfinished document of a Series.
type seriesDocument struct {
	number int
	uri    string
	draft  Draft
	enc    *Encoder
}

func (s *Series) begin(number int, h Header) (*seriesDocument, error) {
	uri := s.URI(number)
	draft, err := s.Create(number)
	if err != nil {
		return nil, err
	}
	enc, err := NewEncoder(draft, h, s.options(h.Root)...)
	if err != nil {
		draft.Discard()
		return nil, fmt.Errorf("writing %q: %w", uri, err)
	}
	return &seriesDocument{number, uri, draft, enc}, nil
}

func (s *Series) options(root Root) (options []EncoderOption) {
	if s.Gzip {
		options = append(options, WithGzip())
	}
	if root == s.Header.Root {
		options = append(options, WithMaxEntries(s.MaxEntries))
	}
	return options
}

func (d *seriesDocument) encode(e Entry) error {
	if err := d.enc.Encode(e); err != nil {
		return fmt.Errorf("writing %q: %w", d.uri, err)
	}
	return nil
}

func (d *seriesDocument) end() (Part, error) {
	if err := d.enc.Close(); err != nil {
		d.draft.Discard()
		return Part{}, fmt.Errorf("writing %q: %w", d.uri, err)
	}
	if err := d.draft.Commit(); err != nil {
		return Part{}, err
	}
	return Part{d.number, d.enc.Count(), d.enc.Bytes(), d.enc.Written()}, nil
}

// cut states where a part of a list of changes ends.
type cut struct {
	entries int      // number of entries in the part
	until   Datetime // attribute until of the part, which is also the attribute from of the next part
}

// measure finds the bounds of each part in advance, since the header of a part is written
// before its entries.
func (s *Series) measure(entries iter.Seq2[Entry, error]) ([]cut, error) {
	// The times in the headers of the parts are not known yet, so space is reserved for
	// them.
	const room = 256
	options := []EncoderOption{WithMaxEntries(s.MaxEntries), withRoom(room)}
	enc, err := NewEncoder(io.Discard, s.headerOfPart(s.Header.From, Datetime{}), options...)
	if err != nil {
		return nil, err
	}
	var cuts []cut
	last := s.Header.From
	for e, err := range entries {
		if err != nil {
			return nil, err
		}
		first, latest := timesOf(&e)
		err = enc.Encode(e)
		if errors.Is(err, ErrFull) {
			if first.IsZero() {
				first = last
			}
			cuts = append(cuts, cut{enc.Count(), first})
			if enc, err = NewEncoder(io.Discard, enc.header, options...); err == nil {
				err = enc.Encode(e)
			}
		}
		if err != nil {
			return nil, err
		}
		if !latest.IsZero() {
			last = latest
		}
	}
	return append(cuts, cut{enc.Count(), s.Header.Until}), nil
}

// timesOf returns the times of the first and last change in an entry, which is a change
// or a package of changes.
func timesOf(e *Entry) (first, last Datetime) {
	if d := e.Metadata.Datetime; !d.IsZero() {
		return d, d
	}
	first, last = e.From, e.Until
	if first.IsZero() {
		first = last
	}
	if last.IsZero() {
		last = first
	}
	return first, last
}

// headerOfPart returns the header of a part. It uses the given times only for a list of
// changes.
func (s *Series) headerOfPart(from, until Datetime) Header {
	h := s.Header
	if h.Capability == "" {
		return h // a plain sitemap has no links
	}
	h.Links = append(slices.Clip(h.Links), Link{Rel: RelIndex, Href: s.URI(0)})
	if demands[h.Capability][URLSet]&isOfChanges != 0 {
		h.From, h.Until = from, until
	}
	return h
}

// partWriter divides entries into parts.
type partWriter struct {
	s     *Series
	cuts  []cut // ends of the parts; if nil, a part ends when it is full
	doc   *seriesDocument
	parts []Part // the parts that are complete
}

func (w *partWriter) writeAll(entries iter.Seq2[Entry, error]) error {
	for e, err := range entries {
		if err == nil {
			err = w.encode(e)
		}
		if err != nil {
			w.discard()
			return err
		}
	}
	if w.doc == nil || w.cuts != nil && (len(w.parts)+1 != len(w.cuts) || !w.complete()) {
		w.discard()
		return errChanged
	}
	return w.end()
}

func (w *partWriter) encode(e Entry) error {
	if w.doc != nil && !w.complete() {
		err := w.doc.encode(e)
		if !errors.Is(err, ErrFull) {
			return err
		}
		if w.cuts != nil {
			return errChanged
		}
	}
	if err := w.next(); err != nil {
		return err
	}
	return w.doc.encode(e)
}

// complete reports whether the part has all its entries, if its end is known.
func (w *partWriter) complete() bool {
	return w.cuts != nil && w.doc.enc.Count() == w.cuts[len(w.parts)].entries
}

// next completes the current part and begins the next one.
func (w *partWriter) next() error {
	if w.doc != nil {
		if err := w.end(); err != nil {
			return err
		}
	}
	if w.cuts != nil && len(w.parts) == len(w.cuts) {
		return errChanged
	}
	h := w.s.headerOfPart(w.interval(len(w.parts)))
	doc, err := w.s.begin(len(w.parts)+1, h)
	w.doc = doc
	return err
}

func (w *partWriter) end() error {
	part, err := w.doc.end()
	w.doc = nil
	if err == nil {
		w.parts = append(w.parts, part)
	}
	return err
}

func (w *partWriter) discard() {
	if w.doc != nil {
		w.doc.draft.Discard()
		w.doc = nil
	}
}

// interval returns the attributes from and until of a part of a list of changes. The first
// part has the index 0.
func (w *partWriter) interval(i int) (from, until Datetime) {
	if w.cuts == nil {
		return w.s.Header.From, w.s.Header.Until
	}
	from = w.s.Header.From
	if i > 0 {
		from = w.cuts[i-1].until
	}
	return from, w.cuts[i].until
}

// listed yields the entries of the index, which are the parts with the times of their
// headers.
func (w *partWriter) listed(yield func(Entry, error) bool) {
	h := &w.s.Header
	need := demands[h.Capability][SitemapIndex]
	for i, p := range w.parts {
		e := Entry{Loc: w.s.URI(p.Number)}
		if need&entriesHaveAt != 0 {
			e.At, e.Completed = h.At, h.Completed
		}
		if need&entriesHaveFrom != 0 {
			e.From, e.Until = w.interval(i)
		}
		if !yield(e, nil) {
			return
		}
	}
}
