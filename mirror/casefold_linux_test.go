package mirror

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"instep/destination"
)

// folding are file systems that take names for one which differ in case: by what makes one
// in a file, mounts it, and makes a directory of it fold.
var folding = map[string][][]string{
	"ext4": {{"mkfs.ext4", "-q", "-O", "casefold", "IMAGE"}, {"mount", "-o", "loop", "IMAGE", "TOP"}, {"mkdir", "DIR"}, {"chattr", "+F", "DIR"}},
	"ntfs": {{"mkntfs", "-q", "-F", "-f", "IMAGE"}, {"lowntfs-3g", "-o", "ignore_case,windows_names", "IMAGE", "TOP"}, {"mkdir", "DIR"}},
}

// mountFolding returns a directory on such a file system.
func mountFolding(t *testing.T, commands [][]string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: a file system that folds names is mounted by root only")
	}
	temp := t.TempDir()
	at := map[string]string{"IMAGE": filepath.Join(temp, "image"), "TOP": filepath.Join(temp, "mounted")}
	at["DIR"] = filepath.Join(at["TOP"], "mirror")
	f, err := os.Create(at["IMAGE"])
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(64<<20), f.Close()); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(at["TOP"], 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = exec.Command("umount", at["TOP"]).Run() }) // else it was not mounted
	for _, command := range commands {
		var args []string
		for _, arg := range command[1:] {
			if name, ok := at[arg]; ok {
				arg = name
			}
			args = append(args, arg)
		}
		if out, err := exec.Command(command[0], args...).CombinedOutput(); err != nil {
			t.Skipf("SKIPPED: a mirror where %s folds names, which needs ntfs-3g, or CONFIG_UNICODE in the kernel: %v: %s", command[0], err, out)
		}
	}
	return at["DIR"]
}

// TestCat_STO_02_copied is TestCat_STO_02_elsewhere on file systems that do fold.
func TestCat_STO_02_copied(t *testing.T) {
	for name, commands := range folding {
		t.Run(name, func(t *testing.T) {
			to := mountFolding(t, commands)
			from := t.TempDir()
			fillKind(t, from)
			if out, err := exec.Command("cp", "-r", from+"/.", to).CombinedOutput(); err != nil {
				t.Logf("cp: %v\n%s", err, out) // a file stands where a directory should, or a name is refused
			}
			m := openMirror(t, options(to))
			defer m.Close()
			if !m.names.Case {
				t.Fatalf("found out: %+v", *m.names)
			}
			due := wantNoneLost(t, m)
			t.Logf("by %+v these are due: %q", *m.names, due)
			if len(due) == 0 || len(due) > len(kindNames)/2+2 {
				t.Errorf("due: %q", due)
			}
			commit(t, m, func(b destination.Batch) error {
				for _, name := range due {
					if err := put(b, set, name, bodyOfName(name), noon); err != nil {
						return err
					}
				}
				return nil
			})
			if left := wantNoneLost(t, m); len(left) > 0 {
				t.Errorf("still due: %q", left)
			}
		})
	}
}

// A mirror that begins where names are folded has no clash, and one name for each URI.
func TestAMirrorBeginsWhereNamesAreFolded(t *testing.T) {
	for name, commands := range folding {
		t.Run(name, func(t *testing.T) {
			dir := mountFolding(t, commands)
			fillKind(t, dir)
			m := openMirror(t, options(dir))
			defer m.Close()
			if due := wantNoneLost(t, m); len(due) > 0 {
				t.Errorf("due: %q", due)
			}
		})
	}
}
