package catalog

import (
	"context"
	"database/sql"
	"slices"
	"strings"
)

// Cached facts about the table of spellings, which is queried once, since hardly any
// catalog has one.
const (
	spellingsUnknown int32 = iota
	spellingsNone
	spellingsSome
)

// Spells reports whether an adopted publication spells a URI in another way than we do.
func (c *Publisher) Spells(ctx context.Context) (bool, error) {
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

// Spellings returns the URIs by which an adopted publication knows resources, by the URI
// that we would give them. Those that it spells as we do are left out.
func (c *Publisher) Spellings(ctx context.Context, uris []string) (map[string]string, error) {
	spelled := map[string]string{}
	for some := range slices.Chunk(uris, lookupSize) {
		of := make(map[Sum]string, len(some))
		args := make([]any, len(some))
		for i, uri := range some {
			key := SumOf(uri)
			of[key], args[i] = uri, key[:]
		}
		type row struct {
			key []byte
			uri string
		}
		found, err := rows(ctx, c.db, "look up adopted URIs in", func(r *sql.Rows) (v row, err error) { return v, r.Scan(&v.key, &v.uri) },
			"SELECT key, uri FROM spelling WHERE key IN ("+placeholders(len(some))+")", args...)
		if err != nil {
			return nil, err
		}
		for _, v := range found {
			spelled[of[Sum(v.key)]] = v.uri
		}
	}
	return spelled, nil
}

// Spell records the publication's spelling of the URI of a resource, to which we would give
// the URI own. Of several spellings the last one counts; none does if own is a member
// itself. A resource in another spelling has no file.
func (a *Adoption) Spell(own, uri string) error {
	key := SumOf(own)
	row, err := a.rec.row("SELECT COALESCE((SELECT uri FROM spelling WHERE key = $1), '')", key[:])
	var before string
	if err == nil {
		err = row.Scan(&before)
	}
	if err == nil && before != "" && before != uri {
		err = a.withoutFile([]string{before})
	}
	if err == nil {
		_, err = a.rec.exec("INSERT INTO spelling (key, uri, own) VALUES ($1, $2, $3) ON CONFLICT (key) DO UPDATE SET uri = excluded.uri", key[:], uri, own)
	}
	return err
}

// withoutFile gives resources a path that no file has: their URIs.
func (a *Adoption) withoutFile(uris []string) error {
	rows, err := a.rec.numbers(uris)
	if err != nil {
		return err
	}
	for uri, id := range rows {
		dir, name := split(uri)
		if err := a.rec.enterDirectories([]string{dir}, unfolded); err != nil {
			return err
		}
		if _, err := a.rec.exec("UPDATE resource SET dir = $2, name = $3 WHERE id = $1", id, a.rec.dirs[dir], name); err != nil {
			return err
		}
	}
	return nil
}

// settleSpellings drops the spellings of files that are members under the URI that we give
// them.
func (a *Adoption) settleSpellings() error {
	for {
		var uris []string
		var keys []any
		err := a.rec.eachPair(`SELECT 0, s.own || char(10) || s.uri FROM spelling s WHERE EXISTS (SELECT 1 FROM base b CROSS JOIN resource r ON r.base = b.id
			AND r.rest = substr(s.own, length(b.uri) + 1) CROSS JOIN member m ON m.resource = r.id WHERE b.uri = rtrim(s.own, replace(s.own, '/', ''))) LIMIT $1`,
			[]any{lookupSize}, func(_ int64, pair string) {
				own, uri, _ := strings.Cut(pair, "\n")
				key := SumOf(own)
				uris, keys = append(uris, uri), append(keys, key[:])
			})
		if err != nil || len(uris) == 0 {
			return err
		}
		if err := a.withoutFile(uris); err != nil {
			return err
		}
		if _, err := a.rec.exec("DELETE FROM spelling WHERE key IN ("+placeholders(len(keys))+")", keys...); err != nil {
			return err
		}
	}
}
