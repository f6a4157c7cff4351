package source

import (
	"context"
	"fmt"
	"io"
	"iter"

	"instep/resourcesync"
)

// series is a list that is written as one document, or as parts and an index if one is
// not enough (1.1 §10.2).
type series struct {
	stage  *stage
	max    int // largest number of entries in a part
	header resourcesync.Header
	whole  Document
	part   func(n int) Document // returns part n, counted from 1
	uri    func(key string) string
}

// write writes the documents and returns their keys, parts first, and the number of
// entries.
func (s *series) write(ctx context.Context, entries iter.Seq2[resourcesync.Entry, error]) ([]string, int64, error) {
	list := resourcesync.Series{
		Header: s.header,
		URI:    func(n int) string { return s.uri(s.document(n).Key) },
		Create: func(n int) (resourcesync.Draft, error) {
			d, err := s.stage.draft(ctx)
			return &stagedDocument{d, s.stage, s.document(n)}, err
		},
		MaxEntries: s.max,
	}
	written, err := list.Encode(until(ctx, entries))
	if err != nil {
		return nil, 0, err
	}
	keys, n := make([]string, len(written)), 0
	for i, w := range written {
		keys[i] = s.document(w.Number).Key
		if len(written) == 1 || w.Number > 0 {
			n += w.Entries
		}
	}
	return keys, int64(n), nil
}

// document returns part n, or the list itself if n is 0.
func (s *series) document(n int) Document {
	if n == 0 {
		return s.whole
	}
	return s.part(n)
}

// stagedDocument is a document of a series while it is being staged.
type stagedDocument struct {
	*draft
	stage *stage
	doc   Document
}

func (d *stagedDocument) Commit() error { return d.stage.keep(d.draft, d.doc) }
func (d *stagedDocument) Discard()      { d.drop() }

// listed yields entries from memory.
func listed(entries []resourcesync.Entry) iter.Seq2[resourcesync.Entry, error] {
	return func(yield func(resourcesync.Entry, error) bool) {
		for _, en := range entries {
			if !yield(en, nil) {
				return
			}
		}
	}
}

// until yields entries until ctx is done, and wraps read errors.
func until(ctx context.Context, entries iter.Seq2[resourcesync.Entry, error]) iter.Seq2[resourcesync.Entry, error] {
	return func(yield func(resourcesync.Entry, error) bool) {
		for en, err := range entries {
			if err != nil {
				err = fmt.Errorf("reading the resources to list: %w", err)
			} else {
				err = ctx.Err()
			}
			if !yield(en, err) || err != nil {
				return
			}
		}
	}
}

// write stages one document with all entries and returns their number.
func (s *stage) write(ctx context.Context, doc Document, h resourcesync.Header, entries iter.Seq2[resourcesync.Entry, error]) (int64, error) {
	d, err := s.draft(ctx)
	if err != nil {
		return 0, err
	}
	n, err := encode(d, h, until(ctx, entries))
	if err != nil {
		d.drop()
		return 0, fmt.Errorf("writing %q: %w", doc.Key, err)
	}
	return n, s.keep(d, doc)
}

func encode(w io.Writer, h resourcesync.Header, entries iter.Seq2[resourcesync.Entry, error]) (int64, error) {
	enc, err := resourcesync.NewEncoder(w, h)
	if err != nil {
		return 0, err
	}
	for en, err := range entries {
		if err == nil {
			err = enc.Encode(en)
		}
		if err != nil {
			return 0, err
		}
	}
	return int64(enc.Count()), enc.Close()
}
