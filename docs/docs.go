// Package docs holds the guides, so that whoever has the program has them too.
package docs

import "embed"

// Files are the guides for people, and the schema of the records of --json.
//
//go:embed adopt.md configuration.md convert.md inputs.md library.md lint.md mirror.md on-demand.md ore.md promise.md simulate.md webmaster.md schema.json
var Files embed.FS
