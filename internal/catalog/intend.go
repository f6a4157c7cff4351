package catalog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Intend records the intents of o, all or none, before files are touched. An intent
// without a path gets one from place, is New, and one of o.Fresh; nobody else may have
// that path until the intents are settled. A Run without an ID gets it here.
func (c *Mirror) Intend(ctx context.Context, intents []Intent, o *Outcome, place func(uri string, names Names) (Place, error)) error {
	var run int64
	err := c.transact(ctx, "record intents in", func(r *recorder) (err error) {
		if o.Run != nil && o.Run.ID == 0 {
			if run, err = r.enterRun(&Run{Begun: o.Run.Begun, What: o.Run.What, Number: o.Run.Number}); err != nil {
				return err
			}
			o.Run.ID = run
		}
		if err := r.place(intents, o, place); err != nil {
			return err
		}
		return r.intend(intents)
	})
	if err != nil && run != 0 {
		o.Run.ID = 0
	}
	return err
}

// place finds paths for the intents that have none.
func (r *recorder) place(intents []Intent, o *Outcome, place func(string, Names) (Place, error)) error {
	n := newNames(r.row, r.fold)
	if err := n.expect(r, intents); err != nil {
		return err
	}
	var dirs []string
	for i := range intents {
		in := &intents[i]
		if in.Path != "" {
			continue
		}
		p, err := place(in.URI, n)
		if err != nil {
			return err
		}
		if err := n.take(&p); err != nil {
			return err
		}
		dirs = append(dirs, p.Directories...)
		in.New, in.Path, in.Kept = true, p.Path, p.Kept
		o.Fresh = append(o.Fresh, *in)
	}
	return r.enterDirectories(dirs, r.fold)
}

func (r *recorder) intend(intents []Intent) error {
	var known []string
	for i := range intents {
		if !intents[i].New {
			known = append(known, intents[i].URI)
		}
	}
	rows, err := r.numbers(known)
	if err != nil {
		return err
	}
	args := make([]any, 0, 7*len(intents))
	for i := range intents {
		in := &intents[i]
		row := sql.NullInt64{Int64: rows[in.URI], Valid: !in.New}
		if row.Valid && row.Int64 == 0 {
			return fmt.Errorf("%w: a file of %q, which has no path", ErrState, in.URI)
		}
		args = append(args, in.URI, row, in.Path, in.Kept, writeLength(in.Length), writeSum(in.SHA256), in.Taken)
	}
	_, err = r.eachRow("INSERT OR FAIL INTO intent (uri, resource, path, kept, length, sha256, taken) ", "(?,?,?,?,?,?,?)", "", args)
	return err
}

func (r *recorder) query(query string, args ...any) (*sql.Rows, error) {
	s, err := r.stmt(query)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(r.ctx, args...)
}

// row asks for at most one row.
func (r *recorder) row(query string, args ...any) (*sql.Row, error) {
	s, err := r.stmt(query)
	if err != nil {
		return nil, err
	}
	return s.QueryRowContext(r.ctx, args...), nil
}

// names implements Names over a way to ask for a row.
type names struct {
	row   func(query string, args ...any) (*sql.Row, error)
	fold  func(path string) string
	files map[string]bool   // whether it is the path of a resource, as far as is known
	dirs  map[string]string // seen already; "": there is none
}

func newNames(row func(query string, args ...any) (*sql.Row, error), fold func(string) string) names {
	return names{row, fold, map[string]bool{}, map[string]string{}}
}

