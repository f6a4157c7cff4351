package catalog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Setting returns the value kept under name; false if there is none.
func (c *Facts) Setting(ctx context.Context, name string) (string, bool, error) {
	var v string
	err := c.read.QueryRowContext(ctx, "SELECT value FROM setting WHERE name = $1", name).Scan(&v)
	if errors.Is(err, sql.ErrNoRows) {
		return "", false, nil
	}
	if err != nil {
		return "", false, c.fail("read a setting of", err)
	}
	return v, true, nil
}

// SetSettings keeps all values, or none.
func (c *Facts) SetSettings(ctx context.Context, values map[string]string) error {
	return c.update(ctx, "write settings of", func(tx *sql.Tx) error {
		return setSettings(ctx, tx, values)
	})
}

func setSettings(ctx context.Context, tx *sql.Tx, values map[string]string) error {
	for name, value := range values {
		if err := setSetting(ctx, tx, name, value); err != nil {
			return err
		}
	}
	return nil
}

func setSetting(ctx context.Context, tx *sql.Tx, name, value string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO setting (name, value) VALUES ($1, $2)
		ON CONFLICT (name) DO UPDATE SET value = excluded.value`, name, value)
	return err
}

// A catalog belongs to a mirror or to a publication, and has one of these settings.
const (
	MirrorSetting    = "source"   // Source of the mirror
	PublisherSetting = "base-url" // base URL of the publication
)

// UUID returns the identity of the catalog: it was given one when it was made.
func (c *Catalog) UUID(ctx context.Context) (string, error) {
	id, ok, err := c.Facts.Setting(ctx, UUIDSetting)
	if err == nil && !ok {
		err = c.fail("open", fmt.Errorf("%w: it has no UUID; %s", ErrDamaged, hint))
	}
	return id, err
}
