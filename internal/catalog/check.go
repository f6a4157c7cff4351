package catalog

import (
	"context"
	"fmt"
)

// Check reads the whole catalog and returns ErrDamaged if its structure is damaged. Open
// does not call Check, because reading a large catalog takes long.
func (c *Catalog) Check(ctx context.Context) error {
	verdict, _, err := queryValue[string](c.reading(ctx, "check the catalog"), "PRAGMA quick_check(1)")
	if err == nil && verdict != "ok" {
		err = c.fail("check the catalog", fmt.Errorf("%w: %s; %s", ErrDamaged, verdict, hint))
	}
	return err
}
