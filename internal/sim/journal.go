package sim

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"instep/source"
)

// journal is a source.Journal in memory, for publications that nobody goes on with
// once the process has ended. It keeps the last publication of each set, and of
// documents those that are still there.
type journal struct {
	mu    sync.Mutex // guards the rest
	begun int64
	last  map[string]lastPublication // by set
	docs  map[string]ourDocument     // by key
	due   map[string]bool            // keys of docs that are retired
	items map[string][]source.Item   // by set, ordered by kind and number
	fresh []string                   // keys of what was published since written was called
}

type lastPublication struct {
	source.Publication
	done bool
}

type ourDocument struct {
	source.Document
	publication int64
	made        time.Time
	retired     time.Time
}

var _ source.Journal = (*journal)(nil)

func newJournal() *journal {
	return &journal{
		last: map[string]lastPublication{}, docs: map[string]ourDocument{}, due: map[string]bool{},
		items: map[string][]source.Item{},
	}
}

func (j *journal) Begin(context.Context, string) (int64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.begun++
	return j.begun, nil
}

// count returns how many publications were begun.
func (j *journal) count() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.begun
}

// written returns the keys of what was published since the last call.
func (j *journal) written() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	keys := j.fresh
	j.fresh = nil
	return keys
}

func (j *journal) Commit(_ context.Context, p source.Publication) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.last[p.Set] = lastPublication{p, false}
	return nil
}

func (j *journal) Done(_ context.Context, p source.Publication) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.last[p.Set] = lastPublication{p, true}
	for _, key := range p.Retired {
		if d, ok := j.docs[key]; ok && d.retired.IsZero() {
			d.retired = p.Made
			j.docs[key], j.due[key] = d, true
		}
	}
	for _, d := range p.Documents {
		j.docs[d.Key] = ourDocument{Document: d, publication: p.ID, made: p.Made}
		j.fresh = append(j.fresh, d.Key)
		delete(j.due, d.Key)
	}
	items := j.items[p.Set]
	for _, id := range p.Dropped {
		if i, found := slices.BinarySearchFunc(items, id, compareItem); found {
			items = slices.Delete(items, i, i+1)
		}
	}
	for _, it := range p.Items {
		i, found := slices.BinarySearchFunc(items, source.ItemID{Kind: it.Kind, Number: it.Number}, compareItem)
		if !found {
			items = slices.Insert(items, i, it)
		}
		items[i] = it
	}
	j.items[p.Set] = items
	return nil
}

func compareItem(it source.Item, id source.ItemID) int {
	return cmp.Or(strings.Compare(string(it.Kind), string(id.Kind)), cmp.Compare(it.Number, id.Number))
}

func (j *journal) Last(_ context.Context, set string) (source.Publication, bool, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	l := j.last[set]
	return l.Publication, l.done, nil
}

func (j *journal) Document(_ context.Context, key string) (source.Document, bool, error) {
	d, ok := j.document(key)
	return d.Document, ok, nil
}

// document returns what is known of the document at key.
func (j *journal) document(key string) (ourDocument, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	d, ok := j.docs[key]
	return d, ok
}

func (j *journal) Items(_ context.Context, set string, kind source.ItemKind, from int64) iter.Seq2[source.Item, error] {
	return func(yield func(source.Item, error) bool) {
		j.mu.Lock()
		items := slices.Clone(j.items[set])
		j.mu.Unlock()
		i, _ := slices.BinarySearchFunc(items, source.ItemID{Kind: kind, Number: from}, compareItem)
		for ; i < len(items) && items[i].Kind == kind; i++ {
			if !yield(items[i], nil) {
				return
			}
		}
	}
}

func (j *journal) Sets(context.Context) ([]string, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var names []string
	for name, l := range j.last {
		if l.done {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

func (j *journal) Expired(_ context.Context, before time.Time, p int64) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		j.mu.Lock()
		keys := slices.Sorted(maps.Keys(j.due))
		keys = slices.DeleteFunc(keys, func(key string) bool {
			d := j.docs[key]
			return !d.retired.Before(before) || d.publication >= p
		})
		j.mu.Unlock()
		for _, key := range keys {
			if !yield(key, nil) {
				return
			}
		}
	}
}

func (j *journal) Forget(_ context.Context, key string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.docs, key)
	delete(j.due, key)
	return nil
}
