package catalog

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"strings"
	"syscall"
)

// FileName is the name of the catalog in a state directory.
const FileName = "catalog.db"

// headerSize is the number of bytes of a SQLite file that identify a catalog.
const (
	headerSize = 72
	appIDAt    = 68 // offset of the application id
	magic      = "SQLite format 3\x00"
)

// IsState reports whether a directory is a state directory, which has a catalog. It must be
// neither published nor served, and no resource may be stored there. lstat and open are
// those of the tree that the directory is in.
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
	return IsHeader(f)
}

// inDir makes an error name the directory that was searched, since there may be no
// catalog in it.
func inDir(err error, dir string) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: pe.Op, Path: dir, Err: pe.Err}
	}
	return err
}

// IsHeader reports whether r begins with the header of a catalog.
func IsHeader(r io.Reader) (bool, error) {
	head := make([]byte, headerSize)
	_, err := io.ReadFull(r, head)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return false, nil
	}
	return err == nil && string(head[:len(magic)]) == magic && binary.BigEndian.Uint32(head[appIDAt:]) == applicationID, err
}

// IsStateName reports whether a name directly in a state directory is one of this program:
// the catalog and its logs, locks, records of runs, cached documents of a mirror, files of
// a publisher. None has a ~, which mirrors use in names that they make.
func IsStateName(name string) bool {
	for _, own := range []string{"lock", "runs", "documents", "staging", "content"} {
		if strings.EqualFold(name, own) {
			return true
		}
	}
	return strings.HasPrefix(strings.ToLower(name), FileName) && !strings.Contains(name, "~")
}
