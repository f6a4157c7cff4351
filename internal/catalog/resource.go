package catalog

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"instep/resourcesync"
)

// lookupSize is the number of keys one statement asks for.
const lookupSize = 500

const (
	resourceColumns = "r.key, r.uri, r.path, r.stored, r.length, r.sha256, r.digests, r.verified, r.type, r.encoding, r.stat"
	memberColumns   = "m.changed, m.lastmod, m.changefreq, m.due, m.wanted, m.remainder"
)

// Lookup returns the resource of each key as seen from set, in the order asked;
// the zero Resource for a key that is unknown.
func (c *Catalog) Lookup(ctx context.Context, set SetID, keys []resourcesync.Key) ([]Resource, error) {
	rest := make([]resourcesync.Key, 0, len(keys))
	waiting := map[resourcesync.Key]Resource{}
	for _, key := range keys {
		if w, ok := c.ledger.find(set, key); ok {
			waiting[key] = w
		} else {
			rest = append(rest, key)
		}
	}
	found, err := c.tables(ctx, set, rest)
	if err != nil {
		return nil, err
	}
	maps.Copy(found, waiting)
	all := make([]Resource, len(keys))
	for i, k := range keys {
		all[i] = found[k]
	}
	return all, nil
}

// tables is Lookup in the tables alone.
func (c *Catalog) tables(ctx context.Context, set SetID, keys []resourcesync.Key) (map[resourcesync.Key]Resource, error) {
	keys = slices.DeleteFunc(slices.Clone(keys), c.sieve.lacks)
	found := make(map[resourcesync.Key]Resource, len(keys))
	for some := range slices.Chunk(keys, lookupSize) {
		if err := c.lookup(ctx, set, some, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (c *Catalog) lookup(ctx context.Context, set SetID, keys []resourcesync.Key, found map[resourcesync.Key]Resource) error {
	args := make([]any, 0, 1+len(keys))
	args = append(args, set)
	for i := range keys {
		args = append(args, keys[i][:])
	}
	resources, err := look(ctx, c, nil, "look up resources in", func(r *sql.Rows) (v Resource, err error) {
		return v, scanResource(r, &v)
	}, "SELECT "+resourceColumns+", "+memberColumns+` FROM resource r
		LEFT JOIN member m ON m.set_id = ? AND m.key = r.key
		WHERE r.key IN (`+placeholders(len(keys))+")", args...)
	for _, r := range resources {
		found[r.Key] = r
	}
	return err
}

// placeholders returns n of them, without numbers: see bulkRows.
func placeholders(n int) string {
	return strings.TrimSuffix(strings.Repeat("?,", n), ",")
}

// scanResource reads resourceColumns and memberColumns, the latter all NULL for a
// resource that is no member, and then extra.
func scanResource(rows *sql.Rows, r *Resource, extra ...any) error {
	var (
		key, sha256     []byte
		length, changed sql.NullInt64
		digests         string
		member          struct{ lastmod, changefreq, due, wanted, remainder sql.NullString }
	)
	dest := append(make([]any, 0, 20), &key, &r.URI, &r.Path, &r.Stored, &length, &sha256, &digests, &r.Verified, &r.Type, &r.Encoding, &r.Stat,
		&changed, &member.lastmod, &member.changefreq, &member.due, &member.wanted, &member.remainder)
	if err := rows.Scan(append(dest, extra...)...); err != nil {
		return err
	}
	if r.Key = resourcesync.KeyOf(r.URI); string(key) != string(r.Key[:]) {
		return fmt.Errorf("%w: the row with key %x holds %q, whose key is %x; %s", ErrDamaged, key, r.URI, r.Key, hint)
	}
	var err error
	if r.Digests, err = readDigests(r.URI, digests, sha256); err != nil {
		return err
	}
	r.Length = readLength(length)
	if r.Member = changed.Valid; !r.Member {
		return nil
	}
	r.Changed, r.Due, r.Wanted = readTime(changed.Int64), member.due.String, member.wanted.String
	r.ChangeFreq, r.Remainder = resourcesync.ChangeFreq(member.changefreq.String), member.remainder.String
	r.LastMod, err = readDatetime(r.URI, member.lastmod.String)
	return err
}

// The forms in which values are kept.

func readTime(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

func readLength(n sql.NullInt64) resourcesync.Length {
	if !n.Valid {
		return resourcesync.Length{}
	}
	return resourcesync.Bytes(n.Int64)
}

// writeText is NULL for "".
func writeText(s string) sql.NullString { return sql.NullString{String: s, Valid: s != ""} }

func writeLength(l resourcesync.Length) sql.NullInt64 {
	return sql.NullInt64{Int64: l.Int64(), Valid: l.Known()}
}

// readDigests takes the text, or the SHA-256 that stands alone.
func readDigests(uri, s string, sha256 []byte) (resourcesync.Digests, error) {
	var ds resourcesync.Digests
	var err error
	switch {
	case s != "":
		ds, err = resourcesync.ParseDigests(s)
	case sha256 != nil:
		var d resourcesync.Digest
		d, err = resourcesync.NewDigest(resourcesync.SHA256, sha256)
		ds = resourcesync.Digests{d}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: digests of %q: %w; %s", ErrDamaged, uri, err, hint)
	}
	return ds, nil
}

// writeDigests leaves out a SHA-256 that stands alone: it has a column of its own.
func writeDigests(ds resourcesync.Digests) string {
	if len(ds) == 1 && ds[0].Algorithm() == resourcesync.SHA256 {
		return ""
	}
	return ds.String()
}

// writeSHA256 is NULL when the digest is unknown.
func writeSHA256(ds resourcesync.Digests) []byte { return writeSum(ds.Get(resourcesync.SHA256)) }

// writeSum is NULL when the digest is zero.
func writeSum(d resourcesync.Digest) []byte {
	if d.IsZero() {
		return nil
	}
	return d.Sum()
}

// readSHA256 is the zero Digest for NULL.
func readSHA256(sum []byte) (resourcesync.Digest, error) {
	if sum == nil {
		return resourcesync.Digest{}, nil
	}
	return resourcesync.NewDigest(resourcesync.SHA256, sum)
}

func readDatetime(uri, s string) (resourcesync.Datetime, error) {
	if s == "" {
		return resourcesync.Datetime{}, nil
	}
	d, err := resourcesync.ParseDatetime(s)
	if err != nil {
		return d, fmt.Errorf("%w: lastmod of %q: %w; %s", ErrDamaged, uri, err, hint)
	}
	return d, nil
}

func writeDatetime(d resourcesync.Datetime) string {
	if d.IsZero() {
		return ""
	}
	return d.String()
}

// CROSS JOIN keeps SQLite to this order of the tables, in which no row has to be sorted.
const (
	membersQuery = "SELECT " + resourceColumns + ", " + memberColumns + `
		FROM resource r CROSS JOIN member m
		WHERE r.id > $1 AND r.id <= $2 AND m.set_id = $3 AND m.key = r.key ORDER BY r.id`
	membersByKeyQuery = "SELECT " + resourceColumns + ", " + memberColumns + `
		FROM member m CROSS JOIN resource r
		WHERE m.set_id = $3 AND m.key > $1 AND r.key = m.key ORDER BY m.key LIMIT $2`
	memberKeysQuery = "SELECT m.key FROM member m WHERE m.set_id = $3 AND m.key > $1 ORDER BY m.key LIMIT $2"
)

// Members yields the members of a set in the order in which they were first recorded.
func (c *Catalog) Members(ctx context.Context, set SetID) iter.Seq2[Resource, error] {
	const op = "list members of a set in"
	return spans(ctx, c, op, "SELECT COALESCE(MAX(id), 0) FROM resource", func(ctx context.Context, into []Resource, after, through int64) ([]Resource, error) {
		return appendRows(ctx, c, into, op, func(rows *sql.Rows) (r Resource, err error) {
			return r, scanResource(rows, &r)
		}, membersQuery, after, through, set)
	})
}

// MembersByKey yields the members of a set in ascending order of their keys.
func (c *Catalog) MembersByKey(ctx context.Context, set SetID) iter.Seq2[Resource, error] {
	listed := listing(ctx, c, "list members of a set in", membersByKeyQuery, []byte{}, func(rows *sql.Rows, r *Resource) (any, error) {
		err := scanResource(rows, r)
		return r.Key[:], err
	}, set)
	waiting := func() []Resource { return c.ledger.members(set) }
	return withWaiting(ctx, c, waiting, listed, func(r *Resource) resourcesync.Key { return r.Key })
}

// MembersAfter returns at most n members of a set with keys after one, in ascending order.
// Those that wait for the tables are left out.
func (c *Catalog) MembersAfter(ctx context.Context, set SetID, after resourcesync.Key, n int) ([]Resource, error) {
	return look(ctx, c, nil, "list members of a set in", func(rows *sql.Rows) (r Resource, err error) {
		return r, scanResource(rows, &r)
	}, membersByKeyQuery, after[:], n, set)
}

// MemberKeys yields the keys of the members of a set in ascending order.
func (c *Catalog) MemberKeys(ctx context.Context, set SetID) iter.Seq2[resourcesync.Key, error] {
	listed := listing(ctx, c, "list members of a set in", memberKeysQuery, []byte{}, func(rows *sql.Rows, k *resourcesync.Key) (_ any, err error) {
		var key []byte
		if err := rows.Scan(&key); err != nil {
			return nil, err
		}
		*k, err = readKey(key)
		return key, err
	}, set)
	waiting := func() (keys []resourcesync.Key) {
		for _, r := range c.ledger.members(set) {
			keys = append(keys, r.Key)
		}
		return keys
	}
	return withWaiting(ctx, c, waiting, listed, func(k *resourcesync.Key) resourcesync.Key { return *k })
}
