//go:build !unix

package main

import (
	"context"
	"net"
)

// listenPrivately makes a socket in a directory that says who can open it.
func listenPrivately(ctx context.Context, path string) (net.Listener, error) {
	return (&net.ListenConfig{}).Listen(ctx, "unix", path)
}
