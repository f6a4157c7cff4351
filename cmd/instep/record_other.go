//go:build !unix

package main

import (
	"context"
	"net"
)

// abandoned reports whether the error of a connection to a socket means that no program
// listens on it. On this system every error is taken for that.
func abandoned(error) bool { return true }

// listenPrivately creates a socket. On this system only the permissions of its directory
// restrict who can open the socket.
func listenPrivately(ctx context.Context, path string) (net.Listener, error) {
	return (&net.ListenConfig{}).Listen(ctx, "unix", path)
}
