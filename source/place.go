package source

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"instep/blob"
)

// compareStored compares the document d with the bytes at its key in the Bucket. It
// returns true if they are equal. It returns a *NotOursError if the bytes are neither
// those of d nor those that we last wrote there.
func (p *Publisher) compareStored(ctx context.Context, d Document) (bool, error) {
	info, err := p.Bucket.Stat(ctx, d.Key)
	switch {
	case errors.Is(err, blob.ErrNotExist):
		return false, nil
	case errors.Is(err, blob.ErrForeign):
		return false, &NotOursError{d.Key}
	case err != nil:
		return false, fmt.Errorf("looking at %q: %w", d.Key, err)
	}
	last, ours, err := p.Journal.Document(ctx, d.Key)
	if err != nil {
		return false, fmt.Errorf("looking up %q: %w", d.Key, err)
	}
	if info.Size != d.Length && (!ours || info.Size != last.Length) {
		return false, &NotOursError{d.Key}
	}
	if d.Placed || ours && isPackage(d.Key) {
		return true, nil // A package is large and its key is never reused, so only its size is compared.
	}
	sum, err := SumOf(ctx, p.Bucket, d.Key)
	switch {
	case err != nil:
		return false, err
	case sum == d.SHA256:
		return true, nil
	case ours && sum == last.SHA256:
		return false, nil
	}
	return false, &NotOursError{d.Key}
}

// SumOf returns the SHA-256 of an object in a bucket.
func SumOf(ctx context.Context, b blob.Bucket, key string) (sum Sum, err error) {
	r, _, err := b.Get(ctx, key, 0, -1)
	if err != nil {
		return sum, fmt.Errorf("reading %q: %w", key, err)
	}
	defer r.Close()
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return sum, fmt.Errorf("reading %q: %w", key, err)
	}
	h.Sum(sum[:0])
	return sum, nil
}

// Missing returns the keys of those documents of the publication pub that are not in the
// bucket. It checks the current documents. Of Change Lists and archives it checks only
// those to which the Capability List links, and the last Change List.
func (p *Publisher) Missing(ctx context.Context, pub Publication) ([]string, error) {
	l := p.layout(pub.Set)
	keys := slices.Concat([]string{infoKey, aboutKey, descriptionKey, l.capabilityList(), l.page()}, pub.ListKeys, pub.SitemapKeys)
	if len(pub.ListKeys) > 0 {
		keys = append(keys, l.fixedResourceList())
	}
	if pub.ChangesNumber != 0 {
		keys = append(keys, l.changeList(pub.ChangesNumber), l.changeIndex(ItemChangeList))
	}
	if pub.FixedChanges != 0 {
		keys = append(keys, l.fixedChangeList())
	}
	keys = append(keys, pub.MapListKeys...)
	keys = append(keys, p.Aliases.Keys(pub.Set)...)
	_, copied, err := p.Journal.Document(ctx, wellKnownKey)
	if err != nil {
		return nil, fmt.Errorf("looking up %q: %w", wellKnownKey, err)
	}
	if copied || l.atRoot() { // otherwise the copy is optional, because earlier versions of this program did not write it
		keys = append(keys, wellKnownKey)
	}
	for _, o := range pub.Offers {
		keys = append(keys, strings.TrimPrefix(o.URI, l.base))
	}
	if pub.DumpNumber != 0 {
		for it, err := range p.Journal.Items(ctx, pub.Set, ItemResourceDump, pub.DumpNumber) {
			if err != nil {
				return nil, fmt.Errorf("reading the Resource Dump: %w", err)
			}
			keys = append(keys, it.Keys...)
		}
	}
	if len(pub.MapListKeys) > 0 {
		for it, err := range p.Journal.Items(ctx, pub.Set, ItemMap, 0) {
			if err != nil {
				return nil, fmt.Errorf("reading the published Resource Maps: %w", err)
			}
			keys = append(keys, it.Keys...)
		}
	}
	slices.Sort(keys)
	return Absent(ctx, p.Bucket, slices.Compact(keys)...)
}

// finish writes the documents of a committed publication, one rank after the other, so
// that a document is durable before another one links to it. After an interruption,
// finish can be called again.
func (p *Publisher) finish(ctx context.Context, pub Publication) (Publication, error) {
	for group := range ranks(pub.Documents) {
		written, err := p.writeRank(ctx, pub, group)
		pub.Written = append(pub.Written, written...)
		if err != nil {
			return pub, err
		}
	}
	if err := p.Journal.Done(ctx, pub); err != nil {
		return pub, fmt.Errorf("recording the end of the publication: %w", err)
	}
	return pub, p.cleanStaging(ctx, p.layout(pub.Set), pub.ID)
}

// ranks splits documents, which are sorted by rank, into groups with the same rank.
func ranks(docs []Document) func(func([]Document) bool) {
	return func(yield func([]Document) bool) {
		for len(docs) > 0 {
			n := 1
			for n < len(docs) && docs[n].Rank == docs[0].Rank {
				n++
			}
			if !yield(docs[:n]) {
				return
			}
			docs = docs[n:]
		}
	}
}

