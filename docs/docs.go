// Package docs contains the pages of the documentation, so that the program can show them without
// the repository.
package docs

import "embed"

// FS contains the pages (NAME.md) and the JSON Schema of records.
//
//go:embed *.md schema.json
var FS embed.FS
