package mirror

import (
	"context"
	"fmt"

	"instep/internal/catalog"
	"instep/resourcesync"
)

// StateError is returned by Open for a new state below the directory of a mirror, where a
// resource could have the same name: use the default, or a directory elsewhere.
type StateError struct {
	State, Dir string // the state, and the directory of the mirror that it is in
}

func (e *StateError) Error() string {
	return fmt.Sprintf("the state %q is inside the mirror %q, where the Source could write into it", e.State, e.Dir)
}

// StateDir returns the directory of the state of the mirror in dir: state, or the one
// inside dir if state is "".
func StateDir(dir, state string) string { return (&Options{Dir: dir, State: state}).state() }

// findState determines whether the state is inside the directory. A new one that is, but
// not in our own directory, or that is inside another mirror, is a *StateError. One of an
// earlier version stays in use, and the mirror stores nothing there.
func (m *Mirror) findState(o *Options) error {
	if o.State == "" {
		m.inside = ours
		return nil
	}
	at, err := resolve(o.State)
	if err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	dir, err := resolve(o.Dir)
	if err != nil {
		return err
	}
	if m.inside = relative(dir, at); m.inside == ours || !o.Create {
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
		err = &StateError{o.State, top}
	}
	return err
}

// maxLeaving is how many resources leave the state at a time.
const maxLeaving = 500

// leaveState takes the resources out of the state that an earlier version stored there:
// their files go to the trash, and the next run stores them elsewhere.
func (m *Mirror) leaveState(ctx context.Context) error {
	if m.disk.state == "" || m.flat != nil {
		return nil
	}
	sets, err := m.facts.Sets(ctx)
	if err != nil {
		return err
	}
	for _, s := range sets {
		for {
			rows, err := m.inState(ctx, s.ID)
			if err != nil {
				return err
			}
			if len(rows) == 0 {
				break
			}
			if err := m.recompare(ctx, s.Name); err != nil {
				return err
			}
			if err := m.leave(ctx, s.ID, rows); err != nil {
				return err
			}
		}
	}
	return nil
}

// inState returns the first members of a set whose paths lead into a state.
func (m *Mirror) inState(ctx context.Context, set catalog.SetID) (rows []catalog.Resource, err error) {
	for r, err := range m.facts.MembersByKey(ctx, set) {
		if err != nil {
			return nil, err
		}
		k, _, err := m.disk.look(r.Path)
		if err != nil {
			return nil, err
		}
		if k == stateDir {
			rows = append(rows, r)
		}
		if len(rows) == maxLeaving {
			break
		}
	}
	return rows, nil
}

// leave ends memberships; the files move to the trash if they are the stored ones.
func (m *Mirror) leave(ctx context.Context, set catalog.SetID, rows []catalog.Resource) error {
	room, err := m.trashRoom(ctx, m.now())
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
