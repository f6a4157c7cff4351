package catalog

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"instep/resourcesync"
)

// ErrState: a change that does not fit the recorded state: the creation of a
// member, or the update or deletion of what is no member.
var ErrState = errors.New("the change does not fit what is recorded")

// dueChanged is the Due of a resource whose change is recorded in another set only.
const dueChanged = "changed in another set"

// floorSetting holds what Reserve was given last, in microseconds since 1970.
const floorSetting = "floor"

// MaxChanges is how many changes one call of Record takes: all of them have one
// Datetime, so a Change List can't be divided between them.
const MaxChanges = 500

// Record records changes of a set in their order, all or none, at most MaxChanges.
// It sets Seq and Datetime of each. Datetime is the moment of recording, the same
// for all of a call and later than that of any call before, not before a moment
// that was reserved, whatever the clock says. Of a change it takes Change, URI,
// Path, LastMod, Length, Digests, Type, Encoding, ChangeFreq, Remainder and Stat; of a
// deletion only the URI. Expected are creations of what is no member, updates and deletions
// of members, else ErrState.
func (c *Catalog) Record(ctx context.Context, set SetID, changes []Change) error {
	if len(changes) > MaxChanges {
		return fmt.Errorf("record changes in catalog %q: expected at most %d at a time, found %d", c.path, MaxChanges, len(changes))
	}
	return c.record(ctx, changes, func(r *recorder) error {
		r.set, r.logs = set, true
		return nil
	})
}

// Enroll does what Record does for a set that was never published: nobody has to be
// told of a change there, so that it enters nothing in the change log, and Seq
// stays 0. It takes any number of changes. A set that was published is ErrState.
func (c *Catalog) Enroll(ctx context.Context, set SetID, changes []Change) error {
	return c.record(ctx, changes, func(r *recorder) error {
		r.set = set
		published, err := r.published()
		if err == nil && published {
			err = fmt.Errorf("%w: set %d has been published: its changes have to be listed", ErrState, set)
		}
		if err != nil {
			return err
		}
		return setSetting(ctx, r.tx, floorSetting, strconv.FormatInt(r.at+1, 10)) // no later change has this moment
	})
}

// record records changes in a transaction at a moment of its own, which begin
// prepares. Creations go in many at a time, as long as all are of new resources.
func (c *Catalog) record(ctx context.Context, changes []Change, begin func(*recorder) error) error {
	err := c.recordOnce(ctx, changes, begin, true)
	if errors.Is(err, errNotNew) {
		return c.recordOnce(ctx, changes, begin, false)
	}
	return err
}

func (c *Catalog) recordOnce(ctx context.Context, changes []Change, begin func(*recorder) error, bulk bool) error {
	var at time.Time
	seqs := make([]int64, len(changes))
	err := c.update(ctx, "record changes in", func(tx *sql.Tx) error {
		var err error
		if at, err = c.next(ctx, tx); err != nil {
			return err
		}
		r := c.newRecorder(ctx, tx)
		r.at = at.UnixMicro()
		defer r.close()
		if err := begin(r); err != nil {
			return err
		}
		var created []newMember
		if bulk {
			created = many(changes)
		}
		if err := r.enter(created); err != nil {
			return err
		}
		for i := 0; i < len(changes); {
			n := 1
			if len(created) > 0 && created[0].change == &changes[i] {
				n = bulkRows
				err = r.createMany(created[:n], changes[i:i+n], seqs[i:i+n])
				created = created[n:]
			} else {
				seqs[i], err = r.record(&changes[i])
			}
			if err != nil {
				return err
			}
			i += n
		}
		return r.count(r.set, r.members, r.bytes)
	})
	if err != nil {
		return err
	}
	for i := range changes {
		changes[i].Seq, changes[i].Datetime = seqs[i], at
	}
	return nil
}

// Moment returns the present moment as the change log sees it: after every change
// recorded, not before what was reserved, else the clock's. A window of changes
// that is closed at this moment has lost none, if the moment is then reserved.
func (c *Catalog) Moment(ctx context.Context) (time.Time, error) {
	at, err := c.next(ctx, c.read)
	if err != nil {
		return at, c.fail("read the change log of", err)
	}
	return at, nil
}

