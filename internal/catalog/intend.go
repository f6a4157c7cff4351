package catalog

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"instep/resourcesync"
)

// Intend records intents, all or none. An intent without a path gets one from
// place, and its URI a resource that is not stored.
func (c *Catalog) Intend(ctx context.Context, intents []Intent, place func(uri string, names Names) (Place, error)) error {
	return c.update(ctx, "record intents in", func(tx *sql.Tx) error {
		r := recorder{ctx: ctx, tx: tx, prepared: map[string]*sql.Stmt{}, again: &c.again}
		defer r.close()
		n := newNames(r.row)
		if err := n.expect(&r, intents); err != nil {
			return err
		}
		var places []any
		for i := range intents {
			in := &intents[i]
			if in.Path != "" {
				continue
			}
			p, err := place(in.URI, n)
			if err != nil {
				return err
			}
			n.taken(&p)
			if err := r.directories(p.Directories); err != nil {
				return err
			}
			in.Path, in.Kept = p.Path, p.Kept
			places = append(places, in.Key[:], in.URI, p.Path, p.Fold[:])
		}
		return r.intend(intents, places)
	})
}

func (r *recorder) directories(all []Directory) error {
	for _, d := range all {
		if _, err := r.exec("INSERT INTO directory (fold, path) VALUES ($1, $2)", d.Fold[:], d.Path); err != nil {
			return err
		}
	}
	return nil
}

// intend records intents, and places of new URIs.
func (r *recorder) intend(intents []Intent, places []any) error {
	_, err := r.eachRow(`INSERT OR FAIL INTO resource (key, uri, path, fold, stored, digests, verified, type, encoding, stat)
		SELECT column1, column2, column3, column4, FALSE, '', FALSE, '', '', '' FROM (`, "(?,?,?,?)", ")", places)
	if err != nil {
		return err
	}
	args := make([]any, 0, 6*len(intents))
	for i := range intents {
		in := &intents[i]
		var sum []byte
		if !in.SHA256.IsZero() {
			sum = in.SHA256.Sum()
		}
		args = append(args, in.Key[:], in.Path, in.Kept, writeLength(in.Length), sum, in.Taken)
	}
	_, err = r.eachRow("INSERT OR FAIL INTO intent (key, path, kept, length, sha256, taken) ", "(?,?,?,?,?,?)", "", args)
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
	files map[resourcesync.Key]bool   // whether it is the path of a resource, as far as is known
	dirs  map[resourcesync.Key]string // seen already; "": there is none
}

func newNames(row func(query string, args ...any) (*sql.Row, error)) names {
	return names{row, map[resourcesync.Key]bool{}, map[resourcesync.Key]string{}}
}

// expect looks up together what will be asked of new URIs.
func (n names) expect(r *recorder, intents []Intent) error {
	var guesses []any
	for i := range intents {
		if g := intents[i].Guess; g != (resourcesync.Key{}) && intents[i].Path == "" {
			n.files[g], n.dirs[g] = false, ""
			guesses = append(guesses, intents[i].Guess[:])
		}
	}
	for some := range slices.Chunk(guesses, lookupSize) {
		in := " WHERE fold IN (" + placeholders(len(some)) + ")"
		err := r.eachFold("SELECT fold, '' FROM resource"+in, some, func(fold resourcesync.Key, _ string) { n.files[fold] = true })
		if err == nil {
			err = r.eachFold("SELECT fold, path FROM directory"+in, some, func(fold resourcesync.Key, path string) { n.dirs[fold] = path })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *recorder) eachFold(query string, args []any, take func(fold resourcesync.Key, path string)) error {
	rows, err := r.query(query, args...)
	if err != nil {
		return err
	}
	for err == nil && rows.Next() {
		var fold []byte
		var path string
		if err = rows.Scan(&fold, &path); err == nil {
			take(resourcesync.Key(fold), path)
		}
	}
	return errors.Join(err, rows.Err(), rows.Close())
}

// taken remembers a place that is not recorded yet.
func (n names) taken(p *Place) {
	n.files[p.Fold] = true
	for _, d := range p.Directories {
		n.dirs[d.Fold] = d.Path
	}
}

func (n names) File(fold resourcesync.Key) (bool, error) {
	if taken, known := n.files[fold]; known {
		return taken, nil
	}
	var one int
	return n.find(&one, "SELECT 1 FROM resource WHERE fold = $1", fold[:])
}

func (n names) Directory(fold resourcesync.Key) (path string, ok bool, err error) {
	if path, known := n.dirs[fold]; known {
		return path, path != "", nil
	}
	if ok, err = n.find(&path, "SELECT path FROM directory WHERE fold = $1", fold[:]); ok {
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

// Names returns what holds paths at present. It is for one goroutine and one moment.
func (c *Catalog) Names(ctx context.Context) Names {
	return newNames(func(query string, args ...any) (*sql.Row, error) {
		return c.read.QueryRowContext(ctx, query, args...), nil
	})
}
