package catalog

import (
	"context"
	"database/sql"
	"slices"

	"instep/resourcesync"
)

// What is known of the table of spellings: it is asked once, as hardly any catalog has one.
const (
	spellingsUnknown int32 = iota
	spellingsNone
	spellingsSome
)

// Spells reports whether an adopted publication spells a URI in another way than we do.
func (c *Catalog) Spells(ctx context.Context) (bool, error) {
	if known := c.spellings.Load(); known != spellingsUnknown {
		return known == spellingsSome, nil
	}
	var some bool
	if err := c.read.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM spelling)").Scan(&some); err != nil {
		return false, c.fail("look for adopted URIs in", err)
	}
	known := spellingsNone
	if some {
		known = spellingsSome
	}
	c.spellings.Store(known)
	return some, nil
}

// Spellings returns the URIs by which an adopted publication knows resources, by the key
// of the URI that we would give them. Those that it spells as we do are left out.
func (c *Catalog) Spellings(ctx context.Context, keys []resourcesync.Key) (map[resourcesync.Key]string, error) {
	type row struct {
		key []byte
		uri string
	}
	uris := map[resourcesync.Key]string{}
	for some := range slices.Chunk(keys, lookupSize) {
		args := make([]any, len(some))
		for i := range some {
			args[i] = some[i][:]
		}
		found, err := rows(ctx, c, "look up adopted URIs in", func(r *sql.Rows) (v row, err error) { return v, r.Scan(&v.key, &v.uri) },
			"SELECT key, uri FROM spelling WHERE key IN ("+placeholders(len(some))+")", args...)
		if err != nil {
			return nil, err
		}
		for _, v := range found {
			uris[resourcesync.Key(v.key)] = v.uri
		}
	}
	return uris, nil
}

// Spell keeps the URI of a resource as the publication spells it. We would give it the
// URI own. Of several spellings the last one counts, and none if own is a member itself.
// A resource by one of the others has no file: that is the other's.
func (a *Adoption) Spell(own, uri string) error {
	key := resourcesync.KeyOf(own)
	row, err := a.rec.row("SELECT COALESCE((SELECT uri FROM spelling WHERE key = $1), '')", key[:])
	var before string
	if err == nil {
		err = row.Scan(&before)
	}
	if err == nil && before != "" && before != uri {
		other := resourcesync.KeyOf(before)
		_, err = a.rec.exec("UPDATE resource SET path = uri WHERE key = $1", other[:])
	}
	if err == nil {
		_, err = a.rec.exec("INSERT INTO spelling (key, uri) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET uri = excluded.uri", key[:], uri)
	}
	return err
}

// settleSpellings drops those of files that are members by the URI that we give them.
func (a *Adoption) settleSpellings() error {
	const ownMember = "spelling WHERE key IN (SELECT key FROM member)"
	_, err := a.rec.exec("UPDATE resource SET path = uri WHERE uri IN (SELECT uri FROM " + ownMember + ")")
	if err == nil {
		_, err = a.rec.exec("DELETE FROM " + ownMember)
	}
	return err
}
