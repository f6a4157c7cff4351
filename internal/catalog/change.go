package catalog

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"time"

	"instep/resourcesync"
)

// ErrState means that a change contradicts the recorded state: the creation of a
// member, or the update or deletion of a resource that is not a member.
var ErrState = errors.New("the change contradicts the recorded state")

// dueChanged is the value of Due for a member whose bytes a change of another set has
// replaced.
const dueChanged = "changed in another set"

// floorSetting names the setting with the latest time that was passed to Reserve, in
// microseconds since 1970. Later changes get this Datetime or a later one.
const floorSetting = "floor"

// MaxChanges is the largest number of changes in one call of Record. All of them have
// the same Datetime, so a Change List cannot end between them.
const MaxChanges = 500

// Record records at most MaxChanges changes of a set in order, all or none, and sets
// their Seq and Datetime. All changes of a call have the same Datetime: the time of
// recording, or a later time if the clock is behind, because the Datetime must be later
// than in earlier calls and not before a reserved moment (see Reserve). Record uses the
// fields Change, URI, Path, LastMod, Length, Digests, Type, Encoding, ChangeFreq,
// Remainder and Stat; for a deletion it uses only the URI. It returns ErrState for the
// creation of a member, and for the update or deletion of a resource that is not a
// member.
func (c *Facts) Record(ctx context.Context, set SetID, changes []Change) error {
	return c.RecordWith(ctx, set, changes, nil)
}

// RecordWith does what Record does, and stores settings in the same transaction.
func (c *Facts) RecordWith(ctx context.Context, set SetID, changes []Change, settings map[string]string) error {
	if len(changes) > MaxChanges {
		return fmt.Errorf("record changes in the catalog %q: expected at most %d at a time, found %d", c.path, MaxChanges, len(changes))
	}
	return c.record(ctx, set, changes, true, func(r *recorder) { r.storeSettings(settings) })
}

// Enroll records changes of a set that was never published. Unlike Record it writes
// nothing to the change log, since nobody reads the log yet, so Seq stays 0. It accepts
// any number of changes. For a published set it returns ErrState.
func (c *Facts) Enroll(ctx context.Context, set SetID, changes []Change) error {
	return c.record(ctx, set, changes, false, func(r *recorder) {
		if r.exists("publication WHERE set_id = $1 AND state <> $2", set, begun) {
			r.stop(fmt.Errorf("%w: set %d has been published, so its changes have to be logged", ErrState, set))
		}
		r.storeNumber(floorSetting, r.moment+1) // so changes after this transaction get a later Datetime
	})
}

func (c *db) record(ctx context.Context, set SetID, changes []Change, logged bool, prepare func(*recorder)) error {
	var moment time.Time
	seqs := make([]int64, len(changes))
	err := c.transact(ctx, "record changes in the catalog", func(r *recorder) {
		moment, _ = c.nextMoment(r)
		r.set, r.moment = set, moment.UnixMicro()
		prepare(r)
		for rest := changes; len(rest) > 0 && r.err == nil; {
			some := rest[:max(1, leadingCreations(rest))]
			if len(some) == 1 || !r.createMany(some) {
				for i := range some {
					r.record(&some[i])
				}
			}
			rest = rest[len(some):]
		}
		if logged {
			r.log(changes, seqs)
		}
		r.count(set, r.members, r.bytes)
	})
	if err != nil {
		return err
	}
	for i := range changes {
		changes[i].Seq, changes[i].Datetime = seqs[i], moment
	}
	return nil
}

// Moment returns the earliest Datetime that the next change can get. It is later than
// all recorded changes, and not before the time of the clock or a time that was passed
// to Reserve. If the caller passes the result to Reserve, every further change gets
// this Datetime or a later one.
func (c *Facts) Moment(ctx context.Context) (time.Time, error) {
	return c.nextMoment(c.reading(ctx, "read the change log of the catalog"))
}

