package main

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pressly/goose/v3"

	"instep/mirror"
)

// oneMirror makes a mirror below dir and returns how it is opened, and its catalog.
func oneMirror(t *testing.T, dir string) (mirror.Options, *sql.DB) {
	t.Helper()
	o := mirror.Options{Dir: dir, Create: true, Now: time.Now}
	m, err := mirror.Open(t.Context(), o)
	if err == nil {
		err = m.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, ".instep", "catalog.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return o, db
}

// The state of another mirror, in which a run may work just now, is refused and stays
// as it is.
func TestSyncLeavesTheStateOfAnotherMirrorAlone(t *testing.T) {
	root := t.TempDir()
	_, theirs := oneMirror(t, filepath.Join(root, "theirs"))
	o, _ := oneMirror(t, filepath.Join(root, "ours"))
	if _, err := theirs.Exec("INSERT INTO intent (uri, path, kept, taken) VALUES ('https://example.org/x', 'x', '', '')"); err != nil {
		t.Fatal(err)
	}
	o.State = filepath.Join(root, "theirs", ".instep")
	m, err := openMirror(t.Context(), o, false)
	if !errors.Is(err, mirror.ErrWrongStore) {
		t.Errorf("got %v, want ErrWrongStore", err)
	}
	if err == nil {
		m.Close()
	}
	var intents int
	if err := theirs.QueryRow("SELECT COUNT(*) FROM intent").Scan(&intents); err != nil || intents != 1 {
		t.Errorf("%d intents are in the catalog of the other mirror (%v), want 1", intents, err)
	}
}

// makeEarlier makes a catalog without resources one of schema 6.
func makeEarlier(t *testing.T, db *sql.DB) {
	t.Helper()
	db.SetMaxOpenConns(1)
	exec := func(query string, args ...any) {
		t.Helper()
		if _, err := db.Exec(query, args...); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	names := func(query string) []string {
		t.Helper()
		var text string
		if err := db.QueryRow("SELECT COALESCE(group_concat(name, ' '), '') FROM (" + query + ")").Scan(&text); err != nil {
			t.Fatal(err)
		}
		return strings.Fields(text)
	}
	var id string
	if err := db.QueryRow("SELECT value FROM setting WHERE name = 'uuid'").Scan(&id); err != nil {
		t.Fatal(err)
	}
	sets := names("SELECT name FROM sets ORDER BY id")
	exec("PRAGMA foreign_keys = OFF")
	for _, table := range names("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'") {
		exec("DROP TABLE " + table)
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, os.DirFS("../../internal/catalog/migrations"))
	if err == nil {
		_, err = p.UpTo(t.Context(), 6)
	}
	if err != nil {
		t.Fatal(err)
	}
	exec("INSERT INTO setting VALUES ('uuid', $1)", id)
	for _, name := range sets {
		exec("INSERT INTO sets (name) VALUES ($1)", name)
	}
}

// That of an earlier version of the program too, where no run would bring it up to date.
func TestSyncRefusesTheStateOfAnotherMirrorOfAnEarlierSchema(t *testing.T) {
	root := t.TempDir()
	_, theirs := oneMirror(t, filepath.Join(root, "theirs"))
	ours, _ := oneMirror(t, filepath.Join(root, "ours"))
	makeEarlier(t, theirs)
	if err := os.Mkdir(filepath.Join(root, "empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{ours.Dir, filepath.Join(root, "empty"), filepath.Join(root, "none")} {
		for _, dryRun := range []bool{false, true} {
			o := mirror.Options{Dir: dir, State: filepath.Join(root, "theirs", ".instep"), Create: true, Now: time.Now}
			m, err := openMirror(t.Context(), o, dryRun)
			if !errors.Is(err, mirror.ErrWrongStore) {
				t.Errorf("in %s, dry run %v: got %v, want ErrWrongStore", filepath.Base(dir), dryRun, err)
			}
			if err == nil {
				m.Close()
			}
		}
	}
}

// A mirror that an earlier version of the program has made is brought up to date.
func TestSyncOpensAMirrorOfAnEarlierSchema(t *testing.T) {
	o, db := oneMirror(t, t.TempDir())
	makeEarlier(t, db)
	m, err := openMirror(t.Context(), o, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
