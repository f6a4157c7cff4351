package catalog

import (
	"context"
	"iter"

	"instep/resourcesync"
)

// ContentName is a file name of bytes in a mirror with the flat layout.
type ContentName struct {
	Path   string
	Day    string              // day of the trash that the path is in, as 2006-01-02; "": it is not in the trash
	SHA256 resourcesync.Digest // digest of the new bytes; zero: the name is removed
}

// Contents returns the digests of the bytes with these names. It omits names that are
// not in use.
func (c *Mirror) Contents(ctx context.Context, paths []string) (map[string]resourcesync.Digest, error) {
	found := make(map[string]resourcesync.Digest, len(paths))
	var i int
	var sum resourcesync.Digest
	err := lookup(c.reading(ctx, "look up the names of contents in the catalog"), []any{&i, digestTo(&sum)}, func() { found[paths[i]] = sum },
		"SELECT v.column1, n.sha256 FROM (VALUES KEYS) v CROSS JOIN content_name n ON n.key = v.column2", "(?,?)", sumKeys(paths))
	return found, err
}

// NameContents adds and removes names, all or none.
func (c *Mirror) NameContents(ctx context.Context, names []ContentName) error {
	return c.transact(ctx, "record the names of contents in the catalog", func(r *recorder) {
		for _, n := range names {
			if n.SHA256.IsZero() {
				r.exec("DELETE FROM content_name WHERE key = $1", key(n.Path))
				continue
			}
			r.exec(`INSERT INTO content_name (key, path, day, sha256) VALUES ($1, $2, $3, $4)
				ON CONFLICT (key) DO UPDATE SET sha256 = excluded.sha256`, key(n.Path), n.Path, n.Day, n.SHA256.Sum())
		}
	})
}

// Loosen records that these bytes may have lost their last name.
func (c *Mirror) Loosen(ctx context.Context, sums []resourcesync.Digest) error {
	return c.eachSum(ctx, "record contents that have no name in the catalog",
		"INSERT INTO content_loose (sha256) VALUES ($1) ON CONFLICT DO NOTHING", sums)
}

// Fasten reverses Loosen: the bytes have a name again, or were removed.
func (c *Mirror) Fasten(ctx context.Context, sums []resourcesync.Digest) error {
	return c.eachSum(ctx, "remove contents that have no name from the catalog", "DELETE FROM content_loose WHERE sha256 = $1", sums)
}

func (c *db) eachSum(ctx context.Context, op, statement string, sums []resourcesync.Digest) error {
	return c.transact(ctx, op, func(r *recorder) {
		for _, d := range sums {
			r.exec(statement, d.Sum())
		}
	})
}

// LooseContent describes bytes for which Loosen recorded that they may have no name.
type LooseContent struct {
	SHA256 resourcesync.Digest
	Named  bool // they have a name in the file system
}

// Loose returns bytes for which Loosen was called and Fasten was not, at most as many
// as one query looks up.
func (c *Mirror) Loose(ctx context.Context) ([]LooseContent, error) {
	return rows(c.reading(ctx, "read contents that have no name from the catalog"), nil, func(l *LooseContent) []any {
		return []any{digestTo(&l.SHA256), &l.Named}
	}, `SELECT l.sha256, EXISTS (SELECT 1 FROM content_name n WHERE n.sha256 = l.sha256)
		FROM content_loose l ORDER BY l.sha256 LIMIT $1`, lookupSize)
}

// ContentNames yields all names in the trash of a day, or all names if day is "".
func (c *Mirror) ContentNames(ctx context.Context, day string) iter.Seq2[ContentName, error] {
	only := "$3 = ''"
	if day != "" {
		only = "day = $3 AND day <> ''"
	}
	return listing(c.reading(ctx, "list the names of contents in the catalog"),
		"SELECT key, path, day, sha256 FROM content_name WHERE key > $1 AND "+only+" ORDER BY key LIMIT $2", []byte{}, func(n *ContentName) (any, []any) {
			key := new([]byte)
			return key, []any{key, &n.Path, &n.Day, digestTo(&n.SHA256)}
		}, day)
}

// TrashDays returns the days that have names in the trash.
func (c *Mirror) TrashDays(ctx context.Context) ([]string, error) {
	return column[string](c.reading(ctx, "list the trash of the catalog"), "SELECT DISTINCT day FROM content_name WHERE day <> '' ORDER BY day")
}

// HasContent reports whether bytes have a name.
func (c *Mirror) HasContent(ctx context.Context, sum resourcesync.Digest) (bool, error) {
	return exists(c.reading(ctx, "look up a content in the catalog"), "content_name WHERE sha256 = $1", sum.Sum())
}
