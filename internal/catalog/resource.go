package catalog

import (
	"context"
	"iter"
	"slices"

	"instep/resourcesync"
)

// Columns and joins for a resource r and its path.
const (
	resourceColumns = "r.id, b.uri || r.rest, r.crc, d.path || COALESCE(r.name, r.rest), r.stored, r.length, " + digestsColumn + ", r.verified, r.type, r.encoding, r.stat"
	placed          = " CROSS JOIN base b ON b.id = r.base CROSS JOIN directory d ON d.id = r.dir "
	memberColumns   = ", m.set_id IS NOT NULL, m.changed, m.lastmod, m.changefreq, m.due, m.wanted, m.remainder"
	noMember        = ", FALSE, NULL, NULL, NULL, NULL, NULL, NULL" // replaces memberColumns in a query without a set
)

func (r *Resource) columns() []any {
	return []any{&r.ID, &r.URI, checksumOf(&r.URI), &r.Path, &r.Stored, lengthTo(&r.Length), digestsTo(&r.URI, &r.Digests), &r.Verified, &r.Type, &r.Encoding, &r.Stat,
		&r.Member, timeTo(&r.Changed), datetimeTo(&r.URI, &r.LastMod), textTo(&r.ChangeFreq), textTo(&r.Due), textTo(&r.Wanted), textTo(&r.Remainder)}
}

// Lookup returns the resource of each URI as it is in a set, in the order of the URIs.
// For an unknown URI it returns the zero Resource.
func (c *Facts) Lookup(ctx context.Context, set SetID, uris []string) ([]Resource, error) {
	all := make([]Resource, len(uris))
	var i int
	var v Resource
	err := lookup(c.reading(ctx, "look up resources in the catalog"), append(v.columns(), &i), func() { all[i] = v },
		"SELECT "+resourceColumns+memberColumns+", v.column1"+byURI+`CROSS JOIN directory d ON d.id = r.dir
		LEFT JOIN member m ON m.set_id = ? AND m.resource = r.id`, "(?,?,?)", splitKeys(uris), set)
	if err != nil {
		return nil, err
	}
	return all, nil
}

// byURI finds resources by their URIs. It is a part of a query for lookup, whose keys
// splitKeys returns.
const byURI = " FROM (VALUES KEYS) v CROSS JOIN base b ON b.uri = v.column2 CROSS JOIN resource r ON r.base = b.id AND r.rest = v.column3 "

// CROSS JOIN makes SQLite read the tables in this order, so that it does not have to
// sort the rows.
const (
	membersQuery = "SELECT " + resourceColumns + memberColumns + " FROM member m CROSS JOIN resource r ON r.id = m.resource" + placed + `
		WHERE m.set_id = $3 AND m.resource > $1 ORDER BY m.resource LIMIT $2`

	// To find the keys after a given key, a query first uses the condition sameBase for
	// the rest of the same directory, and then laterBase for later directories.
	sameBase  = "WHERE b.uri = ? AND r.rest > ? "
	laterBase = "WHERE b.uri > ? "
	withPaths = "CROSS JOIN directory d ON d.id = r.dir "
)

const (
	listMembers = "list members of a set in the catalog"
	greatestID  = "SELECT COALESCE(MAX(id), 0) FROM resource"
)

// Members yields the members of a set in the order in which they were first recorded.
func (c *Facts) Members(ctx context.Context, set SetID) iter.Seq2[Resource, error] {
	return listing(c.reading(ctx, listMembers), membersQuery, 0, (*Resource).byID, set)
}

func (r *Resource) byID() (cursor any, columns []any) { return &r.ID, r.columns() }

// MembersFrom returns the first n members of a set with an ID of at least id, in the
// order in which they were first recorded.
func (c *Facts) MembersFrom(ctx context.Context, set SetID, id int64, n int) ([]Resource, error) {
	return queryAll(c.reading(ctx, listMembers), nil, (*Resource).columns, membersQuery, id-1, n, set)
}

// LastID returns the greatest ID of a resource, or 0 if there are none.
func (c *Facts) LastID(ctx context.Context) (id int64, err error) {
	id, _, err = queryValue[int64](c.reading(ctx, listMembers), greatestID)
	return id, err
}

