package catalog

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// forgetRows is the number of changes, or states, that one transaction removes.
const forgetRows = 5000

// forgottenSetting returns the name of the setting with the Datetime of the last
// removed change of a set, in microseconds since 1970.
func forgottenSetting(set SetID) string { return fmt.Sprint("forgotten ", set) }

// ForgetChanges removes the oldest changes of a set up to the number through, except
// the last change of the set, and returns how many it removed. It works in transactions
// of some thousand changes and stops after most changes. After an error, the completed
// transactions are kept.
func (c *Facts) ForgetChanges(ctx context.Context, set SetID, through, most int64) (n int64, err error) {
	for n < most {
		var some int64
		err := c.transact(ctx, "forget changes in the catalog", func(r *recorder) {
			var last, at sql.NullInt64
			r.first([]any{&last, &at}, `SELECT MAX(seq), MAX(datetime) FROM (SELECT seq, datetime FROM change WHERE set_id = $1 AND seq <= $2
				AND seq < (SELECT MAX(seq) FROM change WHERE set_id = $1) ORDER BY seq LIMIT $3)`, set, through, forgetRows)
			if last.Valid {
				r.keepNumber(forgottenSetting(set), at.Int64)
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

// Forgotten returns the Datetime of the last change of a set that ForgetChanges
// removed: the change log has all later ones. It is zero if nothing was removed.
func (c *Facts) Forgotten(ctx context.Context, set SetID) (time.Time, error) {
	micros, _, err := number(c.reading(ctx, "read the change log of the catalog"), forgottenSetting(set))
	return readMicros(micros), err
}
