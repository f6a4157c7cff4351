package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"instep/blob"
)

// BucketJournal is a Journal in a bucket that holds nothing else: a directory
// (blob.OpenDir) for a Source that continues in a later process, memory (blob.NewMem) for
// one that does not. Each record is one object of the bucket and holds JSON. A publication
// writes about as many objects as it has documents and items. A BucketJournal is not safe
// for concurrent use.
//
//	begun                    the id of the last publication that was begun
//	last/SET                 the last committed publication, and whether Done was called for it
//	published/SET            exists if Done was called for a publication of the set
//	items/SET/KIND/NUMBER    an Item
//	documents/KEY            what was written last at KEY, and when it was retired
//	retired/KEY              exists while the document at KEY is retired; with it Expired finds such documents
//
// SET is "set" for the set without a name, else "sets/" and the name.
type BucketJournal struct{ bucket blob.Bucket }

var _ Journal = (*BucketJournal)(nil)

// NewJournal returns the journal in a bucket. If the bucket is empty, the journal has no
// publications yet.
func NewJournal(b blob.Bucket) *BucketJournal { return &BucketJournal{bucket: b} }

type lastRecord struct {
	Publication Publication
	Done        bool
}

type documentRecord struct {
	Document    Document
	Publication int64     // the id of the publication that last wrote the document
	Retired     time.Time `json:",omitzero"`
}

const (
	begunKey      = "begun"
	lastPrefix    = "last/"
	publishedAs   = "published/"
	itemPrefix    = "items/"
	documentsAs   = "documents/"
	retiredPrefix = "retired/"
	setsPrefix    = "sets/"
)

func setKey(set string) string {
	if set == "" {
		return "set"
	}
	return setsPrefix + set
}

func itemKey(set string, id ItemID) string {
	return fmt.Sprintf("%s%s/%s/%020d", itemPrefix, setKey(set), id.Kind, id.Number)
}

// Begin implements Journal.
func (j *BucketJournal) Begin(ctx context.Context, _ string) (int64, error) {
	begun, _, err := record[int64](ctx, j.bucket, begunKey)
	if err != nil {
		return 0, err
	}
	begun++
	return begun, j.write(ctx, func(w *recordWriter) { w.put(begunKey, begun) })
}

// Commit implements Journal.
func (j *BucketJournal) Commit(ctx context.Context, p Publication) error {
	return j.write(ctx, func(w *recordWriter) { w.put(lastPrefix+setKey(p.Set), lastRecord{Publication: p}) })
}

// Done implements Journal. The record that marks the publication as done is written last,
// so that Recover repeats a Done that was interrupted.
func (j *BucketJournal) Done(ctx context.Context, p Publication) error {
	retired, err := j.retire(ctx, p)
	if err != nil {
		return err
	}
	return j.write(ctx, func(w *recordWriter) {
		for _, d := range retired {
			w.put(retiredPrefix+d.Document.Key, struct{}{}) // if the program stops before the next record is written, Expired ignores this key
			w.put(documentsAs+d.Document.Key, d)
		}
		for _, d := range p.Documents {
			w.put(documentsAs+d.Key, documentRecord{Document: d, Publication: p.ID})
			w.batch.Delete(retiredPrefix + d.Key)
		}
		for _, id := range p.Dropped {
			w.batch.Delete(itemKey(p.Set, id))
		}
		for _, it := range p.Items {
			w.put(itemKey(p.Set, ItemID{Kind: it.Kind, Number: it.Number}), it)
		}
		w.put(publishedAs+setKey(p.Set), struct{}{})
		w.put(lastPrefix+setKey(p.Set), lastRecord{Publication: p, Done: true})
	})
}

// retire returns new records for the documents that a publication retires for the first
// time. It leaves out documents that the publication also writes.
func (j *BucketJournal) retire(ctx context.Context, p Publication) ([]documentRecord, error) {
	written := map[string]bool{}
	for _, d := range p.Documents {
		written[d.Key] = true
	}
	var retired []documentRecord
	for _, key := range p.Retired {
		d, ok, err := record[documentRecord](ctx, j.bucket, documentsAs+key)
		if err != nil {
			return nil, err
		}
		if ok && d.Retired.IsZero() && !written[key] {
			d.Retired = p.Made
			retired = append(retired, d)
		}
	}
	return retired, nil
}

