package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// disk is an ext4 file system of its own on which the power can be cut.
type disk struct {
	t            *testing.T
	image, mount string
}

func newDisk(t *testing.T, megabytes int64) *disk {
	t.Helper()
	if os.Getenv("INSTEP_LONG") == "" {
		t.Skip("SKIPPED: cutting the power takes a while; make powercut does it")
	}
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: cutting the power of a disk needs root")
	}
	dir := t.TempDir()
	d := &disk{t: t, image: filepath.Join(dir, "disk.img"), mount: filepath.Join(dir, "disk")}
	if err := os.Mkdir(d.mount, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(d.image)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(megabytes << 20); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", d.image).CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: no ext4 file system can be made: %v %s", err, out)
	}
	if out, err := exec.Command("mount", "-o", "loop", d.image, d.mount).CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: no loop device can be mounted: %v %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", d.mount).Run() })
	return d
}

// The ioctl that stops an ext4 file system as a power cut does: what was not synced is lost.
const (
	ext4Shutdown   = 0x8004587d
	shutdownNoLogs = 2
)

// cut stops the disk at once; what is not on it is gone.
func (d *disk) cut() {
	d.t.Helper()
	f, err := os.Open(d.mount)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	if err := unix.IoctlSetPointerInt(int(f.Fd()), ext4Shutdown, shutdownNoLogs); err != nil {
		d.t.Fatalf("stopping the disk: %v", err)
	}
}

// restart mounts the disk again, which replays its journal.
func (d *disk) restart() {
	d.t.Helper()
	for _, args := range [][]string{{"umount", d.mount}, {"mount", "-o", "loop", d.image, d.mount}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			d.t.Fatalf("%v: %v %s", args, err, out)
		}
	}
}

// TestPowerCut cuts the power of the mirror's disk while a baseline runs: what the
// program had reported as brought is there afterwards, whole.
func TestPowerCut(t *testing.T) {
	d := newDisk(t, 512)
	rng := killRandom(t)
	c, site, _ := publishedSite(t, 3000)
	base := c.URL + "/"

	cuts, acknowledged := 0, 0
	whole := timeOf(func() { mustDo(t, "sync", base, filepath.Join(d.mount, "whole")) })
	for round := range killRounds() {
		mirror := filepath.Join(d.mount, fmt.Sprint("mirror", round))
		brought := d.cutDuring(time.Duration(rng.Int64N(int64(whole))), "sync", base, mirror)
		cuts++
		acknowledged += len(brought)
		for _, uri := range brought {
			path := strings.TrimPrefix(uri, base)
			if same, err := sameFile(filepath.Join(site, path), filepath.Join(mirror, path)); err != nil || !same {
				t.Errorf("round %d: %s was reported as brought and is lost or torn after the power cut: %v", round, uri, err)
			}
		}
		mustDo(t, "sync", base, mirror)
		sameTrees(t, site, mirror)
		a := mustDo(t, "audit", base, mirror)
		t.Logf("round %d: %d resources reported before the cut, all there; then audit same=%d", round, len(brought), *a.Same)
		if err := os.RemoveAll(mirror); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d power cuts, %d resources reported before them, none lost or torn", cuts, acknowledged)
}

func timeOf(do func()) time.Duration {
	begin := time.Now()
	do()
	return time.Since(begin)
}

// cutDuring runs a command with --json, cuts the power after some time and returns
// the URIs that it had reported as created by then.
func (d *disk) cutDuring(after time.Duration, args ...string) (created []string) {
	d.t.Helper()
	cmd := command(d.t, append(args, "--json")...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		d.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	reported := make(chan []string, 1)
	go func() {
		var uris []string
		dec := json.NewDecoder(out)
		for {
			var r record
			if dec.Decode(&r) != nil {
				reported <- uris
				return
			}
			if r.Type == "change" {
				uris = append(uris, r.URI)
			}
		}
	}()
	<-time.After(after)
	d.cut()
	// What was written to the pipe before the cut counts; the program cannot report
	// more once its disk is gone.
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	created = <-reported
	d.restart()
	return created
}
