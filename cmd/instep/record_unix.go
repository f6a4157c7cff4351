//go:build unix

package main

import (
	"context"
	"errors"
	"net"
	"syscall"
)

// abandoned reports whether err, of a connection to a socket, means that nobody listens
// there any more.
func abandoned(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// listenPrivately makes a socket with mode 0600 from its first moment: only the umask can
// do that, and no other file is created meanwhile.
func listenPrivately(ctx context.Context, path string) (net.Listener, error) {
	defer syscall.Umask(syscall.Umask(0o177))
	return (&net.ListenConfig{}).Listen(ctx, "unix", path)
}
