package catalog

import (
	"context"
	"fmt"
	"math"
)

// Count returns the number of members of a set, and the sum of their lengths, in which
// an unknown length counts as 0. Both numbers are stored, so Count is fast for large
// sets too.
func (c *Facts) Count(ctx context.Context, set SetID) (n, bytes int64, err error) {
	_, err = scanRow(c.reading(ctx, "count the members of a set in the catalog"), []any{&n, &bytes}, "SELECT members, bytes FROM sets WHERE id = $1", set)
	return n, bytes, err
}

func (r *recorder) count(set SetID, members, bytes int64) {
	r.exec("UPDATE sets SET members = members + $2 WHERE id = $1", set, members)
	r.addBytes("($1)", bytes, set)
}

// addBytes adds n to the recorded number of bytes of sets. It limits the sum, because
// lengths from documents may be so large that the sum would overflow.
func (r *recorder) addBytes(sets string, n int64, args ...any) {
	if n == 0 {
		return
	}
	least, most := int64(0), math.MaxInt64-n
	if n < 0 {
		least, most = -n, math.MaxInt64
	}
	i := len(args)
	r.exec(fmt.Sprintf("UPDATE sets SET bytes = MIN(MAX(bytes, $%d), $%d) + $%d WHERE id IN %s", i+1, i+2, i+3, sets), append(args, least, most, n)...)
}

// tally counts how many of the given resources each set has, and sums their lengths. It
// adds both numbers to counts, or subtracts them if sign is -1.
func (r *recorder) tally(rows []int64, counts map[SetID][2]int64, sign int64) {
	var set SetID
	var members, bytes int64
	r.lookup([]any{&set, &members, &bytes}, func() {
		n := counts[set]
		counts[set] = [2]int64{n[0] + sign*members, n[1] + sign*bytes}
	}, `SELECT m.set_id, COUNT(*), CAST(COALESCE(SUM(r.length), 0) AS BIGINT)
		FROM resource r CROSS JOIN member m ON m.resource = r.id WHERE r.id IN (KEYS) GROUP BY m.set_id`, "?", anys(rows))
}