// Last implements Journal.
func (j *BucketJournal) Last(ctx context.Context, set string) (p Publication, done bool, err error) {
	last, _, err := record[lastRecord](ctx, j.bucket, lastPrefix+setKey(set))
	return last.Publication, last.Done, err
}

// Document implements Journal.
func (j *BucketJournal) Document(ctx context.Context, key string) (Document, bool, error) {
	d, ok, err := record[documentRecord](ctx, j.bucket, documentsAs+key)
	return d.Document, ok, err
}

// Items implements Journal.
func (j *BucketJournal) Items(ctx context.Context, set string, kind ItemKind, from int64) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		first := itemKey(set, ItemID{Kind: kind, Number: from})
		keys, err := j.keys(ctx, first[:strings.LastIndex(first, "/")+1])
		if err != nil {
			yield(Item{}, err)
			return
		}
		at, _ := slices.BinarySearch(keys, first)
		for _, key := range keys[at:] {
			it, ok, err := record[Item](ctx, j.bucket, key)
			if err == nil && !ok { // skipped, because the item was removed while the items were read
				continue
			}
			if !yield(it, err) || err != nil {
				return
			}
		}
	}
}

// Sets implements Journal.
func (j *BucketJournal) Sets(ctx context.Context) ([]string, error) {
	keys, err := j.keys(ctx, publishedAs)
	for i, key := range keys {
		keys[i] = "" // the default set, unless the key has the name of another set
		if name, named := strings.CutPrefix(key, publishedAs+setsPrefix); named {
			keys[i] = name
		}
	}
	return keys, err
}

// Expired implements Journal.
func (j *BucketJournal) Expired(ctx context.Context, before time.Time, p int64) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		keys, err := j.keys(ctx, retiredPrefix)
		if err != nil {
			yield("", err)
			return
		}
		for _, key := range keys {
			key = strings.TrimPrefix(key, retiredPrefix)
			d, ok, err := record[documentRecord](ctx, j.bucket, documentsAs+key)
			if err == nil && (!ok || d.Retired.IsZero() || !d.Retired.Before(before) || d.Publication >= p) {
				continue
			}
			if !yield(key, err) || err != nil {
				return
			}
		}
	}
}

// Forget implements Journal.
func (j *BucketJournal) Forget(ctx context.Context, key string) error {
	return j.write(ctx, func(w *recordWriter) {
		w.batch.Delete(retiredPrefix + key)
		w.batch.Delete(documentsAs + key)
	})
}

func (j *BucketJournal) keys(ctx context.Context, prefix string) ([]string, error) {
	var keys []string
	for info, err := range j.bucket.List(ctx, prefix) {
		if err != nil {
			return nil, fmt.Errorf("listing the journal: %w", err)
		}
		keys = append(keys, info.Key)
	}
	slices.Sort(keys)
	return keys, nil
}

// maxRecord is the largest size of a record in bytes. It is large because a publication
// is one record, which lists every document.
const maxRecord = 1 << 30

// record reads the record at a key. It returns false if there is none.
func record[T any](ctx context.Context, b blob.Bucket, key string) (v T, ok bool, err error) {
	body, err := blob.ReadAll(ctx, b, key, maxRecord)
	if errors.Is(err, blob.ErrNotExist) {
		return v, false, nil
	}
	if err == nil {
		err = json.Unmarshal(body, &v)
	}
	if err != nil {
		return v, false, fmt.Errorf("reading %q of the journal: %w", key, err)
	}
	return v, true, nil
}

type recordWriter struct {
	ctx   context.Context
	batch blob.Batch
	err   error // the first error
}

// write commits a batch to which the function fill adds records. The records become
// durable in the order in which fill puts and deletes them.
func (j *BucketJournal) write(ctx context.Context, fill func(*recordWriter)) error {
	batch, err := j.bucket.Begin(ctx)
	if err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	w := &recordWriter{ctx: ctx, batch: batch}
	if fill(w); w.err == nil {
		w.err = batch.Commit(ctx)
	}
	if err := errors.Join(w.err, batch.Discard()); err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	return nil
}

func (w *recordWriter) put(key string, v any) {
	if w.err != nil {
		return
	}
	body, err := json.Marshal(v)
	if err != nil {
		w.err = err
		return
	}
	o, err := w.batch.Create(w.ctx)
	if err != nil {
		w.err = err
		return
	}
	_, err = o.Write(body)
	if w.err = errors.Join(err, o.Close()); w.err == nil {
		w.batch.Put(o, blob.Put{Key: key})
	}
}
