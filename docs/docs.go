// Package docs holds the pages of the documentation, so that the program can show them
// where the repository is not at hand.
package docs

import "embed"

// FS has the pages (NAME.md) and the schema of the JSON records.
//
//go:embed *.md schema.json
var FS embed.FS