func (c *Catalog) next(ctx context.Context, q querier) (time.Time, error) {
	last, floor, err := latest(ctx, q)
	if !last.IsZero() {
		last = last.Add(time.Microsecond)
	}
	return maxTime(c.instant(), last, floor), err
}

// Reserve sees to it that every change recorded from now on has a Datetime of at
// least t, even if the clock steps back.
func (c *Catalog) Reserve(ctx context.Context, t time.Time) error {
	return c.update(ctx, "reserve a moment in", func(tx *sql.Tx) error {
		_, floor, err := latest(ctx, tx)
		if err != nil || !t.After(floor) {
			return err
		}
		return setSetting(ctx, tx, floorSetting, strconv.FormatInt(t.UnixMicro(), 10))
	})
}

// instant is the clock's reading as the catalog keeps it.
func (c *Catalog) instant() time.Time { return readTime(c.now().UnixMicro()) }

func maxTime(t time.Time, others ...time.Time) time.Time {
	for _, o := range others {
		if o.After(t) {
			t = o
		}
	}
	return t
}

type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// latest returns the last datetime recorded and the one reserved; zero if there is none.
func latest(ctx context.Context, q querier) (last, floor time.Time, err error) {
	var micros int64
	err = q.QueryRowContext(ctx, "SELECT datetime FROM change ORDER BY seq DESC LIMIT 1").Scan(&micros)
	if err == nil {
		last = readTime(micros)
	} else if !errors.Is(err, sql.ErrNoRows) {
		return last, floor, err
	}
	var value string
	err = q.QueryRowContext(ctx, "SELECT value FROM setting WHERE name = $1", floorSetting).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return last, floor, nil
	}
	if err != nil {
		return last, floor, err
	}
	if micros, err = strconv.ParseInt(value, 10, 64); err != nil {
		return last, floor, fmt.Errorf("%w: setting %q: %w; %s", ErrDamaged, floorSetting, err, hint)
	}
	return last, readTime(micros), nil
}

// recorder is one call of Record.
type recorder struct {
	ctx      context.Context
	tx       *sql.Tx
	set      SetID
	logs     bool  // changes go to the change log
	at       int64 // microseconds
	prepared map[string]*sql.Stmt
	again    *statements // of the catalog; nil: all are prepared for this transaction alone
	sieve    *sieve      // of the catalog

	members, bytes int64           // that the set has got
	touched        map[string]bool // directories whose pieces are forgotten
}

func (c *Catalog) newRecorder(ctx context.Context, tx *sql.Tx) *recorder {
	return &recorder{ctx: ctx, tx: tx, prepared: map[string]*sql.Stmt{}, sieve: c.sieve}
}

func (r *recorder) close() {
	for _, s := range r.prepared {
		_ = s.Close() // the end of the transaction closes it in any case
	}
}

func (r *recorder) stmt(query string) (*sql.Stmt, error) {
	if s := r.prepared[query]; s != nil {
		return s, nil
	}
	if r.again != nil {
		if s := r.again.of(r.ctx, r.tx, query); s != nil {
			r.prepared[query] = s
			return s, nil
		}
	}
	s, err := r.tx.PrepareContext(r.ctx, query)
	if err == nil {
		r.prepared[query] = s
	}
	return s, err
}

func (r *recorder) run(query string, args ...any) (sql.Result, error) {
	s, err := r.stmt(query)
	if err != nil {
		return nil, err
	}
	return s.ExecContext(r.ctx, args...)
}

