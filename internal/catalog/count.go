package catalog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Count returns how many members a set has and how many bytes they have together;
// an unknown length counts as 0. It takes the same time for every set.
func (c *Facts) Count(ctx context.Context, set SetID) (n, bytes int64, err error) {
	err = c.read.QueryRowContext(ctx, "SELECT members, bytes FROM sets WHERE id = $1", set).Scan(&n, &bytes)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, 0, c.fail("count the members of a set in", err)
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

// addBytes adds to the byte counts of sets. Lengths come from documents, so the sum is
// bounded to avoid an overflow.
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

// tally adds, times sign, the memberships of resources and their bytes.
func (r *recorder) tally(rows []int64, counts map[SetID][2]int64, sign int64) error {
	for some := range slices.Chunk(rows, lookupSize) {
		args := make([]any, len(some))
		for i, id := range some {
			args[i] = id
		}
		rows, err := r.query(`SELECT m.set_id, COUNT(*), CAST(COALESCE(SUM(r.length), 0) AS BIGINT)
			FROM resource r CROSS JOIN member m ON m.resource = r.id WHERE r.id IN (`+placeholders(len(some))+") GROUP BY m.set_id", args...)
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
