package catalog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// ErrOlderSchema: an earlier version of this program wrote the catalog, and it was
// opened in a way that cannot bring it up to date.
var ErrOlderSchema = errors.New("written by an older version of this program")

// OpenReadOnly opens the existing catalog at path and writes nothing, not even the
// files that SQLite keeps beside a database. Methods that change it fail. It is ErrOther
// if it has not the UUID id ("": any), whatever its schema is.
func OpenReadOnly(ctx context.Context, path, id string, now func() time.Time) (*Catalog, error) {
	return openCatalog(ctx, path, now, id, func(c *Catalog) error {
		c.readOnly = true
		if err := ensure(ctx, c.path, false); err != nil {
			return err
		}
		return c.connectReadOnly()
	}, func(_ *Catalog, have, want int64) error {
		if have < want {
			return fmt.Errorf("%w: schema %d, this one needs %d; a run that may write brings it up to date", ErrOlderSchema, have, want)
		}
		return nil
	})
}

// ErrWritten: another process wrote to a catalog that was opened for reading when nobody did.
// What was read of it since may be wrong.
var ErrWritten = errors.New("written to while it was read")

// Steady is ErrWritten if what was read of a catalog that OpenReadOnly has opened may be
// wrong, because a run began since. A catalog that was open for writing already is read safely.
func (c *Catalog) Steady() error {
	if c.still == nil {
		return nil
	}
	now, err := os.Stat(c.path)
	if err != nil {
		return c.fail("read", err)
	}
	wal, err := os.Stat(c.path + "-wal")
	if err == nil && wal.Size() <= walHeader || errors.Is(err, fs.ErrNotExist) {
		if now.Size() == c.still.Size() && now.ModTime().Equal(c.still.ModTime()) {
			return nil
		}
	}
	return c.fail("read", ErrWritten)
}

// connectReadOnly opens pools of connections, the first of which stays open: a run that
// ends meanwhile would leave no write-ahead log, without which this source cannot be opened.
func (c *Catalog) connectReadOnly() error {
	before, err := os.Stat(c.path)
	if err != nil {
		return err
	}
	source, logged, err := readOnlySource(c.path)
	if err != nil {
		return err
	}
	if !logged {
		c.still = before
	}
	if c.write, err = openSource(source, readers); err == nil { // SQLite refuses every write
		c.read, err = openSource(source, readers)
	}
	return err
}

// walHeader is the length of a write-ahead log, in bytes, that nothing was written to but
// its header. SQLite cannot read one without writing, and tries for ten seconds.
const walHeader = 32

// readOnlySource reads the write-ahead log of a run that is active or was killed. If there
// is none, or an empty one, SQLite needs an option so that it does not create one.
func readOnlySource(path string) (source string, logged bool, err error) {
	q := url.Values{"mode": {"ro"}, "_txlock": {"immediate"}}
	for _, p := range []string{"busy_timeout(10000)", "query_only(ON)", "cache_size(-4096)", "mmap_size(0)"} {
		q.Add("_pragma", p)
	}
	wal, err := os.Stat(path + "-wal")
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && wal.Size() <= walHeader:
		q.Set("immutable", "1")
	case err != nil:
		return "", false, err
	default:
		if _, err := os.Stat(path + "-shm"); err != nil {
			return "", false, fmt.Errorf("changes of an interrupted run in %q cannot be read without writing (run once with writing allowed): %w", path+"-wal", err)
		}
		q.Set("readonly_shm", "1")
		logged = true
	}
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: q.Encode()}
	return u.String(), logged, nil
}
