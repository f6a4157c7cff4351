package catalog

import (
	"context"
	"database/sql"
	"fmt"
	"iter"

	"instep/resourcesync"
)

// ContentName is a name of bytes in a mirror of the flat layout.
type ContentName struct {
	Path   string
	Day    string              // day of the trash that the path is in, as 2006-01-02; "" = none
	SHA256 resourcesync.Digest // digest of the new bytes; zero: the name is removed
}

// Contents returns the digests of the bytes that have these names; unused names are left
// out.
func (c *Mirror) Contents(ctx context.Context, paths []string) (map[string]resourcesync.Digest, error) {
	found := make(map[string]resourcesync.Digest, len(paths))
	err := lookup(c.reading(ctx, "look up names of bytes in"), func(rows *sql.Rows) error {
		var i int
		var sum []byte
		err := rows.Scan(&i, &sum)
		if err == nil {
			found[paths[i]], err = readSum(sum)
		}
		return err
	}, "SELECT v.column1, n.sha256 FROM (VALUES KEYS) v CROSS JOIN content_name n ON n.key = v.column2", "(?,?)", sumKeys(paths))
	return found, err
}

func readSum(sum []byte) (resourcesync.Digest, error) {
	d, err := resourcesync.NewDigest(resourcesync.SHA256, sum)
	if err != nil {
		err = fmt.Errorf("%w: %w; %s", ErrDamaged, err, hint)
	}
	return d, err
}

// NameContents adds and removes names, all or none of them.
func (c *Mirror) NameContents(ctx context.Context, names []ContentName) error {
	return c.transact(ctx, "record the names of contents in", func(r *recorder) error {
		for _, n := range names {
			key := SumOf(n.Path)
			var err error
			if n.SHA256.IsZero() {
				_, err = r.exec("DELETE FROM content_name WHERE key = $1", key[:])
			} else {
				_, err = r.exec(`INSERT INTO content_name (key, path, day, sha256) VALUES ($1, $2, $3, $4)
					ON CONFLICT (key) DO UPDATE SET sha256 = excluded.sha256`, key[:], n.Path, n.Day, n.SHA256.Sum())
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Loosen records that bytes may have no name.
func (c *Mirror) Loosen(ctx context.Context, sums []resourcesync.Digest) error {
	return c.eachSum(ctx, "record bytes without a name in",
		"INSERT INTO content_loose (sha256) VALUES ($1) ON CONFLICT DO NOTHING", sums)
}

// Fasten records that bytes have a name, or are gone.
func (c *Mirror) Fasten(ctx context.Context, sums []resourcesync.Digest) error {
	return c.eachSum(ctx, "forget bytes without a name in", "DELETE FROM content_loose WHERE sha256 = $1", sums)
}

func (c *db) eachSum(ctx context.Context, op, statement string, sums []resourcesync.Digest) error {
	return c.transact(ctx, op, func(r *recorder) error {
		for _, d := range sums {
			if _, err := r.exec(statement, d.Sum()); err != nil {
				return err
			}
		}
		return nil
	})
}

// LooseContent describes bytes for which Loosen recorded that they may have no name.
type LooseContent struct {
	SHA256 resourcesync.Digest
	Named  bool // they have a name in the file system
}

// Loose returns the first of the bytes that may have no name, at most as many as one
// lookup takes.
func (c *Mirror) Loose(ctx context.Context) ([]LooseContent, error) {
	return rows(c.reading(ctx, "read bytes without a name of"), func(r *sql.Rows) (l LooseContent, err error) {
		var sum []byte
		if err := r.Scan(&sum, &l.Named); err != nil {
			return l, err
		}
		l.SHA256, err = readSum(sum)
		return l, err
	}, `SELECT l.sha256, EXISTS (SELECT 1 FROM content_name n WHERE n.sha256 = l.sha256)
		FROM content_loose l ORDER BY l.sha256 LIMIT $1`, lookupSize)
}

// ContentNames yields all names in the trash of a day, or all names if day is "".
func (c *Mirror) ContentNames(ctx context.Context, day string) iter.Seq2[ContentName, error] {
	only := "$3 = ''"
	if day != "" {
		only = "day = $3 AND day <> ''"
	}
	return listing(c.reading(ctx, "list the names of contents in"),
		"SELECT key, path, day, sha256 FROM content_name WHERE key > $1 AND "+only+" ORDER BY key LIMIT $2", []byte{}, func(r *sql.Rows, n *ContentName) (any, error) {
			var key, sum []byte
			if err := r.Scan(&key, &n.Path, &n.Day, &sum); err != nil {
				return nil, err
			}
			var err error
			n.SHA256, err = readSum(sum)
			return key, err
		}, day)
}

// TrashDays returns the days of which there are names in the trash.
func (c *Mirror) TrashDays(ctx context.Context) ([]string, error) {
	return column[string](c.reading(ctx, "list the trash of"), "SELECT DISTINCT day FROM content_name WHERE day <> '' ORDER BY day")
}

// HasContent reports whether bytes have a name.
func (c *Mirror) HasContent(ctx context.Context, sum resourcesync.Digest) (bool, error) {
	_, has, err := value[int](c.reading(ctx, "look up bytes in"), "SELECT 1 FROM content_name WHERE sha256 = $1 LIMIT 1", sum.Sum())
	return has, err
}
