package source

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"instep/blob"
)

// A package is too large to be written twice, first to the staging area and then to its
// key. It is therefore written directly to its key in the Bucket, in a directory named
// after the id of the publication, and no document links to it before the commit. Before
// the first package, an empty file, the mark, is written to the staging area. If the
// publication is never committed, the next run finds its id by the mark and removes its
// packages.
const markName = "packages"

// placePackage writes a package to its key. It must not be called in a preview.
func (m *maker) placePackage(ctx context.Context, key string, write func(io.Writer) error) (Document, error) {
	if err := m.mark(ctx); err != nil {
		return Document{}, err
	}
	batch, err := m.p.Bucket.Begin(ctx)
	if err != nil {
		return Document{}, fmt.Errorf("writing %q: %w", key, err)
	}
	defer batch.Discard()
	obj, err := batch.Create(ctx)
	if err != nil {
		return Document{}, fmt.Errorf("writing %q: %w", key, err)
	}
	d := &draft{doc: Document{Key: key, Rank: rankPackages, Immutable: true, Placed: true}, obj: obj, sum: sha256.New()}
	err = write(d)
	if err == nil {
		err = obj.Close()
	}
	if err != nil {
		d.Discard()
		return Document{}, fmt.Errorf("writing %q: %w", key, err)
	}
	batch.Put(obj, blob.Put{Key: key, IfAbsent: true})
	err = batch.Commit(ctx)
	if errors.Is(err, blob.ErrExist) || errors.Is(err, blob.ErrForeign) {
		return Document{}, &NotOursError{key}
	}
	if err != nil {
		return Document{}, fmt.Errorf("writing %q: %w", key, err)
	}
	m.st.docs = append(m.st.docs, d.document())
	return d.doc, nil
}

// mark writes the mark (see markName) before the first package. It returns a *NotOursError
// if the directories for the packages are not empty.
func (m *maker) mark(ctx context.Context) error {
	if m.marked {
		return nil
	}
	for _, dir := range m.l.packagePrefixes(m.pub.ID) {
		for info, err := range m.p.Bucket.List(ctx, dir) {
			if err != nil {
				return fmt.Errorf("looking at %q: %w", dir, err)
			}
			return &NotOursError{info.Key}
		}
	}
	key := m.p.staged(m.l.set, m.pub.ID) + markName
	if _, err := blob.Write(ctx, m.p.Staging, strings.NewReader(""), blob.Put{Key: key}); err != nil {
		return fmt.Errorf("staging: %w", err)
	}
	m.marked = true
	return nil
}

// dropPackages removes the packages of a publication that was not committed. The key is
// that of the publication's mark in the staging area; other keys are ignored. The last
// committed publication has the id last, and keeps its packages.
func (p *Publisher) dropPackages(ctx context.Context, l layout, key string, last int64) error {
	name, ok := strings.CutSuffix(strings.TrimPrefix(key, l.stagePrefix()), "/"+markName)
	if !ok {
		return nil
	}
	id, err := strconv.ParseInt(name, 10, 64)
	if err != nil || id == last {
		return nil
	}
	var keys []string
	for _, dir := range l.packagePrefixes(id) {
		for info, err := range p.Bucket.List(ctx, dir) {
			if err != nil {
				return fmt.Errorf("looking for packages of an unfinished publication: %w", err)
			}
			if isPackage(info.Key) {
				keys = append(keys, info.Key)
			}
		}
	}
	if err := blob.Remove(ctx, p.Bucket, keys); err != nil {
		return fmt.Errorf("removing packages of an unfinished publication: %w", err)
	}
	return nil
}
