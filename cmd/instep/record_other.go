//go:build !unix

package main

import (
	"context"
	"net"
)

// abandoned reports whether err, of a connection to a socket, means that nobody listens
// any more. On this system every error does.
func abandoned(error) bool { return true }

// listenPrivately creates a socket in a directory whose permissions restrict who can
// open it.
func listenPrivately(ctx context.Context, path string) (net.Listener, error) {
	return (&net.ListenConfig{}).Listen(ctx, "unix", path)
}