// exec returns the number of rows affected.
func (r *recorder) exec(query string, args ...any) (int64, error) {
	res, err := r.run(query, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (r *recorder) record(ch *Change) (seq int64, err error) {
	if err := ch.check(); err != nil {
		return 0, err
	}
	key := resourcesync.KeyOf(ch.URI)
	switch ch.Change {
	case resourcesync.Created:
		err = r.create(key, ch)
	case resourcesync.Updated:
		err = r.update(key, ch)
	default:
		err = r.remove(key, ch)
	}
	if err == nil && ch.Path != "" {
		err = r.touch(ch.Path)
	}
	if err != nil || !r.logs {
		return 0, err
	}
	return r.log(ch)
}

func (ch *Change) check() error {
	switch ch.Change {
	case resourcesync.Created, resourcesync.Updated, resourcesync.Deleted:
	default:
		return fmt.Errorf("expected created, updated or deleted of %q, found %q", ch.URI, ch.Change)
	}
	if ch.URI == "" || ch.Change != resourcesync.Deleted && ch.Path == "" {
		return fmt.Errorf("expected a URI and a path, found %q and %q", ch.URI, ch.Path)
	}
	return nil
}

func (r *recorder) published() (yes bool, err error) {
	row, err := r.row("SELECT EXISTS (SELECT 1 FROM publication WHERE set_id = $1 AND state <> $2)", r.set, begun)
	if err == nil {
		err = row.Scan(&yes)
	}
	return yes, err
}

func (r *recorder) create(key resourcesync.Key, ch *Change) error {
	r.sieve.add(key)
	n, err := r.exec(`INSERT INTO member (set_id, key, changed, lastmod, changefreq, due, wanted, remainder) VALUES ($1, $2, $3, $4, $5, '', '', $6)
		ON CONFLICT (set_id, key) DO NOTHING`, r.set, key[:], r.at, writeDatetime(ch.LastMod), string(ch.ChangeFreq), writeText(ch.Remainder))
	if err != nil {
		return err
	}
	if n == 0 {
		return fmt.Errorf("%w: creation of %q, which is a member already", ErrState, ch.URI)
	}
	r.members++
	r.bytes += ch.Length.Int64()
	n, err = r.exec(`INSERT INTO resource (key, uri, path, stored, length, sha256, digests, verified, type, encoding, stat)
		VALUES ($1, $2, $3, TRUE, $4, $5, $6, FALSE, $7, $8, $9) ON CONFLICT (key) DO NOTHING`,
		key[:], ch.URI, ch.Path, writeLength(ch.Length), writeSHA256(ch.Digests), writeDigests(ch.Digests), ch.Type, ch.Encoding, ch.Stat)
	if err != nil || n == 1 {
		return err
	}
	_, err = r.rewrite(key, ch) // a member of another set
	return err
}

func (r *recorder) update(key resourcesync.Key, ch *Change) error {
	n, err := r.exec("UPDATE member SET changed = $3, lastmod = $4, changefreq = $5, due = '', wanted = '', remainder = $6 WHERE set_id = $1 AND key = $2",
		r.set, key[:], r.at, writeDatetime(ch.LastMod), string(ch.ChangeFreq), writeText(ch.Remainder))
	if err != nil {
		return err
	}
	if n == 0 {
		return fmt.Errorf("%w: update of %q, which is no member", ErrState, ch.URI)
	}
	old, err := r.rewrite(key, ch)
	r.bytes += ch.Length.Int64() - old.length.Int64
	return err
}

// held is what is known of the bytes of a resource.
type held struct {
	path    string
	length  sql.NullInt64
	sha256  []byte
	digests string
}

// rewrite replaces what is known of the bytes of a resource, which it returns.
func (r *recorder) rewrite(key resourcesync.Key, ch *Change) (held, error) {
	old, err := r.held(key)
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("%w: %q is a member without a resource; %s", ErrDamaged, ch.URI, hint)
	}
	if err != nil {
		return old, err
	}
	now := held{ch.Path, writeLength(ch.Length), writeSHA256(ch.Digests), writeDigests(ch.Digests)}
	if !old.same(now) {
		if err := r.tellOthers(key, now.length.Int64-old.length.Int64, old.path); err != nil {
			return old, err
		}
	}
	if err := r.touch(old.path); err != nil {
		return old, err
	}
	_, err = r.exec(`UPDATE resource SET path = $2, stored = TRUE, length = $3, sha256 = $4, digests = $5,
		verified = FALSE, type = $6, encoding = $7, stat = $8 WHERE key = $1`,
		key[:], ch.Path, now.length, now.sha256, now.digests, ch.Type, ch.Encoding, ch.Stat)
	return old, err
}

func (r *recorder) held(key resourcesync.Key) (h held, err error) {
	row, err := r.row("SELECT path, length, sha256, digests FROM resource WHERE key = $1", key[:])
	if err == nil {
		err = row.Scan(&h.path, &h.length, &h.sha256, &h.digests)
	}
	return h, err
}

// same reports whether both are of the same bytes.
func (h held) same(o held) bool {
	if h.sha256 != nil && o.sha256 != nil {
		return h.length == o.length && bytes.Equal(h.sha256, o.sha256)
	}
	return h.length == o.length && h.digests == o.digests && h.sha256 == nil && o.sha256 == nil
}

// tellOthers marks the memberships in other sets of a resource whose bytes are not
// the recorded ones: those sets have this change yet to record. They would not find
// it by comparing, as what is known of the bytes is known to all sets.
func (r *recorder) tellOthers(key resourcesync.Key, longer int64, path string) error {
	n, err := r.exec("UPDATE member SET due = $3 WHERE key = $1 AND set_id <> $2", key[:], r.set, dueChanged)
	if err != nil || n == 0 {
		return err
	}
	const others = "(SELECT set_id FROM member WHERE key = $1 AND set_id <> $2)"
	if err := r.addBytes(others, longer, key[:], r.set); err != nil {
		return err
	}
	dir := resourcesync.KeyOf(DirOf(path))
	_, err = r.exec("DELETE FROM piece WHERE dir = $3 AND set_id IN "+others, key[:], r.set, dir[:])
	return err
}

func (r *recorder) remove(key resourcesync.Key, ch *Change) error {
	n, err := r.exec("DELETE FROM member WHERE set_id = $1 AND key = $2", r.set, key[:])
	if err != nil {
		return err
	}
	if n == 0 {
		return fmt.Errorf("%w: deletion of %q, which is no member", ErrState, ch.URI)
	}
	old, err := r.held(key)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	r.members--
	r.bytes -= old.length.Int64
	if err := r.touch(old.path); err != nil {
		return err
	}
	return r.drop(key)
}

func (r *recorder) log(ch *Change) (seq int64, err error) {
	var state Resource // a deletion says nothing of bytes
	if ch.Change != resourcesync.Deleted {
		state = ch.Resource
	}
	insert, err := r.stmt(`INSERT INTO change (set_id, datetime, change, uri, lastmod, length, digests, type, encoding, changefreq, remainder)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) RETURNING seq`)
	if err != nil {
		return 0, err
	}
	err = insert.QueryRowContext(r.ctx, r.set, r.at, string(ch.Change), ch.URI, writeDatetime(state.LastMod),
		writeLength(state.Length), state.Digests.String(), state.Type, state.Encoding, string(state.ChangeFreq), writeText(state.Remainder)).Scan(&seq)
	return seq, err
}

// Restat keeps Stat and Digests of resources whose bytes turned out to be the
// recorded ones, all or none. That is no change. A resource that is unknown is
// passed over.
func (c *Catalog) Restat(ctx context.Context, resources []Resource) error {
	return c.update(ctx, "keep file times in", func(tx *sql.Tx) error {
		s, err := tx.PrepareContext(ctx, "UPDATE resource SET stat = $2, sha256 = $3, digests = $4 WHERE key = $1")
		if err != nil {
			return err
		}
		defer s.Close()
		for i := range resources {
			r := &resources[i]
			key := resourcesync.KeyOf(r.URI)
			if _, err := s.ExecContext(ctx, key[:], r.Stat, writeSHA256(r.Digests), writeDigests(r.Digests)); err != nil {
				return err
			}
		}
		return nil
	})
}

// relabelSetting and the number of a set: how often Relabel called something else.
const relabelSetting = "relabelled "

// Relabel keeps Type, Encoding and ChangeFreq of members, all or none. That is no
// change, but Relabelled counts it. A resource that is no member is passed over.
func (c *Catalog) Relabel(ctx context.Context, set SetID, resources []Resource) error {
	return c.update(ctx, "keep what resources are called in", func(tx *sql.Tx) error {
		r := c.newRecorder(ctx, tx)
		defer r.close()
		for i := range resources {
			m := &resources[i]
			key := resourcesync.KeyOf(m.URI)
			n, err := r.exec("UPDATE member SET changefreq = $3 WHERE set_id = $1 AND key = $2", set, key[:], string(m.ChangeFreq))
			if err == nil && n == 1 {
				_, err = r.exec("UPDATE resource SET type = $2, encoding = $3 WHERE key = $1", key[:], m.Type, m.Encoding)
			}
			if err != nil {
				return err
			}
		}
		times, err := relabelled(ctx, tx, set)
		if err != nil {
			return err
		}
		return setSetting(ctx, tx, fmt.Sprint(relabelSetting, set), strconv.FormatInt(times+1, 10))
	})
}

// Relabelled returns how often Relabel was called of a set: by another number something
// may be called otherwise.
func (c *Catalog) Relabelled(ctx context.Context, set SetID) (int64, error) {
	times, err := relabelled(ctx, c.read, set)
	if err != nil {
		return 0, c.fail("read what resources are called in", err)
	}
	return times, nil
}

func relabelled(ctx context.Context, q querier, set SetID) (times int64, err error) {
	err = q.QueryRowContext(ctx, "SELECT CAST(value AS BIGINT) FROM setting WHERE name = $1", fmt.Sprint(relabelSetting, set)).Scan(&times)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return times, err
}

const changesQuery = `SELECT seq, datetime, change, uri, lastmod, length, digests, type, encoding, changefreq, remainder
	FROM change WHERE seq > $1 AND seq <= $4 AND set_id = $3 ORDER BY seq LIMIT $2`

// Changes yields the changes of a set with after < Seq <= through, in their order.
func (c *Catalog) Changes(ctx context.Context, set SetID, after, through int64) iter.Seq2[Change, error] {
	return listing(ctx, c, "list changes in", changesQuery, after, func(rows *sql.Rows, ch *Change) (any, error) {
		err := scanChange(rows, ch)
		return ch.Seq, err
	}, set, through)
}

func scanChange(rows *sql.Rows, ch *Change) error {
	var (
		datetime         int64
		length           sql.NullInt64
		lastmod, digests string
		remainder        sql.NullString
	)
	if err := rows.Scan(&ch.Seq, &datetime, &ch.Change, &ch.URI, &lastmod, &length, &digests, &ch.Type,
		&ch.Encoding, &ch.ChangeFreq, &remainder); err != nil {
		return err
	}
	ch.Remainder = remainder.String
	ch.Key, ch.Datetime, ch.Length = resourcesync.KeyOf(ch.URI), readTime(datetime), readLength(length)
	var err error
	if ch.Digests, err = readDigests(ch.URI, digests, nil); err != nil {
		return err
	}
	ch.LastMod, err = readDatetime(ch.URI, lastmod)
	return err
}

// LastSeq returns number and Datetime of the last change of a set; zero if it has none.
func (c *Catalog) LastSeq(ctx context.Context, set SetID) (int64, time.Time, error) {
	var seq, micros int64
	err := c.read.QueryRowContext(ctx, "SELECT seq, datetime FROM change WHERE set_id = $1 ORDER BY seq DESC LIMIT 1", set).
		Scan(&seq, &micros)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, time.Time{}, nil
	}
	if err != nil {
		return 0, time.Time{}, c.fail("read the change log of", err)
	}
	return seq, readTime(micros), nil
}

// CountChanges returns how many changes Changes would yield.
func (c *Catalog) CountChanges(ctx context.Context, set SetID, after, through int64) (int64, error) {
	var n int64
	err := c.read.QueryRowContext(ctx, "SELECT COUNT(*) FROM change WHERE set_id = $1 AND seq > $2 AND seq <= $3",
		set, after, through).Scan(&n)
	if err != nil {
		return 0, c.fail("count changes in", err)
	}
	return n, nil
}
