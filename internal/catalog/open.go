package catalog

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"instep/internal/durable"
)

var (
	// ErrNewerSchema means that a newer version of this program wrote the catalog.
	ErrNewerSchema = errors.New("written by a newer version of this program")
	// ErrDamaged means that the file is damaged, or is not a catalog.
	ErrDamaged = errors.New("the file is damaged or not a catalog")
	// ErrOther means that the catalog does not have the expected UUID.
	ErrOther = errors.New("it is another catalog than expected")
	// ErrFull means that the disk with the catalog is full. What was recorded earlier is
	// not lost.
	ErrFull = errors.New("the disk with the catalog is full")
)

//go:embed migrations/*.sql
var migrations embed.FS

// applicationID is the number that marks a SQLite file as a catalog ("Inst"): see
// PRAGMA application_id.
const applicationID = 0x496e7374

// readers is the number of connections for reading. A few are enough, because no
// connection is in use while the caller handles results.
const readers = 4

// UUIDSetting is the name of the setting with the UUID of the catalog.
const UUIDSetting = "uuid"

// Options say which catalog to open, and how.
type Options struct {
	Path   string           // path of the database file
	Create bool             // create the file if it does not exist; its directory must exist
	UUID   string           // expected UUID; "" means any
	Now    func() time.Time // clock for the times of changes; nil means time.Now

	space func(*os.Root) (durable.Space, error) // the function that returns the free disk space; tests replace it
}

// Catalog is an open catalog: three stores in one database. Each method of a store runs
// in one transaction, even if it uses tables of other stores. All methods may be called
// concurrently.
type Catalog struct {
	*db
	Facts     *Facts
	Mirror    *Mirror
	Publisher *Publisher

	unwritten os.FileInfo // the file when it was opened read-only, for comparison in Steady; nil if SQLite handles concurrent writes
}

// Facts is the store that mirrors and publishers use: settings, sets, resources,
// memberships, and the change log.
type Facts struct{ *db }

// Mirror is the store of mirrors: intents (planned changes of files), cursors, evidence
// of what the Source stated, earlier states, withheld plans, additional names of files,
// and the log of what the sets contain.
type Mirror struct {
	*db
	logs func() (bool, error) // see LogIf
}

// Publisher is the store of Sources: publications and their documents, results of
// scans, and the spellings of URIs in adopted publications.
type Publisher struct{ *db }

type db struct {
	path  string
	now   func() time.Time
	write *sql.DB // a pool of one connection, so that transactions of this process wait for the connection and not for a lock of SQLite
	read  *sql.DB

	preparing  sync.Mutex           // guards statements
	statements map[string]*sql.Stmt // prepared queries of read, by their text
	contents   atomic.Bool          // whether the index that finds resources by their SHA-256 is known to exist
	readOnly   bool
	fold       atomic.Pointer[func(path string) string] // see FoldBy
}

// Open opens the catalog at o.Path and migrates an older schema. It returns
// fs.ErrNotExist if the file is missing and o.Create is not set, ErrDamaged if the file
// is not a catalog, ErrOther if it has another UUID, and ErrNewerSchema if its schema
// is newer than this program supports. None of these errors changes the file.
func Open(ctx context.Context, o Options) (*Catalog, error) { return openCatalog(ctx, o, false) }

func openCatalog(ctx context.Context, o Options, readOnly bool) (*Catalog, error) {
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, fmt.Errorf("open the catalog %q: %w", o.Path, err)
	}
	d := &db{path: path, now: o.Now, readOnly: readOnly, statements: map[string]*sql.Stmt{}}
	if d.now == nil {
		d.now = time.Now
	}
	c := &Catalog{db: d, Facts: &Facts{d}, Mirror: &Mirror{db: d}, Publisher: &Publisher{d}}
	if err = ensure(ctx, path, o.Create); err == nil {
		err = c.connect()
	}
	if err == nil {
		err = c.recognise(ctx, o)
	}
	if err != nil {
		return nil, errors.Join(c.fail("open the catalog", err), c.Close())
	}
	return c, nil
}

func (c *Catalog) connect() (err error) {
	if c.readOnly {
		return c.connectReadOnly()
	}
	if err = sweep(c.path); err == nil {
		c.write, err = openFile(c.path, 1, false)
	}
	if err == nil {
		c.read, err = openFile(c.path, readers, true)
	}
	return err
}

