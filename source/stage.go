package source

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"

	"instep/blob"
)

// stage collects the documents of a publication in order and writes them into a batch
// of the staging bucket.
type stage struct {
	batch  blob.Batch // nil in a preview: no bytes are kept
	prefix string
	docs   []Document
}

// draft is a document being written: it is hashed, counted and staged.
type draft struct {
	obj blob.Object // nil in a preview
	sum hash.Hash
	n   int64
}

func (s *stage) draft(ctx context.Context) (*draft, error) {
	d := &draft{sum: sha256.New()}
	if s.batch == nil {
		return d, nil
	}
	obj, err := s.batch.Create(ctx)
	if err != nil {
		return nil, fmt.Errorf("staging a document: %w", err)
	}
	d.obj = obj
	return d, nil
}

func (d *draft) Write(p []byte) (int, error) {
	d.sum.Write(p)
	d.n += int64(len(p))
	if d.obj == nil {
		return len(p), nil
	}
	return d.obj.Write(p)
}

// drop discards the draft. It reports no error, since the caller reports the one that
// led here.
func (d *draft) drop() {
	if d.obj != nil {
		_ = d.obj.Discard()
		d.obj = nil
	}
}

// keep completes the draft and appends it to the documents.
func (s *stage) keep(d *draft, doc Document) error {
	if d.obj != nil {
		if err := d.obj.Close(); err != nil {
			d.drop()
			return fmt.Errorf("staging %q: %w", doc.Key, err)
		}
		s.batch.Put(d.obj, blob.Put{Key: s.prefix + doc.Key})
	}
	doc.Length = d.n
	d.sum.Sum(doc.SHA256[:0])
	s.docs = append(s.docs, doc)
	return nil
}

// add stages a document with the bytes that write produces.
func (s *stage) add(ctx context.Context, doc Document, write func(io.Writer) error) error {
	d, err := s.draft(ctx)
	if err != nil {
		return err
	}
	if err := write(d); err != nil {
		d.drop()
		return fmt.Errorf("writing %q: %w", doc.Key, err)
	}
	return s.keep(d, doc)
}

// copy adds a document with the same bytes as one already staged.
func (s *stage) copy(of string, doc Document) {
	for _, d := range s.docs {
		if d.Key == of {
			doc.Length, doc.SHA256, doc.Of = d.Length, d.SHA256, of
			s.docs = append(s.docs, doc)
			return
		}
	}
	panic("source: a copy of a document that was not made")
}

// lastLength returns the length of the last document staged.
func (s *stage) lastLength() int64 { return s.docs[len(s.docs)-1].Length }

// length returns the total length of the documents at these keys.
func (s *stage) length(keys []string) (n int64) {
	of := make(map[string]bool, len(keys))
	for _, key := range keys {
		of[key] = true
	}
	for _, d := range s.docs {
		if of[d.Key] {
			n += d.Length
		}
	}
	return n
}
