package mirror

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"instep/blob"
	"instep/destination"
	"instep/internal/catalog"
	"instep/resourcesync"
)

type step struct {
	catalog.Intent
	content  *content  // the bytes to store at Path; nil if the file there is moved to the trash or remains
	segments []segment // the names in the path of a new URI; nil for other URIs
	stray    bool      // whether the file at Path does not belong to the mirror; then it is moved to the trash
}

type work struct {
	steps   []step
	outcome catalog.Outcome
	counts  counts
	listed  map[catalog.SetID]time.Time // for each set that the batch does not change, the time of its newest list
	room    string                      // the directory in the trash for this commit; "" until a file has to be moved there
}

func (w *work) trash(ctx context.Context, m *Mirror) (_ string, err error) {
	if w.room == "" {
		w.room, err = m.newTrashDir(ctx, w.outcome.At)
	}
	return w.room, err
}

func (w *work) notes() (keys []string) {
	for i := range w.steps {
		if c := w.steps[i].content; c != nil && c.note != "" {
			keys = append(keys, c.note)
		}
	}
	return keys
}

// Commit implements destination.Batch.
func (b *batch) Commit(ctx context.Context, move *destination.CursorMove) (err error) {
	b.mu.Lock()
	spent := b.spent
	b.spent = true
	b.mu.Unlock()
	if spent {
		return errSpent
	}
	defer func() {
		b.m.claims.release(b)
		err = b.m.addFull(errors.Join(err, b.blobs.Discard()))
	}()
	if len(b.entries) == 0 && move == nil {
		return nil
	}
	if err := b.m.lockCommit(ctx); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, b.m.disk.forget()) // the cache is emptied, because the commit may have removed or replaced cached directories
		b.m.unlockCommit()
	}()
	if err := errors.Join(b.m.disk.forget(), b.m.undoLeftovers(ctx)); err != nil {
		return err
	}
	w, err := b.decide(ctx)
	if err != nil {
		return err
	}
	if move != nil {
		if w.outcome.Cursor, err = b.m.cursorRow(ctx, move); err != nil {
			return err
		}
	}
	if err := b.apply(ctx, w); err != nil {
		b.m.undone = true
		return errors.Join(err, b.m.disk.forget(), b.m.undoLeftovers(context.WithoutCancel(ctx)))
	}
	b.m.tellDisplaced(w.outcome.Found)
	b.m.noteTaken(w)
	if notes := w.notes(); len(notes) > 0 {
		// The error is ignored: opening the mirror again removes the notes that remain,
		// since the files that they describe no longer exist.
		_ = b.m.remove(context.WithoutCancel(ctx), notes)
	}
	return nil
}