// Close closes all connections to the catalog.
func (c *Catalog) Close() error {
	var errs []error
	for _, db := range []*sql.DB{c.read, c.write} { // the connection that writes is closed last, because that empties the write-ahead log
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}

// recognise checks that the database is a catalog with the expected UUID and a schema
// that this program supports, and migrates an older schema.
func (c *Catalog) recognise(ctx context.Context, o Options) error {
	var app, have int64
	if err := c.write.QueryRowContext(ctx, "PRAGMA application_id").Scan(&app); err != nil {
		return err
	}
	if app != applicationID {
		return fmt.Errorf("%w: the database belongs to another program: expected the application id %#x, found %#x", ErrDamaged, applicationID, app)
	}
	err := c.write.QueryRowContext(ctx, "SELECT COALESCE(MAX(version_id), 0) FROM "+goose.DefaultTablename+" WHERE is_applied").Scan(&have)
	if code(err) == sqlite3.SQLITE_ERROR {
		err = fmt.Errorf("%w: the schema version of the catalog cannot be read: %w; %s", ErrDamaged, err, hint)
	}
	if err != nil {
		return err
	}
	var id string
	err = c.read.QueryRowContext(ctx, "SELECT value FROM setting WHERE name = $1", UUIDSetting).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("%w: the catalog has no UUID; %s", ErrDamaged, hint)
	}
	if err == nil && o.UUID != "" && id != o.UUID {
		err = fmt.Errorf("%w: expected the UUID %s, found %s", ErrOther, o.UUID, id)
	}
	if err != nil {
		return err
	}
	newest, err := newestSchema()
	switch {
	case err != nil || have == newest:
		return err
	case have > newest:
		return fmt.Errorf("%w: the catalog has the schema version %d, and this program supports up to %d; use that newer version, or restore a copy of the catalog from before it ran", ErrNewerSchema, have, newest)
	case c.readOnly:
		return fmt.Errorf("%w: the catalog has the schema version %d, and this program needs %d; a run that may write migrates it", ErrOlderSchema, have, newest)
	}
	if err := c.prepare(ctx, have, o.space); err != nil {
		return err
	}
	return migrate(ctx, c.write)
}

// NewUUID gives the catalog a new UUID and returns it. From then on, Open with the old
// UUID fails. NewUUID also empties the write-ahead log, because the old UUID would come
// back if that log were lost.
func (c *Catalog) NewUUID(ctx context.Context) (string, error) {
	id := uuid.NewString()
	if err := c.Facts.SetSettings(ctx, map[string]string{UUIDSetting: id}); err != nil {
		return "", err
	}
	if err := checkpoint(ctx, c.write); err != nil {
		return "", c.fail("give a new UUID to the catalog", err)
	}
	return id, nil
}

// ensure creates a missing catalog if missingOK is set. A new file is completed under a
// temporary name, so that there is never an incomplete file at path.
func ensure(ctx context.Context, path string, missingOK bool) error {
	wal := path + "-wal"
	_, noWAL := os.Lstat(wal) // checked before the database, because another process creates the database before the log
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return fmt.Errorf("%w: expected a regular file, found %s", ErrDamaged, info.Mode().Type())
	case err == nil:
		return checkMagic(path)
	case !errors.Is(err, fs.ErrNotExist) || !missingOK:
		return err
	case !errors.Is(noWAL, fs.ErrNotExist): // an error, since SQLite would apply the log of the lost database to a new one
		return fmt.Errorf("%w: the write-ahead log %q exists without its database; restore the database, or move the log away", ErrDamaged, wal)
	}
	if err := create(ctx, path); err != nil {
		if _, missing := os.Stat(path); missing != nil { // another process may have created the catalog, and removed our temporary file
			return err
		}
	}
	return nil
}

const tempSuffix = ".new"

func create(ctx context.Context, path string) error {
	temp := path + "." + uuid.NewString() + tempSuffix
	defer removeDatabase(temp)
	if err := build(ctx, temp); err != nil {
		return err
	}
	if err := linkOrRename(temp, path); err != nil {
		return err
	}
	return syncPath(filepath.Dir(path))
}

// sweep removes the temporary files of interrupted attempts to create the catalog. The
// catalog must exist when sweep is called, because then nobody uses these files.
func sweep(path string) error {
	dir, base := filepath.Split(path)
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		rest, ours := strings.CutPrefix(e.Name(), base+".")
		id, _, made := strings.Cut(rest, tempSuffix)
		if ours && made && uuid.Validate(id) == nil {
			removeDatabase(dir + base + "." + id + tempSuffix)
		}
	}
	return err
}

// checkMagic returns an error if a file is not a SQLite database. SQLite itself would
// accept an empty file as an empty database.
func checkMagic(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()

	got := make([]byte, len(magic))
	n, err := io.ReadFull(f, got)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	if string(got[:n]) != magic {
		return fmt.Errorf("%w: expected a SQLite file, found %d bytes beginning %q; %s", ErrDamaged, n, got[:n], hint)
	}
	return nil
}

const hint = "restore the catalog, with its -wal and -shm files, from a backup; without a backup, begin again in another directory"

// emptyCatalog returns the bytes of an empty catalog. It creates them only once in a
// process, in memory, because creating the schema takes most of the time.
var emptyCatalog = sync.OnceValues(func() (file []byte, err error) {
	ctx := context.Background()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1) // each connection to a database in memory would open another database
	if _, err := db.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d", applicationID)); err != nil {
		return nil, err
	}
	if err := migrate(ctx, db); err != nil {
		return nil, err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	err = conn.Raw(func(driver any) error {
		file, err = driver.(interface{ Serialize() ([]byte, error) }).Serialize()
		return err
	})
	return file, err
})

