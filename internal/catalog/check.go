package catalog

import (
	"context"
	"fmt"
)

// Check reads the whole file and returns ErrDamaged if its structure is not
// sound. Open does not call it: it takes time in proportion to the size.
func (c *Catalog) Check(ctx context.Context) error {
	verdict, _, err := value[string](c.reading(ctx, "check"), "PRAGMA quick_check(1)")
	if err == nil && verdict != "ok" {
		err = c.fail("check", fmt.Errorf("%w: %s; %s", ErrDamaged, verdict, hint))
	}
	return err
}
