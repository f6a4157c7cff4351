package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"instep/blob"
	"instep/internal/catalog"
	"instep/resourcesync"
)

// undoLeftovers undoes an interrupted commit of this run. Its caller must have called
// lockCommit.
func (m *Mirror) undoLeftovers(ctx context.Context) error {
	if !m.undone {
		return nil
	}
	err := m.undo(ctx)
	m.undone = err != nil
	return err
}

// undo restores files to their states in the catalog after an interruption that has
// left intents (planned changes of these files). It can be interrupted and repeated.
func (m *Mirror) undo(ctx context.Context) error {
	intents, err := m.own.Intents(ctx)
	if err != nil || len(intents) == 0 {
		return err
	}
	err = errors.Join(m.undoAll(ctx, intents), m.disk.forget()) // the cache is emptied, because undoing may remove or replace cached directories
	if err != nil {
		return fmt.Errorf("undo an interrupted batch: %w", err)
	}
	return nil
}

func (m *Mirror) undoAll(ctx context.Context, intents []catalog.Intent) error {
	uris := make([]string, len(intents))
	for i := range intents {
		uris[i] = intents[i].URI
	}
	rows, err := m.facts.Lookup(ctx, 0, uris)
	if err != nil {
		return err
	}
	var outcome catalog.Outcome
	var lost []catalog.Resource
	// A commit first moves the files that it adopts, because their old paths may then be
	// given to other files. So undoing moves the adopted files last, when their old paths
	// are free again.
	for _, taken := range []bool{false, true} {
		gone, err := m.undoFiles(ctx, intents, rows, taken)
		if err != nil {
			return err
		}
		lost = append(lost, gone...)
	}
	for i := range rows {
		if rows[i].URI != "" && !rows[i].Stored {
			outcome.Dropped = append(outcome.Dropped, rows[i].URI)
		}
	}
	if outcome.Members, err = m.makeDue(ctx, lost, "the bytes of the resource were lost in an interrupted run"); err != nil {
		return err
	}
	return m.own.Settle(ctx, outcome, nil)
}

// undoFiles undoes one kind of intents: if taken is set, those that make an existing
// file the file of a resource, and otherwise all others. It returns the resources whose
// bytes are lost.
func (m *Mirror) undoFiles(ctx context.Context, intents []catalog.Intent, rows []catalog.Resource, taken bool) (lost []catalog.Resource, err error) {
	files, err := m.bucket.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer files.Discard()
	for i := range intents {
		in, row := &intents[i], &rows[i]
		switch {
		case (in.Taken != "") != taken:
		case row.Stored:
			ok, err := m.restore(ctx, files, in, row)
			if err != nil {
				return nil, err
			}
			if !ok {
				lost = append(lost, *row)
			}
		case in.New || row.URI != "":
			if err := m.retract(ctx, files, in); err != nil {
				return nil, err
			}
		}
	}
	return lost, files.Commit(ctx)
}

// restore moves the recorded bytes of a resource back to its path. It returns false if
// the bytes are lost.
func (m *Mirror) restore(ctx context.Context, files blob.Batch, in *catalog.Intent, row *catalog.Resource) (bool, error) {
	sum := row.Digests.Get(resourcesync.SHA256)
	there, err := m.holds(ctx, in.Path, row.Length, sum)
	if err != nil {
		return false, err
	}
	kept := false
	if in.Kept != "" {
		if kept, err = m.holds(ctx, in.Kept, row.Length, sum); err != nil {
			return false, err
		}
	}
	switch {
	case there && kept:
		files.Delete(in.Kept)
	case kept:
		k, _, err := m.look(ctx, in.Path)
		if err != nil {
			return false, err
		}
		if k != absent && k != file {
			return false, nil
		}
		if in.Taken != "" {
			if _, err := m.giveBack(ctx, files, in); err != nil {
				return false, err
			}
		}
		files.Move(in.Kept, in.Path)
	}
	return there || kept, nil
}

