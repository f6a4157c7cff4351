package catalog

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

const (
	forgetRows = 5000 // number of changes, or states, that one transaction removes
	// forgottenSetting, followed by the number of a set, is the name of the setting
	// with the Datetime of the last removed change, in microseconds since 1970.
	forgottenSetting = "forgotten "
)

// ForgetChanges removes the oldest changes of a set up to the number through, except
// the last change of the set, and returns how many it removed. It works in transactions
// of some thousand changes and stops after most changes. After an error, the completed
// transactions are kept.
func (c *Facts) ForgetChanges(ctx context.Context, set SetID, through, most int64) (n int64, err error) {
	for n < most {
		var some int64
		err := c.transact(ctx, "forget changes in the catalog", func(r *recorder) (err error) {
			some, err = r.forgetSome(set, through)
			return err
		})
		if err != nil || some == 0 {
			return n, err
		}
		n += some
	}
	return n, nil
}

func (r *recorder) forgetSome(set SetID, through int64) (int64, error) {
	var last, at sql.NullInt64
	_, err := first(r, []any{&last, &at}, `SELECT MAX(seq), MAX(datetime) FROM (SELECT seq, datetime FROM change WHERE set_id = $1 AND seq <= $2
		AND seq < (SELECT MAX(seq) FROM change WHERE set_id = $1) ORDER BY seq LIMIT $3)`, set, through, forgetRows)
	if err != nil || !last.Valid {
		return 0, err
	}
	if err := r.keepNumber(fmt.Sprint(forgottenSetting, set), at.Int64); err != nil {
		return 0, err
	}
	return r.exec("DELETE FROM change WHERE set_id = $1 AND seq <= $2", set, last.Int64)
}

// Forgotten returns the Datetime of the last change of a set that ForgetChanges
// removed: the change log has all later ones. It is zero if nothing was removed.
func (c *Facts) Forgotten(ctx context.Context, set SetID) (time.Time, error) {
	micros, _, err := number(c.reading(ctx, "read the change log of the catalog"), fmt.Sprint(forgottenSetting, set))
	return readMicros(micros), err
}
