package scan

import "instep/internal/catalog/catalogtest"

// What a scan needs is part of what the suite of a catalog holds implementations against.
var (
	_ Facts = catalogtest.Facts(nil)
	_ Seen  = catalogtest.Publisher(nil)
)
