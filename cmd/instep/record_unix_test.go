//go:build unix

package main

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// A socket that nobody listens on any more is replaced, one that is in use is not.
func TestSocketsOfOthersStay(t *testing.T) {
	dir, err := os.MkdirTemp("", "sock") // not t.TempDir: the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "log")
	other, err := net.ListenPacket("unixgram", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	if ln, err := listenUnix(t.Context(), path); err == nil {
		ln.Close()
		t.Error("the socket of another program was replaced")
	} else if !errors.As(err, new(*usageError)) {
		t.Errorf("got %v, want a *usageError", err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the socket of another program: %v", err)
	}

	left := filepath.Join(dir, "left")
	old, err := net.ListenUnix("unix", &net.UnixAddr{Name: left, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	old.SetUnlinkOnClose(false)
	old.Close()
	ln, err := listenUnix(t.Context(), left)
	if err != nil {
		t.Fatalf("a socket that was left behind: %v", err)
	}
	ln.Close()
}
