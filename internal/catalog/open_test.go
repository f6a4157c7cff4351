package catalog

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// open makes a catalog in a directory whose name SQLite's URIs have to escape.
func open(t testing.TB) *Catalog {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "a b?c#d%41")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return reopen(t, filepath.Join(dir, "catalog.db"), true)
}

func reopen(t testing.TB, path string, create bool) *Catalog {
	t.Helper()
	c, err := Open(t.Context(), Options{Path: path, Create: create})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestOpenMakesOneFileAndKeepsItsIdentity(t *testing.T) {
	c := open(t)
	id, err := c.UUID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Facts.SetSettings(t.Context(), map[string]string{"a": "1", "b": "2"}); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := os.ReadDir(filepath.Dir(c.path))
	if err != nil {
		t.Fatal(err)
	}
	if len(names) != 1 || names[0].Name() != "catalog.db" {
		t.Errorf("the directory holds %v, want only catalog.db", names)
	}
	again := reopen(t, c.path, false)
	if got, err := again.UUID(t.Context()); got != id || err != nil {
		t.Errorf("UUID = %q, %v; want %q", got, err, id)
	}
	if got, ok, err := again.Facts.Setting(t.Context(), "b"); got != "2" || !ok || err != nil {
		t.Errorf("Setting(b) = %q, %v, %v; want 2", got, ok, err)
	}
	if got, ok, err := again.Facts.Setting(t.Context(), "c"); ok || err != nil {
		t.Errorf("Setting(c) = %q, %v, %v; want none", got, ok, err)
	}
}

func TestOpenUsesDurablePragmas(t *testing.T) {
	c := open(t)
	for name, db := range map[string]*sql.DB{"write": c.write, "read": c.read} {
		for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "mmap_size": "0"} {
			var got string
			if err := db.QueryRow("PRAGMA " + pragma).Scan(&got); err != nil {
				t.Fatal(err)
			}
			if got != want {
				t.Errorf("%s connection: %s = %s, want %s", name, pragma, got, want)
			}
		}
	}
	if _, err := c.read.Exec("DELETE FROM setting"); err == nil {
		t.Error("a read connection wrote")
	}
}

func TestOpenRefuses(t *testing.T) {
	sound := open(t)
	if err := sound.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(sound.path)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name    string
		content []byte
		change  string // SQL run on the file
		create  bool
		want    error
		says    string
	}{
		{"missing", nil, "", false, fs.ErrNotExist, ""},
		{"empty", []byte{}, "", true, ErrDamaged, "found 0 bytes"},
		{"short", data[:7], "", true, ErrDamaged, "found 7 bytes"},
		{"text", []byte("<html>not found</html>"), "", true, ErrDamaged, "<html>"},
		{"cut", data[:len(data)/2], "", true, ErrDamaged, "from a backup"},
		{"header only", data[:100], "", true, ErrDamaged, "from a backup"},
		{"of another program", data, "PRAGMA application_id = 7", true, ErrDamaged, "another program"},
		{"newer", data, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)", true, ErrNewerSchema, "schema version 9999"},
		{"without identity", data, "DELETE FROM setting", true, ErrDamaged, "UUID"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "catalog.db")
			prepare(t, path, test.content, test.change)
			before, _ := os.ReadFile(path)
			c, err := Open(t.Context(), Options{Path: path, Create: test.create})
			if !errors.Is(err, test.want) {
				t.Fatalf("Open = %v, %v; want %v", c, err, test.want)
			}
			if !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), path) {
				t.Errorf("error %q does not name %q or say %q", err, path, test.says)
			}
			after, _ := os.ReadFile(path)
			if string(after) != string(before) {
				t.Error("the file was changed")
			}
		})
	}
}

