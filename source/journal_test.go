package source

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"
)

// memJournal is a Journal in memory. It keeps publications as JSON, as a real one does.
type memJournal struct {
	begun int64
	pubs  []journalRow
	docs  map[string]journalDoc
	items map[string][]Item // by set, in the order of kinds and numbers
}

type journalRow struct {
	set  string
	id   int64
	body []byte
	done bool
}

type journalDoc struct {
	doc         Document
	publication int64
	retired     time.Time
}

func newMemJournal() *memJournal {
	return &memJournal{docs: map[string]journalDoc{}, items: map[string][]Item{}}
}

func (j *memJournal) clone() *memJournal {
	c := &memJournal{begun: j.begun, pubs: slices.Clone(j.pubs), docs: maps.Clone(j.docs), items: map[string][]Item{}}
	for set, items := range j.items {
		c.items[set] = slices.Clone(items)
	}
	return c
}

func (j *memJournal) Begin(ctx context.Context, set string) (int64, error) {
	j.begun++
	return j.begun, nil
}

func (j *memJournal) Commit(ctx context.Context, p Publication) error {
	body, err := json.Marshal(p)
	j.pubs = append(j.pubs, journalRow{set: p.Set, id: p.ID, body: body})
	return err
}

func (j *memJournal) Done(ctx context.Context, p Publication) error {
	for i := range j.pubs {
		if j.pubs[i].id == p.ID {
			j.pubs[i].done = true
		}
	}
	for _, key := range p.Retired {
		if d, ok := j.docs[key]; ok && d.retired.IsZero() {
			d.retired = p.Made
			j.docs[key] = d
		}
	}
	for _, d := range p.Documents {
		j.docs[d.Key] = journalDoc{doc: d, publication: p.ID}
	}
	for _, id := range p.Dropped {
		j.items[p.Set] = slices.DeleteFunc(j.items[p.Set], func(i Item) bool { return i.Kind == id.Kind && i.Number == id.Number })
	}
	for _, it := range p.Items {
		at, found := slices.BinarySearchFunc(j.items[p.Set], it, compareItems)
		if found {
			j.items[p.Set][at] = it
		} else {
			j.items[p.Set] = slices.Insert(j.items[p.Set], at, it)
		}
	}
	return nil
}

func compareItems(a, b Item) int {
	return cmp.Or(strings.Compare(string(a.Kind), string(b.Kind)), cmp.Compare(a.Number, b.Number))
}

func (j *memJournal) Items(ctx context.Context, set string, kind ItemKind, from int64) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for _, it := range slices.Clone(j.items[set]) {
			if it.Kind == kind && it.Number >= from && !yield(it, nil) {
				return
			}
		}
	}
}

func (j *memJournal) Sets(ctx context.Context) ([]string, error) {
	sets := map[string]bool{}
	for _, row := range j.pubs {
		if row.done {
			sets[row.set] = true
		}
	}
	return slices.Sorted(maps.Keys(sets)), nil
}

func (j *memJournal) Last(ctx context.Context, set string) (p Publication, done bool, err error) {
	for _, row := range slices.Backward(j.pubs) {
		if row.set == set {
			return p, row.done, json.Unmarshal(row.body, &p)
		}
	}
	return p, false, nil
}

func (j *memJournal) Document(ctx context.Context, key string) (Document, bool, error) {
	d, ok := j.docs[key]
	return d.doc, ok, nil
}

func (j *memJournal) Expired(ctx context.Context, before time.Time, p int64) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, key := range slices.Sorted(maps.Keys(j.docs)) {
			d := j.docs[key]
			if !d.retired.IsZero() && d.retired.Before(before) && d.publication < p && !yield(key, nil) {
				return
			}
		}
	}
}

func (j *memJournal) Forget(ctx context.Context, key string) error {
	delete(j.docs, key)
	return nil
}
