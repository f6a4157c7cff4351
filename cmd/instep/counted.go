package main

import "github.com/dustin/go-humanize/english"

// counted names a number of things: "1 file", "1,000 files".
func counted(n int64, what string) string { return english.Plural(int(n), what, "") }