func prepare(t *testing.T, path string, content []byte, change string) {
	t.Helper()
	if content == nil {
		return
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if change == "" {
		return
	}
	db, err := openFile(path, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(change); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestOpenOfADirectory(t *testing.T) {
	_, err := Open(t.Context(), Options{Path: t.TempDir(), Create: true})
	if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "regular file") {
		t.Errorf("Open of a directory = %v, want ErrDamaged", err)
	}
}

func TestOpenSweepsWhatKilledCreationsLeft(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "catalog.db")
	const id = ".3b241101-e2bb-4255-8caf-4136c566a962"
	others := []string{"catalog.db.backup.new", "catalog.db" + id, "other.db" + id + ".new"}
	for _, name := range append([]string{"catalog.db" + id + ".new", "catalog.db" + id + ".new-wal"}, others...) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("half made"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := reopen(t, path, true).Close(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	want := append([]string{"catalog.db"}, others...)
	slices.Sort(want)
	if d := diff(got, want); d != "" {
		t.Errorf("the directory (-got +want):\n%s", d)
	}
}

// Whoever takes the catalog of somebody else for his own learns it before anything is
// changed there: it stays of its schema, and what was settled waits for its own program.
func TestOpenLeavesAnotherCatalogAsItIs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalog.db")
	db := earlier(t, path, 7)
	defer db.Close()
	schema := func(version int64) {
		t.Helper()
		var got int64
		if err := db.QueryRow("SELECT MAX(version_id) FROM goose_db_version").Scan(&got); err != nil || got != version {
			t.Errorf("schema %d (%v), want %d", got, err, version)
		}
	}
	for _, query := range []string{
		"INSERT INTO setting VALUES ('uuid', 'f3c0')",
		`INSERT INTO arrival (body, settled) VALUES ('{"whole":true,"new":[{"uri":"https://example.org/x","path":"x","fold":"AAAAAAAAAAAAAAAAAAAAAA==","length":1}]}', TRUE)`,
	} {
		if _, err := db.Exec(query); err != nil {
			t.Fatal(err)
		}
	}
	refused := func() {
		t.Helper()
		c, err := Open(t.Context(), Options{Path: path, UUID: "another"})
		if !errors.Is(err, ErrOther) {
			t.Errorf("got %v, want ErrOther", err)
		}
		if err == nil {
			c.Close()
		}
	}
	refused()
	schema(7)
	if found, err := reopen(t, path, false).Facts.Lookup(t.Context(), 0, []string{"https://example.org/x"}); err != nil || !found[0].Stored || found[0].Path != "x" {
		t.Errorf("what had arrived: got %+v, %v", found, err)
	}

	path = filepath.Join(t.TempDir(), "catalog.db")
	db = earlier(t, path, 2)
	defer db.Close()
	if _, err := db.Exec("INSERT INTO setting VALUES ('uuid', 'f3c0')"); err != nil {
		t.Fatal(err)
	}
	refused()
	schema(2)
}

func TestOpenRefusesAnOrphanedLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalog.db")
	if err := os.WriteFile(path+"-wal", []byte("of another database"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), Options{Path: path, Create: true})
	if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), path+"-wal") {
		t.Errorf("Open beside the log of a lost database = %v, want ErrDamaged", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a database was made: %v", err)
	}
}

func TestCreationIsNotReplacedByASecondOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalog.db")
	type result struct {
		id  string
		err error
	}
	results := make(chan result)
	const racers = 4
	for range racers {
		go func() {
			c, err := Open(t.Context(), Options{Path: path, Create: true})
			if err != nil {
				results <- result{err: err}
				return
			}
			id, err := c.UUID(t.Context())
			results <- result{id, errors.Join(err, c.Close())}
		}()
	}
	ids := map[string]bool{}
	for range racers {
		r := <-results
		if r.err != nil {
			t.Error(r.err)
		}
		ids[r.id] = true
	}
	if len(ids) != 1 {
		t.Errorf("%d processes saw the identities %v, want one", racers, ids)
	}
}

func TestSettingsAreAllOrNothing(t *testing.T) {
	c := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Facts.SetSettings(ctx, map[string]string{"a": "1"}); !errors.Is(err, context.Canceled) {
		t.Errorf("SetSettings after cancel = %v, want context.Canceled", err)
	}
	if _, ok, err := c.Facts.Setting(t.Context(), "a"); ok || err != nil {
		t.Errorf("Setting(a) = %v, %v; want none", ok, err)
	}
}
