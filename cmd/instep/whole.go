package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"instep/internal/durable"
)

// writeWhole writes a file completely or not at all: it replaces the file at path only after all
// bytes of a temporary file are durable. The new file has the mode of the old one. If path is a
// symbolic link, the file to which the link leads is replaced.
func writeWhole(ctx context.Context, path string, write func(io.Writer) error) (err error) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	} else if _, err := os.Readlink(path); err == nil {
		return usagef("%s is a symbolic link to a file that does not exist; expected the name of a file", path)
	}
	var mode fs.FileMode
	switch info, err := os.Stat(path); {
	case err == nil && !info.Mode().IsRegular():
		return usagef("%s is not a regular file; expected the name of a regular file", path)
	case err == nil:
		mode = info.Mode().Perm()
	}
	root, err := os.OpenRoot(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return usagef("%s can't be written: the directory %s does not exist", path, filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	temp := ".instep-" + rand.Text()
	f, err := root.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return fmt.Errorf("create a temporary file beside %s: %w", path, err)
	}
	disk := durable.System(root)
	err = write(f)
	if err == nil && mode != 0 {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = disk.Sync(f)
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		in := &durable.Parents{Root: root}
		err = errors.Join(disk.Rename(in, temp, filepath.Base(path)), in.Forget())
	}
	if err != nil {
		return errors.Join(err, root.Remove(temp))
	}
	g, err := disk.NewGroup(root, 1)
	if err != nil {
		return err
	}
	return errors.Join(g.SyncDirs(ctx, []string{"."}), g.Close())
}
