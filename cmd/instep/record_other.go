//go:build !unix

package main

import (
	"context"
	"net"
)

// abandoned reports whether err, of a connection to a socket, means that nobody listens
// there any more: there is no other kind here.
func abandoned(error) bool { return true }

// listenPrivately makes a socket in a directory whose permissions say who can open it.
func listenPrivately(ctx context.Context, path string) (net.Listener, error) {
	return (&net.ListenConfig{}).Listen(ctx, "unix", path)
}
