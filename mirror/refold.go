package mirror

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"instep/blob"
	"instep/internal/catalog"
	"instep/internal/spool"
	"instep/resourcesync"
)

// adaptNames gives resources other paths if the mirror was copied to a file system that
// refuses their paths, or that treats the paths of two resources as the same. It runs
// before anything else is written. The rules for names only become stricter, so that
// all paths remain valid if the mirror is copied back. If copying has left one file of
// two, the bytes of one resource are lost, and the next run fetches them again.
func (m *Mirror) adaptNames(ctx context.Context) error {
	if m.flat != nil || m.marker.Names == nil && !m.marker.lost {
		return nil
	}
	have, err := m.recordedNames(ctx)
	if err != nil {
		return err
	}
	where, err := m.o.where(m.disk.root)
	if err != nil {
		return err
	}
	same := have != nil && m.marker.Names != nil && *have == *m.marker.Names
	if same && where != "" && where == m.marker.Where {
		return nil // nothing to do: the marker has the rules of this file system already
	}
	found, err := m.o.probe(m.disk.root)
	if err != nil {
		return err
	}
	if have != nil {
		found = found.combinedWith(have)
	}
	if !same || *found != *have {
		if err := m.refold(ctx, found); err != nil {
			return err
		}
	} else if where == m.marker.Where {
		return nil
	}
	mark := m.marker
	mark.Names, mark.Where = found, where
	mark.Format = mark.format()
	if err := m.writeMarker(ctx, mark); err != nil {
		return err
	}
	m.marker = mark
	return m.disk.forget()
}

// namesSetting names the setting with the rules by which paths in the catalog are
// compared. It changes in one transaction with the paths. After that, the marker gets
// the same rules.
const namesSetting = "names"

// recordedNames returns the rules for the paths in the catalog or, if the catalog has
// none, those of the marker, which may be nil.
func (m *Mirror) recordedNames(ctx context.Context) (*fileNames, error) {
	text, ok, err := m.facts.Setting(ctx, namesSetting)
	if err != nil || !ok {
		return m.marker.Names, err
	}
	n := &fileNames{}
	if err := json.Unmarshal([]byte(text), n); err != nil || !n.valid() {
		return nil, fmt.Errorf("%w: the setting %q is %q", catalog.ErrDamaged, namesSetting, text)
	}
	if m.marker.Names != nil {
		n = n.combinedWith(m.marker.Names)
	}
	return n, nil
}

// refold changes the paths in the catalog to follow the given rules, and stores the
// rules.
func (m *Mirror) refold(ctx context.Context, names *fileNames) error {
	text, err := json.Marshal(names)
	if err != nil {
		return err
	}
	m.useNames(names)
	err = m.own.Refold(ctx, catalog.Refolding{
		Fold: names.key, Takes: names.accepts, Settings: map[string]string{namesSetting: string(text)},
		Place: func(lost, holder catalog.Resource, names catalog.Names) (catalog.Place, []catalog.Membership, error) {
			return m.replacePath(ctx, &lost, &holder, names)
		},
	})
	if err != nil {
		return err
	}
	return m.markMissing(ctx)
}

func (m *Mirror) useNames(n *fileNames) {
	m.names = n
	if m.cat != nil {
		m.own.FoldBy(n.key)
	}
}

// markMissing marks resources as due (to be fetched again) if their files were not
// copied with the mirror. For example, a directory cannot be copied if a file has the
// same name.
func (m *Mirror) markMissing(ctx context.Context) error {
	sets, err := m.facts.Sets(ctx)
	if err != nil {
		return err
	}
	for _, s := range sets {
		for rows, err := range spool.Batches(m.facts.MembersByKey(ctx, s.ID), chunkSize) {
			if err != nil {
				return err
			}
			var missing []catalog.Resource
			for _, r := range rows {
				k, err := m.disk.lstat(r.Path)
				if err != nil {
					return err
				}
				if r.Stored && k == absent {
					missing = append(missing, r)
				}
			}
			if err := m.recordLost(ctx, missing, missingReason); err != nil {
				return err
			}
		}
	}
	return nil
}

const (
	missingReason = "the file of the resource was not copied with the mirror"
	lostReason    = "on this file system another resource has the same file name, and the bytes of this resource are lost"
	foreignBytes  = "copying the mirror has replaced the file of the resource by another file"
)

// replacePath finds another path for a resource, and moves its bytes there if they are
// at the old path. The file system refuses the old path, or treats it as the path of a
// directory or of another resource, the holder. If the bytes of the resource or of the
// holder are lost, that resource becomes due (to be fetched again).
func (m *Mirror) replacePath(ctx context.Context, lost, holder *catalog.Resource, names catalog.Names) (p catalog.Place, due []catalog.Membership, err error) {
	segments, err := m.segments(lost.URI)
	if err != nil {
		return p, nil, err
	}
	sum := lost.Digests.Get(resourcesync.SHA256)
	here := false
	p, err = m.place(segments, names, func(path string, dir bool) (bool, error) {
		k, at, err := m.disk.look(path)
		if err != nil || k == absent || at != path || dir && k == directory {
			return false, err // something at a parent of the path is no obstacle, since it may be the file of another resource
		}
		if k == file && !dir { // an interrupted run may have moved the file to this path already
			here, err = m.holds(ctx, path, lost.Length, sum)
		}
		return !here, err
	})
	if err != nil {
		return p, nil, err
	}
	if lost.Stored && !here && m.names.accepts(lost.Path) {
		if here, err = m.bringFile(ctx, lost, holder, p.Path); err != nil {
			return p, nil, err
		}
	}
	if lost.Stored && !here {
		if due, err = m.makeDue(ctx, []catalog.Resource{*lost}, lostReason); err != nil {
			return p, nil, err
		}
	}
	if !holder.Stored {
		return p, due, nil
	}
	there, err := m.holds(ctx, holder.Path, holder.Length, holder.Digests.Get(resourcesync.SHA256))
	if err != nil || there {
		return p, due, err
	}
	more, err := m.makeDue(ctx, []catalog.Resource{*holder}, foreignBytes)
	return p, append(due, more...), err
}

// bringFile moves the file of r to newPath if the file has the bytes of r. It copies
// the file instead if the old path now belongs to the holder.
func (m *Mirror) bringFile(ctx context.Context, r, holder *catalog.Resource, newPath string) (done bool, err error) {
	if ok, err := m.holds(ctx, r.Path, r.Length, r.Digests.Get(resourcesync.SHA256)); err != nil || !ok {
		return false, err
	}
	b, err := m.files.Begin(ctx)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, b.Discard(), m.disk.forget()) }()
	if holder.URI == "" {
		b.Move(r.Path, newPath)
	} else if err := copyFile(ctx, m.files, r.Path, b, blob.Put{Key: newPath, IfAbsent: true}); err != nil {
		return false, err
	}
	return true, b.Commit(ctx)
}

// copyFile adds a copy of the file at path to the batch b. The copy has the same
// modification time.
func copyFile(ctx context.Context, files blob.Bucket, path string, b blob.Batch, p blob.Put) (err error) {
	r, info, err := files.Get(ctx, path, 0, -1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	o, err := b.Create(ctx)
	if err != nil {
		return err
	}
	if _, err := io.Copy(o, &contextReader{ctx, r}); err != nil {
		return errors.Join(err, o.Discard())
	}
	if err := o.Close(); err != nil {
		return err
	}
	p.ModTime = info.ModTime
	b.Put(o, p)
	return nil
}
