//go:build unix

package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// target is a new directory for a program to copy a set into. Nothing is removed that has
// many files: ext4 looks at every inode that was freed in the last minutes before it makes
// a file.
func (s *site) target(set, program string) (string, error) {
	s.serial++
	dir := s.path("targets", fmt.Sprintf("%s-%s-%s%d", set, program, s.side, s.serial))
	if set == largeSet {
		if err := os.RemoveAll(s.latest[set+program]); err != nil {
			return "", err
		}
	}
	s.latest[set+program] = dir
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	return dir, s.calm(set)
}

// calm reads what is served of a set, and writes what is not written yet, the times of that
// reading among it: nobody pays for the row before, for what the Source has changed on its
// own disk, or for a disk on which the server has to look for what some system has taken
// for idle.
func (s *site) calm(set string) error {
	if err := errors.Join(readAll(s.tree(set)), readAll(s.docs(set))); err != nil {
		return err
	}
	_, err := output(exec.Command("sync"))
	return err
}

// readAll reads every file below a directory.
func readAll(dir string) error {
	tree := os.DirFS(dir)
	return fs.WalkDir(tree, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		f, err := tree.Open(name)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, f)
		return errors.Join(err, f.Close())
	})
}

// clock measures a command from its start to its end.
func clock(cmd *exec.Cmd, env ...string) (spent, []byte, error) {
	begin := time.Now()
	out, err := output(cmd, env...)
	took := spent{Seconds: time.Since(begin).Seconds()}
	if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok && runtime.GOOS == "linux" {
		took.RSS = uint64(u.Maxrss) << 10
	}
	return took, out, err
}

// sync measures a run of the binary, which has to do so many resources.
func (s *site) sync(set, dir string, want int, more ...string) (spent, error) {
	args := append([]string{"sync", "--json", "--workers", "32"}, more...)
	took, out, err := clock(exec.Command(s.program, append(args, s.source(set), dir)...))
	if err != nil {
		return took, err
	}
	sum, err := lastRecord(out)
	if err != nil {
		return took, err
	}
	took.Requests = sum.Requests
	if got := sum.Created + sum.Updated; got != int64(want) || sum.Failed != 0 {
		return took, fmt.Errorf("%d resources were brought and %d failed, want %d", got, sum.Failed, want)
	}
	return took, nil
}

// summary is the part of the last record of a run that the rows look at.
type summary struct{ Same, Created, Updated, Failed, Requests int64 }

// lastRecord reads the summary at the end of a run's records.
func lastRecord(out []byte) (sum summary, err error) {
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	err = json.Unmarshal(lines[len(lines)-1], &sum)
	return sum, err
}

// fresh measures a baseline.
func (s *site) fresh(set string, want int) (spent, error) {
	dir, err := s.target(set, "sync")
	if err != nil {
		return spent{}, err
	}
	return s.sync(set, dir, want)
}

func (s *site) baseline() (spent, error)       { return s.fresh(smallSet, s.Small) }
func (s *site) baselinePacked() (spent, error) { return s.fresh(packedSet, s.Small) }
func (s *site) baselineLarge() (spent, error)  { return s.fresh(largeSet, s.Large) }
func (s *site) farByGet() (spent, error)       { return s.fresh(farSet, s.Far) }
func (s *site) farByDump() (spent, error)      { return s.fresh(dumpSet, s.Far) }

// mirror is the latest one of a set.
func (s *site) mirror(set string) string {
	if set == hugeSet {
		return s.path("targets", s.side+hugeSet)
	}
	return s.latest[set+"sync"]
}

// incremental follows the mirror that baseline has made.
func (s *site) incremental() (spent, error) {
	if err := s.calm(smallSet); err != nil {
		return spent{}, err
	}
	return s.sync(smallSet, s.mirror(smallSet), (s.Small+99)/100)
}

func (s *site) idle() (spent, error) { return s.sync(smallSet, s.mirror(smallSet), 0) }

// auditSoon audits the mirror that baseline has just made.
func (s *site) auditSoon() (spent, error) { return s.audit(smallSet) }

