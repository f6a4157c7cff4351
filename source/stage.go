package source

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"

	"instep/blob"
)

// stage collects the documents of a publication, in the order of their creation, and
// writes them into a batch of the staging area.
type stage struct {
	batch  blob.Batch // nil in a preview, which stores no bytes
	prefix string
	docs   []Document
}

// draft is a document that is being written. Its bytes are hashed, counted and stored in
// the staging area.
type draft struct {
	stage *stage
	doc   Document    // the document, whose Length is the number of bytes written so far
	obj   blob.Object // nil in a preview, which stores no bytes
	sum   hash.Hash
}

// draft begins a document. Its Commit adds the document to the stage.
func (s *stage) draft(ctx context.Context, doc Document) (*draft, error) {
	d := &draft{stage: s, doc: doc, sum: sha256.New()}
	if s.batch == nil {
		return d, nil
	}
	var err error
	if d.obj, err = s.batch.Create(ctx); err != nil {
		return nil, fmt.Errorf("staging %q: %w", doc.Key, err)
	}
	return d, nil
}

func (d *draft) Write(p []byte) (int, error) {
	d.sum.Write(p)
	d.doc.Length += int64(len(p))
	if d.obj == nil {
		return len(p), nil
	}
	return d.obj.Write(p)
}

// Discard removes the draft. It returns no error, because its caller already has an error
// to return.
func (d *draft) Discard() {
	if d.obj != nil {
		_ = d.obj.Discard()
		d.obj = nil
	}
}

// Commit completes the document and adds it to its stage.
func (d *draft) Commit() error {
	if d.obj != nil {
		if err := d.obj.Close(); err != nil {
			d.Discard()
			return fmt.Errorf("staging %q: %w", d.doc.Key, err)
		}
		d.stage.batch.Put(d.obj, blob.Put{Key: d.stage.prefix + d.doc.Key})
	}
	d.stage.docs = append(d.stage.docs, d.document())
	return nil
}

func (d *draft) document() Document {
	d.sum.Sum(d.doc.SHA256[:0])
	return d.doc
}

func (s *stage) add(ctx context.Context, doc Document, write func(io.Writer) error) error {
	d, err := s.draft(ctx, doc)
	if err != nil {
		return err
	}
	if err := write(d); err != nil {
		d.Discard()
		return fmt.Errorf("writing %q: %w", doc.Key, err)
	}
	return d.Commit()
}

func (s *stage) find(key string) (Document, bool) {
	for _, d := range s.docs {
		if d.Key == key {
			return d, true
		}
	}
	return Document{}, false
}

func (s *stage) copy(original string, doc Document) {
	d, ok := s.find(original)
	if !ok {
		panic("source: copying a document that is not staged")
	}
	doc.Length, doc.SHA256, doc.Of = d.Length, d.SHA256, original
	s.docs = append(s.docs, doc)
}

func (s *stage) length(keys []string) (n int64) {
	counted := make(map[string]bool, len(keys))
	for _, key := range keys {
		counted[key] = true
	}
	for _, d := range s.docs {
		if counted[d.Key] {
			n += d.Length
		}
	}
	return n
}
