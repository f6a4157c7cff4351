package main

import (
	"os"
	"runtime/debug"
)

// collectLess lets the heap grow to three times what is in use before it is collected,
// rather than to twice. A run holds a few megabytes, and collecting took a tenth of its
// time. Whoever sets GOGC knows better.
func collectLess() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(200)
	}
}