func (p *Publisher) writeRank(ctx context.Context, pub Publication, docs []Document) ([]string, error) {
	var missing []Document
	for _, d := range docs {
		same, err := p.compareStored(ctx, d)
		if err != nil {
			return nil, err
		}
		switch {
		case !same && d.Placed:
			return nil, fmt.Errorf("publishing %q: the package no longer exists: %w", d.Key, blob.ErrNotExist)
		case !same:
			missing = append(missing, d)
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	batch, err := p.Bucket.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("publishing: %w", err)
	}
	defer batch.Discard()
	var written []string
	for _, d := range missing {
		if err := p.copyOut(ctx, batch, p.staged(pub.Set, pub.ID), d); err != nil {
			return nil, err
		}
		written = append(written, d.Key)
	}
	if err := batch.Commit(ctx); err != nil {
		return nil, fmt.Errorf("publishing: %w", err)
	}
	return written, nil
}

// copyOut copies a document from the staging area into a batch. It returns an error if the
// bytes differ from the committed ones.
func (p *Publisher) copyOut(ctx context.Context, batch blob.Batch, prefix string, d Document) error {
	from := cmp.Or(d.Of, d.Key)
	r, _, err := p.Staging.Get(ctx, prefix+from, 0, -1)
	if err != nil {
		return fmt.Errorf("reading the staged %q: %w", from, err)
	}
	defer r.Close()
	obj, err := batch.Create(ctx)
	if err != nil {
		return fmt.Errorf("publishing %q: %w", d.Key, err)
	}
	h := sha256.New()
	if _, err := io.Copy(io.MultiWriter(obj, h), r); err != nil {
		return fmt.Errorf("publishing %q: %w", d.Key, err)
	}
	if err := obj.Close(); err != nil {
		return fmt.Errorf("publishing %q: %w", d.Key, err)
	}
	if got := Sum(h.Sum(nil)); got != d.SHA256 {
		return fmt.Errorf("publishing %q: expected the staged bytes with sha-256 %x, found %x (another program has changed the state directory)", d.Key, d.SHA256, got)
	}
	batch.Put(obj, blob.Put{Key: d.Key})
	return nil
}

// cleanStaging removes the documents of a set from the staging area, and the packages of
// its publications that were begun but not committed.
func (p *Publisher) cleanStaging(ctx context.Context, l layout, committed int64) error {
	var keys []string
	for info, err := range p.Staging.List(ctx, l.stagePrefix()) {
		if err != nil {
			return fmt.Errorf("cleaning the staging area: %w", err)
		}
		if err := p.dropPackages(ctx, l, info.Key, committed); err != nil {
			return err
		}
		keys = append(keys, info.Key)
	}
	if err := blob.Remove(ctx, p.Staging, keys); err != nil {
		return fmt.Errorf("cleaning the staging area: %w", err)
	}
	return nil
}

// Sweep removes documents that no reader can need any more. They were retired longer than
// Keep ago, and last written before the oldest of the last KeepGenerations Resource Lists.
// Sweep leaves files that another program has written at the same keys.
func (p *Publisher) Sweep(ctx context.Context, set string) error {
	last, done, err := p.Journal.Last(ctx, set)
	if err != nil {
		return fmt.Errorf("reading the last publication: %w", err)
	}
	if !done || len(last.Generations) < p.generations() {
		return nil
	}
	oldest := last.Generations[len(last.Generations)-p.generations()]
	var keys []string
	l := p.layout(set)
	for key, err := range p.Journal.Expired(ctx, p.Now().Add(-p.keep()), oldest) {
		if err != nil {
			return fmt.Errorf("looking for expired documents: %w", err)
		}
		if l.owns(key) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	_, err = p.Withdraw(ctx, keys)
	return err
}

// Withdraw removes the documents at the given keys and returns how many it has removed.
// It leaves files that another program has written at these keys.
func (p *Publisher) Withdraw(ctx context.Context, keys []string) (removed int, err error) {
	batch, err := p.Bucket.Begin(ctx)
	if err != nil {
		return 0, fmt.Errorf("removing documents: %w", err)
	}
	defer batch.Discard()
	keys = slices.SortedFunc(slices.Values(keys), compareRemoval)
	for _, key := range keys {
		ours, err := p.Wrote(ctx, key)
		if err != nil {
			return 0, fmt.Errorf("removing %q: %w", key, err)
		}
		if ours {
			batch.Delete(key)
			removed++
		}
	}
	if err := batch.Commit(ctx); err != nil {
		return 0, fmt.Errorf("removing documents: %w", err)
	}
	for _, key := range keys {
		if err := p.Journal.Forget(ctx, key); err != nil {
			return removed, fmt.Errorf("recording the removal of %q: %w", key, err)
		}
	}
	return removed, nil
}

// compareRemoval compares two keys by the order of removal: a document comes before those
// to which it links. Packages and their manifests come last. Otherwise the order is
// descending, which puts an index (resourcelist.xml) before its parts
// (resourcelist-00001.xml).
func compareRemoval(a, b string) int {
	last := func(key string) int {
		switch {
		case strings.HasSuffix(key, "-manifest.xml"):
			return 2
		case isPackage(key):
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(last(a), last(b)), strings.Compare(b, a))
}

// Wrote reports whether the file at key has the bytes that this program last wrote there.
func (p *Publisher) Wrote(ctx context.Context, key string) (bool, error) {
	last, ours, err := p.Journal.Document(ctx, key)
	if err != nil || !ours {
		return false, err
	}
	there, err := p.compareStored(ctx, last)
	if errors.As(err, new(*NotOursError)) {
		return false, nil
	}
	return there, err
}
