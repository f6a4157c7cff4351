package source

import (
	"context"
	"fmt"
	"io"
	"iter"

	"instep/resourcesync"
)

// series writes a list as one document or, if that is not enough, as parts and an index
// (1.1 §10.2). The argument whole describes the one document or the index. The argument part
// describes all parts; partKey forms their keys. series returns the keys of the documents
// written, parts first, and the number of entries.
func (m *maker) series(ctx context.Context, h resourcesync.Header, whole, part Document, entries iter.Seq2[resourcesync.Entry, error]) ([]string, int64, error) {
	document := func(n int) Document {
		if n == 0 {
			return whole
		}
		d := part
		d.Key = partKey(part.Key, int64(n))
		return d
	}
	list := resourcesync.Series{
		Header:     h,
		URI:        func(n int) string { return m.l.uri(document(n).Key) },
		Create:     func(n int) (resourcesync.Draft, error) { return m.st.draft(ctx, document(n)) },
		MaxEntries: m.p.MaxEntries,
	}
	written, err := list.Encode(untilDone(ctx, entries))
	if err != nil {
		return nil, 0, err
	}
	keys, n := make([]string, len(written)), 0
	for i, w := range written {
		keys[i] = document(w.Number).Key
		if len(written) == 1 || w.Number > 0 {
			n += w.Entries
		}
	}
	return keys, int64(n), nil
}

func listed(entries []resourcesync.Entry) iter.Seq2[resourcesync.Entry, error] {
	return func(yield func(resourcesync.Entry, error) bool) {
		for _, en := range entries {
			if !yield(en, nil) {
				return
			}
		}
	}
}

func converted(entries iter.Seq2[resourcesync.Entry, error], convert func(resourcesync.Entry) resourcesync.Entry) iter.Seq2[resourcesync.Entry, error] {
	return func(yield func(resourcesync.Entry, error) bool) {
		for en, err := range entries {
			if !yield(convert(en), err) {
				return
			}
		}
	}
}

// untilDone yields the entries, but ends with an error when ctx is done. It adds a
// description to the errors of the given sequence.
func untilDone(ctx context.Context, entries iter.Seq2[resourcesync.Entry, error]) iter.Seq2[resourcesync.Entry, error] {
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

// write stages one document with all entries, and returns their number.
func (s *stage) write(ctx context.Context, doc Document, h resourcesync.Header, entries iter.Seq2[resourcesync.Entry, error]) (n int64, err error) {
	err = s.add(ctx, doc, func(w io.Writer) (err error) {
		n, err = encode(w, h, untilDone(ctx, entries))
		return err
	})
	return n, err
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
