//go:build unix

package main

import (
	"context"
	"errors"
	"net"
	"syscall"
)

// abandoned reports whether no program listens on a socket, if a connection to it fails with the
// given error.
func abandoned(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// listenPrivately creates a socket with mode 0600. It sets the umask for that, since there
// is no other way to choose the mode at creation. No other file is created at that time.
func listenPrivately(ctx context.Context, path string) (net.Listener, error) {
	defer syscall.Umask(syscall.Umask(0o177))
	return (&net.ListenConfig{}).Listen(ctx, "unix", path)
}
