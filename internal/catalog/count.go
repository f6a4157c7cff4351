package catalog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"

	"instep/resourcesync"
)

// Count returns how many members a set has and how many bytes they have together;
// an unknown length counts as 0. It takes the same time for every set.
func (c *Catalog) Count(ctx context.Context, set SetID) (n, bytes int64, err error) {
	if err := c.current(ctx); err != nil {
		return 0, 0, err
	}
	err = c.read.QueryRowContext(ctx, "SELECT members, bytes FROM sets WHERE id = $1", set).Scan(&n, &bytes)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, 0, c.fail("count the members of a set in", err)
	}
	waiting := c.ledger.members(set)
	if len(waiting) == 0 {
		return n, bytes, nil
	}
	keys := make([]resourcesync.Key, len(waiting))
	for i := range waiting {
		keys[i] = waiting[i].Key
	}
	found, err := c.tables(ctx, set, keys) // another process may have had them follow
	if err != nil {
		return 0, 0, err
	}
	for i := range waiting {
		if !found[keys[i]].Member {
			n, bytes = n+1, bytes+max(waiting[i].Length.Int64(), 0)
		}
	}
	return n, bytes, nil
}

// count adds to the members of a set and their bytes.
func (r *recorder) count(set SetID, members, bytes int64) error {
	if _, err := r.exec("UPDATE sets SET members = members + $2 WHERE id = $1", set, members); err != nil {
		return err
	}
	return r.addBytes("($1)", bytes, set)
}

// addBytes adds to the bytes of sets. Lengths are what somebody says: their sum stays
// a number that can be held, whatever they are.
func (r *recorder) addBytes(sets string, n int64, args ...any) error {
	if n == 0 {
		return nil
	}
	least, most := int64(0), math.MaxInt64-n
	if n < 0 {
		least, most = -n, math.MaxInt64
	}
	i := len(args)
	_, err := r.exec(fmt.Sprintf("UPDATE sets SET bytes = MIN(MAX(bytes, $%d), $%d) + $%d WHERE id IN %s", i+1, i+2, i+3, sets), append(args, least, most, n)...)
	return err
}

// recount keeps the counts of all sets true while do changes memberships and
// resources with these keys, and adds counts, which are known already, to them.
func (r *recorder) recount(keys []resourcesync.Key, counts map[SetID][2]int64, do func() error) error {
	slices.SortFunc(keys, func(a, b resourcesync.Key) int { return slices.Compare(a[:], b[:]) })
	keys = slices.Compact(keys)
	if err := r.tally(keys, counts, -1); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	if err := r.tally(keys, counts, 1); err != nil {
		return err
	}
	for set, n := range counts {
		if err := r.count(set, n[0], n[1]); err != nil {
			return err
		}
	}
	return nil
}

// tally adds, times sign, the memberships with these keys and their bytes.
func (r *recorder) tally(keys []resourcesync.Key, counts map[SetID][2]int64, sign int64) error {
	for batch := range slices.Chunk(keys, lookupSize) {
		args := make([]any, len(batch))
		for i := range batch {
			args[i] = batch[i][:]
		}
		rows, err := r.query(`SELECT m.set_id, COUNT(*), CAST(COALESCE(SUM(r.length), 0) AS BIGINT)
			FROM member m JOIN resource r ON r.key = m.key WHERE m.key IN (`+placeholders(len(batch))+") GROUP BY m.set_id", args...)
		if err != nil {
			return err
		}
		for err == nil && rows.Next() {
			var set SetID
			var members, bytes int64
			if err = rows.Scan(&set, &members, &bytes); err == nil {
				n := counts[set]
				counts[set] = [2]int64{n[0] + sign*members, n[1] + sign*bytes}
			}
		}
		if err := errors.Join(err, rows.Err(), rows.Close()); err != nil {
			return err
		}
	}
	return nil
}