func (c *db) nextMoment(a querier) (time.Time, error) {
	last, _, err := queryValue[int64](a, "SELECT datetime FROM change ORDER BY seq DESC LIMIT 1")
	if err != nil {
		return time.Time{}, err
	}
	floor, _, err := readNumber(a, floorSetting)
	next := max(c.instant().UnixMicro(), floor)
	if last != 0 {
		next = max(next, last+1)
	}
	return readTime(next), err
}

// Reserve makes sure that every later change has a Datetime of at least t, even if the
// clock is set back.
func (c *Facts) Reserve(ctx context.Context, t time.Time) error {
	return c.transact(ctx, "reserve a moment in the catalog", func(r *recorder) {
		if floor, _ := r.readNumber(floorSetting); t.After(readMicros(floor)) {
			r.storeNumber(floorSetting, t.UnixMicro())
		}
	})
}

func (c *db) instant() time.Time { return readTime(c.now().UnixMicro()) }

// recorder is a transaction that writes to the catalog. After an error, all methods of a
// recorder do nothing and return zero values, and transact returns the error. So a caller
// has to check the field err only before it does something outside of the database.
type recorder struct {
	ctx      context.Context
	tx       *sql.Tx
	err      error // the first error
	set      SetID
	moment   int64 // the Datetime of the recorded changes, in microseconds since 1970
	prepared map[string]*sql.Stmt

	fold           func(path string) string
	members, bytes int64            // by how much the transaction changes the numbers of members and bytes of the set
	droppedPieces  map[string]bool  // directories whose rows the transaction has already deleted from the table piece
	bases, dirs    map[string]int64 // caches of row numbers: see enterBases and enterDirectories
	leftDirs       map[int64]bool   // row numbers of the directories from which the transaction moved or removed a file
	lastID         int64            // the greatest row number of a resource; 0 if it has not been read yet
}

// stop makes the transaction fail with the error err, unless err is nil.
func (r *recorder) stop(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *recorder) onError(err error) error {
	r.stop(err)
	return r.err
}

func (r *recorder) close() {
	for _, s := range r.prepared {
		_ = s.Close() // the error is ignored: the end of the transaction closes the statement in any case
	}
}

func (r *recorder) stmt(query string) (*sql.Stmt, error) {
	if s := r.prepared[query]; s != nil || r.err != nil {
		return s, r.err
	}
	s, err := r.tx.PrepareContext(r.ctx, query)
	if err == nil {
		r.prepared[query] = s
	}
	return s, err
}

func (r *recorder) query(query string, args ...any) (*sql.Rows, error) {
	s, err := r.stmt(query)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(r.ctx, args...)
}

func (r *recorder) run(query string, args ...any) (res sql.Result) {
	s, err := r.stmt(query)
	if err == nil {
		res, err = s.ExecContext(r.ctx, args...)
	}
	r.stop(err)
	return res
}

func (r *recorder) exec(query string, args ...any) (affected int64) {
	if res := r.run(query, args...); r.err == nil {
		var err error
		affected, err = res.RowsAffected()
		r.stop(err)
	}
	return affected
}

// The next four methods need not check errors: on an error, the functions that they call
// make the transaction fail.
func (r *recorder) scanRows(dest []any, handle func(), query string, args ...any) {
	_ = scanRows(r, dest, handle, query, args...)
}

func (r *recorder) scanRow(dest []any, query string, args ...any) (found bool) {
	found, _ = scanRow(r, dest, query, args...)
	return found
}

func (r *recorder) exists(fromClause string, args ...any) (found bool) {
	found, _ = exists(r, fromClause, args...)
	return found
}

func (r *recorder) lookup(dest []any, handle func(), query, row string, keys []any, args ...any) {
	_ = lookup(r, dest, handle, query, row, keys, args...)
}

func (r *recorder) record(ch *Change) {
	if err := ch.check(); err != nil {
		r.stop(err)
		return
	}
	id := r.rowOf(ch.URI)
	switch ch.Change {
	case resourcesync.Created:
		r.create(id, ch)
	case resourcesync.Updated:
		r.update(id, ch)
	default:
		r.remove(id, ch)
	}
	if ch.Path != "" {
		r.dropPieces(ch.Path)
	}
}

