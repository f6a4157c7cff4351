package main

import "github.com/dustin/go-humanize/english"

// counted returns a number with its unit: "1 file", "1,000 files".
func counted(n int64, what string) string { return english.Plural(int(n), what, "") }
