package catalog

import "context"

// Spells reports whether an adopted publication uses another URI for any file than this
// program would.
func (c *Publisher) Spells(ctx context.Context) (bool, error) {
	return exists(c.reading(ctx, "find out whether the catalog has adopted URIs"), "spelling")
}

// Spellings returns the URIs that an adopted publication uses for files. The keys of
// the map are the URIs that this program would use for the same files. It omits files
// for which both are equal.
func (c *Publisher) Spellings(ctx context.Context, uris []string) (map[string]string, error) {
	spelled := map[string]string{}
	var i int
	var uri string
	err := lookup(c.reading(ctx, "look up adopted URIs in the catalog"), []any{&i, &uri}, func() { spelled[uris[i]] = uri },
		"SELECT v.column1, s.uri FROM (VALUES KEYS) v CROSS JOIN spelling s ON s.key = v.column2", "(?,?)", sumKeys(uris))
	return spelled, err
}

// Spell records that the adopted publication uses the URI uri for the file to which
// this program would give the URI own. If Spell is called more than once for a file,
// the last call is valid. If own is itself a resource of the publication, no call is
// valid. The resource uri of a call that is not valid has no file.
func (a *Adoption) Spell(own, uri string) error {
	var before string
	if a.rec.first([]any{&before}, "SELECT uri FROM spelling WHERE key = $1", key(own)) && before != uri {
		a.withoutFile([]string{before})
	}
	a.rec.exec("INSERT INTO spelling (key, uri, own) VALUES ($1, $2, $3) ON CONFLICT (key) DO UPDATE SET uri = excluded.uri", key(own), uri, own)
	return a.rec.err
}

// withoutFile records that resources have no file: it makes their URIs their paths,
// because no file has such a path.
func (a *Adoption) withoutFile(uris []string) {
	for uri, id := range a.rec.rowsOf(uris) {
		dir, name := split(uri)
		a.rec.enterDirectories([]string{dir}, unfolded)
		a.rec.exec("UPDATE resource SET dir = $2, name = $3 WHERE id = $1", id, a.rec.dirs[dir], name)
	}
}

// settleSpellings deletes the recorded URI of a file if the publication has another
// resource with the URI that this program would use for the file.
func (a *Adoption) settleSpellings() {
	for {
		var uris []string
		var keys []any
		var own, uri string
		a.rec.each([]any{&own, &uri}, func() { uris, keys = append(uris, uri), append(keys, key(own)) },
			`SELECT s.own, s.uri FROM spelling s WHERE EXISTS (SELECT 1 FROM base b CROSS JOIN resource r ON r.base = b.id
			AND r.rest = substr(s.own, length(b.uri) + 1) CROSS JOIN member m ON m.resource = r.id WHERE b.uri = rtrim(s.own, replace(s.own, '/', ''))) LIMIT $1`, lookupSize)
		if len(uris) == 0 {
			return
		}
		a.withoutFile(uris)
		a.rec.exec("DELETE FROM spelling WHERE key IN ("+repeated("?", len(keys))+")", keys...)
	}
}