// expect looks up many new URIs together: their paths, and the directories above them.
func (n names) expect(r *recorder, intents []Intent) error {
	var guessed []*Intent
	var dirs []any
	directory := func(fold string) {
		if _, known := n.dirs[fold]; !known {
			n.dirs[fold], dirs = "", append(dirs, fold+"/")
		}
	}
	for i := range intents {
		in := &intents[i]
		if in.Guess == "" || in.Path != "" {
			continue
		}
		n.files[in.Guess] = false
		directory(in.Guess)
		for i := range len(in.Guess) {
			if in.Guess[i] == '/' {
				directory(in.Guess[:i])
			}
		}
		guessed = append(guessed, in)
	}
	for some := range slices.Chunk(dirs, lookupSize) {
		err := r.eachPair("SELECT 0, fold || char(10) || path FROM directory WHERE fold IN ("+placeholders(len(some))+")", some, func(_ int64, pair string) {
			fold, path, _ := strings.Cut(pair, "/\n")
			n.dirs[fold] = strings.TrimSuffix(path, "/")
		})
		if err != nil {
			return err
		}
	}
	for some := range slices.Chunk(guessed, lookupSize) {
		files := make([]any, 0, 3*len(some))
		for i, in := range some {
			dir, name := split(in.Guess)
			files = append(files, i, dir, name)
		}
		var known error
		err := r.eachPair("SELECT v.column1, b.uri || r.rest FROM ("+valuesOf("(?,?,?)", len(some))+`) v CROSS JOIN directory d ON d.fold = v.column2
			CROSS JOIN resource r ON r.dir = d.id AND r.fold = v.column3 CROSS JOIN base b ON b.id = r.base`, files, func(i int64, uri string) {
			n.files[some[i].Guess] = true
			if uri == some[i].URI {
				known = fmt.Errorf("%w: %q has a path already", ErrState, uri)
			}
		})
		if err := errors.Join(err, known); err != nil {
			return err
		}
	}
	return nil
}

// eachPair hands on the rows of a query of a number and a text.
func (r *recorder) eachPair(query string, args []any, take func(n int64, text string)) error {
	rows, err := r.query(query, args...)
	if err != nil {
		return err
	}
	for err == nil && rows.Next() {
		var n int64
		var text string
		if err = rows.Scan(&n, &text); err == nil {
			take(n, text)
		}
	}
	return errors.Join(err, rows.Err(), rows.Close())
}

// take reserves a place that is not recorded yet.
func (n names) take(p *Place) error {
	fold := n.fold(p.Path)
	if n.files[fold] {
		return fmt.Errorf("%w: the path %q has a file already", ErrState, p.Path)
	}
	n.files[fold] = true
	for _, d := range p.Directories {
		n.dirs[n.fold(d)] = d
	}
	return nil
}

func (n names) File(fold string) (bool, error) {
	if taken, known := n.files[fold]; known {
		return taken, nil
	}
	var one int
	dir, name := split(fold)
	return n.find(&one, "SELECT 1 FROM resource r JOIN directory d ON d.id = r.dir WHERE d.fold = $1 AND r.fold = $2", dir, name)
}

func (n names) Directory(fold string) (path string, ok bool, err error) {
	if path, known := n.dirs[fold]; known {
		return path, path != "", nil
	}
	if ok, err = n.find(&path, "SELECT path FROM directory WHERE fold = $1", fold+"/"); ok {
		path = strings.TrimSuffix(path, "/")
		n.dirs[fold] = path
	}
	return path, ok, err
}

func (n names) find(dest any, query string, args ...any) (bool, error) {
	row, err := n.row(query, args...)
	if err == nil {
		err = row.Scan(dest)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// Files returns which of the paths, folded, are paths of resources.
func (c *Mirror) Files(ctx context.Context, folds []string) (map[string]bool, error) {
	taken := make(map[string]bool, len(folds))
	for some := range slices.Chunk(folds, lookupSize) {
		args := make([]any, 0, 3*len(some))
		for i, fold := range some {
			dir, name := split(fold)
			args = append(args, i, dir, name)
		}
		found, err := rows(ctx, c.db, "look up paths in", func(r *sql.Rows) (i int, err error) { return i, r.Scan(&i) },
			"SELECT v.column1 FROM ("+valuesOf("(?,?,?)", len(some))+`) v CROSS JOIN directory d ON d.fold = v.column2
			CROSS JOIN resource r ON r.dir = d.id AND r.fold = v.column3`, args...)
		if err != nil {
			return nil, err
		}
		for _, i := range found {
			taken[some[i]] = true
		}
	}
	return taken, nil
}

// Names returns the present owners of paths. Use it in one goroutine, for one moment.
func (c *Mirror) Names(ctx context.Context) Names {
	return newNames(func(query string, args ...any) (*sql.Row, error) {
		return c.read.QueryRowContext(ctx, query, args...), nil
	}, c.folding())
}
