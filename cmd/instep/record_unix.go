//go:build unix

package main

import (
	"context"
	"errors"
	"net"
	"syscall"
)

// abandoned reports whether the error of connecting to a socket means that no program listens on
// it.
func abandoned(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// listenPrivately sets the umask, since there is no other way to choose the mode at creation. No
// other file is created at that time.
func listenPrivately(ctx context.Context, path string) (net.Listener, error) {
	defer syscall.Umask(syscall.Umask(0o177))
	return (&net.ListenConfig{}).Listen(ctx, "unix", path)
}
