package catalog

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"strings"
	"syscall"
)

// FileName is the file name of the catalog in a state directory.
const FileName = "catalog.db"

// A catalog is recognised by the first headerSize bytes of the file.
const (
	headerSize = 72
	appIDAt    = 68 // offset of the application id in the file, in bytes
	magic      = "SQLite format 3\x00"
)

// IsState reports whether a directory is a state directory, which means that it contains
// a catalog. A state directory must not be published or served, and no resource may be
// stored in it. IsState accesses files only with the functions lstat and open.
func IsState[F io.ReadCloser](dir string, lstat func(string) (fs.FileInfo, error), open func(string) (F, error)) (bool, error) {
	name := dir + "/" + FileName
	if dir == "." {
		name = FileName
	}
	info, err := lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENAMETOOLONG):
		return false, nil
	case err != nil:
		return false, inDir(err, dir)
	case !info.Mode().IsRegular():
		return false, nil
	}
	f, err := open(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	head := make([]byte, headerSize)
	_, err = io.ReadFull(f, head)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return false, nil
	}
	return err == nil && string(head[:len(magic)]) == magic && binary.BigEndian.Uint32(head[appIDAt:]) == applicationID, err
}

// inDir replaces the path in an error with the directory in which a catalog was looked for.
func inDir(err error, dir string) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: pe.Op, Path: dir, Err: pe.Err}
	}
	return err
}

// IsStateName reports whether this program uses a name directly in a state directory:
// for the catalog, logs, locks, records of runs, cached documents of a mirror, or files
// of a publisher. No such name contains "~", because mirrors use "~" in names that they
// invent.
func IsStateName(name string) bool {
	for _, own := range []string{"lock", "runs", "documents", "staging", "content"} {
		if strings.EqualFold(name, own) {
			return true
		}
	}
	return strings.HasPrefix(strings.ToLower(name), FileName) && !strings.Contains(name, "~")
}
