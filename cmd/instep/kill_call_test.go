//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// The system calls that write, name or make durable. Between two of them the disk stays as it is.
var writingCalls = []string{"pwrite64", "fsync", "syncfs", "linkat", "renameat", "unlinkat", "mkdirat", "ftruncate"}

// Wherever a synchronisation is killed, the mirror can be looked at, and the next one goes on.
// The first call of a kind and every 16th after it is tried, with -short every 64th, on "make kill" each.
func TestKillAtEachCall(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("SKIPPED: strace is not on PATH: nothing is killed at each system call")
	}
	if out, err := exec.Command(strace, "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: strace may not trace here: %v: %s", err, out)
	}
	every := 16
	switch {
	case os.Getenv("INSTEP_LONG") != "":
		every = 1
	case testing.Short():
		every = 64
	}
	c, site, dir := publishedSite(t, 60)
	base, first, mirror := c.URL+"/", filepath.Join(dir, "first"), filepath.Join(dir, "mirror")
	try := func(begin func()) {
		t.Helper()
		for _, call := range writingCalls {
			n := 1
			for ; ; n += every {
				begin()
				if !killedAt(t, strace, call, n, "sync", base, mirror) {
					break
				}
				mustDo(t, "sync", "-n", base, mirror)
				mustDo(t, "sync", base, mirror)
				sameTrees(t, site, mirror)
				if t.Failed() {
					t.Fatalf("killed at the %s number %d", call, n)
				}
			}
			t.Logf("%s: killed at %d of them", call, (n-1)/every)
		}
	}
	remove := func() {
		if err := os.RemoveAll(mirror); err != nil {
			t.Fatal(err)
		}
	}
	try(remove)

	mustDo(t, "sync", base, first)
	changeSome(t, site)
	mustDo(t, "publish", site, "--base-url", base, "--out", filepath.Join(dir, "docs"), "--state", filepath.Join(dir, "state"), "--max-delete", "50%")
	try(func() {
		remove()
		if err := os.CopyFS(mirror, os.DirFS(first)); err != nil {
			t.Fatal(err)
		}
	})
}

// changeSome changes, deletes and creates some of 60 files.
func changeSome(t *testing.T, site string) {
	t.Helper()
	for i := range 20 {
		path := filepath.Join(site, fmt.Sprintf("d%02d", i), fmt.Sprintf("f%05d.txt", i))
		var err error
		switch {
		case i < 10:
			err = os.WriteFile(path, fmt.Appendf(nil, "changed %d\n", i), 0o644)
		case i < 15:
			err = os.Remove(path)
		default:
			err = os.WriteFile(path+".new", fmt.Appendf(nil, "new %d\n", i), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// killedAt runs a command that is killed when it makes the nth call of a kind; false if it
// ended without.
func killedAt(t *testing.T, strace, call string, n int, args ...string) bool {
	t.Helper()
	cmd := command(t, args...)
	cmd.Args = append([]string{"strace", "-f", "-qq", "-o", os.DevNull, "-e", "trace=" + call,
		"-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", call, n), cmd.Path}, args...)
	cmd.Path = strace
	timer := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	out, err := cmd.CombinedOutput()
	if err == nil {
		return false
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL && status.ExitStatus() != 128+int(syscall.SIGKILL) {
		t.Fatalf("%s number %d: %v\n%s", call, n, err, out)
	}
	return true
}
