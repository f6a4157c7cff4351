//go:build unix

package mirror

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"instep/destination"
)

// What the umask leaves to other programs it leaves to a mirror; what is ours is closed.
func TestModesAreWhatTheUmaskGives(t *testing.T) {
	for mask, want := range map[int][2]fs.FileMode{0o022: {0o644, 0o755}, 0o027: {0o640, 0o750}, 0o002: {0o664, 0o775}} {
		dir := filepath.Join(t.TempDir(), "new", "mirror")
		func() {
			defer syscall.Umask(syscall.Umask(mask))
			m := openMirror(t, options(dir))
			commit(t, m, func(b destination.Batch) error {
				_, err := b.PutPart(t.Context(), set, wantedOfBody(home+"/d/part", "part", noon), begin(t, m, "part", "part"), true)
				if err == nil {
					_, err = b.Put(t.Context(), set, wantedOfBody(home+"/d/put", "put", noon), strings.NewReader("put"), true)
				}
				return err
			})
			commit(t, m, func(b destination.Batch) error { // replaces by another way
				_, err := b.Put(t.Context(), set, wantedOfBody(home+"/d/put", "again", noon), strings.NewReader("again"), true)
				return err
			})
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		}()
		for name, want := range map[string]fs.FileMode{
			"d/put": want[0], "d/part": want[0], "d": want[1], ".": want[1], "..": want[1], ours: oursMode,
		} {
			info, err := os.Lstat(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if got := info.Mode().Perm(); got != want {
				t.Errorf("umask %#o, %s: got %#o, want %#o", mask, name, got, want)
			}
		}
	}
}
