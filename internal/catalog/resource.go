package catalog

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"instep/resourcesync"
)

// The columns and joins for a resource and its path. r is the row with which the query
// begins.
const (
	resourceColumns = "r.id, b.uri || r.rest, r.crc, d.path || COALESCE(r.name, r.rest), r.stored, r.length, r.sha256, r.digests, r.verified, r.type, r.encoding, r.stat"
	placed          = " CROSS JOIN base b ON b.id = r.base CROSS JOIN directory d ON d.id = r.dir "
	memberColumns   = "m.changed, m.lastmod, m.changefreq, m.due, m.wanted, m.remainder"
)

// Lookup returns the resource of each URI as seen from set, in the order of the URIs;
// the zero Resource for an unknown URI.
func (c *Facts) Lookup(ctx context.Context, set SetID, uris []string) ([]Resource, error) {
	all := make([]Resource, len(uris))
	err := lookup(c.reading(ctx, "look up resources in the catalog"), func(rows *sql.Rows) error {
		var i int
		var v Resource
		err := scanResource(rows, &v, &i)
		all[i] = v
		return err
	}, "SELECT "+resourceColumns+", "+memberColumns+`, v.column1 FROM (VALUES KEYS) v
		CROSS JOIN base b ON b.uri = v.column2 CROSS JOIN resource r ON r.base = b.id AND r.rest = v.column3
		CROSS JOIN directory d ON d.id = r.dir LEFT JOIN member m ON m.set_id = ? AND m.resource = r.id`, "(?,?,?)", splitKeys(uris), set)
	if err != nil {
		return nil, err
	}
	return all, nil
}