func (m *Mirror) lockCommit(ctx context.Context) error {
	select {
	case m.commit <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (m *Mirror) unlockCommit() { <-m.commit }

// cursorRow returns the form in which the catalog stores the new cursor. It returns
// ErrStale if the recorded cursor is later than the new one.
func (m *Mirror) cursorRow(ctx context.Context, move *destination.CursorMove) (*catalog.Cursor, error) {
	now, ok, err := m.Cursor(ctx, move.Set)
	if err != nil {
		return nil, err
	}
	if ok && move.At.Before(now.At) {
		return nil, fmt.Errorf("%w: the recorded cursor of the set %q is at %s, but the new one is at %s", destination.ErrStale, move.Set, now.At, move.At)
	}
	id, err := m.makeSet(ctx, move.Set)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(move.Cursor)
	if err != nil {
		return nil, fmt.Errorf("cursor of %q: %w", move.Set, err)
	}
	row := &catalog.Cursor{Set: id, Body: string(body)}
	if !ok || !move.Listed.Equal(now.Listed) {
		row.Listed = move.Listed
	}
	return row, nil
}

// decide handles the URIs in ascending order, so that the same batch always results in
// the same paths.
func (b *batch) decide(ctx context.Context) (*work, error) {
	uris := slices.Sorted(maps.Keys(b.entries))
	rows, err := b.rows(ctx, uris)
	if err != nil {
		return nil, err
	}
	w := &work{steps: make([]step, 0, len(uris))}
	w.outcome.Stored, w.outcome.Members = make([]catalog.Resource, 0, len(uris)), make([]catalog.Membership, 0, len(uris))
	known := make([]string, 0, len(uris))
	for _, uri := range uris {
		if rows[uri].URI != "" {
			known = append(known, uri)
		}
	}
	members, err := b.m.own.Holders(ctx, known)
	if err != nil {
		return nil, err
	}
	held := map[string][]catalog.Membership{}
	for _, member := range members {
		held[member.URI] = append(held[member.URI], member)
	}
	w.outcome.Meant = b.consented
	w.outcome.At = micros(b.m.o.Now())
	w.listed = map[catalog.SetID]time.Time{}
	for _, uri := range uris {
		e := b.entries[uri]
		if err := b.noteListed(ctx, e, held[uri], w.listed); err != nil {
			return nil, err
		}
		w.add(e, rows[uri], held[uri], b.m.withoutFuture)
	}
	if err := b.m.markFound(ctx, w); err != nil {
		return nil, err
	}
	addStoringTime(w.outcome.Stored, b.m.o.Now())
	if w.counts != (counts{}) {
		w.outcome.Run = b.m.thisRun(w.counts)
	}
	// Steps that take over an existing file come first, so that later steps can move
	// other files to the old path of that file.
	slices.SortStableFunc(w.steps, func(x, y step) int { return x.turn() - y.turn() })
	return w, b.m.chooseTrashPaths(ctx, w)
}

// noteListed handles the sets that have the resource and that the batch does not
// change. It adds to the map listed the time of the newest list of each of these sets,
// which has confirmed the recorded state of the resource.
func (b *batch) noteListed(ctx context.Context, e *entry, held []catalog.Membership, listed map[catalog.SetID]time.Time) error {
	for _, member := range held {
		if _, known := listed[member.Set]; known || e.claims[member.Set] != nil {
			continue
		}
		c, _, err := b.m.cursorOf(ctx, member.Set)
		if err != nil {
			return err
		}
		listed[member.Set] = b.m.withoutFuture(c.Listed)
	}
	return nil
}

// rows returns the records of resources by URI. It reuses the records that Expect has
// read, since nobody else can have changed them.
func (b *batch) rows(ctx context.Context, uris []string) (map[string]*catalog.Resource, error) {
	expected := make(map[string]*catalog.Resource, len(b.known))
	for of, row := range b.known {
		expected[of.uri] = row
	}
	var others []string
	for _, uri := range uris {
		if _, ok := expected[uri]; !ok {
			others = append(others, uri)
		}
	}
	found, err := b.m.facts.Lookup(ctx, 0, others)
	if err != nil {
		return nil, err
	}
	for i, uri := range others {
		expected[uri] = &found[i]
	}
	return expected, nil
}

func (s *step) turn() int {
	if s.Taken != "" {
		return 0
	}
	return 1
}

func (w *work) add(e *entry, row *catalog.Resource, held []catalog.Membership, placed func(time.Time) time.Time) {
	alive, content := false, e.content
	for _, m := range held {
		c := e.claims[m.Set]
		if c != nil && c.gone {
			w.outcome.Ended = append(w.outcome.Ended, m)
			w.counts.deleted++
			continue
		}
		alive = true
		if c == nil && content != nil && row.Stored && m.Due == "" && (placed(m.Changed).After(content.changed) || w.listed[m.Set].After(content.changed)) {
			content = nil // the new bytes are not used, since another set has a later state of the resource
		}
	}
	for _, c := range e.claims {
		if c.gone {
			if !c.state.Changed.IsZero() {
				w.outcome.Gone = append(w.outcome.Gone, catalog.Evidence{Set: c.state.Set, URI: e.uri, Told: true, Gone: true, Moment: micros(c.state.Changed)})
			}
			continue
		}
		alive = true
		w.count(c, content, row, held)
		w.outcome.Members = append(w.outcome.Members, c.state)
		if c.noted && content == nil {
			w.outcome.Noted = append(w.outcome.Noted, catalog.Resource{URI: e.uri, Type: c.typ, Verified: c.verified})
		}
	}
	s := step{Intent: catalog.Intent{URI: e.uri, Path: row.Path}}
	switch {
	case !alive && row.Stored:
		s.Kept = row.Path
	case !alive:
		return
	case content != nil:
		s.content, s.Length, s.SHA256 = content, resourcesync.Bytes(content.length), content.digests.Get(resourcesync.SHA256)
		s.Taken = content.taken
		if row.Stored && s.Taken != row.Path {
			s.Kept = row.Path
		}
		w.outcome.Stored = append(w.outcome.Stored, catalog.Resource{
			URI: e.uri, Length: s.Length, Digests: content.digests, Verified: content.verified, Type: content.typ,
			Stat: content.stamp(),
		})
	case row.URI != "":
		return // only memberships change
	}
	w.steps = append(w.steps, s)
}

// chooseTrashPaths chooses a path in the trash for each file that is replaced or
// deleted. If there is no regular file at the path of a deleted resource, nothing is
// moved, since what is there does not belong to the mirror.
func (m *Mirror) chooseTrashPaths(ctx context.Context, w *work) error {
	for i := range w.steps {
		s := &w.steps[i]
		stray := m.o.Adopt && s.Kept == "" && s.content != nil && s.Path != "" && s.Path != s.Taken
		if s.Kept == "" && !stray {
			continue
		}
		k, _, err := m.look(ctx, s.Path)
		if err != nil {
			return err
		}
		if k != file && (stray || s.content == nil) {
			s.Kept = ""
			continue
		}
		room, err := w.trash(ctx, m)
		if err != nil {
			return err
		}
		s.Kept, s.stray = room+"/"+s.Path, stray
	}
	return nil
}

func (b *batch) apply(ctx context.Context, w *work) error {
	if len(w.steps) == 0 {
		return b.m.own.Settle(ctx, w.outcome, nil)
	}
	var files errgroup.Group
	files.Go(func() error { return b.Sync(ctx) })
	if err := errors.Join(b.intend(ctx, w), files.Wait()); err != nil {
		return err
	}
	if err := b.findDisplaced(ctx, w); err != nil {
		return err
	}
	if b.m.flat != nil || b.m.o.Adopt { // write must end before Settle: in the flat layout both change the catalog, and with Adopt the catalog records files that write has to move first
		if err := b.write(ctx, w); err != nil {
			return err
		}
		return b.m.own.Settle(ctx, w.outcome, nil)
	}
	files.Go(func() error { return b.write(ctx, w) })
	err := b.m.own.Settle(ctx, w.outcome, files.Wait)
	return cmp.Or(files.Wait(), err)
}

// Sync implements destination.Batch.
func (b *batch) Sync(ctx context.Context) error {
	s, ok := b.blobs.(blob.Syncer)
	if !ok {
		return nil // without the method Sync, the files are synced when the batch commits
	}
	return b.m.addFull(s.Sync(ctx))
}

func (b *batch) intend(ctx context.Context, w *work) (err error) {
	intents := make([]catalog.Intent, len(w.steps))
	steps := map[string]*step{}
	for i := range w.steps {
		s := &w.steps[i]
		intents[i], steps[s.URI] = s.Intent, s
		if s.Path != "" {
			continue
		}
		if s.segments, err = b.m.segments(s.URI); err != nil {
			return err
		}
		intents[i].Guess = b.m.names.key(unhashedPath(s.segments))
	}
	err = b.m.own.Intend(ctx, intents, &w.outcome, func(uri string, names catalog.Names) (catalog.Place, error) {
		s := steps[uri]
		switch {
		case s.content == nil:
			return b.m.place(s.segments, names, b.m.blockedWithoutBytes)
		case b.m.flat == nil:
			return b.placeAmongStrays(ctx, w, s, names)
		}
		return b.m.place(s.segments, names, b.m.blocked(ctx))
	})
	for i, in := range intents {
		w.steps[i].Intent = in
	}
	return err
}

func (m *Mirror) place(segments []segment, names catalog.Names, blocked func(string, bool) (bool, error)) (catalog.Place, error) {
	p := placer{names: names, rules: m.names, blocked: blocked, closed: m.isStateDir}
	return p.put(segments)
}

// isStateDir reports whether dir is the state directory of a mirror or publication, in
// which no resource may be stored.
func (m *Mirror) isStateDir(dir string) (bool, error) {
	if m.flat != nil { // paths of the flat layout are only names in the catalog, so they cannot be in a state directory
		return false, nil
	}
	k, err := m.disk.lookParent(dir)
	return k == stateDir, err
}

// blocked returns a function that reports whether a path is occupied. A directory does
// not occupy a path at which a directory is needed.
func (m *Mirror) blocked(ctx context.Context) func(path string, dir bool) (bool, error) {
	return func(path string, dir bool) (bool, error) {
		k, _, err := m.look(ctx, path)
		return k != absent && !(dir && k == directory), err
	}
}

// blockedWithoutBytes reports whether a path cannot be given to a resource without stored
// bytes, because it is in a state directory. A file at the path does not matter: the bytes
// of the resource are fetched after that file is gone.
func (m *Mirror) blockedWithoutBytes(path string, _ bool) (bool, error) { return m.isStateDir(path) }

func (b *batch) write(ctx context.Context, w *work) error {
	for _, s := range w.steps {
		switch {
		case s.content != nil:
			b.blobs.Put(s.content.object, blob.Put{Key: s.Path, IfAbsent: s.Kept == "", Keep: s.Kept, ModTime: s.content.modTime})
		case s.Kept != "":
			b.blobs.Move(s.Path, s.Kept)
		}
	}
	err := b.blobs.Commit(ctx)
	if errors.Is(err, blob.ErrExist) {
		err = fmt.Errorf("%w: %w", destination.ErrOccupied, err) // somebody has created a file at the path since Put checked the path
	}
	return err
}