// retract removes new bytes from a path, or moves them back to the path from which an
// existing file was taken. It keeps other bytes at the path, since they do not belong
// to the mirror.
func (m *Mirror) retract(ctx context.Context, files blob.Batch, in *catalog.Intent) error {
	if in.SHA256.IsZero() || in.Taken == in.Path {
		return nil
	}
	came, err := m.holds(ctx, in.Path, in.Length, in.SHA256)
	switch {
	case err != nil:
		return err
	case !came:
		if k, _, err := m.look(ctx, in.Path); err != nil || k != absent {
			return err
		}
	case in.Taken == "":
		files.Delete(in.Path)
	default:
		if back, err := m.giveBack(ctx, files, in); err != nil || !back {
			return err
		}
	}
	return m.restoreStray(ctx, files, in)
}

// giveBack undoes the move of an existing file to the path of a resource. It returns
// false if the bytes are not at the new path any more, or if something else is at the
// old path now.
func (m *Mirror) giveBack(ctx context.Context, files blob.Batch, in *catalog.Intent) (bool, error) {
	came, err := m.holds(ctx, in.Path, in.Length, in.SHA256)
	if err != nil || !came {
		return false, err
	}
	if f, ok := files.(*flatBatch); ok && in.Taken == contentKey(in.SHA256) {
		f.dropName(in.Path)
		return true, nil
	}
	k, _, err := m.look(ctx, in.Taken)
	if err != nil || k != absent {
		return false, err
	}
	files.Move(in.Path, in.Taken)
	return true, nil
}

// restoreStray moves a file that does not belong to the mirror from the trash back to its
// path.
func (m *Mirror) restoreStray(ctx context.Context, files blob.Batch, in *catalog.Intent) error {
	if in.Kept == "" {
		return nil
	}
	k, _, err := m.look(ctx, in.Kept)
	if err == nil && k == file {
		files.Move(in.Kept, in.Path)
	}
	return err
}

// holds reports whether the file at key has the given SHA-256 and length. An unknown
// length is not compared.
func (m *Mirror) holds(ctx context.Context, key string, length resourcesync.Length, sum resourcesync.Digest) (bool, error) {
	digests, found, err := hashFile(ctx, m.bucket, key, length, resourcesync.SHA256)
	return found && digests.Get(resourcesync.SHA256) == sum, err
}

// hashFile returns the digests of the bytes at key. It returns false if there are no
// bytes, or if their length differs from the given length. An unknown length is not
// compared.
func hashFile(ctx context.Context, b blob.Bucket, key string, length resourcesync.Length, algorithms ...resourcesync.Algorithm) (_ resourcesync.Digests, found bool, err error) {
	r, info, err := b.Get(ctx, key, 0, -1)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, blob.ErrForeign) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer r.Close()
	if length.Known() && info.Size != length.Int64() {
		return nil, false, nil
	}
	h := resourcesync.NewHasher(algorithms...)
	if _, err := io.Copy(h, &contextReader{ctx, r}); err != nil {
		return nil, false, fmt.Errorf("read %q: %w", key, err)
	}
	return h.Digests(), true, nil
}

func (m *Mirror) recordLost(ctx context.Context, lost []catalog.Resource, reason string) error {
	due, err := m.makeDue(ctx, lost, reason)
	if err != nil || len(due) == 0 {
		return err
	}
	return m.own.Settle(ctx, catalog.Outcome{Members: due}, nil)
}

// makeDue returns the memberships of the given resources, except those that are due
// already. It sets the field Due of each to the given reason.
func (m *Mirror) makeDue(ctx context.Context, rows []catalog.Resource, reason string) ([]catalog.Membership, error) {
	uris := make([]string, len(rows))
	known := map[string]*catalog.Resource{}
	for i := range rows {
		uris[i], known[rows[i].URI] = rows[i].URI, &rows[i]
	}
	members, err := m.own.Holders(ctx, uris)
	if err != nil {
		return nil, err
	}
	due := members[:0]
	for _, member := range members {
		if member.Due != "" {
			continue
		}
		row := *known[member.URI]
		row.LastMod, row.Changed, row.Remainder = member.LastMod, member.Changed, member.Remainder
		member.Due = reason
		if member.Wanted, err = m.statedOf(ctx, &row); err != nil {
			return nil, err
		}
		due = append(due, member)
	}
	return due, nil
}
