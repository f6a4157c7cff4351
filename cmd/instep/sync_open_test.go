package main

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"instep/internal/mirror"
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
	if _, err := theirs.Exec(`INSERT INTO arrival (body, settled) VALUES ('{"whole":true,"new":[{"uri":"https://example.org/x","path":"x",
		"fold":"AAAAAAAAAAAAAAAAAAAAAA==","length":1}]}', TRUE)`); err != nil {
		t.Fatal(err)
	}
	o.State = filepath.Join(root, "theirs", ".instep")
	a := &app{now: time.Now}
	m, err := a.openMirror(t.Context(), o, false)
	if !errors.Is(err, mirror.ErrWrongStore) {
		t.Errorf("got %v, want ErrWrongStore", err)
	}
	if err == nil {
		m.Close()
	}
	var waits, resources int
	if err := theirs.QueryRow("SELECT (SELECT COUNT(*) FROM arrival), (SELECT COUNT(*) FROM resource)").Scan(&waits, &resources); err != nil {
		t.Fatal(err)
	}
	if waits != 1 || resources != 0 {
		t.Errorf("%d arrivals and %d resources are in the catalog of the other mirror, want 1 and 0", waits, resources)
	}
}

// makeEarlier takes from a catalog what its latest schema has brought.
func makeEarlier(t *testing.T, db *sql.DB) {
	t.Helper()
	for _, query := range []string{
		"ALTER TABLE member DROP COLUMN remainder", "ALTER TABLE version DROP COLUMN remainder", "ALTER TABLE change DROP COLUMN remainder",
		"ALTER TABLE member DROP COLUMN born", "DROP TABLE loss", "DROP TABLE extent", "DROP TABLE arrival", "DROP TABLE evidence", "DROP TABLE spelling",
		"DELETE FROM goose_db_version WHERE version_id >= 7",
	} {
		if _, err := db.Exec(query); err != nil {
			t.Fatal(err)
		}
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
	a := &app{now: time.Now}
	for _, dir := range []string{ours.Dir, filepath.Join(root, "empty"), filepath.Join(root, "none")} {
		for _, dryRun := range []bool{false, true} {
			o := mirror.Options{Dir: dir, State: filepath.Join(root, "theirs", ".instep"), Create: true, Now: time.Now}
			m, err := a.openMirror(t.Context(), o, dryRun)
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
	a := &app{now: time.Now}
	m, err := a.openMirror(t.Context(), o, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
