//go:build !unix

package main

// isOurs reports whether a file belongs to the user who runs this: that is not known here.
func isOurs(string) bool { return false }
