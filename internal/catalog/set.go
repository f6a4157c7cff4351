package catalog

import (
	"context"
	"database/sql"
	"errors"
)

// NamedSet is a set and its name.
type NamedSet struct {
	ID   SetID
	Name string
}

// Set returns the set called name and makes it if there is none.
func (c *Facts) Set(ctx context.Context, name string) (SetID, error) {
	const find = "SELECT id FROM sets WHERE name = $1"
	var id SetID
	err := c.read.QueryRowContext(ctx, find, name).Scan(&id)
	if err == nil {
		return id, nil
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return 0, c.fail("find a set in", err)
	}
	err = c.update(ctx, "make a set in", func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO sets (name) VALUES ($1) ON CONFLICT (name) DO NOTHING", name); err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, find, name).Scan(&id)
	})
	return id, err
}

// Sets returns all sets in the order in which they were made.
func (c *Facts) Sets(ctx context.Context) ([]NamedSet, error) {
	return rows(ctx, c.db, "list the sets of", func(r *sql.Rows) (s NamedSet, err error) {
		return s, r.Scan(&s.ID, &s.Name)
	}, "SELECT id, name FROM sets ORDER BY id")
}