// scanResource reads resourceColumns, memberColumns and then extra. memberColumns are
// all NULL for a resource that is not a member.
func scanResource(rows *sql.Rows, r *Resource, extra ...any) error {
	var (
		crc             uint32
		sha256          []byte
		length, changed sql.NullInt64
		digests         string
		member          struct{ lastmod, changefreq, due, wanted, remainder sql.NullString }
	)
	dest := append(make([]any, 0, 20), &r.ID, &r.URI, &crc, &r.Path, &r.Stored, &length, &sha256, &digests, &r.Verified, &r.Type, &r.Encoding, &r.Stat,
		&changed, &member.lastmod, &member.changefreq, &member.due, &member.wanted, &member.remainder)
	if err := rows.Scan(append(dest, extra...)...); err != nil {
		return err
	}
	if crc != crcOf(r.URI) {
		return fmt.Errorf("%w: row %d holds %q, which is not the URI that was recorded; %s", ErrDamaged, r.ID, r.URI, hint)
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

// Conversions between Go values and column values.

func readTime(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

// writeMicros returns a time in microseconds since 1970, and 0 for the zero time.
func writeMicros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func readMicros(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return readTime(micros)
}

func readLength(n sql.NullInt64) resourcesync.Length {
	if !n.Valid {
		return resourcesync.Length{}
	}
	return resourcesync.Bytes(n.Int64)
}

// writeText returns NULL for "".
func writeText(s string) sql.NullString { return sql.NullString{String: s, Valid: s != ""} }

func writeLength(l resourcesync.Length) sql.NullInt64 {
	return sql.NullInt64{Int64: l.Int64(), Valid: l.Known()}
}

// readDigests parses the digests column. If it is empty, the SHA-256 is the only
// digest.
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

// writeDigests returns "" for a single SHA-256, which has its own column.
func writeDigests(ds resourcesync.Digests) string {
	if len(ds) == 1 && ds[0].Algorithm() == resourcesync.SHA256 {
		return ""
	}
	return ds.String()
}

// writeSHA256 returns NULL if the digest is unknown.
func writeSHA256(ds resourcesync.Digests) []byte { return writeSum(ds.Get(resourcesync.SHA256)) }

// writeSum returns NULL if the digest is zero.
func writeSum(d resourcesync.Digest) []byte {
	if d.IsZero() {
		return nil
	}
	return d.Sum()
}

// readSHA256 returns the zero Digest for NULL.
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

// CROSS JOIN makes SQLite read the tables in this order, in which it does not have to
// sort rows.
const (
	membersQuery = "SELECT " + resourceColumns + ", " + memberColumns + `
		FROM member m CROSS JOIN resource r ON r.id = m.resource` + placed + `
		WHERE m.set_id = $3 AND m.resource > $1 AND m.resource <= $2 ORDER BY m.resource`
	membersFromQuery = "SELECT " + resourceColumns + ", " + memberColumns + `
		FROM member m CROSS JOIN resource r ON r.id = m.resource` + placed + `
		WHERE m.set_id = $1 AND m.resource >= $2 ORDER BY m.resource LIMIT $3`

	byKey     = " FROM base b CROSS JOIN resource r ON r.base = b.id CROSS JOIN member m ON m.set_id = $1 AND m.resource = r.id "
	withPaths = "CROSS JOIN directory d ON d.id = r.dir "
	// The keys after a given one: first the others in its directory, then those in
	// later directories.
	sameBase  = "WHERE b.uri = $2 AND r.rest > $3 "
	laterBase = "WHERE b.uri > $2 AND $3 = '' "
)

const (
	listMembers = "list members of a set in the catalog"
	greatestID  = "SELECT COALESCE(MAX(id), 0) FROM resource"
)

func oneResource(rows *sql.Rows) (r Resource, err error) {
	err = scanResource(rows, &r)
	return r, err
}

// Members yields the members of a set in the order in which they were first recorded.
func (c *Facts) Members(ctx context.Context, set SetID) iter.Seq2[Resource, error] {
	return spans(c.reading(ctx, listMembers), greatestID, func(of reading, into []Resource, after, through int64) ([]Resource, error) {
		return appendRows(of, into, oneResource, membersQuery, after, through, set)
	})
}

// MembersFrom returns at most n members of a set whose ID is at least id, in the order
// in which they were first recorded.
func (c *Facts) MembersFrom(ctx context.Context, set SetID, id int64, n int) ([]Resource, error) {
	return rows(c.reading(ctx, listMembers), oneResource, membersFromQuery, set, id, n)
}

// LastID returns the greatest ID of a resource; 0 if there is none.
func (c *Facts) LastID(ctx context.Context) (id int64, err error) {
	id, _, err = value[int64](c.reading(ctx, listMembers), greatestID)
	return id, err
}

// MembersByKey yields the members of a set in ascending order of their keys.
func (c *Facts) MembersByKey(ctx context.Context, set SetID) iter.Seq2[Resource, error] {
	return listByKey(c.reading(ctx, listMembers), "SELECT "+resourceColumns+", "+memberColumns+byKey+withPaths, "", func(rows *sql.Rows) (r Resource, key resourcesync.Key, err error) {
		err = scanResource(rows, &r)
		return r, resourcesync.KeyOf(r.URI), err
	}, set)
}

// seen is a resource as seen from one of several sets.
type seen struct {
	Resource
	set SetID
}

// byKeyOf is byKey for several sets: the first is $1, the others follow $4.
const byKeyOf = " FROM base b CROSS JOIN resource r ON r.base = b.id CROSS JOIN member m ON m.set_id IN ($1%s) AND m.resource = r.id " + withPaths

// MembersOf yields each resource that is a member of at least one of the sets, in
// ascending order of keys. The slice has the resource as seen from each set, in the
// order of sets, and the zero Resource for a set without it. Each slice was read by one
// query, so a resource that moves from one set to another is not missed. The next
// iteration overwrites the slice.
func (c *Facts) MembersOf(ctx context.Context, sets []SetID) iter.Seq2[[]Resource, error] {
	return func(yield func([]Resource, error) bool) {
		if len(sets) == 0 {
			return
		}
		of, uri := make([]Resource, len(sets)), ""
		for m, err := range c.seenFrom(ctx, sets) {
			if err != nil {
				yield(nil, err)
				return
			}
			if uri != "" && m.URI != uri {
				if !yield(of, nil) {
					return
				}
				clear(of)
			}
			of[slices.Index(sets, m.set)], uri = m.Resource, m.URI
		}
		if uri != "" {
			yield(of, nil)
		}
	}
}

// seenFrom yields the members of sets in ascending order of their keys. All rows of one
// key were read by the same query.
func (c *Facts) seenFrom(ctx context.Context, sets []SetID) iter.Seq2[seen, error] {
	query, others := membersOfQuery(len(sets)), make([]any, 0, len(sets))
	for _, set := range sets[1:] {
		others = append(others, set)
	}
	most := pageSize + len(sets) // so that pageSize rows remain without those of the last key
	return pages(c.reading(ctx, "list members of sets in the catalog"), resourcesync.Key(""), func(of reading, into []seen, after resourcesync.Key) ([]seen, resourcesync.Key, error) {
		base, rest := after.Split()
		one := func(r *sql.Rows) (v seen, err error) { return v, scanResource(r, &v.Resource, &v.set) }
		into, err := appendRows(of, into, one, query+sameBase+"ORDER BY r.rest LIMIT $4", append([]any{sets[0], base, rest, most}, others...)...)
		if n := most - len(into); err == nil && n > 0 {
			into, err = appendRows(of, into, one, query+laterBase+"ORDER BY b.uri, r.rest LIMIT $4", append([]any{sets[0], base, "", n}, others...)...)
		}
		if len(into) == most { // there may be more rows of the last key
			last := into[most-1].URI
			into = into[:slices.IndexFunc(into, func(v seen) bool { return v.URI == last })]
		}
		if len(into) > 0 {
			after = resourcesync.KeyOf(into[len(into)-1].URI)
		}
		return into, after, err
	})
}

// membersOfQuery returns the query of MembersOf for a number of sets, without its
// condition.
func membersOfQuery(sets int) string {
	var others strings.Builder
	for i := 1; i < sets; i++ {
		fmt.Fprintf(&others, ", $%d", i+4)
	}
	return "SELECT " + resourceColumns + ", " + memberColumns + ", m.set_id" + fmt.Sprintf(byKeyOf, others.String())
}

// MemberKeys yields the keys of the members of a set in ascending order.
func (c *Facts) MemberKeys(ctx context.Context, set SetID) iter.Seq2[resourcesync.Key, error] {
	return listByKey(c.reading(ctx, listMembers), "SELECT b.uri || r.rest"+byKey, "", scanKey, set)
}

func scanKey(rows *sql.Rows) (key, same resourcesync.Key, err error) {
	var uri string
	err = rows.Scan(&uri)
	key = resourcesync.KeyOf(uri)
	return key, key, err
}

// listByKey yields the members of the set $1 in ascending order of their keys, from a
// byKey query with the condition only. The arguments of the condition begin at $5.
func listByKey[T any](of reading, query, only string, scan func(*sql.Rows) (T, resourcesync.Key, error), set SetID, args ...any) iter.Seq2[T, error] {
	return pages(of, resourcesync.Key(""), func(of reading, into []T, after resourcesync.Key) ([]T, resourcesync.Key, error) {
		base, rest := after.Split()
		one := func(r *sql.Rows) (v T, err error) {
			v, after, err = scan(r)
			return v, err
		}
		into, err := appendRows(of, into, one, query+sameBase+only+"ORDER BY r.rest LIMIT $4", append([]any{set, base, rest, pageSize}, args...)...)
		if n := pageSize - len(into); err == nil && n > 0 {
			into, err = appendRows(of, into, one, query+laterBase+only+"ORDER BY b.uri, r.rest LIMIT $4", append([]any{set, base, "", n}, args...)...)
		}
		return into, after, err
	})
}
