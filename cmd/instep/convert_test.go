//go:build unix

package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestConvertIsInterruptedWhileItsInputIsSilent stops convert while it waits for more
// of a document. What was at --out stays, and nothing else is left.
func TestConvertIsInterruptedWhileItsInputIsSilent(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out.xml")
	if err := syscall.Mkfifo(in, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(out, []byte("held"), 0o600); err != nil {
		t.Fatal(err)
	}
	reached := make(chan struct{})
	var pipe *os.File
	go func() {
		defer close(reached)
		var err error
		if pipe, err = os.OpenFile(in, os.O_WRONLY, 0); err != nil { // waits until convert has opened it
			t.Error(err)
			return
		}
		if _, err := pipe.WriteString("<urlset"); err != nil {
			t.Error(err)
		}
	}()
	code, stdout := interruptedAt(t, syscall.SIGINT, reached, "convert", in, "--out", out)
	if err := pipe.Close(); err != nil {
		t.Error(err)
	}
	if code != exitInterrupted {
		t.Errorf("exit code: got %d, want %d\n%s", code, exitInterrupted, stdout)
	}
	if held, err := os.ReadFile(out); err != nil || string(held) != "held" {
		t.Errorf("--out: got %q and %v, want what it held", held, err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// TestConvertWritesNothingWhereThereIsNoRoom has the result end at a full disk.
func TestConvertWritesNothingWhereThereIsNoRoom(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("SKIPPED: this system has no /dev/full")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	in := filepath.Join(t.TempDir(), "in.xml")
	doc := `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>https://museum.example.org/</loc></url></urlset>`
	if err := os.WriteFile(in, []byte(doc), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := command(t, "convert", in, "--up", "https://museum.example.org/c.xml", "--at", "2024")
	cmd.Stdout = full
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != exitFailed {
		t.Errorf("got %v, want exit code %d", err, exitFailed)
	}
}