func (ch *Change) check() error {
	switch ch.Change {
	case resourcesync.Created, resourcesync.Updated, resourcesync.Deleted:
	default:
		return fmt.Errorf("expected the change of %q to be created, updated or deleted, found %q", ch.URI, ch.Change)
	}
	if ch.URI == "" || ch.Change != resourcesync.Deleted && ch.Path == "" {
		return fmt.Errorf("expected a URI and a path, found %q and %q", ch.URI, ch.Path)
	}
	return nil
}

// create records a new member. The parameter id is 0 if the catalog does not have the
// resource yet.
func (r *recorder) create(id int64, ch *Change) {
	known := id != 0
	if !known {
		r.insertResources("INSERT", unfolded, []newResource{{ch.URI, ch.Path, &ch.Resource, nil}})
		id = r.lastID
	}
	n := r.exec(`INSERT INTO member (set_id, resource, changed, lastmod, changefreq, due, wanted, remainder) VALUES ($1, $2, $3, $4, $5, '', '', $6)
		ON CONFLICT (set_id, resource) DO NOTHING`, r.set, id, r.moment, ch.LastMod.String(), string(ch.ChangeFreq), writeText(ch.Remainder))
	if n == 0 {
		r.stop(fmt.Errorf("%w: %q was created, but it is a member already", ErrState, ch.URI))
	}
	r.members++
	r.bytes += ch.Length.Int64()
	if known {
		r.rewrite(id, ch) // another set has the resource already, perhaps with other bytes, so its row is overwritten
	}
}

func (r *recorder) update(id int64, ch *Change) {
	n := r.exec("UPDATE member SET changed = $3, lastmod = $4, changefreq = $5, due = '', wanted = '', remainder = $6 WHERE set_id = $1 AND resource = $2",
		r.set, id, r.moment, ch.LastMod.String(), string(ch.ChangeFreq), writeText(ch.Remainder))
	if n == 0 {
		r.stop(fmt.Errorf("%w: %q was updated, but it is not a member", ErrState, ch.URI))
	}
	old := r.rewrite(id, ch)
	r.bytes += ch.Length.Int64() - old.length.Int64
}

type fileState struct {
	dir     int64
	path    string
	length  sql.NullInt64
	sha256  []byte
	digests string
}

func (r *recorder) rewrite(id int64, ch *Change) fileState {
	old, found := r.fileStateOf(id)
	if !found {
		r.stop(fmt.Errorf("%w: %q is a member without a resource; %s", ErrDamaged, ch.URI, hint))
	}
	dir, name := split(ch.Path)
	now := fileState{path: ch.Path, length: writeLength(ch.Length)}
	now.digests, now.sha256 = writeDigests(ch.Digests)
	if !old.sameBytes(now) {
		r.markOtherSets(id, now.length.Int64-old.length.Int64, old.path)
	}
	r.dropPieces(old.path)
	if was, _ := split(old.path); was != dir {
		r.leave(old.dir)
	}
	_, rest := split(ch.URI)
	r.enterDirectories([]string{dir}, unfolded)
	r.exec(`UPDATE resource SET dir = $2, name = $3, stored = TRUE, length = $4, sha256 = $5, digests = $6,
		verified = FALSE, type = $7, encoding = $8, stat = $9 WHERE id = $1`,
		id, r.dirs[dir], nameColumn(name, rest), now.length, now.sha256, now.digests, ch.Type, ch.Encoding, ch.Stat)
	return old
}

func (r *recorder) fileStateOf(id int64) (h fileState, found bool) {
	found = r.scanRow([]any{&h.dir, &h.path, &h.length, &h.sha256, &h.digests},
		"SELECT r.dir, d.path || COALESCE(r.name, r.rest), r.length, r.sha256, r.digests FROM resource r JOIN directory d ON d.id = r.dir WHERE r.id = $1", id)
	return h, found
}

