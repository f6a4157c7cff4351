package catalog

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pressly/goose/v3"

	"instep/internal/durable"
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
			ch, fold := change(t, resourcesync.Created, name, name), SumOf(name)
			key := SumOf(ch.URI)
			exec(`INSERT INTO resource (key, uri, path, fold, stored, length, sha256, digests, verified, type, stat)
				VALUES ($1, $2, $3, $4, TRUE, 1, $5, $6, FALSE, 'text/plain', 'at rest') ON CONFLICT DO NOTHING`,
				key[:], ch.URI, name, fold[:], ch.Digests.Get(resourcesync.SHA256).Sum(), ch.Digests.String())
			exec("INSERT INTO member VALUES ($1, $2, 5, '', '', '')", set, key[:])
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	c := reopen(t, path, false)
	counted(t, c)
	for s, want := range map[SetID]string{1: "a b", 2: "a", 3: ""} {
		members := collect(t, c.Facts.Members(t.Context(), s))
		if got := paths(members); got != want {
			t.Errorf("members of set %d: got %q, want %q", s, got, want)
		}
		for _, m := range members {
			if m.Digests.String() != sum(t, m.Path).String() || m.Stat != "at rest" || m.Encoding != "" {
				t.Errorf("member %+v, want what it was", m)
			}
		}
	}
	if ok, err := c.Mirror.Names(t.Context()).File("b"); !ok || err != nil {
		t.Errorf("path b is taken: got %v, %v; want true", ok, err)
	}
	changes := record(t, c, 1, change(t, resourcesync.Updated, "a", "new"), change(t, resourcesync.Deleted, "b", ""))
	if got, want := changes[0].Datetime, readTime(4e15); got != want {
		t.Errorf("the next change has %s, want the moment that was reserved, %s", got, want)
	}
	counted(t, c)
}

