package catalog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/uuid"
	"github.com/pressly/goose/v3"

	"instep/internal/durable"
)

func newestSchema() (int64, error) {
	files, err := migrations.ReadDir("migrations")
	if err != nil {
		return 0, err
	}
	return goose.NumericComponent(files[len(files)-1].Name())
}

func migrate(ctx context.Context, db *sql.DB) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, files)
	if err != nil {
		return err
	}
	return withTempFiles(ctx, db, func() error {
		_, err := p.Up(ctx)
		return err
	})
}

// rewritingSchema is the schema version whose migration rewrites all rows.
const rewritingSchema = 14

// migrationSpace is the disk space for a migration, as a multiple of the size of the
// catalog: one for the copy, one for the new rows in the write-ahead log, and one for
// these rows in the database.
const migrationSpace = 3

// prepare copies the catalog before a migration that rewrites rows, so that an earlier
// version of this program can use the copy. It fails if the disk has not enough space
// for the migration.
func (c *db) prepare(ctx context.Context, schema int64, space func(*os.Root) (durable.Space, error)) error {
	if schema >= rewritingSchema {
		return nil
	}
	if err := checkpoint(ctx, c.write); err != nil { // moves the data of the write-ahead log into the file, whose size checkSpace needs
		return err
	}
	if err := checkSpace(c.path, space); err != nil {
		return err
	}
	to := fmt.Sprintf("%s.schema%d", c.path, schema)
	if err := copyTo(ctx, c.write, c.path, to); err != nil {
		return fmt.Errorf("copy the catalog to %q before its schema is migrated: %w", to, err)
	}
	return nil
}

func checkSpace(path string, space func(*os.Root) (durable.Space, error)) (err error) {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	if space == nil {
		space = durable.SpaceOf
	}
	s, err := space(root)
	need := migrationSpace * uint64(info.Size())
	if err == nil && s.Known && s.Free < need {
		err = fmt.Errorf("%w: migrating the catalog and keeping a copy of it takes %d MiB in %q, and %d MiB are free; nothing was changed; free some space and try again",
			ErrFull, need>>20+1, root.Name(), s.Free>>20)
	}
	return err
}

// copyTo copies the catalog at path to target, completely or not at all. It replaces an
// outdated copy, for example of an earlier attempt.
func copyTo(ctx context.Context, db *sql.DB, path, target string) error {
	temp := path + "." + uuid.NewString() + tempSuffix
	defer removeDatabase(temp)
	if _, err := db.ExecContext(ctx, "VACUUM INTO $1", temp); err != nil {
		return err
	}
	if err := syncPath(temp); err != nil {
		return err
	}
	if err := os.Rename(temp, target); err != nil {
		return err
	}
	return syncPath(filepath.Dir(path))
}
