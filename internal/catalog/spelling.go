package catalog

import "context"

// Spells reports whether an adopted publication uses, for some files, other URIs than
// this program would use.
func (c *Publisher) Spells(ctx context.Context) (bool, error) {
	return exists(c.reading(ctx, "find out whether the catalog has adopted URIs"), "spelling")
}

// Spellings returns the URIs that an adopted publication uses for files, by the URIs
// that this program would use for these files. It omits a file if both URIs are equal.
func (c *Publisher) Spellings(ctx context.Context, uris []string) (map[string]string, error) {
	spelled := map[string]string{}
	var i int
	var uri string
	err := lookup(c.reading(ctx, "look up adopted URIs in the catalog"), []any{&i, &uri}, func() { spelled[uris[i]] = uri },
		"SELECT v.column1, s.uri FROM (VALUES KEYS) v CROSS JOIN spelling s ON s.key = v.column2", "(?,?)", sumKeys(uris))
	return spelled, err
}

// Spell records that the adopted publication uses uri for a file for which this program
// would use usualURI. A later call with the same usualURI replaces an earlier one. A
// call has no effect if the publication has a resource with the URI usualURI. If a call
// is replaced or has no effect, its resource uri gets no file.
func (a *Adoption) Spell(usualURI, uri string) error {
	var before string
	if a.rec.scanRow([]any{&before}, "SELECT uri FROM spelling WHERE key = $1", key(usualURI)) && before != uri {
		a.unlinkFiles([]string{before})
	}
	a.rec.exec("INSERT INTO spelling (key, uri, own) VALUES ($1, $2, $3) ON CONFLICT (key) DO UPDATE SET uri = excluded.uri", key(usualURI), uri, usualURI)
	return a.rec.err
}

// unlinkFiles records that resources have no file, by making their URIs their paths: no
// file has such a path.
func (a *Adoption) unlinkFiles(uris []string) {
	for uri, id := range a.rec.rowsOf(uris) {
		dir, name := split(uri)
		a.rec.enterDirectories([]string{dir}, unfolded)
		a.rec.exec("UPDATE resource SET dir = $2, name = $3 WHERE id = $1", id, a.rec.dirs[dir], name)
	}
}

// dropSpellings deletes the records of Spell whose usualURI belongs to another resource
// of the publication.
func (a *Adoption) dropSpellings() {
	for {
		var uris []string
		var keys []any
		var own, uri string
		a.rec.scanRows([]any{&own, &uri}, func() { uris, keys = append(uris, uri), append(keys, key(own)) },
			`SELECT s.own, s.uri FROM spelling s WHERE EXISTS (SELECT 1 FROM base b CROSS JOIN resource r ON r.base = b.id
			AND r.rest = substr(s.own, length(b.uri) + 1) CROSS JOIN member m ON m.resource = r.id WHERE b.uri = rtrim(s.own, replace(s.own, '/', ''))) LIMIT $1`, lookupSize)
		if len(uris) == 0 {
			return
		}
		a.unlinkFiles(uris)
		a.rec.exec("DELETE FROM spelling WHERE key IN ("+repeated("?", len(keys))+")", keys...)
	}
}
