package catalog

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"time"
)

const (
	forgetRows = 5000 // changes that one transaction forgets
	// forgottenSetting and the number of a set: Datetime of the last change forgotten, in
	// microseconds since 1970.
	forgottenSetting = "forgotten "
)

// ForgetChanges removes the oldest changes of a set up to a number from the change log,
// except the last one, and returns how many it removed. It works in steps of some thousand
// and stops once it has removed most. After an error the completed steps stay.
func (c *Facts) ForgetChanges(ctx context.Context, set SetID, through, most int64) (n int64, err error) {
	for n < most {
		var some int64
		err := c.update(ctx, "forget changes in", func(tx *sql.Tx) (err error) {
			some, err = forgetSome(ctx, tx, set, through)
			return err
		})
		if err != nil || some == 0 {
			return n, err
		}
		n += some
	}
	return n, nil
}

func forgetSome(ctx context.Context, tx *sql.Tx, set SetID, through int64) (int64, error) {
	var last, at sql.NullInt64
	err := tx.QueryRowContext(ctx, `SELECT MAX(seq), MAX(datetime) FROM (SELECT seq, datetime FROM change WHERE set_id = $1 AND seq <= $2
		AND seq < (SELECT MAX(seq) FROM change WHERE set_id = $1) ORDER BY seq LIMIT $3)`, set, through, forgetRows).Scan(&last, &at)
	if err != nil || !last.Valid {
		return 0, err
	}
	res, err := tx.ExecContext(ctx, "DELETE FROM change WHERE set_id = $1 AND seq <= $2", set, last.Int64)
	if err != nil {
		return 0, err
	}
	if err := setSetting(ctx, tx, fmt.Sprint(forgottenSetting, set), strconv.FormatInt(at.Int64, 10)); err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// Forgotten returns the Datetime of the last change of a set that was forgotten: all
// later ones are in the change log. It is zero if all are.
func (c *Facts) Forgotten(ctx context.Context, set SetID) (time.Time, error) {
	name := fmt.Sprint(forgottenSetting, set)
	text, ok, err := c.Setting(ctx, name)
	if err != nil || !ok {
		return time.Time{}, err
	}
	micros, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("%w: setting %q: %w; %s", ErrDamaged, name, err, hint)
	}
	return readTime(micros), nil
}
