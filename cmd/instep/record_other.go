//go:build !unix

package main

import "net"

// listenPrivately makes a socket in a directory that says who can open it.
func listenPrivately(path string) (net.Listener, error) { return net.Listen("unix", path) }
