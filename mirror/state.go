package mirror

import (
	"context"
	"fmt"

	"instep/internal/catalog"
	"instep/resourcesync"
)

// StateError is returned by Open if the directory for a new state is inside that of a
// mirror, where a resource could have the same path. The default, or a directory
// elsewhere, can be used instead.
type StateError struct {
	State, Dir string // directories of the state, and of the mirror that contains it
}

func (e *StateError) Error() string {
	return fmt.Sprintf("the state %q is inside the mirror %q, where the Source could write into it", e.State, e.Dir)
}

// StateDir returns the state directory of the mirror in dir. That is state or, if state
// is "", the default in dir.
func StateDir(dir, state string) string { return (&Options{Dir: dir, State: state}).state() }

// findState determines whether the state is inside the directory of the mirror. It
// returns a *StateError for a new state that is there but not in .instep, or that is
// inside another mirror. An existing state there, which an earlier version created, is
// used, and the mirror stores no resources in it.
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

// leaveState ends the membership of resources whose files an earlier version has stored
// in the state directory, and moves the files to the trash. The next run stores the
// resources elsewhere.
func (m *Mirror) leaveState(ctx context.Context) error {
	if m.disk.state == "" || m.flat != nil {
		return nil
	}
	sets, err := m.facts.Sets(ctx)
	if err != nil {
		return err
	}
	for _, s := range sets {
		for rows, err := range chunks(m.facts.MembersByKey(ctx, s.ID)) {
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
			if err := m.recompare(ctx, s.Name); err != nil {
				return err
			}
			if err := m.leave(ctx, s.ID, inside); err != nil {
				return err
			}
		}
	}
	return nil
}

// leave ends the memberships of these resources. It moves their files to the trash if
// they have the recorded bytes.
func (m *Mirror) leave(ctx context.Context, set catalog.SetID, rows []catalog.Resource) error {
	room, err := m.trashRoom(ctx, m.o.Now())
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
