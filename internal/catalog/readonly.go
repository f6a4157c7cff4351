package catalog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"time"
)

// ErrOlderSchema means that the catalog has an older schema, which cannot be migrated
// because the catalog was opened read-only.
var ErrOlderSchema = errors.New("written by an older version of this program")

// OpenReadOnly opens the existing catalog at path and writes nothing, not even the
// files that SQLite creates beside a database. Methods that write return an error. The
// parameter id is the expected UUID; "" means any. If the catalog has another UUID,
// OpenReadOnly returns ErrOther, even if this program does not support its schema.
func OpenReadOnly(ctx context.Context, path, id string, now func() time.Time) (*Catalog, error) {
	return openCatalog(ctx, Options{Path: path, UUID: id, Now: now}, true)
}

// ErrWritten means that another process began to write to the catalog after it was
// opened read-only. Everything that was read since then may be wrong.
var ErrWritten = errors.New("another process wrote to the catalog while it was read")

// Steady returns ErrWritten if another process began to write after OpenReadOnly, so
// that everything that was read since then may be wrong. If the catalog was already in
// use for writing when it was opened, reading is always safe and Steady returns nil.
func (c *Catalog) Steady() error {
	if c.unwritten == nil {
		return nil
	}
	now, err := os.Stat(c.path)
	if err != nil {
		return c.fail("read the catalog", err)
	}
	wal, err := os.Stat(c.path + "-wal")
	if err == nil && wal.Size() <= walHeader || errors.Is(err, fs.ErrNotExist) {
		if now.Size() == c.unwritten.Size() && now.ModTime().Equal(c.unwritten.ModTime()) {
			return nil
		}
	}
	return c.fail("read the catalog", ErrWritten)
}

// connectReadOnly opens two pools of connections. The pool write keeps a connection
// open until Close. Otherwise another run that ends could remove the write-ahead log,
// which the pool read needs.
func (c *Catalog) connectReadOnly() error {
	before, err := os.Stat(c.path)
	if err != nil {
		return err
	}
	parameters, logged, err := readOnlyParameters(c.path)
	if err != nil {
		return err
	}
	if !logged {
		c.unwritten = before
	}
	if c.write, err = openSource(c.path, parameters, readers); err == nil { // SQLite refuses to write through these connections
		c.read, err = openSource(c.path, parameters, readers)
	}
	return err
}

// walHeader is the length of the header of a write-ahead log, in bytes. SQLite cannot
// read a log that has only a header without writing to it, and would try for ten
// seconds.
const walHeader = 32

// readOnlyParameters returns the parameters of the SQLite driver for reading only. A run
// that is active or was killed leaves a write-ahead log, which SQLite then reads. If the
// log is missing or empty, the parameter "immutable" keeps SQLite from creating it.
func readOnlyParameters(path string) (q url.Values, logged bool, err error) {
	q = url.Values{"mode": {"ro"}, "_txlock": {"immediate"}, "_pragma": {"busy_timeout(10000)", "query_only(ON)", "cache_size(-4096)", "mmap_size(0)"}}
	wal, err := os.Stat(path + "-wal")
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && wal.Size() <= walHeader:
		q.Set("immutable", "1")
	case err != nil:
		return nil, false, err
	default:
		if _, err := os.Stat(path + "-shm"); err != nil {
			return nil, false, fmt.Errorf("the changes of an interrupted run in %q can only be read by a run that may write, so run once with writing allowed: %w", path+"-wal", err)
		}
		q.Set("readonly_shm", "1")
		logged = true
	}
	return q, logged, nil
}
