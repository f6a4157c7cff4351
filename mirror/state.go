package mirror

import (
	"context"
	"fmt"

	"instep/internal/catalog"
	"instep/internal/spool"
	"instep/resourcesync"
)

// StateError is returned by Open if a new state directory would be inside a mirror, where
// a resource could have the same path. The user can choose a directory elsewhere, or
// leave Options.State empty.
type StateError struct {
	State, Dir string // the state directory, and the directory of the mirror that contains it
}

func (e *StateError) Error() string {
	return fmt.Sprintf("the state directory %q is inside the mirror %q, where the Source could write into it", e.State, e.Dir)
}

// StateDir returns the path of the state directory for the mirror in the directory dir:
// the given path or, if that is "", the default inside dir.
func StateDir(dir, state string) string { return (&Options{Dir: dir, State: state}).state() }

// findState determines whether the state directory is inside the mirror. It returns a
// *StateError if a new state directory would be inside this or another mirror, except
// for .instep. A state directory that an earlier version has created inside the mirror
// remains in use, and the mirror stores no resources in it.
func (m *Mirror) findState() error {
	if m.o.State == "" {
		m.inside = ours
		return nil
	}
	at, err := resolve(m.o.State)
	if err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	dir, err := resolve(m.o.Dir)
	if err != nil {
		return err
	}
	if m.inside = relative(dir, at); m.inside == ours || !m.o.Create {
		return nil
	}
	top := dir
	if m.inside == "" {
		if top, err = mirrorAbove(at); err != nil || top == "" {
			return err
		}
	}
	exists, err := isState(at)
	if err == nil && !exists {
		err = &StateError{m.o.State, top}
	}
	return err
}

// leaveStateDir moves files of resources to the trash if an earlier version has stored
// them in the state directory. It ends the memberships of these resources, so that the
// next run stores the resources at other paths.
func (m *Mirror) leaveStateDir(ctx context.Context) error {
	if m.disk.state == "" || m.flat != nil {
		return nil
	}
	sets, err := m.facts.Sets(ctx)
	if err != nil {
		return err
	}
	for _, s := range sets {
		for rows, err := range spool.Batches(m.facts.MembersByKey(ctx, s.ID), chunkSize) {
			if err != nil {
				return err
			}
			var inside []catalog.Resource
			for _, r := range rows {
				k, _, err := m.disk.look(r.Path)
				if err != nil {
					return err
				}
				if k == stateDir {
					inside = append(inside, r)
				}
			}
			if len(inside) == 0 {
				continue
			}
			if _, err := m.recompare(ctx, s.Name); err != nil {
				return err
			}
			if err := m.moveOut(ctx, s.ID, inside); err != nil {
				return err
			}
		}
	}
	return nil
}

// moveOut ends the memberships of the given resources in a set. It moves their files to
// the trash, unless a file has other bytes than recorded.
func (m *Mirror) moveOut(ctx context.Context, set catalog.SetID, rows []catalog.Resource) error {
	room, err := m.newTrashDir(ctx, m.o.Now())
	if err != nil {
		return err
	}
	files, err := m.bucket.Begin(ctx)
	if err != nil {
		return err
	}
	defer files.Discard()
	var o catalog.Outcome
	for i := range rows {
		r := &rows[i]
		o.Ended = append(o.Ended, catalog.Membership{Set: set, URI: r.URI})
		stored, err := m.holds(ctx, r.Path, r.Length, r.Digests.Get(resourcesync.SHA256))
		if err != nil {
			return err
		}
		if r.Stored && stored {
			files.Move(r.Path, room+"/"+r.Path)
		}
	}
	if err := files.Commit(ctx); err != nil {
		return err
	}
	return m.own.Settle(ctx, o, nil)
}
