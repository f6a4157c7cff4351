package scan

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"instep/fetch"
)

// database is a database of each kind, with what makes a table of it.
type database struct {
	query Query // without SQL
	exec  func(t *testing.T, statement string)
}

func newSQLite(t *testing.T) database {
	file := filepath.Join(t.TempDir(), "files ä?.db")
	return database{Query{SQLite: file, BaseURL: base}, func(t *testing.T, statement string) {
		t.Helper()
		db, err := sql.Open("sqlite", "file:"+strings.NewReplacer("?", "%3f", " ", "%20").Replace(file))
		if err == nil {
			_, err = db.ExecContext(t.Context(), statement)
		}
		if err := errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
	}}
}

// newPostgres starts a server of its own that listens on a socket in a new directory.
func newPostgres(t *testing.T) database {
	programs, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(programs) == 0 {
		t.Skip("SKIPPED: no PostgreSQL here; install the package postgresql")
	}
	bin := filepath.Dir(programs[len(programs)-1])
	dir, err := os.MkdirTemp("", "pg") // not t.TempDir: the path of a socket is short, and its user another one
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	as := asPostgres(t, dir)
	as(filepath.Join(bin, "initdb"), "-D", filepath.Join(dir, "data"), "-A", "trust", "-U", "postgres", "-N", "--locale=C.UTF-8")
	ctl := filepath.Join(bin, "pg_ctl")
	as(ctl, "-D", filepath.Join(dir, "data"), "-w", "-l", filepath.Join(dir, "log"), "-o", "-c listen_addresses='' -c fsync=off -k "+dir, "start")
	t.Cleanup(func() { as(ctl, "-D", filepath.Join(dir, "data"), "-m", "immediate", "-w", "stop") })
	dsn := "host=" + dir + " user=postgres dbname=postgres"
	return database{Query{Postgres: dsn, BaseURL: base}, func(t *testing.T, statement string) {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}}
}

// asPostgres runs programs as the user postgres if we are root: the server runs as
// nobody else then.
func asPostgres(t *testing.T, dir string) func(args ...string) {
	prefix := []string{}
	if os.Geteuid() == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			t.Fatal(err)
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
		prefix = []string{"setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--"}
	}
	return func(args ...string) {
		t.Helper()
		args = append(append([]string{}, prefix...), args...)
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), args[0], args[1:]...)
		var out bytes.Buffer
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &out
		cmd.WaitDelay = time.Second // the server has its output
		if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out.String())
		}
	}
}

func TestQueries(t *testing.T) {
	for name, open := range map[string]func(*testing.T) database{"SQLite": newSQLite, "PostgreSQL": newPostgres} {
		t.Run(name, func(t *testing.T) {
			db := open(t)
			t.Run("list resources", db.listsResources)
			t.Run("name files below the directory", db.namesFiles)
			t.Run("change nothing and are told what is wrong", db.refuses)
		})
	}
}

func (db database) listsResources(t *testing.T) {
	const n = 3 * fetchRows / 2
	var rows []string
	for i := range n {
		rows = append(rows, fmt.Sprintf("('o%d', '2024-05-0%d 10:00:00', %d, '%s')", i, 1+i%9, i, digestOf(strconv.Itoa(i))))
	}
	db.exec(t, "CREATE TABLE object (name varchar(100), changed timestamp, size bigint, sum text)")
	db.exec(t, "INSERT INTO object VALUES "+strings.Join(rows, ", "))
	q := db.query
	q.SQL = `SELECT 'https://example.org/o/' || name AS uri, changed AS lastmod, size AS length, sum AS hash FROM object ORDER BY size;`
	f := newList(t, func(*fetch.Client) Listing { return q.List })
	expect(t, f.scan(), n, 0, 0, 0)
	same(t, "one digest", f.members()["https://example.org/o/o7"], digestOf("7"))
	expect(t, f.scan(), 0, 0, 0, n)
	for r, err := range f.Facts.Members(t.Context(), f.Set) {
		if err != nil {
			t.Fatal(err)
		}
		same(t, "lastmod of the first", r.LastMod.Time().Format(time.RFC3339), "2024-05-01T10:00:00Z")
		break
	}
	db.exec(t, `UPDATE object SET sum = '`+digestOf("new")+`' WHERE name = 'o1'`)
	db.exec(t, `DELETE FROM object WHERE name = 'o2'`)
	expect(t, f.scan(), 0, 1, 1, n-2)
}

func (db database) namesFiles(t *testing.T) {
	d := setUp(t, "a b.txt", "d/c.txt")
	db.exec(t, `CREATE TABLE f (path text, type text, day date)`)
	db.exec(t, `INSERT INTO f VALUES ('a b.txt', 'text/x-a', '2024-05-01'), ('d/c.txt', NULL, NULL)`)
	q := db.query
	q.SQL = "SELECT path, type, day AS lastmod FROM f"
	f := newList(t, func(*fetch.Client) Listing { return q.List })
	f.Tree = d.Tree
	expect(t, f.scan(), 2, 0, 0, 0)
	same(t, "members", f.members(), map[string]string{
		base + "a%20b.txt": digestOf("content of a b.txt"), base + "d/c.txt": digestOf("content of d/c.txt"),
	})
}

// A query can't change the database, and what it yields is checked by row and column.
func (db database) refuses(t *testing.T) {
	db.exec(t, `CREATE TABLE o (uri text)`)
	db.exec(t, `INSERT INTO o VALUES ('https://example.org/1')`)
	for _, test := range []struct{ sql, want string }{
		{"SELECT uri AS address FROM o", `column "address"`},
		{"SELECT 1 AS length", "expected a column uri or path"},
		{"SELECT 'https://example.org/1' AS uri, 'soon' AS lastmod", "row 1 of the query, column lastmod"},
		{"SELECT 'https://example.org/1' AS uri, 'x' AS length", "row 1 of the query, column length"},
		{"SELECT NULL AS uri", "row 1 of the query: expected a uri"},
		{"SELECT uri FROM nowhere", "nowhere"},
		{"DELETE FROM o RETURNING uri", "query for resources"},
		{"SELECT uri FROM o; DELETE FROM o", "query for resources"},
	} {
		q := db.query
		q.SQL = test.sql
		var got error
		for _, err := range q.List(t.Context(), time.Time{}) {
			got = err
		}
		if got == nil || !strings.Contains(got.Error(), test.want) {
			t.Errorf("%s: error %v, want one with %q", test.sql, got, test.want)
		}
		q.SQL = "SELECT uri FROM o"
		n := 0
		for e, err := range q.List(t.Context(), time.Time{}) {
			n++
			if err != nil || e.URI != "https://example.org/1" {
				t.Errorf("%s: the table has %+v, %v now", test.sql, e, err)
			}
		}
		same(t, "rows after "+test.sql, n, 1)
	}
}

func TestConnectionStringsHoldNoPassword(t *testing.T) {
	for _, dsn := range []string{"postgres://u:secret@db/x", "host=db password=secret", "host=db PASSWORD = secret", "postgres://db/x?password=secret"} {
		if err := (Query{Postgres: dsn, SQL: "SELECT 1"}).Check(); !errors.Is(err, ErrSecret) || strings.Contains(err.Error(), "=secret") {
			t.Errorf("Check(%q) = %v, want ErrSecret", dsn, err)
		}
	}
	if err := (Query{Postgres: "postgres://u@db/x", SQL: "SELECT 1"}).Check(); err != nil {
		t.Error(err)
	}
}