func build(ctx context.Context, path string) error {
	file, err := emptyCatalog()
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, file, 0o640); err != nil {
		return err
	}
	db, err := openFile(path, 1, false)
	if err != nil {
		return err
	}
	// Transactions need not be synced: the file gets its name only when it is complete
	// and synced.
	if _, err = db.ExecContext(ctx, "PRAGMA synchronous = OFF"); err == nil {
		_, err = db.ExecContext(ctx, "INSERT INTO setting (name, value) VALUES ($1, $2)", UUIDSetting, uuid.NewString())
	}
	if err == nil {
		err = checkpoint(ctx, db)
	}
	if err := errors.Join(err, db.Close()); err != nil {
		return err
	}
	return syncPath(path)
}

// checkpoint copies everything from the write-ahead log to the database file. Closing
// the database would do the same, but would not report an error such as a full disk.
func checkpoint(ctx context.Context, db *sql.DB) error {
	var busy, logged, done int
	if err := db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &logged, &done); err != nil {
		return err
	}
	if busy != 0 || logged != done {
		return fmt.Errorf("only %d of %d pages of the write-ahead log could be written to the database", done, logged)
	}
	return nil
}

// linkOrRename gives the file temp the name path. If another process has created the
// catalog at path meanwhile, that file remains.
func linkOrRename(temp, path string) error {
	err := os.Link(temp, path)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return nil
	}
	return os.Rename(temp, path) // rename, since the file system may have no hard links
}

func removeDatabase(path string) {
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		_ = os.Remove(path + suffix) // the error is ignored: the file may be missing, and a file that remains does no harm
	}
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func openFile(path string, conns int, readOnly bool) (*sql.DB, error) {
	pragmas := []string{
		"busy_timeout(10000)", // busy_timeout is set first, since the other settings may have to wait for a lock
		"journal_mode(WAL)",
		"synchronous(FULL)", // with NORMAL, acknowledged transactions could be lost in a power failure
		"foreign_keys(ON)",
		"mmap_size(0)",                 // with a memory-mapped file, an I/O error would raise a signal
		"journal_size_limit(16777216)", // in bytes: the write-ahead log is cut to this size after a checkpoint
	}
	if readOnly {
		pragmas = append(pragmas, "cache_size(-8192)", "query_only(ON)") // the cache of each connection has 8192 KiB
		return openSource(path, url.Values{"_txlock": {"deferred"}, "_pragma": pragmas}, conns)
	}
	pragmas = append(pragmas,
		"cache_size(-16384)",        // in KiB
		"temp_store(MEMORY)",        // temporary data is small: at most some pages for each row of a statement
		"wal_autocheckpoint(16000)", // size of the write-ahead log, in pages, at which a checkpoint starts; large, because each checkpoint waits for the disk twice
	)
	return openSource(path, url.Values{"_txlock": {"immediate"}, "_pragma": pragmas}, conns)
}

func openSource(path string, parameters url.Values, conns int) (*sql.DB, error) {
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: parameters.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}

// transact calls write in one transaction, which is durable when transact returns nil. If
// transact returns an error, the transaction has no effect.
func (c *db) transact(ctx context.Context, op string, write func(r *recorder)) error {
	tx, err := c.write.BeginTx(ctx, nil)
	if err != nil {
		return c.fail(op, err)
	}
	r := &recorder{ctx: ctx, tx: tx, prepared: map[string]*sql.Stmt{}, fold: c.folding()}
	write(r)
	r.dropDirectories()
	r.close()
	if err = r.err; err == nil {
		err = tx.Commit()
	} else if undo := tx.Rollback(); undo != nil && !errors.Is(undo, sql.ErrTxDone) { // ErrTxDone is ignored: the end of the context has already rolled back the transaction
		err = errors.Join(err, undo)
	}
	if err != nil {
		return c.fail(op, err)
	}
	return nil
}

func (c *db) execute(ctx context.Context, op, statement string, args ...any) error {
	return c.transact(ctx, op, func(r *recorder) { r.exec(statement, args...) })
}

// withTempFiles calls sort, which sorts more data than fits in memory. During the call
// SQLite stores temporary data in the temporary directory of the operating system.
func withTempFiles(ctx context.Context, db *sql.DB, sort func() error) error {
	if _, err := db.ExecContext(ctx, "PRAGMA temp_store = FILE; PRAGMA cache_size = -4096"); err != nil {
		return err
	}
	err := sort()
	_, back := db.ExecContext(context.WithoutCancel(ctx), "PRAGMA temp_store = MEMORY; PRAGMA cache_size = -16384")
	return errors.Join(err, back)
}

// fail adds the operation and the path of the catalog to an error. For the corresponding
// errors of SQLite it also adds ErrDamaged or ErrFull.
func (c *db) fail(op string, err error) error {
	switch code(err) {
	case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
		err = fmt.Errorf("%w: %w; %s", ErrDamaged, err, hint)
	case sqlite3.SQLITE_FULL:
		err = fmt.Errorf("%w: %w", ErrFull, err)
	}
	return fmt.Errorf("%s %q: %w", op, c.path, err)
}

func code(err error) int {
	if e := (*sqlite.Error)(nil); errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}