func (h fileState) sameBytes(o fileState) bool {
	if h.sha256 != nil && o.sha256 != nil {
		return h.length == o.length && bytes.Equal(h.sha256, o.sha256)
	}
	return h.length == o.length && h.digests == o.digests && h.sha256 == nil && o.sha256 == nil
}

// markOtherSets sets the column "due" of a resource in its other sets. Scans for these
// sets could not detect the new bytes by comparing the file with the catalog, because
// the catalog describes the bytes only once for all sets.
func (r *recorder) markOtherSets(id int64, longer int64, path string) {
	if r.exec("UPDATE member SET due = $3 WHERE resource = $1 AND set_id <> $2", id, r.set, dueChanged) == 0 {
		return
	}
	const others = "(SELECT set_id FROM member WHERE resource = $1 AND set_id <> $2)"
	r.addBytes(others, longer, id, r.set)
	r.exec("DELETE FROM piece WHERE dir = $3 AND set_id IN "+others, id, r.set, key(DirOf(path)))
}

func (r *recorder) remove(id int64, ch *Change) {
	if r.exec("DELETE FROM member WHERE set_id = $1 AND resource = $2", r.set, id) == 0 {
		r.stop(fmt.Errorf("%w: %q was deleted, but it is not a member", ErrState, ch.URI))
	}
	old, _ := r.fileStateOf(id)
	r.members--
	r.bytes -= old.length.Int64
	r.dropPieces(old.path)
	r.dropUnused(id)
}

// log stores the number of each change in seqs. It relies on the fact that the rows of
// one statement get consecutive numbers.
func (r *recorder) log(changes []Change, seqs []int64) {
	const row = "(?,?,?,?,?,?,?,?,?,?,?)"
	for len(changes) > 0 && r.err == nil {
		n := min(len(changes), bulkRows)
		args := make([]any, 0, n*len(row)/2)
		for i := range changes[:n] {
			ch := &changes[i]
			state := &ch.Resource
			if ch.Change == resourcesync.Deleted { // an entry for a deletion describes no bytes
				state = &Resource{}
			}
			args = append(args, r.set, r.moment, string(ch.Change), ch.URI, state.LastMod.String(), writeLength(state.Length),
				state.Digests.String(), state.Type, state.Encoding, string(state.ChangeFreq), writeText(state.Remainder))
		}
		res := r.run("INSERT INTO change (set_id, datetime, change, uri, lastmod, length, digests, type, encoding, changefreq, remainder) VALUES "+repeated(row, n), args...)
		if r.err != nil {
			return
		}
		last, err := res.LastInsertId()
		r.stop(err)
		for i := range n {
			seqs[i] = last - int64(n-1-i)
		}
		changes, seqs = changes[n:], seqs[n:]
	}
}

// Restat stores Stat and Digests of resources whose bytes did not change, all or none.
// It records no change, and skips unknown resources.
func (c *Facts) Restat(ctx context.Context, resources []Resource) error {
	return c.transact(ctx, "store file times in the catalog", func(rec *recorder) {
		ids := rec.rowsOf(urisOf(resources))
		for i := range resources {
			r := &resources[i]
			digests, sha256 := writeDigests(r.Digests)
			rec.exec("UPDATE resource SET stat = $2, sha256 = $3, digests = $4 WHERE id = $1", ids[r.URI], r.Stat, sha256, digests)
		}
	})
}

func urisOf(resources []Resource) []string {
	uris := make([]string, len(resources))
	for i := range resources {
		uris[i] = resources[i].URI
	}
	return uris
}

func relabelSetting(set SetID) string { return fmt.Sprint("relabelled ", set) }

