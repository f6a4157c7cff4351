package mirror

import "instep/internal/catalog/catalogtest"

// What a mirror needs is part of what the suite of a catalog holds implementations against.
var (
	_ facts        = catalogtest.Facts(nil)
	_ own          = catalogtest.Mirror(nil)
	_ contentNames = catalogtest.Mirror(nil)
)
