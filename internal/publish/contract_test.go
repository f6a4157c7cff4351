package publish

import "instep/internal/catalog/catalogtest"

// What a publisher needs is part of what the suite of a catalog holds implementations against.
var (
	_ facts        = catalogtest.Facts(nil)
	_ publications = catalogtest.Publisher(nil)
)