// auditLater audits it when the page cache holds all of it and nothing waits to be written.
func (s *site) auditLater() (spent, error) {
	if err := errors.Join(readAll(s.mirror(smallSet)), s.calm(smallSet)); err != nil {
		return spent{}, err
	}
	return s.audit(smallSet)
}

// audit measures an audit of the latest mirror of a set, which has to find all of it and
// no difference: anything else is an error of the program.
func (s *site) audit(set string) (spent, error) {
	took, out, err := clock(exec.Command(s.program, "audit", "--json", s.source(set), s.mirror(set)))
	if err != nil {
		return took, err
	}
	sum, err := lastRecord(out)
	if took.Requests = sum.Requests; err == nil && sum.Same != int64(s.Small) {
		err = fmt.Errorf("%d resources are the same, want %d", sum.Same, s.Small)
	}
	return took, err
}

func (s *site) curlSmall() (spent, error) { return s.curl(smallSet) }
func (s *site) curlLarge() (spent, error) { return s.curl(largeSet) }

func (s *site) curl(set string) (spent, error) {
	program, err := exec.LookPath("curl")
	if err != nil {
		return spent{}, errMissing{"apt-get install curl"}
	}
	dir, err := s.target(set, "curl")
	if err != nil {
		return spent{}, err
	}
	names, err := s.names(set)
	if err != nil {
		return spent{}, err
	}
	var config strings.Builder
	for _, name := range names {
		fmt.Fprintf(&config, "url = %q\noutput = %q\n", s.base(set)+name, filepath.Join(dir, name))
	}
	if err := os.WriteFile(s.path("curl.cfg"), []byte(config.String()), 0o644); err != nil {
		return spent{}, err
	}
	const script = `"$0" --silent --show-error --fail --create-dirs --parallel --parallel-max 32 -K "$1" && sync -f "$2"`
	took, _, err := clock(exec.Command("sh", "-c", script, program, s.path("curl.cfg"), dir))
	took.RSS = 0 // of the shell
	return took, err
}

// reference is the client of the authors of ResourceSync. It takes the list that
// sitemaps have, and compares lengths and times.
func (s *site) reference() (spent, error) {
	program, err := exec.LookPath("resync-sync")
	if err != nil {
		return spent{}, errMissing{"pip install resync"}
	}
	dir, err := s.target(smallSet, "reference")
	if err != nil {
		return spent{}, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return spent{}, err
	}
	cmd := exec.Command(program, "--baseline", "--noauth", "--sitemap", s.base(smallSet)+"resourcesync/resourcelist.xml", s.base(smallSet), filepath.Join(dir, "tree"))
	cmd.Dir = dir // it keeps its state there
	took, _, err := clock(cmd)
	return took, err
}

func (s *site) wget() (spent, error) {
	program, err := exec.LookPath("wget")
	if err != nil {
		return spent{}, errMissing{"apt-get install wget"}
	}
	dir, err := s.target(smallSet, "wget")
	if err != nil {
		return spent{}, err
	}
	names, err := s.names(smallSet)
	if err != nil {
		return spent{}, err
	}
	list := s.base(smallSet) + strings.Join(names, "\n"+s.base(smallSet)) + "\n"
	if err := os.WriteFile(s.path("wget.txt"), []byte(list), 0o644); err != nil {
		return spent{}, err
	}
	took, _, err := clock(exec.Command(program, "--quiet", "--force-directories", "--directory-prefix", dir, "--input-file", s.path("wget.txt")))
	return took, err
}

func (s *site) rclone() (spent, error) {
	program, err := exec.LookPath("rclone")
	if err != nil {
		return spent{}, errMissing{"apt-get install rclone"}
	}
	dir, err := s.target(smallSet, "rclone")
	if err != nil {
		return spent{}, err
	}
	took, _, err := clock(exec.Command(program, "copy", "--config", os.DevNull, "--http-url", s.base(smallSet), "--http-no-head",
		"--transfers", "32", "--checkers", "32", ":http:", dir))
	return took, err
}
