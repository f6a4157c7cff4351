//go:build unix

package main

import (
	"context"
	"errors"
	"net"
	"syscall"
)

// abandoned reports whether err, of a connection to a socket, means that nobody listens
// any more.
func abandoned(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// listenPrivately creates a socket with mode 0600. Only the umask sets the mode at
// creation; it affects no other file, since none is created meanwhile.
func listenPrivately(ctx context.Context, path string) (net.Listener, error) {
	defer syscall.Umask(syscall.Umask(0o177))
	return (&net.ListenConfig{}).Listen(ctx, "unix", path)
}