// MembersByKey yields the members of a set in ascending order of their keys.
func (c *Facts) MembersByKey(ctx context.Context, set SetID) iter.Seq2[Resource, error] {
	return listByKey(c.reading(ctx, listMembers), resourceColumns+memberColumns, withPaths, (*Resource).columns,
		func(r Resource) resourcesync.Key { return resourcesync.KeyOf(r.URI) }, []SetID{set})
}

type setMember struct {
	Resource
	set SetID
}

func (m *setMember) columns() []any { return append(m.Resource.columns(), &m.set) }

func (m setMember) key() resourcesync.Key { return resourcesync.KeyOf(m.URI) }

// MembersOf yields a slice for each resource that is in at least one of the sets, in
// ascending order of keys. The slice has one element for each set, in the order of
// sets: the resource as it is in that set, or the zero Resource if it is not a member.
// One query reads the whole slice, so that a resource that moves from one set to
// another at the same time is in one of them. The next iteration overwrites the slice.
func (c *Facts) MembersOf(ctx context.Context, sets []SetID) iter.Seq2[[]Resource, error] {
	return func(yield func([]Resource, error) bool) {
		if len(sets) == 0 {
			return
		}
		of, uri := make([]Resource, len(sets)), ""
		rows := listByKey(c.reading(ctx, "list members of sets in the catalog"), resourceColumns+memberColumns+", m.set_id", withPaths, (*setMember).columns, setMember.key, sets)
		for m, err := range rows {
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

// MemberKeys yields the keys of the members of a set in ascending order.
func (c *Facts) MemberKeys(ctx context.Context, set SetID) iter.Seq2[resourcesync.Key, error] {
	return c.memberKeys(ctx, set, "")
}

// memberKeys yields the keys of the members that satisfy a condition, which begins with
// AND.
func (c *db) memberKeys(ctx context.Context, set SetID, condition string, args ...any) iter.Seq2[resourcesync.Key, error] {
	return listByKey(c.reading(ctx, listMembers), "b.uri || r.rest", condition, func(k *resourcesync.Key) []any { return []any{keyTo(k)} },
		func(k resourcesync.Key) resourcesync.Key { return k }, []SetID{set}, args...)
}

// listByKey yields the members of sets in ascending order of their keys. A resource that
// is in several sets has a row for each, and one query reads all of them. The arguments
// columns and joined are parts of the query (see byKeyQuery), and args are the parameters
// in joined.
func listByKey[T any](of reading, columns, joined string, dest func(*T) []any, key func(T) resourcesync.Key, sets []SetID, args ...any) iter.Seq2[T, error] {
	args = append(anys(sets), args...)
	limit := pageSize + len(sets) // the last key of a page may be dropped, and has at most one row for each set
	return pages(of, resourcesync.Key(""), func(of reading, into []T, after resourcesync.Key) ([]T, resourcesync.Key, error) {
		base, rest := after.Split()
		into, err := queryAll(of, into, dest, byKeyQuery(columns, len(sets), joined, sameBase), slices.Concat(args, []any{base, rest, limit})...)
		if n := limit - len(into); err == nil && n > 0 {
			into, err = queryAll(of, into, dest, byKeyQuery(columns, len(sets), joined, laterBase), slices.Concat(args, []any{base, n})...)
		}
		if len(into) == limit { // the page may lack some rows of its last key, so that key is left for the next page
			for last := key(into[limit-1]); len(into) > 0 && key(into[len(into)-1]) == last; {
				into = into[:len(into)-1]
			}
		}
		if len(into) > 0 {
			after = key(into[len(into)-1])
		}
		return into, after, err
	})
}

// byKeyQuery returns a query that lists members m of sets, with their resources r, in
// the order of keys. The text joined stands after the join of these tables: it is another
// join, or a condition that begins with AND. The text where says at which key the list
// begins. All parameters are "?", in this order: the IDs of the sets, the parameters in
// joined, the parameters in where, and the maximum number of rows.
func byKeyQuery(columns string, sets int, joined, where string) string {
	return "SELECT " + columns + " FROM base b CROSS JOIN resource r ON r.base = b.id CROSS JOIN member m ON m.set_id IN (" + repeated("?", sets) + ") AND m.resource = r.id " +
		joined + where + "ORDER BY b.uri, r.rest LIMIT ?"
}
