package flock

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

const helperEnv = "FLOCK_TEST_HOLD"

// TestMain lets the test binary are in for a second process that holds a lock
// until its standard input ends.
func TestMain(m *testing.M) {
	path := os.Getenv(helperEnv)
	if path == "" {
		os.Exit(m.Run())
	}
	if _, err := Acquire(path); err != nil {
		os.Exit(1)
	}
	os.Stdout.WriteString("held\n")
	os.Stdin.Read(make([]byte, 1))
}

func TestSecondHolderIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	l, err := Acquire(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Acquire(path)
	var locked *LockedError
	if !errors.As(err, &locked) || locked.PID != os.Getpid() || locked.Host == "" || locked.Path != path {
		t.Fatalf("second Acquire: got %#v, want *LockedError of this process", err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	again, err := Acquire(path)
	if err != nil {
		t.Fatalf("Acquire after Release: %v", err)
	}
	if err := again.Release(); err != nil {
		t.Fatal(err)
	}
}

func TestLockIsFreedWhenItsHolderIsKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperEnv+"="+path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("the other process said %q, %v", line, err)
	}
	_, err = Acquire(path)
	var locked *LockedError
	if !errors.As(err, &locked) || locked.PID != cmd.Process.Pid {
		t.Fatalf("got %v, want a lock held by process %d", err, cmd.Process.Pid)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait() // reports the kill
	l, err := Acquire(path)
	if err != nil {
		t.Fatalf("Acquire after the holder was killed: %v", err)
	}
	l.Release()
}

func TestLockFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "lock")
	if err := os.Symlink(victim, path); err != nil {
		t.Skipf("SKIPPED: no symbolic links here: %v", err)
	}
	if _, err := Acquire(path); err == nil {
		t.Error("Acquire followed a symbolic link")
	}
	got, err := os.ReadFile(victim)
	if err != nil || string(got) != "precious" {
		t.Errorf("got %q, %v, want the file untouched", got, err)
	}
}

func TestSharedLockWritesNothingAndKeepsHoldersAway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if _, err := Share(path); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("Share of an absent file: got %v, want ErrNotExist", err)
	}
	l, err := Acquire(path)
	if err != nil {
		t.Fatal(err)
	}
	var locked *LockedError
	if _, err := Share(path); !errors.As(err, &locked) {
		t.Fatalf("Share of a held lock: got %v, want *LockedError", err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	a, err := Share(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Share(path)
	if err != nil {
		t.Fatalf("second Share: %v", err)
	}
	if _, err := Acquire(path); !errors.As(err, &locked) {
		t.Fatalf("Acquire of a shared lock: got %v, want *LockedError", err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != 0 {
		t.Errorf("the lock file is %d bytes, %v; want it empty", info.Size(), err)
	}
	a.Release()
	b.Release()
}

// While a holder runs, its lock file may be removed, or replaced by another file.
func TestALockWhoseFileWasRemovedIsStillHeld(t *testing.T) {
	replace := func(path string) error { return os.WriteFile(path, nil, 0o600) }
	for name, after := range map[string]func(string) error{"removed": func(string) error { return nil }, "replaced": replace} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "lock")
			l, err := Acquire(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(os.Remove(path), after(path)); err != nil {
				t.Skipf("SKIPPED: the system keeps the file of a lock: %v", err)
			}
			var locked *LockedError
			if _, err := Acquire(path); !errors.As(err, &locked) {
				t.Errorf("Acquire: got %v, want *LockedError", err)
			}
			if _, err := Share(path); !errors.As(err, &locked) {
				t.Errorf("Share: got %v, want *LockedError", err)
			}
			if err := l.Release(); err != nil {
				t.Fatal(err)
			}
			again, err := Acquire(path)
			if err != nil {
				t.Fatalf("Acquire after Release: %v", err)
			}
			again.Release()
		})
	}
}

// A process opened the lock file before somebody removed it, and locks it afterwards.
func TestALockIsOfTheFileAtItsPath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	l := &Lock{f: f}
	if same, err := l.locksFileAt(path); err != nil || !same {
		t.Errorf("got %v, %v, want that the file is at its path", same, err)
	}
	if err := os.Rename(path, path+".gone"); err != nil {
		t.Skipf("SKIPPED: the system keeps the file of a lock: %v", err)
	}
	if same, err := l.locksFileAt(path); err != nil || same {
		t.Errorf("removed: got %v, %v, want that no file is there", same, err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if same, err := l.locksFileAt(path); err != nil || same {
		t.Errorf("replaced: got %v, %v, want that it is another file", same, err)
	}
}

func TestADirectoryIsLockedByOneAtATime(t *testing.T) {
	dir := t.TempDir()
	l, err := Dir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if l.dir == nil {
		t.Skip("SKIPPED: the system doesn't lock directories")
	}
	var locked *LockedError
	if _, err := Dir(dir); !errors.As(err, &locked) {
		t.Errorf("got %v, want *LockedError", err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	if l, err = Dir(dir); err != nil {
		t.Fatal(err)
	}
	l.Release()
}
