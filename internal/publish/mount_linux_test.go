package publish

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"instep/internal/scan"
)

// A disk that is not there any more, at the top and further down.
func TestUnmountedDirectoryIsHeld(t *testing.T) {
	for _, at := range []string{"", "disk"} {
		t.Run("at "+at, func(t *testing.T) {
			w := newWorld(t)
			dir := filepath.Join(w.o.Dir, at)
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			mount := func() {
				t.Helper()
				err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m")
				if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENODEV) {
					t.Skipf("NOT TESTED: nothing can be mounted here: %v", err)
				}
				if err != nil {
					t.Fatal(err)
				}
				for _, name := range []string{"x", "y"} {
					if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
			unmount := func() {
				t.Helper()
				if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
					t.Fatal(err)
				}
			}
			if at != "" {
				w.fill(100)
			}
			mount()
			w.run()
			unmount()
			want := at
			if at == "" {
				want = "."
			}
			var held *scan.GuardError
			if _, err := w.try(); !errors.As(err, &held) || held.Mount != want || held.Deletes != 2 {
				t.Fatalf("got %v, want 2 deletions below %q held", err, want)
			}
			mount()
			if rep := w.run(); rep.Deleted != 0 {
				t.Errorf("mounted again: got %+v, want nothing deleted", rep)
			}
			unmount()
			w.set.MaxDelete = "100%"
			if rep := w.run(); rep.Deleted != 2 {
				t.Errorf("with a limit: got %+v, want 2 deleted", rep)
			}
			w.check()
		})
	}
}
