//go:build unix

package main

import (
	"os"
	"syscall"
)

// isOurs reports whether a file belongs to the current user and no other user may write it.
func isOurs(path string) bool {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o022 != 0 {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
