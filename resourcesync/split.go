package resourcesync

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
)

// Draft is a document that a [Series] is writing. At the end, the Series calls either
// Commit or Discard.
type Draft interface {
	io.Writer
	// Commit is called after everything was written. If it returns an error, nothing of
	// the document may remain.
	Commit() error
	// Discard removes the document: nothing of it may remain.
	Discard()
}

// Part is a document written by a [Series].
type Part struct {
	Number  int   // number of the part, counted from 1; 0 for the index of the parts, or for a list in one document
	Entries int   // number of entries: resources, changes or packages of a list, or parts of an index
	Bytes   int64 // uncompressed size of the document in bytes
	Written int64 // stored size of the document in bytes, after compression
}

// Series writes a list of any length: as one document if that is within the limits of
// the standard, otherwise as parts and an index (1.1 §6.1, §10.2).
type Series struct {
	// Header is the header of a urlset with the whole list. Parts also get a link to their
	// index. In a Change List or Change Dump the entries must be in chronological order. The
	// period of each part begins when the period of the previous part ends. The first period
	// begins at Header.From, and the last one ends at Header.Until.
	Header Header

	// URI returns the URI of the part with the given number, counted from 1. Number 0 is the
	// index of the parts, or the whole list if it is in one document.
	URI func(part int) string

	// Create begins the document with the given number. A Series first tries to write
	// the whole list as document 0. If one document is not enough, it discards that
	// document, writes the parts, and creates document 0 again as their index.
	Create func(part int) (Draft, error)

	MaxEntries int  // largest number of entries in a part; 0 means 50,000
	Gzip       bool // whether the documents are compressed with gzip
}

var errChanged = errors.New("the entries changed while they were read")

// Encode writes a list with the given entries. It returns the documents in the order in
// which they were written: first the parts, if there are any, and then the list or its
// index. If they are published in this order, no link leads to a missing document. Memory
// does not grow with the number of entries.
//
// If the list does not fit into one document, Encode iterates over the entries again:
// once, or twice for a list of changes. The entries must be the same each time. If the
// sequence yields an error, Encode stops and returns that error.
//
// After an error, Encode has discarded the unfinished document, but not the parts that
// were already committed. The error is [ErrFull] if the standard has no index
// for such a list, for example the manifest of a package, or if the index would be too
// large.
func (s *Series) Encode(entries iter.Seq2[Entry, error]) ([]Part, error) {
	if s.Header.Root != URLSet {
		return nil, &EncodeError{"root", "sitemapindex", "index-children-are-urlset", "expected the header of a urlset, because an index can't list other indexes"}
	}
	whole, err := s.write(0, s.Header, entries)
	if err == nil {
		return []Part{whole}, nil
	}
	if !errors.Is(err, ErrFull) {
		return nil, err
	}
	if c := s.Header.Capability; c.Known() && demands[c][SitemapIndex]&knownKind == 0 {
		return nil, fmt.Errorf("a %s can't be divided into several documents: %w", c, err)
	}
	w := partWriter{s: s}
	if demands[s.Header.Capability][URLSet]&isOfChanges != 0 {
		if w.ends, err = s.planParts(entries); err != nil {
			return nil, err
		}
	}
	if err := w.writeAll(entries); err != nil {
		return nil, err
	}
	h := s.Header
	h.Root = SitemapIndex
	index, err := s.write(0, h, w.indexEntries)
	if err != nil {
		return nil, err
	}
	return append(w.parts, index), nil
}

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

type partEnd struct {
	entries int      // number of entries in the part
	until   Datetime // attribute "until" of the part, and "from" of the next part
}

// planParts divides a list of changes into parts before they are written: the header of
// a part comes first, but contains the time at which the part ends.
func (s *Series) planParts(entries iter.Seq2[Entry, error]) ([]partEnd, error) {
	// The times in the headers are not known yet, so space is reserved for them.
	const reserve = 256
	options := []EncoderOption{WithMaxEntries(s.MaxEntries), withReserve(reserve)}
	enc, err := NewEncoder(io.Discard, s.headerOfPart(s.Header.From, Datetime{}), options...)
	if err != nil {
		return nil, err
	}
	var ends []partEnd
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
			ends = append(ends, partEnd{enc.Count(), first})
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
	return append(ends, partEnd{enc.Count(), s.Header.Until}), nil
}

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

// headerOfPart returns the header of a part. It uses the times only for a list of
// changes.
func (s *Series) headerOfPart(from, until Datetime) Header {
	h := s.Header
	if h.Capability == "" {
		return h // no link to the index: a plain sitemap has no links
	}
	h.Links = append(slices.Clip(h.Links), Link{Rel: RelIndex, Href: s.URI(0)})
	if demands[h.Capability][URLSet]&isOfChanges != 0 {
		h.From, h.Until = from, until
	}
	return h
}

type partWriter struct {
	s     *Series
	ends  []partEnd // planned ends of the parts; if nil, a part ends when it is full
	doc   *seriesDocument
	parts []Part // the finished parts
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
	if w.doc == nil || w.ends != nil && (len(w.parts)+1 != len(w.ends) || !w.partIsComplete()) {
		w.discard()
		return errChanged
	}
	return w.end()
}

func (w *partWriter) encode(e Entry) error {
	if w.doc != nil && !w.partIsComplete() {
		err := w.doc.encode(e)
		if !errors.Is(err, ErrFull) {
			return err
		}
		if w.ends != nil {
			return errChanged
		}
	}
	if err := w.beginPart(); err != nil {
		return err
	}
	return w.doc.encode(e)
}

// partIsComplete reports whether the current part has all entries that were planned for
// the part. Without a plan it returns false.
func (w *partWriter) partIsComplete() bool {
	return w.ends != nil && w.doc.enc.Count() == w.ends[len(w.parts)].entries
}

func (w *partWriter) beginPart() error {
	if w.doc != nil {
		if err := w.end(); err != nil {
			return err
		}
	}
	if w.ends != nil && len(w.parts) == len(w.ends) {
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

// interval returns the attributes "from" and "until" of a part of a list of changes.
// The parameter i is the index of the part, counted from 0.
func (w *partWriter) interval(i int) (from, until Datetime) {
	if w.ends == nil {
		return w.s.Header.From, w.s.Header.Until
	}
	from = w.s.Header.From
	if i > 0 {
		from = w.ends[i-1].until
	}
	return from, w.ends[i].until
}

func (w *partWriter) indexEntries(yield func(Entry, error) bool) {
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
