//go:build !unix

package main

import (
	"context"
	"net"
)

// abandoned returns true, because on this system errors do not show whether a program listens on
// the socket.
func abandoned(error) bool { return true }

// listenPrivately cannot set the mode of the socket on this system. Only the permissions of its
// directory restrict who can open the socket.
func listenPrivately(ctx context.Context, path string) (net.Listener, error) {
	return (&net.ListenConfig{}).Listen(ctx, "unix", path)
}
