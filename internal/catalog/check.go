package catalog

import (
	"context"
	"fmt"
)

// Check reads the whole file and returns ErrDamaged if its structure is not
// sound. Open does not call it: it takes time in proportion to the size.
func (c *Catalog) Check(ctx context.Context) error {
	var verdict string
	if err := c.read.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict); err != nil {
		return c.fail("check", err)
	}
	if verdict != "ok" {
		return c.fail("check", fmt.Errorf("%w: %s; %s", ErrDamaged, verdict, hint))
	}
	return nil
}