func provider(t testing.TB, db *sql.DB) *goose.Provider {
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
func earlier(t testing.TB, path string, version int64) *sql.DB {
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

// host begins the URIs of the mirror of schema 12, and fillers are resources that make its
// migration long enough to be killed 200 times.
const (
	host    = "https://example.org/"
	fillers = 1100
)

// fillSchema12 makes a mirror's catalog of that schema with names that fold, what had arrived
// and was in no table yet, files that a crash left half done, earlier states and losses.
func fillSchema12(t *testing.T, path string) {
	t.Helper()
	db := earlier(t, path, 12)
	exec := func(query string, args ...any) {
		t.Helper()
		if _, err := db.Exec(query, args...); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	foldSum := func(path string) []byte {
		sum := SumOf(Fold(path))
		return sum[:]
	}
	exec("INSERT INTO setting VALUES ('uuid', 'f3c0')")
	exec("INSERT INTO sets (name, members, bytes) VALUES ('one', 3, 3), ('two', 1, 1), ('many', $1, $1)", fillers)
	exec("INSERT INTO run (begun, what, created, updated, deleted) VALUES (1, 'sync', 3, 0, 1)")
	for _, dir := range []string{"Grüße", "a"} {
		exec("INSERT INTO directory (fold, path) VALUES ($1, $2)", foldSum(dir), dir)
	}
	resource := func(uri, path string, sets ...int) {
		t.Helper()
		key := SumOf(uri)
		exec(`INSERT INTO resource (key, uri, path, fold, stored, length, sha256, digests, verified, type, encoding, stat)
			VALUES ($1, $2, $3, $4, TRUE, 1, $5, '', TRUE, 'text/plain', '', 'at rest')`, key[:], uri, path, foldSum(path), sum(t, path).Get(resourcesync.SHA256).Sum())
		for _, set := range sets {
			exec("INSERT INTO member (set_id, key, changed, lastmod, due, wanted, since, run, born, remainder) VALUES ($1, $2, 5, '', '', '', 6, 1, 1, '{}')", set, key[:])
		}
	}
	resource(host+"Gr%C3%BC%C3%9Fe/x", "Grüße/x", 1, 2)
	resource(host+"a/b", "a/b", 1)
	resource("https://other.example/a/b?c=d/e", "a/b~12345678", 1)
	for i := range fillers {
		name := fmt.Sprintf("many/%d/file %d", i%40, i)
		resource(host+name, name, 3)
	}
	key, gone := SumOf(host+"a/b"), SumOf(host+"gone")
	exec("INSERT INTO intent (key, path, kept, length, sha256, taken) VALUES ($1, 'a/b', 'kept/b', 2, $2, '')", key[:], sum(t, "new").Get(resourcesync.SHA256).Sum())
	exec(`INSERT INTO version (set_id, key, uri, path, kept, length, sha256, digests, verified, type, changed, lastmod, since, until, why, began, ended)
		VALUES (1, $1, $2, 'gone', 'kept/gone', 1, $3, '', TRUE, '', 1, '', 1, 2, 'deleted', 0, 1)`, gone[:], host+"gone", sum(t, "gone").Get(resourcesync.SHA256).Sum())
	exec("INSERT INTO extent (set_id, at, run, members) VALUES (1, 1, 0, 4)")
	exec("INSERT INTO loss (set_id, key, extent, born) VALUES (1, $1, 1, 0), (1, x'00112233445566778899aabbccddeeff', 1, 0)", gone[:])
	exec("INSERT INTO evidence (set_id, key, told, gone, moment, came) VALUES (1, $1, TRUE, TRUE, 7, 0)", gone[:])
	arrived := func(uri, path string, settled bool) {
		t.Helper()
		body, err := json.Marshal(map[string]any{"whole": true, "at": 8, "run": 1, "new": []any{map[string]any{
			"uri": uri, "path": path, "fold": foldSum(path), "length": 1, "sha256": sum(t, path).Get(resourcesync.SHA256).Sum(), "type": "text/css",
			"members": []any{map[string]any{"set": 2, "changed": 9, "told": true}},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		exec("INSERT INTO arrival (body, settled) VALUES ($1, $2)", string(body), settled)
	}
	arrived(host+"a/came", "a/came", true)
	arrived(host+"a/coming", "a/coming", false)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// wantSchema12 fails unless a catalog knows what fillSchema12 has entered.
func wantSchema12(t *testing.T, c *Catalog) {
	t.Helper()
	counted(t, c)
	if got := paths(collect(t, c.Facts.Members(t.Context(), 1))); got != "Grüße/x a/b a/b~12345678" {
		t.Errorf("members of one: %q", got)
	}
	two := collect(t, c.Facts.Members(t.Context(), 2))
	if got := paths(two); got != "Grüße/x a/came" || two[1].Type != "text/css" || two[1].URI != host+"a/came" {
		t.Errorf("members of two: %q: %+v", got, two)
	}
	if got := collect(t, c.Facts.Members(t.Context(), 3)); len(got) != fillers || got[fillers-1].Path != "many/19/file 1099" {
		t.Errorf("members of many: %d of them", len(got))
	}
	names := c.Mirror.Names(t.Context())
	for _, file := range []string{"GRÜSSE/X", "A/B", "a/B~12345678", "a/came"} {
		if ok, err := names.File(Fold(file)); !ok || err != nil {
			t.Errorf("the path %q is taken: got %v, %v; want true", file, ok, err)
		}
	}
	if dir, ok, err := names.Directory(Fold("grüße")); dir != "Grüße" || !ok || err != nil {
		t.Errorf("directory: got %q, %v, %v", dir, ok, err)
	}
	intents, err := c.Mirror.Intents(t.Context())
	if err != nil || len(intents) != 2 || intents[0].URI != host+"a/b" || intents[0].New || intents[0].Kept != "kept/b" ||
		intents[1].URI != host+"a/coming" || !intents[1].New || intents[1].Path != "a/coming" {
		t.Errorf("intents: %+v, %v", intents, err)
	}
	if ended := collect(t, c.Mirror.VersionsOf(t.Context(), host+"gone")); len(ended) != 1 || ended[0].Kept != "kept/gone" {
		t.Errorf("earlier states: %+v", ended)
	}
	if l, ok, err := c.Mirror.Losses(t.Context(), 1); l.Lost != 2 || !ok || err != nil {
		t.Errorf("losses: %+v, %v, %v; want 2", l, ok, err)
	}
	if said, err := c.Mirror.Evidence(t.Context(), 1, []string{host + "gone"}); err != nil || !said[host+"gone"].Gone {
		t.Errorf("evidence: %+v, %v", said, err)
	}
	if runs := collect(t, c.Mirror.Runs(t.Context())); len(runs) != 1 || runs[0].Created != 4 {
		t.Errorf("runs: %+v, want 4 created", runs)
	}
}

// A mirror's catalog of the schema before keeps what it knew, whatever its paths are.
func TestMirrorOfEarlierSchemaIsBroughtUpToDate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalog.db")
	fillSchema12(t, path)
	c := reopen(t, path, false)
	if _, err := os.Stat(path + ".schema12"); err != nil {
		t.Errorf("the catalog as it was: %v", err)
	}
	wantSchema12(t, c)
}

// A copy of an earlier attempt, or of a catalog that was put back since, is replaced.
func TestCat_STA_07_again(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalog.db")
	fillSchema12(t, path)
	if err := os.WriteFile(path+".schema12", []byte("stale"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := reopen(t, path, false).Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".schema12", path); err != nil {
		t.Fatal(err)
	}
	wantSchema12(t, reopen(t, path, false))
}

// Where there is not room enough for a migration nothing is changed, and the error says how
// much it takes.
func TestCat_STA_07_room(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalog.db")
	fillSchema12(t, path)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	free := uint64(migrationSpace*len(before)) - 1
	o := Options{Path: path, space: func(*os.Root) (durable.Space, error) {
		return durable.Space{Known: true, Total: 1 << 40, Free: free}, nil
	}}
	if c, err := Open(t.Context(), o); !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "free some space") {
		t.Fatalf("got %v, %v; want ErrFull with a hint", c, err)
	}
	after, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file was changed: %v", err)
	}
	if _, err := os.Stat(path + ".schema12"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a copy was made: %v", err)
	}
	free++
	c, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	wantSchema12(t, c)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// A migration that finds no room at any page that it needs leaves the catalog as it was, and
// goes through when there is room.
func TestMigrationIsAllOrNothing(t *testing.T) {
	for room := 0; ; room++ {
		path := filepath.Join(t.TempDir(), "catalog.db")
		db := earlier(t, path, 12)
		key := SumOf("https://example.org/a")
		for _, query := range []string{
			"INSERT INTO setting VALUES ('uuid', 'f3c0')", "INSERT INTO sets (name, members, bytes) VALUES ('one', 1, 1)",
			"INSERT INTO resource (key, uri, path, fold, stored, length, digests, verified, type, encoding, stat) VALUES ($1, 'https://example.org/a', 'a', $1, TRUE, 1, '', TRUE, '', '', '')",
			"INSERT INTO member (set_id, key, changed, lastmod, due, wanted) VALUES (1, $1, 5, '', '', '')",
		} {
			if _, err := db.Exec(query, key[:]); err != nil {
				t.Fatal(err)
			}
		}
		var pages int
		if err := db.QueryRow("PRAGMA page_count").Scan(&pages); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec(fmt.Sprintf("PRAGMA max_page_count = %d", pages+room)); err != nil {
			t.Fatal(err)
		}
		_, err := provider(t, db).Up(t.Context())
		if err != nil && !strings.Contains(err.Error(), "full") {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		c := reopen(t, path, false)
		counted(t, c)
		if got := paths(collect(t, c.Facts.Members(t.Context(), 1))); got != "a" {
			t.Fatalf("with room for %d pages (%v): members %q", room, err, got)
		}
		if err == nil {
			if room < 3 {
				t.Errorf("there was room at once, after %d pages", room)
			}
			return
		}
	}
}
