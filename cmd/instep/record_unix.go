//go:build unix

package main

import (
	"context"
	"net"
	"syscall"
)

// listenPrivately makes a socket with mode 0600 from its first moment: there is no
// other way than the umask, and no file of another mode is made meanwhile.
func listenPrivately(ctx context.Context, path string) (net.Listener, error) {
	defer syscall.Umask(syscall.Umask(0o177))
	return (&net.ListenConfig{}).Listen(ctx, "unix", path)
}
