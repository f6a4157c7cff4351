package catalog

import (
	"context"
	"database/sql"
)

// Spells reports whether an adopted publication spells the URI of any resource
// differently than we would.
func (c *Publisher) Spells(ctx context.Context) (bool, error) {
	_, some, err := value[int](c.reading(ctx, "look for adopted URIs in the catalog"), "SELECT 1 FROM spelling LIMIT 1")
	return some, err
}

// Spellings returns the URIs by which an adopted publication lists resources, by the
// URI that we would give them. It omits those that are the same.
func (c *Publisher) Spellings(ctx context.Context, uris []string) (map[string]string, error) {
	spelled := map[string]string{}
	err := lookup(c.reading(ctx, "look up adopted URIs in the catalog"), func(rows *sql.Rows) error {
		var i int
		var uri string
		err := rows.Scan(&i, &uri)
		spelled[uris[i]] = uri
		return err
	}, "SELECT v.column1, s.uri FROM (VALUES KEYS) v CROSS JOIN spelling s ON s.key = v.column2", "(?,?)", sumKeys(uris))
	return spelled, err
}

// Spell records that the publication lists the resource with our URI own as uri. The
// last of several spellings counts; none counts if own is a member itself. A resource
// with a spelling that does not count has no file.
func (a *Adoption) Spell(own, uri string) error {
	key := SumOf(own)
	before, found, err := value[string](a.rec, "SELECT uri FROM spelling WHERE key = $1", key[:])
	if err == nil && found && before != uri {
		err = a.withoutFile([]string{before})
	}
	if err == nil {
		_, err = a.rec.exec("INSERT INTO spelling (key, uri, own) VALUES ($1, $2, $3) ON CONFLICT (key) DO UPDATE SET uri = excluded.uri", key[:], uri, own)
	}
	return err
}

// withoutFile gives resources paths that no file has: their URIs.
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

// settleSpellings removes the spellings of files that are members under our URI.
func (a *Adoption) settleSpellings() error {
	for {
		var uris []string
		var keys []any
		err := each(a.rec, func(rows *sql.Rows) error {
			var own, uri string
			err := rows.Scan(&own, &uri)
			key := SumOf(own)
			uris, keys = append(uris, uri), append(keys, key[:])
			return err
		}, `SELECT s.own, s.uri FROM spelling s WHERE EXISTS (SELECT 1 FROM base b CROSS JOIN resource r ON r.base = b.id
			AND r.rest = substr(s.own, length(b.uri) + 1) CROSS JOIN member m ON m.resource = r.id WHERE b.uri = rtrim(s.own, replace(s.own, '/', ''))) LIMIT $1`, lookupSize)
		if err != nil || len(uris) == 0 {
			return err
		}
		if err := a.withoutFile(uris); err != nil {
			return err
		}
		if _, err := a.rec.exec("DELETE FROM spelling WHERE key IN ("+repeated("?", len(keys))+")", keys...); err != nil {
			return err
		}
	}
}
