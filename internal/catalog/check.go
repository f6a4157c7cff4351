package catalog

import (
	"context"
	"fmt"
)

// Check reads the whole file, and returns ErrDamaged if its structure is damaged. Open
// does not call Check, which takes longer the larger the file is.
func (c *Catalog) Check(ctx context.Context) error {
	verdict, _, err := value[string](c.reading(ctx, "check the catalog"), "PRAGMA quick_check(1)")
	if err == nil && verdict != "ok" {
		err = c.fail("check the catalog", fmt.Errorf("%w: %s; %s", ErrDamaged, verdict, hint))
	}
	return err
}
