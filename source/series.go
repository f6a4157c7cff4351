package source

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"instep/resourcesync"
)

// series is a list that becomes one document, or parts and an index of them when
// one is not enough (1.1 §10.2).
type series struct {
	stage   *stage
	max     int // entries of a part
	whole   Document
	part    func(n int) Document                   // n from 1
	head    func() resourcesync.Header             // of the whole as a urlset
	partial func() resourcesync.Header             // of a part
	index   func() resourcesync.Header             // of the whole as a sitemapindex
	listed  func(part Document) resourcesync.Entry // of a part in the index
}

// write makes the documents and returns their keys, parts first, and the number
// of entries. Whether one document is enough shows only when it is full, and a
// part has another header: then entries are read again from the start.
func (s *series) write(ctx context.Context, entries iter.Seq2[resourcesync.Entry, error]) ([]string, int64, error) {
	n, err := s.writeWhole(ctx, entries)
	if err == nil {
		return []string{s.whole.Key}, n, nil
	}
	if !errors.Is(err, resourcesync.ErrFull) {
		return nil, 0, err
	}
	parts, n, err := s.writeParts(ctx, entries)
	if err != nil {
		return nil, 0, err
	}
	if err := s.writeIndex(ctx, parts); err != nil {
		return nil, 0, err
	}
	keys := make([]string, 0, len(parts)+1)
	for _, p := range parts {
		keys = append(keys, p.Key)
	}
	return append(keys, s.whole.Key), n, nil
}

func (s *series) writeWhole(ctx context.Context, entries iter.Seq2[resourcesync.Entry, error]) (int64, error) {
	w, err := s.stage.begin(ctx, s.whole, s.head(), s.max)
	if err != nil {
		return 0, err
	}
	if err := w.all(ctx, entries); err != nil {
		w.drop()
		return 0, err
	}
	n := int64(w.enc.Count())
	return n, w.end()
}

func (s *series) writeParts(ctx context.Context, entries iter.Seq2[resourcesync.Entry, error]) ([]Document, int64, error) {
	var parts []Document
	var w *writing
	var n int64
	next := func() (err error) {
		if w != nil {
			if err = w.end(); err != nil {
				return err
			}
		}
		doc := s.part(len(parts) + 1)
		parts = append(parts, doc)
		w, err = s.stage.begin(ctx, doc, s.partial(), s.max)
		return err
	}
	encode := func(en resourcesync.Entry) error {
		if w != nil {
			if err := w.encode(ctx, en); !errors.Is(err, resourcesync.ErrFull) {
				return err
			}
		}
		if err := next(); err != nil {
			return err
		}
		return w.encode(ctx, en)
	}
	err := each(entries, func(en resourcesync.Entry) error { n++; return encode(en) })
	if err != nil {
		if w != nil {
			w.drop()
		}
		return nil, 0, err
	}
	return parts, n, w.end()
}

func (s *series) writeIndex(ctx context.Context, parts []Document) error {
	w, err := s.stage.begin(ctx, s.whole, s.index(), 0)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if err := w.encode(ctx, s.listed(p)); err != nil {
			w.drop()
			return err
		}
	}
	return w.end()
}

// writing is one ResourceSync document being encoded into the stage.
type writing struct {
	stage *stage
	doc   Document
	draft *draft
	enc   *resourcesync.Encoder
}

// begin starts a document of at most max entries; 0 is as many as the standard allows.
func (s *stage) begin(ctx context.Context, doc Document, h resourcesync.Header, max int) (*writing, error) {
	d, err := s.draft(ctx)
	if err != nil {
		return nil, err
	}
	enc, err := resourcesync.NewEncoder(d, h, resourcesync.WithMaxEntries(max))
	if err != nil {
		d.drop()
		return nil, fmt.Errorf("beginning %q: %w", doc.Key, err)
	}
	return &writing{stage: s, doc: doc, draft: d, enc: enc}, nil
}

func (w *writing) encode(ctx context.Context, en resourcesync.Entry) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := w.enc.Encode(en); err != nil {
		return fmt.Errorf("writing %q into %q: %w", en.Loc, w.doc.Key, err)
	}
	return nil
}

func (w *writing) all(ctx context.Context, entries iter.Seq2[resourcesync.Entry, error]) error {
	return each(entries, func(en resourcesync.Entry) error { return w.encode(ctx, en) })
}

func (w *writing) drop() { w.draft.drop() }

func (w *writing) end() error {
	if err := w.enc.Close(); err != nil {
		w.drop()
		return fmt.Errorf("ending %q: %w", w.doc.Key, err)
	}
	return w.stage.keep(w.draft, w.doc)
}

func each(entries iter.Seq2[resourcesync.Entry, error], f func(resourcesync.Entry) error) error {
	for en, err := range entries {
		if err != nil {
			return fmt.Errorf("reading the resources to list: %w", err)
		}
		if err := f(en); err != nil {
			return err
		}
	}
	return nil
}
