package catalog

import (
	"database/sql"
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/pressly/goose/v3"

	"instep/resourcesync"
)

// A catalog of the schema before, with a mirror's rows and a Source's, keeps all it
// knew: digests, memberships and their counts, paths that are taken, the clock.
func TestCatalogOfEarlierSchemaIsBroughtUpToDate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalog.db")
	db := earlier(t, path, 2)
	exec := func(query string, args ...any) {
		if _, err := db.Exec(query, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec("INSERT INTO setting VALUES ('uuid', 'f3c0'), ('floor', '4000000000000000')")
	exec("INSERT INTO sets (name) VALUES (''), ('other'), ('empty')")
	for set, names := range map[int][]string{1: {"a", "b"}, 2: {"a"}} {
		for _, name := range names {
			ch, fold := change(t, resourcesync.Created, name, name), resourcesync.KeyOf(name)
			exec(`INSERT INTO resource (key, uri, path, fold, stored, length, sha256, digests, verified, type, stat)
				VALUES ($1, $2, $3, $4, TRUE, 1, $5, $6, FALSE, 'text/plain', 'at rest') ON CONFLICT DO NOTHING`,
				ch.Key[:], ch.URI, name, fold[:], writeSHA256(ch.Digests), ch.Digests.String())
			exec("INSERT INTO member VALUES ($1, $2, 5, '', '', '')", set, ch.Key[:])
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	c := reopen(t, path, false)
	counted(t, c)
	for s, want := range map[SetID]string{1: "a b", 2: "a", 3: ""} {
		members := collect(t, c.Members(t.Context(), s))
		if got := paths(members); got != want {
			t.Errorf("members of set %d: got %q, want %q", s, got, want)
		}
		for _, m := range members {
			if m.Digests.String() != sum(t, m.Path).String() || m.Stat != "at rest" || m.Encoding != "" {
				t.Errorf("member %+v, want what it was", m)
			}
		}
	}
	if ok, err := c.Names(t.Context()).File(resourcesync.KeyOf("b")); !ok || err != nil {
		t.Errorf("path b is taken: got %v, %v; want true", ok, err)
	}
	changes := record(t, c, 1, change(t, resourcesync.Updated, "a", "new"), change(t, resourcesync.Deleted, "b", ""))
	if got, want := changes[0].Datetime, readTime(4e15); got != want {
		t.Errorf("the next change has %s, want the moment that was reserved, %s", got, want)
	}
	counted(t, c)
}

func TestSchemaGoesBackAndForth(t *testing.T) {
	c := open(t)
	s := set(t, c, "")
	record(t, c, s, change(t, resourcesync.Created, "a", "1"), change(t, resourcesync.Created, "b", "2"))
	want := collect(t, c.Members(t.Context(), s))
	p := provider(t, c.write)
	if _, err := p.DownTo(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range want { // the schema before had no place for them
		want[i].Encoding, want[i].ChangeFreq, want[i].Remainder = "", "", ""
	}
	if d := diff(collect(t, c.Members(t.Context(), s)), want); d != "" {
		t.Errorf("Members (-got +want):\n%s", d)
	}
	counted(t, c)
}

func provider(t *testing.T, db *sql.DB) *goose.Provider {
	t.Helper()
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, files)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// earlier makes a catalog of an earlier schema.
func earlier(t *testing.T, path string, version int64) *sql.DB {
	t.Helper()
	db, err := openFile(path, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(fmt.Sprintf("PRAGMA application_id = %d", applicationID)); err != nil {
		t.Fatal(err)
	}
	if _, err := provider(t, db).UpTo(t.Context(), version); err != nil {
		t.Fatal(err)
	}
	return db
}
