package main

import "github.com/dustin/go-humanize/english"

// counted returns a number and a noun, such as "1 file" or "1,000 files".
func counted(n int64, noun string) string { return english.Plural(int(n), noun, "") }
