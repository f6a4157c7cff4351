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

// ErrOlderSchema means that an earlier version of this program wrote the catalog, and
// it was opened read-only, so that its schema cannot be migrated.
var ErrOlderSchema = errors.New("written by an older version of this program")

// OpenReadOnly opens the existing catalog at path and writes nothing, not even the
// files that SQLite keeps beside a database. Methods that write return an error. If the
// catalog does not have the UUID id ("": any), it returns ErrOther, whatever the schema
// is.
func OpenReadOnly(ctx context.Context, path, id string, now func() time.Time) (*Catalog, error) {
	return openCatalog(ctx, Options{Path: path, UUID: id, Now: now}, true)
}

// ErrWritten means that another process has written to a catalog that was opened
// read-only while nobody wrote. Everything read since may be wrong.
var ErrWritten = errors.New("written to while it was read")

// Steady returns ErrWritten if a run began to write after OpenReadOnly, so that
// everything read since may be wrong. It returns nil for a catalog that was already
// open for writing, which can be read safely.
func (c *Catalog) Steady() error {
	if c.still == nil {
		return nil
	}
	now, err := os.Stat(c.path)
	if err != nil {
		return c.fail("read the catalog", err)
	}
	wal, err := os.Stat(c.path + "-wal")
	if err == nil && wal.Size() <= walHeader || errors.Is(err, fs.ErrNotExist) {
		if now.Size() == c.still.Size() && now.ModTime().Equal(c.still.ModTime()) {
			return nil
		}
	}
	return c.fail("read the catalog", ErrWritten)
}

// connectReadOnly opens two pools of connections. The first one keeps a connection
// open: without it, a run that ends would remove the write-ahead log, without which
// this source cannot be opened.
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
		c.still = before
	}
	if c.write, err = openSource(c.path, parameters, readers); err == nil { // SQLite refuses every write
		c.read, err = openSource(c.path, parameters, readers)
	}
	return err
}

// walHeader is the length in bytes of a write-ahead log that has only its header.
// SQLite cannot read such a log without writing, and tries for ten seconds.
const walHeader = 32

// readOnlyParameters returns the parameters with which a database is opened read-only.
// SQLite reads the write-ahead log of a run that is active or was killed. If there is no
// log, or an empty one, an option keeps SQLite from creating one.
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
			return nil, false, fmt.Errorf("the changes of an interrupted run in %q cannot be read without writing; run once with writing allowed: %w", path+"-wal", err)
		}
		q.Set("readonly_shm", "1")
		logged = true
	}
	return q, logged, nil
}