// Relabel stores Type, Encoding, ChangeFreq and Remainder of members, all or none. It
// records no change, but Relabelled counts the call. It skips resources that are not
// members.
func (c *Facts) Relabel(ctx context.Context, set SetID, resources []Resource) error {
	return c.transact(ctx, "store the attributes of members in the catalog", func(r *recorder) {
		ids := r.rowsOf(urisOf(resources))
		for i := range resources {
			m := &resources[i]
			n := r.exec("UPDATE member SET changefreq = $3, remainder = $4 WHERE set_id = $1 AND resource = $2", set, ids[m.URI], string(m.ChangeFreq), writeText(m.Remainder))
			if n == 1 {
				r.exec("UPDATE resource SET type = $2, encoding = $3 WHERE id = $1", ids[m.URI], m.Type, m.Encoding)
			}
		}
		times, _ := r.readNumber(relabelSetting(set))
		r.storeNumber(relabelSetting(set), times+1)
	})
}

// Relabelled returns how often Relabel was called for a set. If the number has grown,
// Type, Encoding, ChangeFreq or Remainder of members may have changed.
func (c *Facts) Relabelled(ctx context.Context, set SetID) (int64, error) {
	times, _, err := readNumber(c.reading(ctx, "read the number of relabellings in the catalog"), relabelSetting(set))
	return times, err
}

// changeColumns are the columns of the change log that Change.columns reads. Some of
// them are used only in the catalog of a mirror.
const (
	changeColumns = `0, uri, NULL, COALESCE(path, ''), FALSE, length, digests, COALESCE(verified, FALSE), type, encoding, COALESCE(stat, ''),
		FALSE, changed, lastmod, changefreq, due, '', remainder, seq, datetime, change, set_id`
	changesQuery = "SELECT " + changeColumns + " FROM change WHERE seq > $1 AND seq <= $4 AND set_id = $3 ORDER BY seq LIMIT $2"
)

func (ch *Change) columns(set *SetID) []any {
	return append(ch.Resource.columns(), &ch.Seq, timeTo(&ch.Datetime), &ch.Change, set)
}

// Changes yields the changes of a set with after < Seq <= through, in the order of Seq.
func (c *Facts) Changes(ctx context.Context, set SetID, after, through int64) iter.Seq2[Change, error] {
	return listing(c.reading(ctx, "list changes in the catalog"), changesQuery, after, func(ch *Change) (any, []any) {
		return &ch.Seq, ch.columns(new(SetID))
	}, set, through)
}

// Deletions returns the last deletion of each URI in the log of a set, even if the
// resource was created again later. The result has the order of uris, with the zero
// Change for a URI that was never deleted. Only Seq, Datetime, Change and URI are set.
func (c *Facts) Deletions(ctx context.Context, set SetID, uris []string) ([]Change, error) {
	all := make([]Change, len(uris))
	keys := make([]any, 0, 2*len(uris))
	for i, uri := range uris {
		keys = append(keys, i, uri)
	}
	var i int
	ch := Change{Change: resourcesync.Deleted}
	err := lookup(c.reading(ctx, "list deletions in the catalog"), []any{&i, &ch.Seq, timeTo(&ch.Datetime), &ch.URI}, func() { all[i] = ch },
		`SELECT v.column1, MAX(c.seq), c.datetime, c.uri FROM (VALUES KEYS) v
		CROSS JOIN change c ON c.uri = v.column2 AND c.set_id = ? AND c.change = 'deleted' GROUP BY v.column1`, "(?,?)", keys, set)
	return all, err
}

// LastSeq returns the number and Datetime of the last change of a set, or zero values
// if there is none.
func (c *Facts) LastSeq(ctx context.Context, set SetID) (seq int64, at time.Time, err error) {
	_, err = scanRow(c.reading(ctx, "read the change log of the catalog"), []any{&seq, timeTo(&at)},
		"SELECT seq, datetime FROM change WHERE set_id = $1 ORDER BY seq DESC LIMIT 1", set)
	return seq, at, err
}

// CountChanges returns the number of changes that Changes would yield for the same
// arguments.
func (c *Facts) CountChanges(ctx context.Context, set SetID, after, through int64) (int64, error) {
	n, _, err := queryValue[int64](c.reading(ctx, "count changes in the catalog"),
		"SELECT COUNT(*) FROM change WHERE set_id = $1 AND seq > $2 AND seq <= $3", set, after, through)
	return n, err
}
