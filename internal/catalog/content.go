package catalog

import (
	"context"
	"iter"

	"instep/resourcesync"
)

// ContentName is the path of a file in a mirror with the flat layout, with the digest
// of its bytes.
type ContentName struct {
	Path   string
	Day    string              // day on which the file was moved to the trash, as 2006-01-02; "" if it is not in the trash
	SHA256 resourcesync.Digest // SHA-256 of the bytes; NameContents removes the name if it is zero
}

// Contents returns, for each of the given paths, the SHA-256 of the bytes of the file.
// It omits paths that no file has.
func (c *Mirror) Contents(ctx context.Context, paths []string) (map[string]resourcesync.Digest, error) {
	found := make(map[string]resourcesync.Digest, len(paths))
	var i int
	var sum resourcesync.Digest
	err := lookup(c.reading(ctx, "look up the names of contents in the catalog"), []any{&i, digestTo(&sum)}, func() { found[paths[i]] = sum },
		"SELECT v.column1, n.sha256 FROM (VALUES KEYS) v CROSS JOIN content_name n ON n.key = v.column2", "(?,?)", sumKeys(paths))
	return found, err
}

// NameContents records names of contents. It removes a name if its SHA256 is zero. All
// changes are made in one transaction.
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

// Loosen records that the bytes with these digests perhaps have no file name any more,
// so that they can be deleted.
func (c *Mirror) Loosen(ctx context.Context, sums []resourcesync.Digest) error {
	return c.eachSum(ctx, "record in the catalog that contents may have no name",
		"INSERT INTO content_loose (sha256) VALUES ($1) ON CONFLICT DO NOTHING", sums)
}

// Fasten undoes Loosen for bytes that have a file name again, or that were deleted.
func (c *Mirror) Fasten(ctx context.Context, sums []resourcesync.Digest) error {
	return c.eachSum(ctx, "record in the catalog that contents have a name", "DELETE FROM content_loose WHERE sha256 = $1", sums)
}

func (c *db) eachSum(ctx context.Context, op, statement string, sums []resourcesync.Digest) error {
	return c.transact(ctx, op, func(r *recorder) {
		for _, d := range sums {
			r.exec(statement, d.Sum())
		}
	})
}

// LooseContent is a file content that perhaps has no file name any more: see
// Mirror.Loosen.
type LooseContent struct {
	SHA256 resourcesync.Digest
	Named  bool // whether the content has a file name
}

// Loose returns at most lookupSize (500) of the contents that Loosen has recorded and
// that Fasten has not removed since.
func (c *Mirror) Loose(ctx context.Context) ([]LooseContent, error) {
	return queryAll(c.reading(ctx, "read from the catalog which contents may have no name"), nil, func(l *LooseContent) []any {
		return []any{digestTo(&l.SHA256), &l.Named}
	}, `SELECT l.sha256, EXISTS (SELECT 1 FROM content_name n WHERE n.sha256 = l.sha256)
		FROM content_loose l ORDER BY l.sha256 LIMIT $1`, lookupSize)
}

// ContentNames yields the names of the files that were moved to the trash on the given
// day, or all names if day is "".
func (c *Mirror) ContentNames(ctx context.Context, day string) iter.Seq2[ContentName, error] {
	condition := "$3 = ''"
	if day != "" {
		condition = "day = $3 AND day <> ''"
	}
	return listing(c.reading(ctx, "list the names of contents in the catalog"),
		"SELECT key, path, day, sha256 FROM content_name WHERE key > $1 AND "+condition+" ORDER BY key LIMIT $2", []byte{}, func(n *ContentName) (any, []any) {
			key := new([]byte)
			return key, []any{key, &n.Path, &n.Day, digestTo(&n.SHA256)}
		}, day)
}

// TrashDays returns the days on which the files in the trash were moved there.
func (c *Mirror) TrashDays(ctx context.Context) ([]string, error) {
	return queryColumn[string](c.reading(ctx, "list the trash of the catalog"), "SELECT DISTINCT day FROM content_name WHERE day <> '' ORDER BY day")
}

// HasContent reports whether any file name refers to the bytes with this SHA-256.
func (c *Mirror) HasContent(ctx context.Context, sum resourcesync.Digest) (bool, error) {
	return exists(c.reading(ctx, "look up a content in the catalog"), "content_name WHERE sha256 = $1", sum.Sum())
}
