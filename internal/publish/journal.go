package publish

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"instep/internal/catalog"
	"instep/source"
)

// journal implements source.Journal with the catalog.
type journal struct {
	facts facts
	pubs  publications
}

var _ source.Journal = journal{}

func (j journal) Begin(ctx context.Context, set string) (int64, error) {
	id, err := j.facts.Set(ctx, set)
	if err != nil {
		return 0, err
	}
	return j.pubs.BeginPublication(ctx, id)
}

func (j journal) Commit(ctx context.Context, p source.Publication) error {
	body, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("writing publication %d: %w", p.ID, err)
	}
	id, err := j.facts.Set(ctx, p.Set)
	if err != nil {
		return err
	}
	return j.pubs.CommitPublication(ctx, id, p.ID, p.Made, string(body))
}

func (j journal) Done(ctx context.Context, p source.Publication) error {
	docs := make([]catalog.Document, len(p.Documents))
	for i, d := range p.Documents {
		docs[i] = catalog.Document{Key: d.Key, Length: d.Length, SHA256: d.SHA256, Immutable: d.Immutable}
	}
	items, err := itemRows(p.Items)
	if err != nil {
		return fmt.Errorf("writing publication %d: %w", p.ID, err)
	}
	dropped := make([]catalog.Item, len(p.Dropped))
	for i, d := range p.Dropped {
		dropped[i] = catalog.Item{Kind: string(d.Kind), Number: d.Number}
	}
	return j.pubs.FinishPublication(ctx, p.ID, catalog.Finished{
		Documents: docs, Retired: p.Retired, Items: items, Dropped: dropped, At: p.Made,
	})
}

func itemRows(items []source.Item) ([]catalog.Item, error) {
	rows := make([]catalog.Item, len(items))
	for i, it := range items {
		body, err := json.Marshal(it)
		if err != nil {
			return nil, err
		}
		rows[i] = catalog.Item{Kind: string(it.Kind), Number: it.Number, Body: string(body)}
	}
	return rows, nil
}

func (j journal) Items(ctx context.Context, set string, kind source.ItemKind, from int64) iter.Seq2[source.Item, error] {
	return func(yield func(source.Item, error) bool) {
		sid, err := j.facts.Set(ctx, set)
		if err != nil {
			yield(source.Item{}, err)
			return
		}
		for row, err := range j.pubs.Items(ctx, sid, string(kind), from) {
			var it source.Item
			if err == nil {
				err = json.Unmarshal([]byte(row.Body), &it)
			}
			if !yield(it, err) || err != nil {
				return
			}
		}
	}
}

func (j journal) Sets(ctx context.Context) ([]string, error) { return j.pubs.PublishedSets(ctx) }

func (j journal) Last(ctx context.Context, set string) (p source.Publication, done bool, err error) {
	sid, err := j.facts.Set(ctx, set)
	if err != nil {
		return p, false, err
	}
	id, body, done, err := j.pubs.LastPublication(ctx, sid)
	if err != nil || id == 0 {
		return p, false, err
	}
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		return p, false, fmt.Errorf("reading publication %d: %w", id, err)
	}
	return p, done, nil
}

func (j journal) Document(ctx context.Context, key string) (source.Document, bool, error) {
	d, ok, err := j.pubs.Document(ctx, key)
	return source.Document{Key: d.Key, Length: d.Length, SHA256: d.SHA256, Immutable: d.Immutable}, ok, err
}

func (j journal) Expired(ctx context.Context, before time.Time, p int64) iter.Seq2[string, error] {
	return j.pubs.ExpiredDocuments(ctx, before, p)
}

func (j journal) Forget(ctx context.Context, key string) error {
	return j.pubs.ForgetDocument(ctx, key)
}
