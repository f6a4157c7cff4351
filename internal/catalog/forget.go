package catalog

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// forgetRows is the largest number of changes or states that one transaction deletes.
const forgetRows = 5000

// forgottenSetting names the setting with the Datetime of the last change that
// ForgetChanges deleted in the log of a set, in microseconds since 1970.
func forgottenSetting(set SetID) string { return fmt.Sprint("forgotten ", set) }

// ForgetChanges deletes the oldest changes of a set in the log, and returns how many it
// deleted. It keeps changes with a Seq greater than lastSeq, and always the last change
// of the set. Each transaction deletes at most forgetRows (5000) changes. ForgetChanges
// stops when it has deleted limit changes or more. After an error, the changes of
// earlier transactions stay deleted.
func (c *Facts) ForgetChanges(ctx context.Context, set SetID, lastSeq, limit int64) (n int64, err error) {
	for n < limit {
		var some int64
		err := c.transact(ctx, "forget changes in the catalog", func(r *recorder) {
			var last, moment sql.NullInt64
			r.scanRow([]any{&last, &moment}, `SELECT MAX(seq), MAX(datetime) FROM (SELECT seq, datetime FROM change WHERE set_id = $1 AND seq <= $2
				AND seq < (SELECT MAX(seq) FROM change WHERE set_id = $1) ORDER BY seq LIMIT $3)`, set, lastSeq, forgetRows)
			if last.Valid {
				r.storeNumber(forgottenSetting(set), moment.Int64)
				some = r.exec("DELETE FROM change WHERE set_id = $1 AND seq <= $2", set, last.Int64)
			}
		})
		if err != nil || some == 0 {
			return n, err
		}
		n += some
	}
	return n, nil
}

// Forgotten returns the Datetime of the last change that ForgetChanges deleted in the
// log of a set, so the log has all later changes. It is zero if nothing was deleted.
func (c *Facts) Forgotten(ctx context.Context, set SetID) (time.Time, error) {
	micros, _, err := readNumber(c.reading(ctx, "read the change log of the catalog"), forgottenSetting(set))
	return readMicros(micros), err
}
