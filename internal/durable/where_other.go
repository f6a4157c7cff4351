//go:build !linux

package durable

import "os"

// Where identifies the file system of root and the directory in it. On this system it
// returns "": unknown.
func Where(*os.Root) (string, error) { return "", nil }
